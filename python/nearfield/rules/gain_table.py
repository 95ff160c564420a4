"""The representation of a measured gain in a rules file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nearfield.base.paired import Gain
from nearfield.base.toml import Table

# Valid ranges of message sizes, times per message, and speed ratios.
Bytes = Annotated[int, Field(ge=1, le=1 << 40)]
Ns = Annotated[float, Field(gt=0, le=1e12)]
Ratio = Annotated[float, Field(ge=1e-6, le=1e6)]


class StoredGain(Table):
    """A gain: the baseline's time divided by the tuned time, with its 95 % interval over `n` launches or pairs."""

    value: Ratio
    low: Ratio
    high: Ratio
    n: int = Field(ge=0)

    def as_gain(self) -> Gain:
        return Gain(self.value, self.low, self.high, self.n)

    @classmethod
    def of(cls, gain: Gain) -> StoredGain:
        """Converts a gain to a table, with values rounded to four decimal places."""
        value, low, high = (round(number, 4) for number in (gain.value, gain.low, gain.high))
        return cls(value=value, low=low, high=high, n=gain.n)
