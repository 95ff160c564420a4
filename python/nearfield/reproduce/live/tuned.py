"""Answers statements from the rules that `nearfield tune` has found for this machine and MPI. The rules are paired
comparisons with the baseline at each distance, with an interval for each gain. Tuning takes long, so it is not started
here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from nearfield.base import own_command
from nearfield.base.errors import NearfieldError
from nearfield.base.topology import Topology
from nearfield.base.units import counted, format_bytes
from nearfield.reproduce.outcome import Answer
from nearfield.rules.applicability import machine_differences, machine_table
from nearfield.rules.criterion import COLLECTIVES
from nearfield.rules.schema import PointTable, Rules, find_rules, load_rules_of_mpi

SAME_TOLERANCE = 0.05  # maximum relative difference of equal times, as in adverbs.py

Word = Literal["holds", "does not", "cannot tell"]


def answer_by_rules(question: str, family: str, version: str) -> Answer:
    """Returns the answer from this machine's rules; "cannot tell" if there are none."""
    try:
        _, rules = load_rules_of_mpi(find_rules(None), family, version)
    except NearfieldError as error:
        return Answer(answer="cannot tell", ours=f"{error.message}; {error.remedy}")
    topology = Topology.live()
    if other := machine_differences(machine_table(topology, topology.cache_bytes(topology.pus[0])), rules.machine):
        return Answer(
            answer="cannot tell", ours=f"the rules are of another machine ({other[0]}); {own_command.line('tune')}"
        )
    word, ours = RULE_QUESTIONS[question](rules)
    return Answer(answer=word, ours=f"by the rules of {rules.created[:10]}: {ours}")


def _points_of_patterns(rules: Rules, patterns: Callable[[str], bool]) -> list[tuple[str, PointTable]]:
    return [(rule.distance, point) for rule in rules.rule for point in rule.point if patterns(point.pattern)]


def _gain_text(distance: str, point: PointTable) -> str:
    gain = point.gain
    where = f"{point.pattern} of {format_bytes(point.size_bytes)}, {distance}"
    return f"{gain.value:.2f}x ({gain.low:.2f}x to {gain.high:.2f}x), {where}"


def _is_some_point_faster(found: Sequence[tuple[str, PointTable]]) -> tuple[Word, str]:
    """Returns "holds" if some point is significantly faster than the baseline, "does not" if no point can be faster,
    and the best gain as text."""
    if not found:
        return "cannot tell", "the MPI's defaults are in use, or these were not measured"
    best = max(found, key=lambda one: one[1].gain.value)
    if any(point.gain.as_gain().is_faster for _, point in found):
        return "holds", f"up to {_gain_text(*best)}"
    none = all(point.gain.high <= 1 + SAME_TOLERANCE for _, point in found)
    return "does not" if none else "cannot tell", f"at most {_gain_text(*best)}"


def _is_some_message_faster(rules: Rules) -> tuple[Word, str]:
    return _is_some_point_faster(_points_of_patterns(rules, lambda pattern: pattern not in COLLECTIVES))


def _is_no_message_slower(rules: Rules) -> tuple[Word, str]:
    """Returns whether no point-to-point message is slower than the baseline by more than the tolerance, and the slowest
    one as text."""
    found = _points_of_patterns(rules, lambda pattern: pattern not in COLLECTIVES)
    if not found:
        return "cannot tell", "the MPI's defaults are in use: nothing can be slower"
    distance, worst = min(found, key=lambda one: one[1].gain.value)
    min_gain = 1 - SAME_TOLERANCE
    word: Word = "cannot tell"
    if all(point.gain.low >= min_gain for _, point in found):
        word = "holds"
    elif any(point.gain.high < min_gain for _, point in found):
        word = "does not"
    return word, f"slowest: {_gain_text(distance, worst)}"


def _collective_question(name: str) -> Callable[[Rules], tuple[Word, str]]:
    return lambda rules: _is_some_point_faster(_points_of_patterns(rules, lambda pattern: pattern == name))


def _loses_at_another_distance(rules: Rules) -> tuple[Word, str]:
    """Returns whether parameters that gain at one distance lose at another. These gains have no interval, so the answer
    is never "does not"."""
    if len(rules.machine.distances) < 2:
        return "cannot tell", "this machine has one distance"
    at_others = [(rule.distance, *one) for rule in rules.rule for one in rule.other_distances.items()]
    if not at_others:
        return "cannot tell", "no parameters were tried at another distance than theirs"
    own, other, min_gain = min(at_others, key=lambda one: one[2])
    return (
        "holds" if min_gain < 1 - SAME_TOLERANCE else "cannot tell",
        f"those of {own} run at {min_gain:.2f}x of the baseline's speed at {other}",
    )


def _differ_by_distance(rules: Rules) -> tuple[Word, str]:
    distances = rules.machine.distances
    if len(distances) < 2:
        return "cannot tell", "this machine has one distance"
    different = {tuple(sorted(rule.parameters.items(), key=str)) for rule in rules.rule}
    text = f"{counted(len(different), 'set')} of parameters for {counted(len(distances), 'distance')}"
    return "holds" if len(different) == len(distances) else "does not", text


RULE_QUESTIONS: dict[str, Callable[[Rules], tuple[Word, str]]] = {
    "faster": _is_some_message_faster,
    "never-slower": _is_no_message_slower,
    "loses-elsewhere": _loses_at_another_distance,
    "by-distance": _differ_by_distance,
    **{name: _collective_question(name) for name in ("bcast", "alltoall", "allreduce")},
}
