"""Reads knobs, the parameters that control how an MPI moves messages within a node, from one file per MPI in `knobs/`.

A file names the MPI and transport, each knob's environment variable, type, range and default, the constraints between
knobs, and a formula for the shared memory per rank. Support for a new MPI is one new file.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nearfield.base import own_command, shared_heap
from nearfield.base.errors import MpiError, UsageError
from nearfield.base.toml import parse_toml_values

KnobValue = int | str
Settings = dict[str, KnobValue]  # knob -> value; omitted knobs keep the MPI's default

KnobRole = Literal[
    "eager_limit",
    "fragment",
    "at_least_fragment",
    "single_copy",
    "single_copy_threshold",
    "segment",
    "shared_heap",
    "stream",
    "stream_when_far",
    "cooperative_copy",
]

# The implementation of a knob: the MPI itself, or the shared heap, which must then be preloaded.
KnobCarrier = Literal["mpi", "heap"]

NO_SIZES, ALL_SIZES = "never", "0-"  # values of knobs of type "sizes": no message size, all message sizes

KNOBS_FOLDER = Path(__file__).parent / "knobs"
_HEAP_KNOBS_FILE = KNOBS_FOLDER / "shared_heap.toml"


class Knob(BaseModel):
    """One tuning parameter of an MPI, which MPI_Init reads from the environment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    summary: str
    variable: str
    type: Literal["bytes", "count", "choice", "sizes"]
    default: KnobValue
    role: KnobRole | None = None  # the MPI-independent role for which the model proposes values (model.py)
    carrier: KnobCarrier = "mpi"
    low: int = 0
    high: int = 0
    plus: int = 0  # bytes that a message needs besides its payload, added to each power of two
    # for type "choice": name of a value -> text for the environment variable
    values: dict[str, str] = Field(default_factory=dict)
    grid: tuple[KnobValue, ...] = ()  # values for an exhaustive search; empty: the default only

    @model_validator(mode="after")
    def _check(self) -> Knob:
        if self.type == "choice" and self.default not in self.values:
            raise ValueError(f"default '{self.default}' is none of {', '.join(self.values)}")
        for value in (self.default, *self.grid):
            if problem := self.find_problem(value):
                raise ValueError(problem)
        return self

    def find_problem(self, value: KnobValue) -> str | None:
        """Returns the reason why a value is invalid for this knob; None if it is valid."""
        if value == self.default:
            return None
        if self.type == "choice":
            return None if value in self.values else f"{self.name} = '{value}': must be {_join_or(self.values)}"
        if self.type == "sizes":
            return (
                None
                if is_size_list(value)
                else f"{self.name} = '{value}': must be '{NO_SIZES}' or like '65536-2097152+8388608-'"
            )
        if isinstance(value, bool) or not isinstance(value, int):
            return f"{self.name} = '{value}': must be a number"
        if not self.low <= value <= self.high + self.plus:
            return f"{self.name} = {value}: must be between {self.low} and {self.high + self.plus}"
        return None

    def format_value(self, value: KnobValue) -> str:
        """Returns the value in the syntax of the environment variable."""
        return self.values[str(value)] if self.type == "choice" else str(value)

    def search_values(self) -> list[KnobValue]:
        """Returns the values that a search tries, in ascending order, including the default."""
        if self.type == "choice":
            return list(self.values)
        if self.type == "sizes":
            return list(dict.fromkeys([self.default, NO_SIZES, ALL_SIZES]))
        if isinstance(self.default, int):
            return sorted({*self.power_of_two_values(), self.default})
        return [self.default, *self.power_of_two_values()]

    def power_of_two_values(self) -> list[int]:
        """Returns the powers of two within a numeric knob's range, and the end of the range, each plus `plus`."""
        powers = [1 << power for power in range(self.high.bit_length()) if self.low <= 1 << power <= self.high]
        return [power + self.plus for power in powers + [self.high] * (self.high not in powers)]


