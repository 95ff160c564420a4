"""Answers a statement from live profiles. Each profile is measured in several launches, because launches differ by more
than the samples of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nearfield.base.units import counted
from nearfield.profile import Profile
from nearfield.profile.curves import is_network
from nearfield.report.rules import evaluate_guidelines
from nearfield.reproduce.checks import live_curve
from nearfield.reproduce.curves import Points
from nearfield.reproduce.judges import JUDGES, JudgeInput
from nearfield.reproduce.live.bootstrap import MIN_LAUNCHES, decide_by_bootstrap, launch_intervals, median_curve
from nearfield.reproduce.live.questions import QUESTIONS
from nearfield.reproduce.live.quiet import disturbance_reason
from nearfield.reproduce.live.sizes import Sizes
from nearfield.reproduce.outcome import Answer
from nearfield.reproduce.schema import Control, LiveCheck, Paper, Statement
from nearfield.reproduce.verdicts import Evidence, judge_input

ANY_POSITION = (-math.inf, math.inf)


@dataclass(frozen=True)
class LiveData:
    """The live profiles of this machine."""

    sizes: Sizes
    profiles: Mapping[str, Sequence[Profile]]  # name -> one profile per launch
    reasons: Mapping[str, str] = field(default_factory=dict)  # name -> reason for a missing launch
    stopped: bool = False  # Ctrl-C stopped the measurement before all launches


class _NotJudgeableError(Exception):
    """A statement cannot be judged on this machine; the message is the reason."""


def answer_statement(paper: Paper, statement: Statement, live: LiveData) -> Answer:
    """Returns this machine's answer to the statement."""
    check = statement.here
    if check is None:
        return Answer(ours=statement.here_not or paper.here_not)
    if check.asks:
        return QUESTIONS[check.asks](live.sizes.profile.run.mpi)
    every = live.profiles.get(check.profile, ())
    launches = [one for one in every if not disturbance_reason(one)]
    common: dict[str, Any] = {"launches": len(launches), "profile": check.profile}
    try:
        _check_launches(check.profile, every, launches, live)
        answer_here = _answer_by_launches(statement, check, launches, live)
    except _NotJudgeableError as lacking:
        return Answer(answer="cannot tell", ours=str(lacking), **common)
    ours = f"{check.says}: {answer_here.ours}" if check.says else answer_here.ours
    found = answer_here.model_copy(update={**common, "ours": ours})
    if check.control is None:
        return found
    without = check.model_copy(update={"control": None, "says": ""} | _control_changes(check, check.control))
    controlled = answer_statement(paper, statement.model_copy(update={"here": without}), live)
    return apply_control(found, check.control, controlled)


def _control_changes(check: LiveCheck, control: Control) -> dict[str, Any]:
    where = {**check.curve.get("where", {}), **control.curve.get("where", {})}
    return {
        "profile": control.profile or check.profile,
        "curve": {**check.curve, **control.curve, **({"where": where} if where else {})},
    }


def apply_control(found: Answer, control: Control, controlled: Answer) -> Answer:
    """Returns the answer after applying its control measurement. An effect that holds is an artefact if the control
    contradicts the claimed cause; if the control cannot tell, neither can the answer."""
    text = f"{control.says}: {controlled.answer or 'cannot tell'}, {controlled.ours}"
    answer = found.answer
    if answer == "holds":
        wanted, other = ("does not", "holds") if control.effect == "vanishes" else ("holds", "does not")
        answer = {wanted: "holds", other: "artefact"}.get(controlled.answer, "cannot tell")  # type: ignore[assignment]
    return found.model_copy(update={"answer": answer, "control": text})


def _check_launches(name: str, every: Sequence[Profile], usable: Sequence[Profile], live: LiveData) -> None:
    """Raises _NotJudgeableError unless there are at least MIN_LAUNCHES usable launches of this profile."""
    if live.stopped and name in live.reasons:
        raise _NotJudgeableError(live.reasons[name])
    if len(usable) >= MIN_LAUNCHES:
        return
    if unusable := [reason for one in every if (reason := disturbance_reason(one))]:
        of = counted(len(every), "launch", "launches")
        again = "the same command measures again what cannot be used"
        raise _NotJudgeableError(f"{len(unusable)} of {of} cannot be used: {unusable[0]}; {again}")
    raise _NotJudgeableError(live.reasons.get(name) or f"measured in {counted(len(every), 'launch', 'launches')}")


def _answer_by_launches(statement: Statement, check: LiveCheck, launches: Sequence[Profile], live: LiveData) -> Answer:
    if statement.rule and not check.judge:
        return _answer_by_rule(statement, launches)
    return _answer_by_curve(statement, check, launches, live)


