from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from nearfield._native import (
    advise as advise,
    machine as machine,
    memory as memory,
    replay as replay,
    simulation as simulation,
    stream as stream,
    trace as trace
)


class TopologyError(Exception):
    pass

class Cache:
    @property
    def level(self) -> int: ...

    @property
    def kind(self) -> Literal['data', 'unified', 'instruction']: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def line_bytes(self) -> int: ...

    @property
    def ways(self) -> int | None: ...

    @property
    def pus(self) -> list[int]: ...

DISTANCES: tuple = ...

def flag_ns(arg0: int, arg1: int, /) -> float: ...

class Topology:
    @staticmethod
    def live() -> Topology: ...

    @staticmethod
    def from_xml(arg: bytes, /) -> Topology: ...

    @staticmethod
    def from_synthetic(arg: str, /) -> Topology: ...

    @property
    def pus(self) -> list[int]: ...

    @property
    def cores(self) -> list[list[int]]: ...

    @property
    def caches(self) -> list[Cache]: ...

    @property
    def numa_nodes(self) -> list[list[int]]: ...

    @property
    def packages(self) -> list[list[int]]: ...

    @property
    def cpu_model(self) -> str: ...

    @property
    def xml(self) -> str: ...

    def tree(self) -> dict[str, Any]: ...

    def distance(self, arg0: int, arg1: int, /) -> str: ...

    def distances(self) -> list[str]: ...

    def pairs(self, arg: str, /) -> list[tuple[int, int]]: ...

    def representatives(self) -> dict[str, tuple[int, int]]: ...

class Estimate:
    """A median with its 95 % interval, in the unit of the samples."""

    @property
    def value(self) -> float: ...

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    @property
    def n(self) -> int: ...

    @property
    def relative_half_width(self) -> float: ...

class Step:
    """A jump of a curve between points index and index + 1."""

    @property
    def index(self) -> int: ...

    @property
    def factor(self) -> float: ...

def quantile(arg0: Sequence[float], arg1: float, /) -> float: ...

def median_estimate(samples: Sequence[float], resolution: float = 0.0) -> Estimate: ...

def pooled_estimate(launches: Sequence[Sequence[Sequence[float]]], resolution: float = 0.0) -> Estimate: ...

def is_stable(arg0: Estimate, arg1: float, /) -> bool: ...

def outlier_share(arg: Sequence[float], /) -> float: ...

def paired_ratio(arg0: Sequence[float], arg1: Sequence[float], /) -> Estimate: ...

def find_steps(arg0: Sequence[float], arg1: Sequence[float], arg2: float, /) -> list[Step]: ...

class Link:
    """The costs of messages of one kind."""

    @overload
    def __init__(self) -> None: ...

    @overload
    def __init__(self, arg: Link, /) -> None: ...

    @property
    def latency_ns(self) -> float: ...

    @latency_ns.setter
    def latency_ns(self, arg: float, /) -> None: ...

    @property
    def ns_per_byte(self) -> float: ...

    @ns_per_byte.setter
    def ns_per_byte(self, arg: float, /) -> None: ...

    @property
    def strided(self) -> dict[int, float]: ...

    @strided.setter
    def strided(self, arg: Mapping[int, float], /) -> None: ...

    @property
    def banked(self) -> dict[int, float]: ...

    @banked.setter
    def banked(self, arg: Mapping[int, float], /) -> None: ...

    @property
    def load_factor(self) -> float: ...

    @load_factor.setter
    def load_factor(self, arg: float, /) -> None: ...

    @property
    def load_from_bytes(self) -> int: ...

    @load_from_bytes.setter
    def load_from_bytes(self, arg: int, /) -> None: ...

class Costs:
    """The costs of messages and sweeps."""

    @overload
    def __init__(self) -> None: ...

    @overload
    def __init__(self, arg: Costs, /) -> None: ...

    @property
    def in_place(self) -> Link | None: ...

    @in_place.setter
    def in_place(self, arg: Link | None, /) -> None: ...

    @property
    def same_node(self) -> Link: ...

    @same_node.setter
    def same_node(self, arg: Link, /) -> None: ...

    @property
    def network(self) -> Link: ...

    @network.setter
    def network(self, arg: Link, /) -> None: ...

    @property
    def copy_ns_per_byte(self) -> float: ...

    @copy_ns_per_byte.setter
    def copy_ns_per_byte(self, arg: float, /) -> None: ...

    @property
    def sweep_ns_per_cell(self) -> dict[int, float]: ...

    @sweep_ns_per_cell.setter
    def sweep_ns_per_cell(self, arg: Mapping[int, float], /) -> None: ...

def default_costs() -> Costs: ...

def costs_text(costs: Costs, origin: str) -> str:
    """A file of costs for the halo library."""

def parse_costs(text: str, name: str) -> tuple[Costs, str]:
    """Such a file as (costs, origin); ValueError names the line."""

class PlanRequest:
    """The grid to split, and over how many ranks."""

    def __init__(self) -> None: ...

    @property
    def dimensions(self) -> int: ...

    @dimensions.setter
    def dimensions(self, arg: int, /) -> None: ...

    @property
    def extents(self) -> list[int]: ...

    @extents.setter
    def extents(self, arg: Sequence[int], /) -> None: ...

    @property
    def halo(self) -> list[list[int]]: ...

    @halo.setter
    def halo(self, arg: Sequence[Sequence[int]], /) -> None: ...

    @property
    def periodic(self) -> list[list[bool]]: ...

    @periodic.setter
    def periodic(self, arg: Sequence[Sequence[bool]], /) -> None: ...

    @property
    def corners(self) -> bool: ...

    @corners.setter
    def corners(self, arg: bool, /) -> None: ...

    @property
    def ranks(self) -> int: ...

    @ranks.setter
    def ranks(self, arg: int, /) -> None: ...

    @property
    def ranks_per_node(self) -> int: ...

    @ranks_per_node.setter
    def ranks_per_node(self, arg: int, /) -> None: ...

    @property
    def element_bytes(self) -> int: ...

    @element_bytes.setter
    def element_bytes(self, arg: int, /) -> None: ...

    @property
    def fixed_dims(self) -> list[int]: ...

    @fixed_dims.setter
    def fixed_dims(self, arg: Sequence[int], /) -> None: ...

    @property
    def costs(self) -> Costs: ...

    @costs.setter
    def costs(self, arg: Costs, /) -> None: ...

class Message:
    """A box of cells as runs of contiguous bytes."""

    @property
    def bytes(self) -> int: ...

    @property
    def runs(self) -> int: ...

    @property
    def run_bytes(self) -> int: ...

    @property
    def stride_bytes(self) -> int: ...

class Face:
    """The part that a rank receives from one side of a dimension."""

    @property
    def message(self) -> Message: ...

    @property
    def messages(self) -> int: ...

class Time:
    """The parts of a time, in ns."""

    @property
    def latency_ns(self) -> float: ...

    @property
    def bytes_ns(self) -> float: ...

    @property
    def strided_ns(self) -> float: ...

class Plan:
    """
    A split, a placement, and what an exchange then costs the slowest rank.
    """

    @property
    def dims(self) -> list[int]: ...

    @property
    def node_dims(self) -> list[int]: ...

    @property
    def time_ns(self) -> float: ...

    @property
    def parts(self) -> Time: ...

    @property
    def sweep_ns(self) -> float: ...

    @property
    def messages(self) -> int: ...

    @property
    def network_messages(self) -> int: ...

    @property
    def box(self) -> list[int]: ...

    @property
    def faces(self) -> list[Face]: ...

def plans(request: PlanRequest) -> list[Plan]: ...
