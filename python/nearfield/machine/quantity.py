"""The values of a described machine, each with its source.

size_bytes = { value = 32768, source = "S4 table 2" }
gap_ns = { value = 20, kind = "chosen", reason = "nobody states it; that of a similar NIC", claims = ["S4.7"] }
clock_ghz = { value = 2.99, kind = "fitted", interval = [2.98, 3.0], probe = "a chain", fitted_to = ["additions"] }
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from nearfield._native import simulation
from nearfield.base.toml import Table

OriginKind = Literal["stated", "derived", "read-off", "chosen", "fitted"]
Claim = Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*\.\d+$")]


class SourcedFact(Table):
    """A value of a machine file together with its origin: a source, a reason, or a fit."""

    kind: OriginKind = Field(
        default="stated",
        description="stated, derived (the source says how), read-off (from a figure), fitted (measured there), "
        "or chosen: a free parameter",
    )
    source: str = Field(default="", description="where it is from; of all but chosen and fitted ones")
    reason: str = Field(default="", description="of a chosen one: why this value")
    claims: list[Claim] | None = Field(
        default=None, description="of a chosen one: the claims of nearfield's papers that it touches, if any"
    )
    interval: Annotated[list[float], Field(min_length=2, max_length=2)] | None = Field(
        default=None,
        description="from where to where the value may be; a fitted one has it, a chosen one may have it",
    )
    probe: str = Field(default="", description="of a fitted one: what was measured, and how the value follows from it")
    fitted_to: list[str] = Field(
        default_factory=list,
        description="of a fitted one: the micro-benchmarks or records (scenario:metric:key=value) that it repeats",
    )

    def assume(self, value: Any, reason: str) -> None:
        """Replaces the fact by a value of kind "chosen" with the given reason."""
        new = type(self)(value=value, kind="chosen", reason=reason, claims=self.claims or [])  # type: ignore[call-arg]
        self.__dict__.update(new.__dict__)

    @model_validator(mode="after")
    def _require_valid_origin(self) -> SourcedFact:
        if problem := self.describe_origin_problem():
            raise ValueError(problem)
        return self

    def describe_origin_problem(self) -> str:
        """Returns the error in the fact's origin (source, reason, interval or fit); empty if the origin is valid."""
        if self.kind == "fitted":
            return self._describe_fitted_origin_problem()
        if self.interval is not None and self.kind != "chosen":
            return f'interval is of kind = "fitted" or "chosen", and this is {self.kind}'
        if self.probe or self.fitted_to:
            return f'probe and fitted_to are of kind = "fitted", and this is {self.kind}'
        if problem := self._describe_interval_problem():
            return problem
        if self.kind == "chosen" and not self.reason:
            return "a chosen value must have a reason"
        if self.kind != "chosen" and not self.source:
            return 'there must be a source, or kind = "chosen" with a reason'
        if self.kind != "chosen" and (self.reason or self.claims is not None):
            return f'reason and claims are of kind = "chosen", and this is {self.kind}'
        return ""

    def _describe_fitted_origin_problem(self) -> str:
        if self.interval is None or not self.probe or not self.fitted_to:
            return "a fitted value must have an interval, a probe, and what it was fitted to"
        if self.source or self.reason or self.claims is not None:
            return "a fitted value has a probe and what it was fitted to, and no source, reason or claims"
        return self._describe_interval_problem()

    def _describe_interval_problem(self) -> str:
        if self.interval is None:
            return ""
        low, high = self.interval
        value = getattr(self, "value", None)
        if not isinstance(value, (int, float)):
            return "only a number can have an interval"
        return "" if low <= value <= high else f"the interval {low:g} to {high:g} does not contain the value {value:g}"

    @property
    def origin(self) -> str:
        """Returns the origin as text: the source, the reason of a chosen value, or the probe and interval of a fitted
        value."""
        if self.kind == "fitted" and self.interval:
            low, high = self.interval
            return f"{self.probe}; {low:.4g} to {high:.4g}; fitted to {', '.join(self.fitted_to)}"
        return self.reason if self.kind == "chosen" else self.source

    @property
    @abstractmethod
    def plain_value(self) -> Any:
        """Returns the value without its origin."""


class ValueFact(SourcedFact):
    """A fact whose key is `value`. Each subclass has the type and the bounds of one kind of value."""

    if TYPE_CHECKING:
        value: Any

    @property
    def plain_value(self) -> Any:
        return self.value


# These bounds leave room for future machines. A value beyond them is a typing error or damage.


def _bounded_number_field(minimum: float, maximum: float) -> Any:
    return Field(ge=minimum, le=maximum, allow_inf_nan=False)


