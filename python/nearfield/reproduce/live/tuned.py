"""Tests statements with the rules that `nearfield tune` found for this machine and MPI. The rules contain paired
comparisons of tuned parameters with the MPI's defaults (baseline) at each core distance, with a confidence interval for
each gain. Since tuning takes long, it is not started from here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nearfield.base import own_command
from nearfield.base.errors import NearfieldError
from nearfield.base.topology import Topology
from nearfield.base.units import counted, format_bytes
from nearfield.reproduce.adverbs import SAME_TOLERANCE
from nearfield.reproduce.live.bootstrap import AnswerWord
from nearfield.reproduce.outcome import Answer
from nearfield.rules.applicability import machine_differences, make_machine_table
from nearfield.rules.collective_tables import CollectiveTable, NativeCollectiveTable
from nearfield.rules.collectives import MPI_ALGORITHM
from nearfield.rules.criterion import COLLECTIVE_PATTERNS
from nearfield.rules.gain_table import StoredGain
from nearfield.rules.schema import PointTable, Rules, find_rules_path, load_rules_of_mpi


def answer_by_rules(question: str, family: str, version: str) -> Answer:
    """Returns the answer to a question of RULE_QUESTIONS from this machine's rules; "cannot tell" if there are none."""
    try:
        _, rules = load_rules_of_mpi(find_rules_path(None), family, version)
    except NearfieldError as error:
        return Answer(answer="cannot tell", ours=f"{error.message}; {error.remedy}")
    topology = Topology.of_this_machine()
    if differences := machine_differences(
        make_machine_table(topology, topology.cache_bytes(topology.pus[0])), rules.machine
    ):
        return Answer(
            answer="cannot tell",
            ours=f"the rules are of another machine ({differences[0]}); {own_command.command_line('tune')}",
        )
    word, ours = RULE_QUESTIONS[question](rules)
    return Answer(answer=word, ours=f"by the rules of {rules.created[:10]}: {ours}")


def _select_points(rules: Rules, is_selected: Callable[[str], bool]) -> list[tuple[str, PointTable]]:
    return [(rule.distance, point) for rule in rules.rule for point in rule.point if is_selected(point.pattern)]


def _select_collective_gains(rules: Rules, operation: str) -> list[tuple[str, StoredGain]]:
    """Returns (description, gain) for each measured length of a collective. The gains are those of tuned message
    parameters, and those of the algorithms that `tune --collectives` selected among nearfield's or, with `--native`,
    among the MPI's."""
    gains = [(_describe_point(distance, point), point.gain)
             for distance, point in _select_points(rules, lambda pattern: pattern == operation)]  # fmt: skip
    for rule in rules.rule:
        tables: list[CollectiveTable | NativeCollectiveTable] = [*rule.collective, *rule.native_collective]
        for table in tables:
            gains += [
                (f"{operation} of {format_bytes(point.size_bytes)} by {point.algorithm}, {rule.distance}", point.gain)
                for point in table.point
                if table.operation == operation and point.algorithm != MPI_ALGORITHM
            ]
    return gains


def _describe_point(distance: str, point: PointTable) -> str:
    return f"{point.pattern} of {format_bytes(point.size_bytes)}, {distance}"


def _format_gain(where: str, gain: StoredGain) -> str:
    return f"{gain.value:.2f}x ({gain.low:.2f}x to {gain.high:.2f}x), {where}"


def _judge_any_faster(gains: Sequence[tuple[str, StoredGain]]) -> tuple[AnswerWord, str]:
    """Returns "holds" if any gain is significantly above the baseline, "does not" if the upper ends of all gains are
    within the tolerance, and otherwise "cannot tell"; with the best gain as text."""
    if not gains:
        return "cannot tell", "the MPI's defaults are in use, or these were not measured"
    best = max(gains, key=lambda one: one[1].value)
    if any(gain.as_gain().is_faster for _, gain in gains):
        return "holds", f"up to {_format_gain(*best)}"
    none = all(gain.high <= 1 + SAME_TOLERANCE for _, gain in gains)
    return "does not" if none else "cannot tell", f"at most {_format_gain(*best)}"


def _judge_any_message_faster(rules: Rules) -> tuple[AnswerWord, str]:
    points = _select_points(rules, lambda pattern: pattern not in COLLECTIVE_PATTERNS)
    return _judge_any_faster([(_describe_point(distance, point), point.gain) for distance, point in points])


def _judge_no_message_slower(rules: Rules) -> tuple[AnswerWord, str]:
    """Returns "holds" if no point-to-point message is slower than the baseline by more than the tolerance, with the
    lowest gain as text."""
    points = _select_points(rules, lambda pattern: pattern not in COLLECTIVE_PATTERNS)
    if not points:
        return "cannot tell", "the MPI's defaults are in use: nothing can be slower"
    distance, worst = min(points, key=lambda one: one[1].gain.value)
    min_gain = 1 - SAME_TOLERANCE
    word: AnswerWord = "cannot tell"
    if all(point.gain.low >= min_gain for _, point in points):
        word = "holds"
    elif any(point.gain.high < min_gain for _, point in points):
        word = "does not"
    return word, f"slowest: {_format_gain(_describe_point(distance, worst), worst.gain)}"


def _make_collective_judge(operation: str) -> Callable[[Rules], tuple[AnswerWord, str]]:
    return lambda rules: _judge_any_faster(_select_collective_gains(rules, operation))


def _judge_loss_at_other_distance(rules: Rules) -> tuple[AnswerWord, str]:
    """Returns "holds" if parameters tuned for one distance are slower than the baseline at another distance. These
    gains have no confidence interval, so the answer is otherwise "cannot tell"."""
    if len(rules.machine.distances) < 2:
        return "cannot tell", "this machine has one distance"
    at_others = [(rule.distance, *one) for rule in rules.rule for one in rule.other_distances.items()]
    if not at_others:
        return "cannot tell", "no parameters were tried at another distance than theirs"
    tuned_distance, other_distance, min_gain = min(at_others, key=lambda one: one[2])
    return (
        "holds" if min_gain < 1 - SAME_TOLERANCE else "cannot tell",
        f"those of {tuned_distance} run at {min_gain:.2f}x of the baseline's speed at {other_distance}",
    )


def _judge_parameters_by_distance(rules: Rules) -> tuple[AnswerWord, str]:
    distances = rules.machine.distances
    if len(distances) < 2:
        return "cannot tell", "this machine has one distance"
    different = {tuple(sorted(rule.parameters.items(), key=str)) for rule in rules.rule}
    text = f"{counted(len(different), 'set')} of parameters for {counted(len(distances), 'distance')}"
    return "holds" if len(different) == len(distances) else "does not", text


RULE_QUESTIONS: dict[str, Callable[[Rules], tuple[AnswerWord, str]]] = {
    "faster": _judge_any_message_faster,
    "never-slower": _judge_no_message_slower,
    "loses-elsewhere": _judge_loss_at_other_distance,
    "by-distance": _judge_parameters_by_distance,
    **{name: _make_collective_judge(name) for name in ("bcast", "alltoall", "allreduce")},
}