class KnobFile(BaseModel):
    """The knobs of one MPI with one transport."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: str
    since: str
    before: str | None = None
    transport: str  # prefix of the transport that `nearfield mpi` prints; "ucx": any that contains ucx
    memory_bytes: str  # shared memory per rank in bytes: an expression of knobs and `ranks` (per node)
    per_pair: Literal["component", "shim"] | None = None
    shared_heap: bool = False  # whether the shared heap supports this MPI; if so, adds the knobs of shared_heap.toml
    # environment variables for the baseline and all candidates during a tune
    while_tuning: dict[str, str] = Field(default_factory=dict)
    # Environment variables with which messages arrive on machines whose kernel forbids single copies and where the
    # MPI's defaults abort.
    without_single_copy: dict[str, str] = Field(default_factory=dict)
    knob: tuple[Knob, ...]
    constraints: dict[str, str] = Field(default_factory=dict)  # constraint such as "a >= 2 * b" -> reason for it

    @model_validator(mode="after")
    def _check(self) -> KnobFile:
        defaults = self.with_defaults({})
        for rule in self.constraints:
            _is_constraint_satisfied(rule, defaults)
        _evaluate_expression(self.memory_bytes, {**defaults, "ranks": 2})
        return self

    def __getitem__(self, name: str) -> Knob:
        return next(knob for knob in self.knob if knob.name == name)

    def with_defaults(self, settings: Mapping[str, KnobValue]) -> Settings:
        """Returns the values of all knobs, with defaults for those not in `settings`."""
        return {knob.name: settings.get(knob.name, knob.default) for knob in self.knob}

    def find_problems(self, settings: Mapping[str, KnobValue]) -> list[str]:
        """Returns the reasons why settings are invalid: unknown knobs, values out of range, or violated constraints."""
        names = {knob.name for knob in self.knob}
        found = [
            f"unknown parameter '{name}'; known: {', '.join(sorted(names))}" for name in settings if name not in names
        ]
        found += [p for name, value in settings.items() if name in names and (p := self[name].find_problem(value))]
        if found:
            return found
        whole = self.with_defaults(settings)
        return [
            f"{rule} does not hold: {why}"
            for rule, why in self.constraints.items()
            if self.violates_constraint(rule, whole)
        ]

    def violates_constraint(self, constraint: str, settings: Mapping[str, KnobValue]) -> bool:
        """Returns whether complete settings violate a constraint."""
        return not _is_constraint_satisfied(constraint, settings)

    def environment(self, settings: Mapping[str, KnobValue]) -> dict[str, str]:
        """Returns the environment variables for these settings. Sets no variable for a knob at its default."""
        chosen = [(self[name], value) for name, value in settings.items()]
        changed = [(knob, knob.format_value(value)) for knob, value in chosen if value != knob.default]
        found = {knob.variable: text for knob, text in changed if knob.carrier != "heap"}
        if self.uses_heap(settings):
            found[shared_heap.HEAP_VARIABLE] = ",".join(
                f"{k.variable}={text}" for k, text in changed if k.carrier == "heap"
            )
        return found

    def launch_environment(
        self, settings: Mapping[str, KnobValue], inherited_environment: Mapping[str, str]
    ) -> dict[str, str]:
        """Returns the environment variables to add to the inherited ones. If the settings use the shared heap, includes
        those that preload it."""
        return self.environment(settings) | (
            shared_heap.heap_preload_variables(inherited_environment) if self.uses_heap(settings) else {}
        )

    def uses_heap(self, settings: Mapping[str, KnobValue]) -> bool:
        return self.shared_heap and settings.get("shared_heap") == "on"

    def shared_memory_bytes(self, settings: Mapping[str, KnobValue], ranks_per_node: int) -> int:
        """Returns the max shared memory in bytes per rank, for `ranks_per_node` ranks per node."""
        return int(_evaluate_expression(self.memory_bytes, {**self.with_defaults(settings), "ranks": ranks_per_node}))


def is_size_list(value: KnobValue) -> bool:
    """Returns whether the value is a list of size ranges in the syntax of src/preload/heap/settings.hpp."""
    return value == NO_SIZES or bool(re.fullmatch(r"([0-9]+-[0-9]+\+){0,7}[0-9]+-[0-9]*", str(value)))


@lru_cache
def read_all_knob_files() -> tuple[KnobFile, ...]:
    """Returns the knobs of all supported MPIs, from one file each."""
    return tuple(_read_knob_file(path) for path in sorted(KNOBS_FOLDER.glob("*.toml")) if path != _HEAP_KNOBS_FILE)


def _read_knob_file(path: Path) -> KnobFile:
    content = parse_toml_values(path.read_text(encoding="utf-8"))
    if content.get("shared_heap"):
        content["knob"] = [*content["knob"], *parse_toml_values(_HEAP_KNOBS_FILE.read_text(encoding="utf-8"))["knob"]]
    return KnobFile(**content)


def find_knobs(family: str, version: str, transport: str | None) -> KnobFile:
    """Returns the knobs of an MPI with a transport, as printed by `nearfield mpi`. Raises MpiError if no file
    matches."""
    carried_by_ucx = bool(transport and re.search(r"\bucx\b", transport))
    for file in read_all_knob_files():
        if carried_by_ucx != (file.family == "ucx"):
            continue
        is_exact = file.family == family and _is_version_within(version, file.since, file.before)
        if carried_by_ucx or (is_exact and (transport or "").startswith(file.transport)):
            return file
    raise MpiError(
        f"nearfield has no parameters of {family} {version}, transport {transport or 'unknown'}",
        f"supported are: {', '.join(map(_describe_supported_mpis, read_all_knob_files()))}; the transport here "
        f"is in the output of: {own_command.command_line('mpi', '--build')}",
    )


def _describe_supported_mpis(file: KnobFile) -> str:
    """Returns which MPIs a knob file supports, as human-readable text."""
    if file.family == "ucx":
        return "any MPI whose messages UCX carries, such as MPICH 4.0 of Debian (ucx)"
    before = f", before {file.before}" if file.before else ""
    return f"{file.family} from {file.since}{before} ({file.transport})"


def _is_version_within(version: str, since: str, end_version: str | None) -> bool:
    return version_numbers(since) <= version_numbers(version) and (
        end_version is None or version_numbers(version) < version_numbers(end_version)
    )


def version_numbers(version: str) -> tuple[int, ...]:
    """Returns a version such as "5.0.11" as a comparable tuple (5, 0, 11). Stops at the first part that is not a
    number."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _join_or(words: Mapping[str, Any]) -> str:
    return " or ".join(f"'{word}'" for word in words)


_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def _evaluate_expression(expression: str, values: Mapping[str, KnobValue]) -> float:
    """Evaluates an arithmetic expression of knobs and numbers. A knob whose default is unknown ("auto") counts as 0.
    Raises UsageError for any other syntax."""

    def value_of(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() as number):
                return number
            case ast.Name(id=name) if name in values:
                value = values[name]
                return value if isinstance(value, int) else 0
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](value_of(left), value_of(right))
        raise UsageError(f"'{expression}' is no arithmetic of {', '.join(values)}")

    return value_of(ast.parse(expression, mode="eval").body)


def _is_constraint_satisfied(constraint: str, values: Mapping[str, KnobValue]) -> bool:
    """Returns whether a constraint such as "a >= b" holds. A constraint with a knob that is left to the MPI ("auto")
    holds."""
    left, relation, right = re.split(r"\s*(>=|<=)\s*", constraint)
    if any(isinstance(values.get(name), str) for name in re.findall(r"[a-z_]+", constraint)):
        return True
    a, b = _evaluate_expression(left, values), _evaluate_expression(right, values)
    return a >= b if relation == ">=" else a <= b
