"""The expected gain of a rewrite: the time of its communication before and after, or the reason why the gain is
unknown."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield.base.estimates import Estimate, ratio_of_estimates
from nearfield.base.units import format_ns


@dataclass(frozen=True)
class MessageTimes:
    """The time in ns of one message and of the first read of its data, before and after a patch. Both are sums of
    records of a profile at one message size and one distance between ranks."""

    time_before: Estimate
    time_after: Estimate

    @property
    def speedup(self) -> Estimate:
        """Returns the speed-up of communication. Its interval treats the times before and after as independent, so it
        is too wide if they share a term."""
        speedup = ratio_of_estimates(self.time_after, self.time_before)
        assert speedup is not None, "times are above 0"
        return speedup

    @property
    def is_certain_gain(self) -> bool:
        """Returns whether the whole interval of the speed-up is above 1."""
        return self.speedup.low > 1

    def __str__(self) -> str:
        """Returns 'communication of this loop would take 0.9 us instead of 12 us', with the interval of the
        speed-up."""
        ratio = self.speedup
        sentence = (
            f"communication of this loop would take {format_ns(self.time_after.value)} instead of "
            f"{format_ns(self.time_before.value)}: {ratio.value:.2f}x as fast, {ratio.low:.2f}x to {ratio.high:.2f}x"
        )
        return sentence if self.is_certain_gain else f"{sentence}, so that no gain is certain"


@dataclass(frozen=True)
class ExpectedGain:
    """The expected gain of one patch. If `message_times` is None, `unknown_reason` has the reason."""

    message_times: MessageTimes | None = None
    unknown_reason: str = "no profile is named (--profile)"

    def __str__(self) -> str:
        """Returns the gain, or the reason why it is unknown."""
        return str(self.message_times) if self.message_times is not None else f"no gain known: {self.unknown_reason}"
