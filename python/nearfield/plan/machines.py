"""Described machines (`machines/NAME.toml`): what messages cost on hardware that is not there. Each number says where
it is from. Rates are in MB/s of 10^6 bytes and strides in doubles, as such studies give them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from nearfield._native import Costs, Link
from nearfield.errors import UsageError
from nearfield.profile.schema import Table
from nearfield.profile.toml import parse_toml
from nearfield.profile.words import suggestion

_DOUBLE_BYTES = 8
_REMEDY = "Mend that line; machines/t3e-900.toml of nearfield shows what a described machine must say."


class Sourced(Table):
    """Numbers, how the study has them, and where."""

    kind: Literal["stated", "derived", "read-off"] = "stated"
    source: str = Field(min_length=1)


class Quantity(Sourced):
    value: float = Field(gt=0)


class Rate(Sourced):
    """Of messages whose doubles lie so far apart; of a bank: whose stride is a multiple of it."""

    doubles: PositiveInt
    mb_per_s: PositiveFloat


class Load(Sourced):
    """How many times as long bytes take, in messages longer than this, when everybody communicates."""

    factor: float = Field(ge=1)
    beyond_bytes: int = Field(ge=0)


class Mode(Table):
    """One way in which this machine's MPI can send."""

    name: str
    summary: str
    latency_us: Quantity | None = None  # of an empty message, one way
    latency_reason: str = ""  # why it is not known; it then counts as 0
    contiguous_mb_per_s: Quantity
    stride: list[Rate] = Field(default_factory=list)
    bank: list[Rate] = Field(default_factory=list)
    load: Load | None = None

    @model_validator(mode="after")
    def _latency_or_reason(self) -> Mode:
        if (self.latency_us is None) == (not self.latency_reason):
            raise ValueError("there must be latency_us, or latency_reason that says why not")
        return self

    def link(self) -> Link:
        link = Link()
        link.latency_ns = self.latency_us.value * 1e3 if self.latency_us else 0.0
        link.ns_per_byte = _ns_per_byte(self.contiguous_mb_per_s.value)
        apart = {rate.doubles * _DOUBLE_BYTES: _ns_per_byte(rate.mb_per_s) for rate in self.stride}
        link.strided = {_DOUBLE_BYTES: link.ns_per_byte, **apart}
        link.banked = {rate.doubles * _DOUBLE_BYTES: _ns_per_byte(rate.mb_per_s) for rate in self.bank}
        if self.load:
            link.load_factor, link.load_from_bytes = self.load.factor, self.load.beyond_bytes + 1
        return link


class Communication(Table):
    ranks_per_node: Quantity
    mode: list[Mode] = Field(min_length=1)  # the first is the default


class DescribedMachine(Table):
    schema_version: Literal[1]
    name: str
    title: str
    study: str  # what the sources are sections of
    communication: Communication

    def mode(self, name: str | None) -> Mode:
        """UsageError that names the nearest mode there is."""
        modes = {mode.name: mode for mode in self.communication.mode}
        if name is None:
            return self.communication.mode[0]
        if name not in modes:
            raise UsageError(f"{self.name} has no mode '{name}'", _sentence(suggestion(name, modes)))
        return modes[name]

    def costs(self, mode: str | None = None) -> Costs:
        """All ranks send messages, and inside a node they cost what they cost between nodes."""
        costs = Costs()
        costs.same_node = costs.network = self.mode(mode).link()
        return costs


def machine_files() -> dict[str, Path]:
    """Name -> file of the machines that come with nearfield."""
    package = Path(__file__).resolve().parents[1]
    places = [package / "machines", *(parent / "machines" for parent in package.parents[:3])]
    return next(({f.stem: f for f in sorted(p.glob("*.toml"))} for p in places if p.is_dir()), {})


def load_machine(name: str) -> DescribedMachine:
    """By name, or by the path of a file that ends in .toml. UsageError if there is none; ProfileError that names file
    and key if something in it is wrong."""
    files = machine_files()
    path = Path(name) if name.endswith(".toml") else files.get(name)
    if path is None or not path.is_file():
        raise UsageError(f"there is no described machine '{name}'", _sentence(suggestion(name, files)))
    return parse_toml(DescribedMachine, path.read_bytes(), path, _REMEDY)


def _ns_per_byte(mb_per_s: float) -> float:
    return 1e3 / mb_per_s


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith("?") else ".")
