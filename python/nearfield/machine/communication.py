"""The section [communication] of a machine file: message costs as published measurements state them, for `nearfield
plan`. Rates are in MB/s (10^6 bytes) and strides in doubles, as in the publications."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from nearfield.base.toml import Table
from nearfield.machine.quantity import Count, SourcedFact, ValueFact

MbPerS = Annotated[float, Field(ge=0.01, le=1e7)]  # 10 kB/s to 10 TB/s


class Latency(ValueFact):
    """The latency of an empty message, in us."""

    value: float = Field(ge=1e-3, le=1e6)


class Bandwidth(ValueFact):
    """A bandwidth in MB/s."""

    value: MbPerS


class StridedRate(SourcedFact):
    """The rate of messages that consist of single doubles at a stride. In the list `bank`, it applies to all strides
    that are multiples of this one."""

    doubles: int = Field(ge=1, le=1 << 24, description="the stride")
    mb_per_s: MbPerS = Field(description="payload per time")

    @property
    def plain_value(self) -> Any:
        return self.mb_per_s


class Load(SourcedFact):
    """The slowdown of large messages when all ranks communicate at the same time: the factor on the time per byte of
    messages beyond a size."""

    factor: float = Field(ge=1, le=1e3, description="how many times as long")
    beyond_bytes: int = Field(ge=0, le=1 << 34, description="of messages longer than this")

    @property
    def plain_value(self) -> Any:
        return self.factor


class Mode(Table):
    """A send mode of this machine's MPI, with its costs."""

    name: str = Field(description="for --mode")
    summary: str = Field(description="what it is")
    latency_us: Latency | None = Field(default=None, description="of an empty message, one way")
    latency_reason: str = Field(default="", description="why it is not known; it then counts as 0")
    contiguous_mb_per_s: Bandwidth = Field(description="of large messages in one piece")
    stride: list[StridedRate] = Field(default_factory=list, description="of messages of single doubles")
    bank: list[StridedRate] = Field(default_factory=list, description="the same, where banks conflict")
    load: Load | None = Field(default=None, description="what others' messages do")

    @model_validator(mode="after")
    def _require_latency_or_reason(self) -> Mode:
        if (self.latency_us is None) == (not self.latency_reason):
            raise ValueError("there must be latency_us, or latency_reason that says why not")
        return self


class Communication(Table):
    """The message costs of a machine, as published measurements state them."""

    ranks_per_node: Count = Field(description="of the machine's usual jobs")
    mode: list[Mode] = Field(min_length=1, description="ways to send; the first is the default")