class Count(ValueFact):
    """A positive number, for example of cores or ways."""

    value: int = Field(ge=1, le=1 << 20)


class Size(ValueFact):
    """A size in bytes."""

    value: int = Field(ge=1, le=1 << 34)


class ByteLimit(ValueFact):
    """A limit in bytes; 0 excludes every size."""

    value: int = Field(ge=0, le=1 << 34)


class Ghz(ValueFact):
    """A frequency in GHz."""

    value: float = _bounded_number_field(1e-3, 100)


class Cycles(ValueFact):
    """A time in core cycles."""

    value: float = _bounded_number_field(1e-3, 1e5)


class Ns(ValueFact):
    """A time in ns; may be 0."""

    value: float = _bounded_number_field(0, 1e7)


class Rate(ValueFact):
    """A rate in GB/s (10^9 bytes) or in bytes per cycle."""

    value: float = _bounded_number_field(1e-4, 5e4)


class Fraction(ValueFact):
    """A part of a whole, from 0 to 1."""

    value: float = _bounded_number_field(0, 1)


class CacheIndex(ValueFact):
    """The index of a cache, counted from 0 as in cache[0]."""

    value: int = Field(ge=0, le=15)


class Shape(ValueFact):
    """The numbers that define the shape of a topology."""

    value: list[Annotated[int, Field(ge=1, le=1 << 20)]] = Field(min_length=1, max_length=8)


class Inclusion(ValueFact):
    """Whether a cache holds all lines of nearer caches (inclusive), none of them (exclusive) or some of them
    (neither)."""

    value: Literal["inclusive", "exclusive", "neither"]


class WritePolicy(ValueFact):
    """The write policy of a cache: write-back or write-through."""

    value: Literal["back", "through"]


class ReplacementPolicy(ValueFact):
    """The replacement policy of a cache: which line of a set is evicted."""

    value: Literal[tuple(simulation.words("replacement"))]  # type: ignore[valid-type]


class Coherence(ValueFact):
    """The coherence protocol, which determines the state of a modified line after another core has loaded it."""

    value: Literal["mesi", "moesi"]


class PagePlacement(ValueFact):
    """The mapping of pages to frames of physical memory."""

    value: Literal["identity", "random"]


class SocketTraffic(ValueFact):
    """The traffic that crosses the links or the bus of a socket."""

    value: Literal["remote", "everything"]


class StreamStart(ValueFact):
    """The lines that a stream prefetches when it is detected."""

    value: Literal["one", "all"]


class PacketHeader(ValueFact):
    """Where the header of a packet inside a node is: in the cache line that announces the packet (inline), or in a list
    of packets that begins in that line (separate)."""

    value: Literal["inline", "separate"]


class CollectiveAlgorithms(ValueFact):
    """The MPI library whose algorithms the collectives follow."""

    value: Literal["mpich", "openmpi"]


class Polling(ValueFact):
    """How a core receives the events of a NIC."""

    value: Literal["queue", "command"]


class DmaRead(ValueFact):
    """The state of a modified line after a NIC has read it."""

    value: Literal["keep", "clean", "invalidate"]


class PlacementPolicy(ValueFact):
    """The policy that determines in which cache, or in memory, a NIC places incoming bytes."""

    value: Literal[tuple(simulation.words("policy"))]  # type: ignore[valid-type]


class Topology(ValueFact):
    """The topology of the links between routers."""

    value: Literal[tuple(simulation.words("topology"))]  # type: ignore[valid-type]


class NetworkProtocol(ValueFact):
    """The protocol of messages between nodes."""

    value: Literal[tuple(simulation.words("network"))]  # type: ignore[valid-type]


class NodeProtocol(ValueFact):
    """The protocol of messages within a node."""

    value: Literal[tuple(simulation.words("node"))]  # type: ignore[valid-type]


def is_byte_size(fact: SourcedFact) -> bool:
    """Returns whether the fact's value is a number of bytes."""
    return isinstance(fact, (Size, ByteLimit))


def facts(table: BaseModel, prefix: str = "") -> Iterator[tuple[str, SourcedFact]]:
    """Yields (key, fact) for every fact of a machine or one of its tables, in the order of the schema. Skips absent
    facts."""
    for name in type(table).model_fields:
        value, key = getattr(table, name), f"{prefix}{name}"
        for place, one in enumerate(value) if isinstance(value, list) else [(None, value)]:
            full_key = key if place is None else f"{key}[{place}]"
            if isinstance(one, SourcedFact):
                yield full_key, one
            elif isinstance(one, BaseModel):
                yield from facts(one, f"{full_key}.")
