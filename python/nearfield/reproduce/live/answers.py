"""Decides from live profiles whether statements hold on this machine. Each profile is measured in several launches (MPI
jobs), because times vary more between launches than between the samples of one launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nearfield.base.units import counted
from nearfield.profile import Profile
from nearfield.profile.curves import is_network_distance
from nearfield.report.rules import evaluate_guidelines
from nearfield.reproduce.checks import live_curve
from nearfield.reproduce.curves import Points
from nearfield.reproduce.judges import JUDGES, JudgeInput
from nearfield.reproduce.live.bootstrap import MIN_LAUNCHES, decide_by_bootstrap, launch_intervals, median_curve
from nearfield.reproduce.live.questions import QUESTIONS
from nearfield.reproduce.live.quiet import disturbance_reason
from nearfield.reproduce.live.sizes import MachineSizes
from nearfield.reproduce.outcome import Answer
from nearfield.reproduce.papers import Paper
from nearfield.reproduce.schema import ControlMeasurement, LiveCheck, Statement
from nearfield.reproduce.verdicts import Evidence, make_judge_input

ANY_POSITION = (-math.inf, math.inf)


@dataclass(frozen=True)
class LiveData:
    """The live profiles of this machine, and why some could not be measured."""

    machine_sizes: MachineSizes
    profiles_by_name: Mapping[str, Sequence[Profile]]  # profile name -> one profile per launch
    failure_by_profile: Mapping[str, str] = field(default_factory=dict)  # profile name -> why a launch is missing
    was_stopped: bool = False  # whether Ctrl-C stopped the measurement before the last launch


class _NotJudgeableError(Exception):
    """Raised if a statement cannot be judged on this machine. The message is the reason."""


def answer_statement(paper: Paper, statement: Statement, live: LiveData) -> Answer:
    """Returns whether the statement holds on this machine, after applying its control measurement, if it has one."""
    check = statement.here
    if check is None:
        return Answer(ours=statement.here_not or paper.here_not)
    if check.asks:
        return QUESTIONS[check.asks](live.machine_sizes.profile.run.mpi)
    all_launches = live.profiles_by_name.get(check.profile, ())
    launches = [one for one in all_launches if not disturbance_reason(one)]
    common_fields: dict[str, Any] = {"launches": len(launches), "profile": check.profile}
    try:
        _check_launches(check.profile, all_launches, launches, live)
        answer = _answer_by_launches(statement, check, launches, live)
    except _NotJudgeableError as reason:
        return Answer(answer="cannot tell", ours=str(reason), **common_fields)
    ours = f"{check.says}: {answer.ours}" if check.says else answer.ours
    final_answer = answer.model_copy(update={**common_fields, "ours": ours})
    if check.control is None:
        return final_answer
    control_check = check.model_copy(update={"control": None, "says": ""} | _control_changes(check, check.control))
    control_answer = answer_statement(paper, statement.model_copy(update={"here": control_check}), live)
    return apply_control(final_answer, check.control, control_answer)


def _control_changes(check: LiveCheck, control: ControlMeasurement) -> dict[str, Any]:
    where = {**check.curve.get("where", {}), **control.curve.get("where", {})}
    return {
        "profile": control.profile or check.profile,
        "curve": {**check.curve, **control.curve, **({"where": where} if where else {})},
    }


def apply_control(uncontrolled: Answer, control: ControlMeasurement, control_answer: Answer) -> Answer:
    """Returns the answer `uncontrolled` corrected by its control measurement. If the statement holds but the control
    contradicts the claimed cause, the result is "artefact"; if the control is undecided, the result is "cannot
    tell"."""
    text = f"{control.says}: {control_answer.answer or 'cannot tell'}, {control_answer.ours}"
    answer = uncontrolled.answer
    if answer == "holds":
        confirming, contradicting = ("does not", "holds") if control.effect == "vanishes" else ("holds", "does not")
        answer = {confirming: "holds", contradicting: "artefact"}.get(control_answer.answer, "cannot tell")  # type: ignore[assignment]
    return uncontrolled.model_copy(update={"answer": answer, "control": text})


def _check_launches(
    profile_name: str, launches: Sequence[Profile], usable_launches: Sequence[Profile], live: LiveData
) -> None:
    """Raises _NotJudgeableError unless there are at least MIN_LAUNCHES usable launches of this profile."""
    if live.was_stopped and profile_name in live.failure_by_profile:
        raise _NotJudgeableError(live.failure_by_profile[profile_name])
    if len(usable_launches) >= MIN_LAUNCHES:
        return
    if exclusion_reasons := [reason for one in launches if (reason := disturbance_reason(one))]:
        count_text = counted(len(launches), "launch", "launches")
        remedy = "the same command measures again what cannot be used"
        raise _NotJudgeableError(
            f"{len(exclusion_reasons)} of {count_text} cannot be used: {exclusion_reasons[0]}; {remedy}"
        )
    raise _NotJudgeableError(
        live.failure_by_profile.get(profile_name) or f"measured in {counted(len(launches), 'launch', 'launches')}"
    )


def _answer_by_launches(statement: Statement, check: LiveCheck, launches: Sequence[Profile], live: LiveData) -> Answer:
    if statement.rule and not check.judge:
        return _answer_by_guideline(statement, launches)
    return _answer_by_curve(statement, check, launches, live)


