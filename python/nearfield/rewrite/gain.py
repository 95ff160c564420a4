"""What a rewrite is expected to gain: the time of its communication before and after, or why that is not known."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield.base.units import format_ns
from nearfield.profile.compare import Estimate, ratio_of


@dataclass(frozen=True)
class Gain:
    """The time of one message and of the first reading of its data, in ns: as the original and as the patch has it.
    Both sums are of records at one size and one distance."""

    before: Estimate
    after: Estimate

    @property
    def ratio(self) -> Estimate:
        """Returns how many times as fast the patch communicates. The interval takes both times as independent, so it
        is rather too wide where they have a part in common."""
        found = ratio_of(self.after, self.before)
        assert found is not None, "times are above 0"
        return found

    @property
    def is_certain(self) -> bool:
        """Returns whether the whole interval is a gain."""
        return self.ratio.low > 1

    def __str__(self) -> str:
        """Returns 'communication of this loop would take 0.9 us instead of 12 us', with the interval of the ratio."""
        ratio = self.ratio
        told = (
            f"communication of this loop would take {format_ns(self.after.value)} instead of "
            f"{format_ns(self.before.value)}: {ratio.value:.2f}x as fast, {ratio.low:.2f}x to {ratio.high:.2f}x"
        )
        return told if self.is_certain else f"{told}, so that no gain is certain"


@dataclass(frozen=True)
class Expected:
    """The expected gain of one variant. If `gain` is None, `unknown` says why."""

    gain: Gain | None = None
    unknown: str = "no profile is named (--profile)"

    def __str__(self) -> str:
        """Returns the gain, or that it is not known and why."""
        return str(self.gain) if self.gain is not None else f"no gain known: {self.unknown}"
