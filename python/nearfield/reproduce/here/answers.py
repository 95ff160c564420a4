"""Answers a statement by live profiles: several launches of each, which differ by more than their samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nearfield.base.units import counted
from nearfield.profile import Profile
from nearfield.profile.curves import is_network
from nearfield.report.rules import rules
from nearfield.reproduce.checks import curve_here
from nearfield.reproduce.curves import Points
from nearfield.reproduce.here.draws import FEWEST, answer, intervals, middle
from nearfield.reproduce.here.questions import QUESTIONS
from nearfield.reproduce.here.quiet import disturbance
from nearfield.reproduce.here.sizes import Sizes
from nearfield.reproduce.judges import JUDGES, Asked
from nearfield.reproduce.outcome import Answer
from nearfield.reproduce.schema import Here, Paper, Statement
from nearfield.reproduce.verdicts import Evidence, asked

ANYWHERE = (-math.inf, math.inf)


@dataclass(frozen=True)
class Live:
    """What was measured here."""

    sizes: Sizes
    profiles: Mapping[str, Sequence[Profile]]  # name -> one for each launch
    reasons: Mapping[str, str] = field(default_factory=dict)  # name -> why a launch has none
    stopped: bool = False  # before all launches were made


class _Unknown(Exception):
    """Says what this machine lacks, so that a statement cannot be judged on it."""


def answered(paper: Paper, statement: Statement, live: Live) -> Answer:
    """Returns what this machine says of the statement."""
    here = statement.here
    if here is None:
        return Answer(ours=statement.here_not or paper.here_not)
    if here.asks:
        return QUESTIONS[here.asks](live.sizes.profile.run.mpi)
    every = live.profiles.get(here.profile, ())
    launches = [one for one in every if not disturbance(one)]
    told: dict[str, Any] = {"launches": len(launches), "profile": here.profile}
    try:
        _check_launches(here.profile, every, launches, live)
        found = _by_launches(statement, here, launches, live)
    except _Unknown as lacking:
        return Answer(answer="cannot tell", ours=str(lacking), **told)
    ours = f"{here.says}: {found.ours}" if here.says else found.ours
    return found.model_copy(update={**told, "ours": ours})


def _check_launches(name: str, every: Sequence[Profile], usable: Sequence[Profile], live: Live) -> None:
    """Raises _Unknown unless there are enough launches of this profile by which a statement may be judged."""
    if live.stopped and name in live.reasons:
        raise _Unknown(live.reasons[name])
    if len(usable) >= FEWEST:
        return
    if unusable := [reason for one in every if (reason := disturbance(one))]:
        of = counted(len(every), "launch", "launches")
        again = "the same command measures again what cannot be used"
        raise _Unknown(f"{len(unusable)} of {of} cannot be used: {unusable[0]}; {again}")
    raise _Unknown(live.reasons.get(name) or f"measured in {counted(len(every), 'launch', 'launches')}")


def _by_launches(statement: Statement, here: Here, launches: Sequence[Profile], live: Live) -> Answer:
    if statement.rule and not here.judge:
        return _by_rule(statement, launches)
    return _by_curve(statement, here, launches, live)


def _by_rule(statement: Statement, launches: Sequence[Profile]) -> Answer:
    """A rule holds here if the report of each launch supports it."""
    assert statement.rule
    number = statement.rule.number
    found = [next(rule for rule in rules(one) if rule.number == number) for one in launches]
    known = [rule for rule in found if rule.status != "not measured"]
    if len(known) < FEWEST:
        raise _Unknown(f"{found[0].range}: {found[0].evidence}")
    seen = [{0.0: float(rule.status == "supported")} for rule in known]
    word = answer(seen, lambda points: points[0.0] > 0.5, (), ANYWHERE)
    held = sum(int(one[0.0]) for one in seen)
    last = f"{known[-1].range}: {known[-1].evidence}"
    return Answer(answer=word, ours=f"in {held} of {counted(len(seen), 'launch', 'launches')}; in the last: {last}")


def _by_curve(statement: Statement, here: Here, launches: Sequence[Profile], live: Live) -> Answer:
    meant = resolved(statement, here, live.sizes)
    judging = JUDGES[meant.judge or ""]
    judge = judging.judge
    questions = [asked(meant, Evidence.of({here.profile: one})) for one in launches]
    whole = _together(questions)
    curves = [_against(one) for one in questions]
    if not middle(curves):
        raise _Unknown(_why_nothing(launches[0], meant.curve.metric if meant.curve else ""))
    word = answer(
        curves,
        lambda points: judge(replace(whole, curve=points, than=None)).holds,
        (0.0, 1.0, *(whole.number or ())),
        whole.at or (whole.steps[0] if whole.steps else -math.inf, math.inf),
        judging.over,
    )
    return Answer(answer=word, ours=judge(replace(whole, write=_with_intervals(questions))).ours)


def resolved(statement: Statement, here: Here, sizes: Sizes) -> Statement:
    """Returns the statement as it is judged on this machine, places in bytes. Raises _Unknown if one is not known."""
    curve = curve_here(statement, here)
    distances = curve.where.get("distance", [])
    wanted = [str(one) for one in (distances if isinstance(distances, list) else [distances])]
    there = [place for place in map(sizes.place, wanted) if place]
    if wanted and not there:
        across = all(map(is_network, wanted))
        raise _Unknown("needs a second node: --hostfile" if across else "needs two cores of one node")
    place = there[0] if there else sizes.place("inside")
    where = curve.where | ({"distance": place.distance, "pair": place.pair} if wanted and place else {})

    def in_bytes(some: list[Any] | None) -> list[float] | None:
        found = None if some is None else [sizes.bytes(one, place) for one in some]
        if found and None in found:
            raise _Unknown("no eager limit was seen here")
        return found  # type: ignore[return-value]

    return Statement(
        says=statement.says,
        paper=statement.paper,
        judge=here.judge or statement.judge,
        number=here.number,
        curve=curve.model_copy(update={"where": where}),
        than=here.than if here.than is not None else statement.than,
        over=in_bytes(here.over),
        points=in_bytes(here.points),
        at=in_bytes(here.at),
    )


def _together(questions: Sequence[Asked]) -> Asked:
    """Returns the question with medians over the launches."""
    than = [one.than for one in questions if one.than is not None]
    alternatives = zip(*(one.alternatives for one in questions), strict=True)
    return replace(
        questions[0],
        curve=middle([one.curve for one in questions]),
        than=middle(than) if than else None,
        alternatives=tuple(middle(some) for some in alternatives),
    )


def _against(question: Asked) -> Points:
    """Returns the curve; if it is compared with another, their difference or ratio, since both are of one launch."""
    than = question.than
    if than is None:
        return question.curve
    if question.is_difference:
        return {x: y - than[x] for x, y in question.curve.items() if x in than}
    return {x: y / than[x] for x, y in question.curve.items() if than.get(x)}


def _with_intervals(questions: Sequence[Asked]) -> Callable[[float], str]:
    """Returns what writes a median of the launches with its interval."""
    write, floor = questions[0].write, -math.inf if questions[0].is_difference else 0.0
    texts: dict[float, str] = {}
    for some in ([one.curve for one in questions], [one.than or {} for one in questions]):
        for y, (low, high) in zip(middle(some).values(), intervals(some).values(), strict=True):
            texts[y] = write(y) if low == high else f"{write(y)} ({_span(write, max(low, floor), high)})"
    return lambda y: texts.get(y, write(y))


def _span(write: Callable[[float], str], low: float, high: float) -> str:
    return f"{write(low)} to {write(high)}"


def _why_nothing(profile: Profile, metric: str) -> str:
    """Returns why there are no numbers: the profile says it of the metric, or of a scenario."""
    notes = [row["note"] for row in profile.records.to_dicts() if row["metric"] == metric and row["value"] is None]
    reasons = [*notes, *(one.reason for one in profile.run.skipped)]
    return "; ".join(dict.fromkeys(reasons)) or "no record tells"