def _answer_by_guideline(statement: Statement, launches: Sequence[Profile]) -> Answer:
    """Returns the answer to a statement that refers to a placement guideline, from the number of launches that support
    it."""
    assert statement.rule
    number = statement.rule.number
    guidelines = [next(rule for rule in evaluate_guidelines(one) if rule.number == number) for one in launches]
    judged = [rule for rule in guidelines if rule.status != "not measured"]
    if len(judged) < MIN_LAUNCHES:
        raise _NotJudgeableError(f"{guidelines[0].range}: {guidelines[0].evidence}")
    curves = [{0.0: float(rule.status == "supported")} for rule in judged]
    word = decide_by_bootstrap(curves, lambda points: points[0.0] > 0.5, (), ANY_POSITION)
    held = sum(int(one[0.0]) for one in curves)
    last = f"{judged[-1].range}: {judged[-1].evidence}"
    return Answer(answer=word, ours=f"in {held} of {counted(len(curves), 'launch', 'launches')}; in the last: {last}")


def _answer_by_curve(statement: Statement, check: LiveCheck, launches: Sequence[Profile], live: LiveData) -> Answer:
    resolved = resolve_statement(statement, check, live.machine_sizes)
    judge_entry = JUDGES[resolved.judge or ""]
    judge = judge_entry.judge
    inputs = [make_judge_input(resolved, Evidence.from_profiles({check.profile: one})) for one in launches]
    combined = _combine_launches(inputs)
    curves = [_relative_curve(one) for one in inputs]
    if not median_curve(curves):
        raise _NotJudgeableError(
            _reason_metric_has_no_value(launches[0], resolved.curve.metric if resolved.curve else "")
        )
    word = decide_by_bootstrap(
        curves,
        lambda points: bool(judge(replace(combined, curve=points, other_curve=None)).holds),
        (0.0, 1.0, *(combined.paper_number or ())),
        combined.position_range or (combined.step_positions[0] if combined.step_positions else -math.inf, math.inf),
        judge_entry.quantifier,
    )
    return Answer(
        answer=word, ours=judge(replace(combined, format_number=_make_interval_formatter(inputs))).numbers_text
    )


def resolve_statement(statement: Statement, check: LiveCheck, machine_sizes: MachineSizes) -> Statement:
    """Returns the statement for this machine: distances are replaced by a pair of ranks, and symbolic sizes by bytes.
    Raises _NotJudgeableError if there is no such pair, or a size is unknown."""
    curve = live_curve(statement, check)
    distances = curve.where.get("distance", [])
    distance_names = [str(one) for one in (distances if isinstance(distances, list) else [distances])]
    places = [place for place in map(machine_sizes.find_place, distance_names) if place]
    if distance_names and not places:
        spans_nodes = all(map(is_network_distance, distance_names))
        raise _NotJudgeableError("needs a second node: --hostfile" if spans_nodes else "needs two cores of one node")
    place = places[0] if places else machine_sizes.find_place("inside")
    where = curve.where | ({"distance": place.distance, "pair": place.pair} if distance_names and place else {})

    def resolve_sizes(symbolic_sizes: list[Any] | None) -> list[float] | None:
        resolved = None if symbolic_sizes is None else [machine_sizes.bytes_of(one, place) for one in symbolic_sizes]
        if resolved and None in resolved:
            raise _NotJudgeableError("no eager limit was seen here")
        return resolved  # type: ignore[return-value]

    return Statement(
        says=statement.says,
        paper=statement.paper,
        judge=check.judge or statement.judge,
        number=check.number,
        curve=curve.model_copy(update={"where": where}),
        than=check.than if check.than is not None else statement.than,
        over=resolve_sizes(check.over),
        points=resolve_sizes(check.points),
        at=resolve_sizes(check.at),
    )


def _combine_launches(inputs: Sequence[JudgeInput]) -> JudgeInput:
    """Returns the judge's input with the curves replaced by their medians over the launches."""
    other_curves = [one.other_curve for one in inputs if one.other_curve is not None]
    alternatives = zip(*(one.alternative_curves for one in inputs), strict=True)
    return replace(
        inputs[0],
        curve=median_curve([one.curve for one in inputs]),
        other_curve=median_curve(other_curves) if other_curves else None,
        alternative_curves=tuple(median_curve(some) for some in alternatives),
    )


def _relative_curve(judge_input: JudgeInput) -> Points:
    """Returns the curve of one launch. If the statement compares it with another curve, returns the difference or ratio
    of the two curves of that launch."""
    other_curve = judge_input.other_curve
    if other_curve is None:
        return judge_input.curve
    if judge_input.is_difference:
        return {x: y - other_curve[x] for x, y in judge_input.curve.items() if x in other_curve}
    return {x: y / other_curve[x] for x, y in judge_input.curve.items() if other_curve.get(x)}


def _make_interval_formatter(inputs: Sequence[JudgeInput]) -> Callable[[float], str]:
    """Returns a formatter of numbers that appends the interval to every number that is a median over the launches."""
    format_number, floor = inputs[0].format_number, -math.inf if inputs[0].is_difference else 0.0
    texts: dict[float, str] = {}
    for some in ([one.curve for one in inputs], [one.other_curve or {} for one in inputs]):
        for y, (low, high) in zip(median_curve(some).values(), launch_intervals(some).values(), strict=True):
            texts[y] = (
                format_number(y)
                if low == high
                else f"{format_number(y)} ({_format_span(format_number, max(low, floor), high)})"
            )
    return lambda y: texts.get(y, format_number(y))


def _format_span(format_number: Callable[[float], str], low: float, high: float) -> str:
    return f"{format_number(low)} to {format_number(high)}"


def _reason_metric_has_no_value(profile: Profile, metric: str) -> str:
    """Returns the reason why a metric has no values: the notes of its records, and the reasons why scenarios were
    skipped."""
    notes = [row["note"] for row in profile.records.to_dicts() if row["metric"] == metric and row["value"] is None]
    reasons = [*notes, *(one.reason for one in profile.run.skipped)]
    return "; ".join(dict.fromkeys(reasons)) or "no record tells"
