"""Checks whether core-to-core latencies are still those for which the rules were measured, because a virtual machine's
vCPUs may be moved to other cores.

Rules that send long messages through the shared heap need no check: the heap measures the latency at run time and
selects the copy accordingly."""

from __future__ import annotations

from nearfield import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from nearfield.rules.schema import Rules, RuleTable

_MAX_LATENCY_RATIO = 100.0  # upper bound for the ratio of two core-to-core latencies
_BISECTION_ACCURACY = 1.001


class RecordedLatency:
    """The core-to-core latency in ns of a pair of cores ("0-1") at the time of the tune; 0 if unknown. Latencies from
    `min_ns` to `max_ns` count as the same distance (gains.is_same_distance)."""

    def __init__(self, pair: str, recorded_ns: float, min_ns: float = 0.0, max_ns: float = 0.0) -> None:
        self.pair, self.recorded_ns, self.min_ns, self.max_ns = pair, recorded_ns, min_ns, max_ns

    @classmethod
    def from_latency(cls, pair: str, recorded_ns: float) -> RecordedLatency:
        """Computes `min_ns` and `max_ns` for a latency."""
        beyond = (recorded_ns / _MAX_LATENCY_RATIO, recorded_ns * _MAX_LATENCY_RATIO) if recorded_ns else ()
        return cls(pair, recorded_ns, *(_distance_border_ns(recorded_ns, one) for one in beyond))


def depends_on_core_latency(rules: Rules, rule: RuleTable) -> bool:
    """Returns whether the rule only applies while the core-to-core latency is unchanged. Rules with the shared heap
    always apply, because the heap measures the latency itself."""
    return bool(rule.parameters) and not rules.find_knob_file().uses_heap(rule.parameters)


def _distance_border_ns(recorded_ns: float, outer_ns: float) -> float:
    """Returns, by bisection between `recorded_ns` and `outer_ns`, the latency furthest from `recorded_ns` that still
    counts as the same distance."""
    from nearfield.rules.gains import is_same_distance  # a slow import; this function runs only when a plan is computed

    like = recorded_ns
    while max(like, outer_ns) > _BISECTION_ACCURACY * min(like, outer_ns):
        middle = (like * outer_ns) ** 0.5
        like, outer_ns = (middle, outer_ns) if is_same_distance(middle, recorded_ns) else (like, middle)
    return like


def find_changed_latencies(latencies: Iterable[RecordedLatency]) -> tuple[str, list[str]]:
    """Measures the current latencies, which takes some milliseconds. Returns the reason why the rules do not apply now
    (or ""), and a warning for each pair of cores whose latency is unknown."""
    warnings = []
    for recorded in latencies:
        now_ns = _native.flag_ns(*map(int, recorded.pair.split("-"))) if recorded.recorded_ns else 0.0
        if now_ns and not recorded.min_ns <= now_ns <= recorded.max_ns:
            return _describe_changed_latency(recorded, now_ns), []
        if not now_ns:
            warnings.append(_describe_unknown_latency(recorded))
    return "", warnings


def _describe_changed_latency(recorded_latency: RecordedLatency, now_ns: float) -> str:
    return (
        f"the core-to-core latency of cores {recorded_latency.pair} is {now_ns:.0f} ns now, and was "
        f"{recorded_latency.recorded_ns:.0f} ns when this was tuned: this run is the baseline (tune again, or use the "
        "rules all the same with --force)"
    )


def _describe_unknown_latency(recorded_latency: RecordedLatency) -> str:
    why = (
        f"the core-to-core latency of cores {recorded_latency.pair} cannot be measured now"
        if recorded_latency.recorded_ns
        else f"the rules do not say which core-to-core latency cores {recorded_latency.pair} had when they were found"
    )
    return f"{why}, so it is not known whether they hold now (--force uses them without this warning)"
