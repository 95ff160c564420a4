"""Whether cores are as far apart as they were when rules were found: a virtual machine's move.

Rules whose long messages go through the shared heap need not ask: it measures the distance while the program runs, and
copies as is best there."""

from __future__ import annotations

from nearfield import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_BEYOND = 100.0  # no flag takes so many times as long as another
_ACCURACY = 1.001


class Flag:
    """The time in ns that a flag took between two cores ("0-1") when rules were found, 0 where it is not known; `least`
    and `most` are the times between which the cores count as equally far apart (gains.alike)."""

    def __init__(self, pair: str, then: float, least: float = 0.0, most: float = 0.0) -> None:
        self.pair, self.then, self.least, self.most = pair, then, least, most

    @classmethod
    def of(cls, pair: str, then: float) -> Flag:
        borders = [_border(then, beyond) for beyond in (then / _BEYOND, then * _BEYOND)] if then else []
        return cls(pair, then, *borders)


def _border(then: float, beyond: float) -> float:
    """The last time on the way to what is beyond that counts as alike."""
    from nearfield.tune.gains import alike  # rules are applied more often than looked at anew

    like = then
    while max(like, beyond) > _ACCURACY * min(like, beyond):
        middle = (like * beyond) ** 0.5
        like, beyond = (middle, beyond) if alike(middle, then) else (like, middle)
    return like


def elsewhere(flags: Iterable[Flag]) -> tuple[str, list[str]]:
    """Why rules do not hold now, in words, empty if they do; and warnings where that cannot be told. Takes some
    milliseconds."""
    warnings = []
    for flag in flags:
        now = _native.flag_ns(*map(int, flag.pair.split("-"))) if flag.then else 0.0
        if now and not flag.least <= now <= flag.most:
            return _moved(flag, now), []
        if not now:
            warnings.append(_not_known(flag))
    return "", warnings


def _moved(flag: Flag, now: float) -> str:
    words = "farther apart" if now > flag.then else "nearer to each other"
    return (
        f"cores {flag.pair} are {words} now, {now:.0f} ns for a flag, than when this was tuned, {flag.then:.0f} ns: "
        "this run is stock (tune again, or use the rules all the same with --force)"
    )


def _not_known(flag: Flag) -> str:
    why = (
        f"how far apart cores {flag.pair} are now could not be measured"
        if flag.then
        else f"the rules do not say how far apart cores {flag.pair} were when they were found"
    )
    return f"{why}, so it is not known whether they hold now (--force uses them without this word)"
