"""The schema of papers/NAME/claims.toml. The file has the paper's statements, written from the paper and not from
simulated numbers; the profiles to simulate; and for each statement the records and the judge function (judges.py) that
decide it. The five papers are named S0 to S4; papers/NAME/README.md says which paper each is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from nearfield.base.toml import Table
from nearfield.machine.quantity import Claim as ClaimId

ColumnValue = int | float | str
ColumnValues = ColumnValue | list[ColumnValue]
# A number of bytes, or a symbolic size that depends on the machine and MPI: eager, l1, l2, llc; 2*llc, llc/2.
SymbolicSize = int | Annotated[str, Field(pattern=r"^(\d+\*)?(eager|l1|l2|llc)(/\d+)?$")]


class ChosenParameter(Table):
    """A parameter whose value neither the paper nor the machine's description file states, with the value that was
    chosen for it."""

    key: str = Field(description="the parameter that was chosen")
    value: ColumnValue = Field(description="the value that was chosen")
    reason: str = Field(description="why this value was chosen")
    claims: list[ClaimId] = Field(description="the claims that the value affects")


class ReplacedValue(Table):
    """A value of the machine's description file that a simulated profile replaces, for a claim that compares several
    values of it."""

    key: str = Field(description="the key in the machine's file, e.g. messaging.ring_bytes")
    value: ColumnValue
    reason: str


class ScenarioRun(Table):
    """A scenario to simulate with all combinations of the parameter values, at every core distance."""

    name: str
    distance: list[str] = Field(
        default_factory=list, description="distances of pairs; [] for a scenario of a whole node"
    )
    parameters: dict[str, list[int | str]]
    quick: dict[str, list[int | str]] = Field(default_factory=dict, description="parameters that --quick replaces")


class ClusterRun(Table):
    """Collectives or applications to simulate with all combinations of sizes and NIC policies. The keys are named like
    the options of `nearfield simulate`."""

    name: list[str]
    nodes: list[int]
    policy: list[str]
    bytes: list[int] = Field(default_factory=list, description="sizes; []: the usual ones of an application")
    quick: list[int] = Field(default_factory=list, description="sizes with --quick")
    slow: bool = Field(default=False, description="--quick leaves these runs out")
    whole: bool = Field(default=False, description="sizes are those of the whole buffer")
    apart: bool = Field(default=False, description="one run per policy, so that none sets the message order of another")
    memory_slowdown: list[float] = [1.0]
    repetitions: int | None = Field(
        default=None, description="absent: 7 calls of a collective, 1 run of an application"
    )


class ProfileRun(Table):
    """A profile to simulate: a machine, possibly with replaced values, and the scenarios to simulate on it."""

    on: str = Field(description="the machine to simulate")
    without: list[Literal["prefetcher"]] = Field(default_factory=list, description="parts that are switched off")
    clock_ghz: float | None = Field(default=None, description="the processor's frequency; memory follows it")
    set: list[ReplacedValue] = Field(default_factory=list)
    scenario: list[ScenarioRun] = Field(default_factory=list)
    collective: list[ClusterRun] = Field(default_factory=list)
    application: list[ClusterRun] = Field(default_factory=list)

    @property
    def cluster_runs(self) -> list[ClusterRun]:
        return [*self.collective, *self.application]

    @model_validator(mode="after")
    def _require_runs(self) -> ProfileRun:
        if not (self.scenario or self.cluster_runs):
            raise ValueError("a profile is of scenarios, collectives or applications")
        return self


class LiveProfile(Table):
    """A profile to measure on the user's machine: scenarios that run in the same MPI job (launch) with the same message
    sizes."""

    scenario: list[str] = Field(min_length=1, description="scenarios by the names of `nearfield probe --list`")
    size_bytes: list[SymbolicSize] = Field(default_factory=list, description="sizes; []: the scenarios' own")
    quick: list[SymbolicSize] = Field(default_factory=list, description="sizes with --quick; []: the same as without")
    only: list[str] = Field(
        default_factory=list,
        description="restricts a scenario to values of a parameter: 'pingpong state reused'",
    )
    seconds: float = Field(default=10.0, description="expected duration of a launch, for the estimate only")


class CurveSpec(Table):
    """A curve to compute from the records of a profile: a metric as a function of one parameter (`by`), optionally
    compared with a base curve."""

    profile: str
    metric: str
    where: dict[str, ColumnValues] = Field(
        default_factory=dict, description="columns; the highest number of a list counts"
    )
    mean_over: list[str] = Field(
        default_factory=list, description="columns of `where` over whose values the mean counts, not the highest number"
    )
    versus: dict[str, ColumnValues] | None = Field(
        default=None, description="the columns that differ for the base; '' removes a column"
    )
    base: str | None = Field(default=None, description="the profile of the base if it differs from `profile`")
    base_metric: str | None = Field(default=None, description="the metric of the base if it differs from `metric`")
    how: Literal["gain", "ratio", "minus"] | None = Field(
        default=None, description="comparison with the base: the saved share, the ratio, or the difference"
    )
    unit: Literal["mb_per_s", "per_line"] | None = Field(default=None, description="the unit of the converted numbers")
    plus: str | None = Field(default=None, description="a metric of the same records that is added")
    per: str | None = Field(default=None, description="the metric of these records that numbers are divided by")
    per_rest: bool = Field(default=False, description="divide by what the metric leaves of `per`, not by all of it")
    by: str = Field(
        default="size_bytes", description="the parameter; whole_bytes is the size of a collective's whole buffer"
    )

    @model_validator(mode="after")
    def _check_base(self) -> CurveSpec:
        if (self.how is None) != (self.versus is None and self.base is None):
            raise ValueError("how needs versus or base, and they need it")
        if self.per_rest and self.per is None:
            raise ValueError("per_rest needs per")
        if unlisted := [name for name in self.mean_over if not isinstance(self.where.get(name), list)]:
            raise ValueError(f"mean_over needs a list of values of {unlisted[0]} in where")
        return self


class QuotedNumber(CurveSpec):
    """A number that the texts of the claims file quote as {NAME} and that is filled in from the records: the range of a
    curve, or its maximum."""

    points: list[float] = Field(default_factory=list, description="only these values of the parameter; []: all")
    over: Annotated[list[float], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="the smallest and the largest value of the parameter"
    )
    of: Literal["range", "max"] = "range"


class PlacementRule(Table):
    """A reference to one of the three placement guidelines of paper S0, as the report evaluates it on a profile
    (report/rules.py)."""

    profile: str
    number: Literal[1, 2, 3]


class ControlMeasurement(Table):
    """A measurement that distinguishes an effect from an artefact. If `effect` is "vanishes", the control measures
    without the cause that the paper names, and the effect must vanish. If it is "stays", the control measures without
    another possible cause, and the effect must stay."""

    effect: Literal["vanishes", "stays"]
    says: str = Field(description="what is different from the measurement that it is the control of")
    profile: str = Field(default="", description="a live profile of its own; '': the same as the measurement's")
    curve: dict[str, Any] = Field(default_factory=dict, description="keys of the measurement's curve that differ")


class LiveCheck(Table):
    """How to check a statement on the user's machine. Judge, curve and `than` default to those of the statement.
    Positions and numbers have no default, since the paper states them for its own machine."""

    profile: str = Field(default="", description="the profile that judges it: a name of [here.NAME]")
    asks: str = Field(default="", description="a question to tuned rules or to the compiler (live/questions.py)")
    judge: str | None = None
    number: float | list[float] | None = Field(default=None, description="only if the paper's number holds everywhere")
    curve: dict[str, Any] = Field(default_factory=dict, description="keys of the statement's curve that differ")
    than: dict[str, Any] | None = None
    over: Annotated[list[SymbolicSize], Field(min_length=2, max_length=2)] | None = None
    points: list[SymbolicSize] | None = None
    at: Annotated[list[SymbolicSize], Field(min_length=2, max_length=2)] | None = None
    says: str = Field(default="", description="what is judged, if it differs from the wording of the statement")
    control: ControlMeasurement | None = Field(
        default=None, description="an effect that its control shows, too, is an artefact"
    )

    @model_validator(mode="after")
    def _check_single_source(self) -> LiveCheck:
        if bool(self.profile) == bool(self.asks):
            raise ValueError("here is judged by a profile, or asks something else")
        return self


class Statement(Table):
    """One statement of a paper, which is judged separately. `number` is the paper's number or range. The tolerances,
    which are the same for all statements, are in judges.py."""

    says: str
    paper: str = Field(description="the paper's number or shape")
    judge: str | None = Field(default=None, description="a name in judges.py")
    number: float | list[float] | None = None
    curve: CurveSpec | None = None
    than: dict[str, Any] | None = Field(default=None, description="keys of the second curve that differ")
    over: Annotated[list[float], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="the smallest and the largest size that the statement covers"
    )
    points: list[float] | None = Field(default=None, description="the sizes that the statement covers, in this order")
    at: Annotated[list[float], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="the sizes between which the extreme lies"
    )
    rule: PlacementRule | None = None
    not_simulated: str | None = Field(default=None, description="why no record judges the statement")
    not_counted: str = Field(default="", description="why the verdict is not counted: it cannot fail")
    why: str = Field(default="", description="a cause of the difference from the paper that a reader can check")
    is_control: bool = Field(default=False, description="it is not of the paper, but a control of the whole claim")
    here: LiveCheck | None = Field(default=None, description="how `reproduce --live` judges the statement")
    here_not: str = Field(default="", description="why the statement cannot be measured on the reader's machine")

    @model_validator(mode="after")
    def _check_judge_or_reason(self) -> Statement:
        if sum(map(bool, (self.judge, self.rule, self.not_simulated))) != 1:
            raise ValueError("a statement has a judge, or a rule, or the reason why it is not simulated")
        if bool(self.judge) != bool(self.curve):
            raise ValueError("a judge needs a curve, and a curve a judge")
        if self.here and self.here_not:
            raise ValueError("a statement is judged here, or there is a reason why not, but not both")
        return self


class Claim(Table):
    """One claim of a paper."""

    id: ClaimId
    says: str = Field(description="the claim in a line, in our words")
    where: str = Field(description="section and figure of the paper")
    weight: Literal[0, 1, 2, 3] = Field(
        description="3: in the abstract or the conclusion; 2: main finding of a section; 1: detail; 0: description"
    )
    statement: list[Statement] = Field(min_length=1)
    note: str = Field(default="", description="why our numbers differ, as far as is known")


class PaperTables(Table):
    """All keys of a claims file. `papers.Paper` also requires that they are consistent (checks.py)."""

    schema_version: Literal[1]
    name: str = Field(pattern=r"^[A-Z][A-Za-z0-9]*$", description="that of its folder")
    title: str
    is_further: bool = Field(
        default=False, description="it is not one of the five papers that the published score is about"
    )
    reading: str = Field(default="", description="a paragraph on what holds, what does not, and why, without counts")
    profile: dict[str, ProfileRun] = Field(default_factory=dict)
    quote: dict[str, QuotedNumber] = Field(
        default_factory=dict, description="numbers in the texts, filled from records"
    )
    chosen: list[ChosenParameter] = Field(default_factory=list)
    here: dict[str, LiveProfile] = Field(default_factory=dict, description="what `reproduce --live` measures")
    here_not: str = Field(default="", description="why no statement can be measured on the reader's machine")
    claim: list[Claim]
