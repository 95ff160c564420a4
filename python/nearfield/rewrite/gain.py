"""The expected gain of a rewrite: the time of its communication before and after, or the reason why the gain is
unknown."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield.base.estimates import Estimate, ratio_of
from nearfield.base.units import format_ns


@dataclass(frozen=True)
class MessageTimes:
    """The time in ns of one message and of the first read of its data, before and after a patch. Both are sums of
    records of a profile at one message size and one distance between ranks."""

    before: Estimate
    after: Estimate

    @property
    def ratio(self) -> Estimate:
        """Returns the speed-up of communication. Its interval treats the times before and after as independent, so it
        is too wide if they share a term."""
        found = ratio_of(self.after, self.before)
        assert found is not None, "times are above 0"
        return found

    @property
    def is_certain(self) -> bool:
        """Returns whether the whole interval of the speed-up is above 1."""
        return self.ratio.low > 1

    def __str__(self) -> str:
        """Returns 'communication of this loop would take 0.9 us instead of 12 us', with the interval of the
        speed-up."""
        ratio = self.ratio
        sentence = (
            f"communication of this loop would take {format_ns(self.after.value)} instead of "
            f"{format_ns(self.before.value)}: {ratio.value:.2f}x as fast, {ratio.low:.2f}x to {ratio.high:.2f}x"
        )
        return sentence if self.is_certain else f"{sentence}, so that no gain is certain"


@dataclass(frozen=True)
class ExpectedGain:
    """The expected gain of one patch. If `gain` is None, `unknown` has the reason."""

    gain: MessageTimes | None = None
    unknown: str = "no profile is named (--profile)"

    def __str__(self) -> str:
        """Returns the gain, or the reason why it is unknown."""
        return str(self.gain) if self.gain is not None else f"no gain known: {self.unknown}"
