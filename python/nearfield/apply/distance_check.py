"""Checks whether core-to-core latencies are those for which rules were found: a virtual machine's cores move.

Rules that send long messages through the shared heap need no check: the heap measures the latency while the program
runs and chooses the copy accordingly."""

from __future__ import annotations

from nearfield import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_FACTOR = 100.0  # between two core-to-core latencies
_ACCURACY = 1.001


class RecordedLatency:
    """The latency in ns between two cores ("0-1") when rules were found, or 0 if it is not known. A latency from
    `least` to `most` counts as the same distance (gains.same_distance)."""

    def __init__(self, pair: str, then: float, least: float = 0.0, most: float = 0.0) -> None:
        self.pair, self.then, self.least, self.most = pair, then, least, most

    @classmethod
    def of(cls, pair: str, then: float) -> RecordedLatency:
        borders = [_border(then, beyond) for beyond in (then / _MAX_FACTOR, then * _MAX_FACTOR)] if then else []
        return cls(pair, then, *borders)


def _border(then: float, beyond: float) -> float:
    """Returns the last latency between `then` and `beyond` that counts as the same distance as `then`."""
    from nearfield.rules.gains import same_distance  # a slow import; this function runs only when a plan is computed

    like = then
    while max(like, beyond) > _ACCURACY * min(like, beyond):
        middle = (like * beyond) ** 0.5
        like, beyond = (middle, beyond) if same_distance(middle, then) else (like, middle)
    return like


def changed_distance(flags: Iterable[RecordedLatency]) -> tuple[str, list[str]]:
    """Measures the latencies, which takes some milliseconds. Returns why the rules do not hold now, or an empty text,
    and a warning for each pair of cores whose distance is not known."""
    warnings = []
    for flag in flags:
        now = _native.flag_ns(*map(int, flag.pair.split("-"))) if flag.then else 0.0
        if now and not flag.least <= now <= flag.most:
            return _describe_change(flag, now), []
        if not now:
            warnings.append(_describe_unknown(flag))
    return "", warnings


def _describe_change(flag: RecordedLatency, now: float) -> str:
    words = "farther apart" if now > flag.then else "nearer to each other"
    return (
        f"cores {flag.pair} are {words} now, {now:.0f} ns for a flag, than when this was tuned, {flag.then:.0f} ns: "
        "this run is stock (tune again, or use the rules all the same with --force)"
    )


def _describe_unknown(flag: RecordedLatency) -> str:
    why = (
        f"how far apart cores {flag.pair} are now could not be measured"
        if flag.then
        else f"the rules do not say how far apart cores {flag.pair} were when they were found"
    )
    return f"{why}, so it is not known whether they hold now (--force uses them without this word)"