def _answer_by_rule(statement: Statement, launches: Sequence[Profile]) -> Answer:
    """Returns the answer from the report's guideline: in how many launches it is supported."""
    assert statement.rule
    number = statement.rule.number
    answer_here = [next(rule for rule in evaluate_guidelines(one) if rule.number == number) for one in launches]
    known = [rule for rule in answer_here if rule.status != "not measured"]
    if len(known) < MIN_LAUNCHES:
        raise _NotJudgeableError(f"{answer_here[0].range}: {answer_here[0].evidence}")
    seen = [{0.0: float(rule.status == "supported")} for rule in known]
    word = decide_by_bootstrap(seen, lambda points: points[0.0] > 0.5, (), ANY_POSITION)
    held = sum(int(one[0.0]) for one in seen)
    last = f"{known[-1].range}: {known[-1].evidence}"
    return Answer(answer=word, ours=f"in {held} of {counted(len(seen), 'launch', 'launches')}; in the last: {last}")


def _answer_by_curve(statement: Statement, check: LiveCheck, launches: Sequence[Profile], live: LiveData) -> Answer:
    meant = resolve_statement(statement, check, live.sizes)
    judging = JUDGES[meant.judge or ""]
    judge = judging.judge
    questions = [judge_input(meant, Evidence.of({check.profile: one})) for one in launches]
    whole = _combine_launches(questions)
    curves = [_relative_curve(one) for one in questions]
    if not median_curve(curves):
        raise _NotJudgeableError(_missing_reason(launches[0], meant.curve.metric if meant.curve else ""))
    word = decide_by_bootstrap(
        curves,
        lambda points: judge(replace(whole, curve=points, than=None)).holds,
        (0.0, 1.0, *(whole.number or ())),
        whole.at or (whole.steps[0] if whole.steps else -math.inf, math.inf),
        judging.over,
    )
    return Answer(answer=word, ours=judge(replace(whole, write=_writer_with_intervals(questions))).ours)


def resolve_statement(statement: Statement, check: LiveCheck, sizes: Sizes) -> Statement:
    """Returns the statement for this machine: with the pair of ranks at the distance, and sizes in bytes. Raises
    _NotJudgeableError if there is no such pair, or a size is unknown."""
    curve = live_curve(statement, check)
    distances = curve.where.get("distance", [])
    wanted = [str(one) for one in (distances if isinstance(distances, list) else [distances])]
    places = [place for place in map(sizes.place_at, wanted) if place]
    if wanted and not places:
        across = all(map(is_network, wanted))
        raise _NotJudgeableError("needs a second node: --hostfile" if across else "needs two cores of one node")
    place = places[0] if places else sizes.place_at("inside")
    where = curve.where | ({"distance": place.distance, "pair": place.pair} if wanted and place else {})

    def in_bytes(some: list[Any] | None) -> list[float] | None:
        answer_here = None if some is None else [sizes.bytes_of(one, place) for one in some]
        if answer_here and None in answer_here:
            raise _NotJudgeableError("no eager limit was seen here")
        return answer_here  # type: ignore[return-value]

    return Statement(
        says=statement.says,
        paper=statement.paper,
        judge=check.judge or statement.judge,
        number=check.number,
        curve=curve.model_copy(update={"where": where}),
        than=check.than if check.than is not None else statement.than,
        over=in_bytes(check.over),
        points=in_bytes(check.points),
        at=in_bytes(check.at),
    )


def _combine_launches(questions: Sequence[JudgeInput]) -> JudgeInput:
    """Returns the judge's input with the medians over the launches."""
    than = [one.than for one in questions if one.than is not None]
    alternatives = zip(*(one.alternatives for one in questions), strict=True)
    return replace(
        questions[0],
        curve=median_curve([one.curve for one in questions]),
        than=median_curve(than) if than else None,
        alternatives=tuple(median_curve(some) for some in alternatives),
    )


def _relative_curve(question: JudgeInput) -> Points:
    """Returns the curve of one launch. If it is compared with another curve, returns their difference or ratio, which
    is paired within the launch."""
    than = question.than
    if than is None:
        return question.curve
    if question.is_difference:
        return {x: y - than[x] for x, y in question.curve.items() if x in than}
    return {x: y / than[x] for x, y in question.curve.items() if than.get(x)}


def _writer_with_intervals(questions: Sequence[JudgeInput]) -> Callable[[float], str]:
    """Returns a formatter that appends to each median over the launches its interval."""
    write, floor = questions[0].write, -math.inf if questions[0].is_difference else 0.0
    texts: dict[float, str] = {}
    for some in ([one.curve for one in questions], [one.than or {} for one in questions]):
        for y, (low, high) in zip(median_curve(some).values(), launch_intervals(some).values(), strict=True):
            texts[y] = write(y) if low == high else f"{write(y)} ({_span(write, max(low, floor), high)})"
    return lambda y: texts.get(y, write(y))


def _span(write: Callable[[float], str], low: float, high: float) -> str:
    return f"{write(low)} to {write(high)}"


def _missing_reason(profile: Profile, metric: str) -> str:
    """Returns why a metric has no values: the notes of its records, and the reasons of skipped scenarios."""
    notes = [row["note"] for row in profile.records.to_dicts() if row["metric"] == metric and row["value"] is None]
    reasons = [*notes, *(one.reason for one in profile.run.skipped)]
    return "; ".join(dict.fromkeys(reasons)) or "no record tells"
