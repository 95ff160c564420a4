"""Parses and validates the lines of the engine's output (JSON Lines). Every line is checked, because another user or a
crash may have changed a file before --resume reads it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from nearfield.measure.live.switches import DetectableSwitchKind
from nearfield.profile.records import STANDARD_COLUMNS, VERDICT_COLUMN, Side, Unit, Verdict
from nearfield.profile.schema import Calibration, Scenario


def _require_parameter_name(name: str) -> str:
    """Returns the name of a parameter. Raises ValueError if the name is that of a standard record column."""
    if name in STANDARD_COLUMNS or name == VERDICT_COLUMN:
        raise ValueError(f"'{name}' is a column of every record, not a parameter")
    return name


IdentifierName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
ScenarioName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
Int64 = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
Parameters = dict[Annotated[IdentifierName, AfterValidator(_require_parameter_name)], Int64 | str]
Samples = list[float | None]


class DescribedScenario(Scenario):
    """A scenario as `engine --describe` prints it. `weight` determines its share of the time; a scenario of weight 0 is
    only measured on request."""

    ranks: Literal["pair", "all", "pair-and-background"]
    weight: float


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class LaunchLine(Calibration):
    """The facts that a launch determined before measuring, such as latencies, the clock's properties and the MPI's
    variables."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)
    type: Literal["launch"]
    ranks: PositiveInt
    library: str
    clock_resolution_ns: Annotated[float, Field(ge=0)]
    clock_overhead_ns: Annotated[float, Field(ge=0)]
    ticks_per_ns: Annotated[float, Field(gt=0)]
    variables: dict[str, Int64]


class PhaseLine(_Line):
    """Reports the phase of a launch that does not measure yet. The line only shows that the launch is alive."""

    type: Literal["phase"]
    what: str


class SwitchLine(_Line):
    """A message size at which the MPI changes its protocol."""

    type: Literal["switch"]
    kind: DetectableSwitchKind
    size_bytes: Annotated[Int64, Field(ge=0)]


class _ScenarioLine(_Line):
    scenario: ScenarioName


class SkippedLine(_ScenarioLine):
    """A scenario that cannot run on this host, with the reason."""

    type: Literal["skipped"]
    reason: str


class ProgressLine(_ScenarioLine):
    """The elapsed share of a scenario's time budget."""

    type: Literal["progress"]
    share: float


class ScenarioEndLine(_ScenarioLine):
    """The end of a scenario. `cut` means that the scenario is unfinished; `missed` is the number of cases skipped
    because of the time limit."""

    type: Literal["scenario_end"]
    cut: bool
    missed: Annotated[Int64, Field(ge=0)] = 0


class _CaseLine(_ScenarioLine):
    metric: IdentifierName
    parameters: Parameters


class SamplesLine(_CaseLine):
    """The samples of one case. `visits` has the visit number of each sample. `c2c_latencies` has the core-to-core
    latency in ns next to each sample; None if the cores migrated."""

    type: Literal["samples"]
    unit: Unit
    side: Side | None = None
    samples: Samples
    visits: list[float] | None = None
    c2c_latencies: Samples | None = None
    disturbed: Samples = Field(default_factory=list)

    @model_validator(mode="after")
    def _require_visit_per_sample(self) -> SamplesLine:
        for values, of in ((self.visits, "visits"), (self.c2c_latencies, "latencies")):
            if values and len(values) != len(self.samples):
                raise ValueError(f"{len(self.samples)} samples of {len(values)} {of}")
        return self


class StateLine(_CaseLine):
    """The verdict on the cache state of a buffer, from timed loads of sampled cache lines."""

    type: Literal["state"]
    side: Side
    verdict: Verdict
    cached: float | None
    latency_ns: float | None


class MissingLine(_CaseLine):
    """A metric that this host cannot measure, with the reason."""

    type: Literal["missing"]
    unit: Unit
    reason: str = Field(min_length=1)


class ErrorLine(_Line):
    """The reason why the engine aborted."""

    type: Literal["error"]
    kind: str
    message: str


class EndLine(_Line):
    """The end of a launch. `measuring_s` excludes start-up and shutdown of the ranks."""

    type: Literal["end", "stopped"]
    measuring_s: Annotated[float, Field(ge=0)] = 0.0


Line = (
    LaunchLine | PhaseLine | SwitchLine | SkippedLine | ProgressLine | ScenarioEndLine | SamplesLine | StateLine
    | MissingLine | ErrorLine | EndLine
)  # fmt: skip
_LINE_ADAPTER: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])
_SCENARIOS_ADAPTER = TypeAdapter(list[DescribedScenario])


def parse_line(text: str) -> Line | None:
    """Returns the parsed line; None if the line is invalid."""
    try:
        return _LINE_ADAPTER.validate_json(text)
    except ValidationError:
        return None


def read_lines(path: Path, scenarios: Collection[str] | None = None) -> Iterator[Line]:
    """Yields the lines of an output file up to the first invalid one: a crash truncates the last line, and nothing
    after damage is trusted. A line of a scenario that is not in `scenarios` is invalid, too."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in map(parse_line, file):
            if line is None:
                return
            if scenarios is not None and isinstance(line, _ScenarioLine) and line.scenario not in scenarios:
                return
            yield line


def parse_scenarios(text: str) -> list[DescribedScenario]:
    """Parses the output of `engine --describe`. Raises ValueError if the text is invalid."""
    return _SCENARIOS_ADAPTER.validate_json(text)


def find_damaged_line(path: Path, scenarios: Collection[str]) -> int | None:
    """Returns the number, counted from 1, of the first line that ends with a newline but is invalid; None if there is
    no such line."""
    number = sum(1 for _ in read_lines(path, scenarios)) + 1
    with path.open("rb") as file:
        return number if sum(text.endswith(b"\n") for text in file) >= number else None
