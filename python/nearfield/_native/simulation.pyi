"""Scenarios on simulated machines."""

from collections.abc import Sequence

import nearfield._native.machine


class Collective:
    """An operation, and what its size says."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def bytes_are(self) -> str: ...

    def whole_bytes(self, bytes: int, ranks: int) -> int:
        """Returns the bytes of the root's longer buffer if sizes are `bytes`."""

class Application:
    """A program, and what its size says."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def bytes_are(self) -> str: ...

    @property
    def usual_bytes(self) -> list[int]: ...

class Policy:
    """Where a NIC puts what arrives."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def levels(self) -> int: ...

    @property
    def parameters(self) -> list[str]: ...

def collectives() -> list[Collective]: ...

def applications() -> list[Application]: ...

def policies() -> list[Policy]: ...

def check_policy(text: str, machine: nearfield._native.machine.Machine) -> None:
    """Raises ValueError if there is no such policy, or not on this machine."""

class Parameter:
    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

class Metric:
    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def summary(self) -> str: ...

class Scenario:
    """A scenario that can be simulated; src/scenario/ declares it."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def of_pair(self) -> bool: ...

    @property
    def parameters(self) -> list[Parameter]: ...

    @property
    def metrics(self) -> list[Metric]: ...

    @property
    def more_metrics(self) -> list[Metric]:
        """Those that only the simulator knows."""

    @property
    def usual(self) -> bool:
        """False: it is simulated only when asked for."""

    @property
    def policies(self) -> int:
        """How many policies one run carries."""

    @property
    def repetitions(self) -> int:
        """The repetitions of a case, unless it is asked for another number."""

    @property
    def of_nodes(self) -> bool:
        """Whether it takes the parameter `nodes`."""

class Place:
    def __init__(self, between_nodes: bool, own: int, peer: int) -> None: ...

class Result:
    """One number: see sim/results.hpp."""

    @property
    def metric(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def side(self) -> str: ...

    @property
    def variant(self) -> int: ...

    @property
    def speed(self) -> int: ...

    @property
    def value(self) -> float | None: ...

    @property
    def low(self) -> float | None: ...

    @property
    def high(self) -> float | None: ...

    @property
    def n(self) -> int: ...

    @property
    def reason(self) -> str: ...

most_policies: int = 8

max_slowdowns: int = 4

def words(key: str) -> list[str]:
    """
    Returns the words for 'policy', 'topology', 'replacement', 'network' (protocols between nodes) or 'node'.
    """

def scenarios() -> list[Scenario]: ...

def stencil_rows(variant: str, rows: int) -> tuple[list[tuple[int, bool]], list[tuple[int, bool]]]:
    """
    Returns the rows that S0's stencil updates before and after its exchange, in order, each with whether it goes backward.
    """

def hops(machine: nearfield._native.machine.Machine, nodes: int) -> list[int]:
    """Returns the links from node 0 to each of the nodes."""

def unable(scenario: str, machine: nearfield._native.machine.Machine, place: Place) -> str:
    """Returns why the machine cannot do it, or ''."""

def cases(scenario: str, machine: nearfield._native.machine.Machine, place: Place, tier: str, sizes: Sequence[int], nodes: Sequence[int]) -> list[list[tuple[str, int | str]]]:
    """Returns the parameters of every case of a tier."""

def run(scenario: str, machine: nearfield._native.machine.Machine, place: Place, parameters: Sequence[tuple[str, int | str]], policies: Sequence[str] = [], memory_slowdown: Sequence[float] = [1.0], repetitions: int | None = None, memory_effects: bool = True) -> list[Result]:
    """
    Simulates one case and returns its numbers. Without policies the NIC has the machine's own. Zero repetitions of a collective or an application only set it up. Raises ValueError for what cannot be.
    """
