"""Stores the state of a tune as a list of lines: the request, the environment in which the tune began, every finished
trial, the winner of a play-off, every finished launch of a confirmation, and every verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, TypeAdapter, ValidationError, model_validator

from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.paired import Gain
from nearfield.base.toml import Table
from nearfield.base.topology import CORE_DISTANCES
from nearfield.rules.applicability import machine_differences
from nearfield.rules.criterion import COLLECTIVE_PATTERNS, MESSAGE_PATTERNS
from nearfield.rules.gain_table import Bytes, Ns, Ratio
from nearfield.rules.gains import BenchmarkCase, TimePair
from nearfield.rules.knobs import KnobFile, KnobValue, Settings
from nearfield.rules.schema import MachineTable, MpiTable, RuleTable
from nearfield.tune.confirm import NextTuneStep
from nearfield.tune.request import TuneRequest
from nearfield.tune.search import Trial, TrialSource, TrialState

RESTART_REMEDY = "start again with --overwrite"

CoreDistance = Literal[CORE_DISTANCES]  # type: ignore[valid-type]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
LatencyNs = Annotated[float, Field(ge=0, le=1e12)]
_ALL_PATTERNS = (*MESSAGE_PATTERNS, *COLLECTIVE_PATTERNS)
GainRecord = tuple[Literal[_ALL_PATTERNS], Bytes, Ratio, Ratio, Ratio, int]  # type: ignore[valid-type]


class RequestLine(Table):
    """The first line of the log: the user's options."""

    type: Literal["request"] = "request"
    request: TuneRequest


class BeginLine(Table):
    """The environment in which the tune began. A tune can be resumed only in the same environment, because trials on
    different machines or MPIs are not comparable."""

    type: Literal["begin"] = "begin"
    created: str
    busy_share: float = Field(ge=0, le=1)
    nearfield: str
    knobs: str  # SHA-256 checksum of the MPI's knobs
    launcher: str
    mpi: MpiTable
    machine: MachineTable

    def differences(self, current: BeginLine) -> list[str]:
        """Returns the reasons why trials recorded after this line are not valid in the environment `current`; empty if
        they are valid."""
        pairs = [
            ("nearfield", self.nearfield, current.nearfield),
            ("the MPI", self.launcher, current.launcher),
            (
                "the MPI's version",
                f"{self.mpi.family} {self.mpi.version}",
                f"{current.mpi.family} {current.mpi.version}",
            ),
            ("transport", self.mpi.transport, current.mpi.transport),
        ]
        found = [f"{what} was {then}, and is {here}" for what, then, here in pairs if then != here]
        found += [
            f"the machine is another: {difference}" for difference in machine_differences(current.machine, self.machine)
        ]
        if self.knobs != current.knobs and not found:
            found.append("the parameters that nearfield has for this MPI have changed")
        return found


class TrialLine(Table):
    """A finished trial. The score is not stored, because it can be recomputed from the gains."""

    type: Literal["trial"] = "trial"
    distance: CoreDistance
    spent_s: Seconds  # time spent on this core distance so far, over all sessions
    settings: dict[str, KnobValue]
    origin: TrialSource
    state: TrialState
    gains: list[GainRecord]
    # old files have the key "flag_ns"
    c2c_latency_ns: LatencyNs = Field(validation_alias=AliasChoices("c2c_latency_ns", "flag_ns"))
    reason: str

    @classmethod
    def from_trial(cls, distance: str, spent_s: float, trial: Trial) -> TrialLine:
        """Returns the log line of a trial. The values are validated only when the line is read back. A line that fails
        validation is dropped, and its trial is measured again."""
        gains = [(*case, one.value, one.low, one.high, one.n) for case, one in trial.gains.items()]
        own = {name: getattr(trial, name) for name in ("settings", "origin", "state", "c2c_latency_ns", "reason")}
        return cls.model_construct(distance=distance, spent_s=spent_s, gains=gains, **own)

    def to_trial(self) -> Trial:
        gains = {(pattern, size): Gain(value, low, high, n) for pattern, size, value, low, high, n in self.gains}
        own = {name: getattr(self, name) for name in ("settings", "origin", "state", "c2c_latency_ns", "reason")}
        return Trial(gains=gains, **own)

    def is_inconsistent(self, knobs: KnobFile, cases: Sequence[BenchmarkCase]) -> bool:
        """Returns whether the trial has a setting or a case that the current search does not have."""
        return bool(knobs.find_problems(self.settings) if self.gains else ()) or not set(self.to_trial().gains) <= set(
            cases
        )

    @model_validator(mode="after")
    def _has_gains_if_measured(self) -> TrialLine:
        if self.state in ("measured", "left") and not self.gains:
            raise ValueError(f"{self.state}, without gains")
        return self


class WinnerLine(Table):
    """The settings that won the play-off at a core distance, and the number of candidates not tried for lack of
    time."""

    type: Literal["winner"] = "winner"
    distance: CoreDistance
    spent_s: Seconds
    settings: dict[str, KnobValue]
    untried: int = Field(ge=0)


class LaunchLine(Table):
    """A finished launch of a confirmation. Each pair holds a pattern, a message size, and in ns: the baseline's time,
    the settings' time and the core-to-core latency."""

    type: Literal["launch"] = "launch"
    distance: CoreDistance
    spent_s: Seconds
    settings: dict[str, KnobValue]
    pairs: list[tuple[Literal[_ALL_PATTERNS], Bytes, Ns, Ns, LatencyNs]]  # type: ignore[valid-type]

    @classmethod
    def from_launch(
        cls,
        distance: str,
        spent_s: float,
        settings: Settings,
        pairs_by_case: Mapping[BenchmarkCase, Sequence[TimePair]],
    ) -> LaunchLine:
        """Returns the log line of a confirmation's launch."""
        pairs = [(*case, *pair[:3]) for case, taken in pairs_by_case.items() for pair in taken]
        return cls.model_construct(distance=distance, spent_s=spent_s, settings=settings, pairs=pairs)

    def to_pairs_by_case(self) -> dict[BenchmarkCase, list[TimePair]]:
        """Returns the pairs of times of each case."""
        found: dict[BenchmarkCase, list[TimePair]] = {}
        for pattern, size, baseline_ns, other_ns, latency_ns in self.pairs:
            found.setdefault((pattern, size), []).append(TimePair(baseline_ns, other_ns, latency_ns))
        return found


class UndecidedLine(Table):
    """The end of a session without a verdict on a core distance. A resumed tune gets the whole time budget again, and
    begins with the step `goes_on` (`confirm.NextTuneStep`)."""

    type: Literal["undecided"] = "undecided"
    distance: CoreDistance
    spent_s: Seconds
    reason: str
    goes_on: NextTuneStep


class RuleLine(Table):
    """The verdict on a core distance: a rule, or "the MPI's defaults are best"."""

    type: Literal["rule"] = "rule"
    distance: CoreDistance
    spent_s: Seconds
    rule: RuleTable


DistanceLine = TrialLine | WinnerLine | LaunchLine | UndecidedLine | RuleLine
LogLine = RequestLine | BeginLine | DistanceLine
_LINE_ADAPTER: TypeAdapter[LogLine] = TypeAdapter(Annotated[LogLine, Field(discriminator="type")])


def parse_log_line(text: bytes) -> LogLine | None:
    """Parses a line of the log from JSON. Returns None if the line is damaged."""
    try:
        return _LINE_ADAPTER.validate_json(text, strict=True)
    except ValidationError:
        return None


class TrialLog:
    """The log lines of one tune, in memory. The subclass `TrialLogFile` also writes them to a file."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self.num_damaged_lines = 0  # number of lines that could not be parsed, or that are inconsistent with the search

    def add(self, line: LogLine) -> None:
        self.lines.append(line)

    @property
    def begin_line(self) -> BeginLine | None:
        """Returns the line that records the beginning of the tune; None if the tune has not begun."""
        return next((line for line in self.lines if isinstance(line, BeginLine)), None)

    def find_or_add_begin_line(self, current: BeginLine) -> BeginLine:
        """Returns the line that records the beginning of the tune; for a new tune, adds `current` as this line. Raises
        UsageError if the trials of an earlier session are not valid in the environment `current`, and ProfileError if
        the begin line is damaged."""
        if self.begin_line is None and self.count_trials():
            raise ProfileError("cannot resume: the line with the start of the tune is damaged", RESTART_REMEDY)
        if self.begin_line is None:
            self.add(current)
            return current
        if reasons := self.begin_line.differences(current):
            raise UsageError(f"cannot resume: {'; '.join(reasons)}", f"go on where it began, or {RESTART_REMEDY}")
        return self.begin_line

    def count_trials(self) -> int:
        """Returns the number of finished trials."""
        return sum(isinstance(line, TrialLine) for line in self.lines)

    def drop_inconsistent_lines(self, knobs: KnobFile, cases: Sequence[BenchmarkCase]) -> None:
        """Removes trials, winners and launches with parameters that the current search does not have, and trials with
        other cases. Counts them as damaged."""
        consistent = [line for line in self.lines if not _is_inconsistent(line, knobs, cases)]
        self.num_damaged_lines += len(self.lines) - len(consistent)
        self.lines = consistent

    def trials(self, distance: str) -> list[Trial]:
        """Returns the trials at a core distance. If the same settings were tried twice, the later trial counts, because
        settings may fail after an earlier success."""
        lines = [line for line in self._lines_of_distance(distance) if isinstance(line, TrialLine)]
        return list({str(sorted(line.settings.items())): line.to_trial() for line in lines}.values())

    def winner_line(self, distance: str) -> WinnerLine | None:
        """Returns the winner of the play-off at a core distance; None if there was no play-off since a session last
        ended in a state that requires more searching."""
        found: WinnerLine | None = None
        for line in self._lines_of_distance(distance):
            if isinstance(line, WinnerLine):
                found = line
            elif isinstance(line, UndecidedLine) and line.goes_on != "confirming":
                found = None
        return found

    def launches(self, distance: str) -> list[tuple[Settings, dict[BenchmarkCase, list[TimePair]]]]:
        """Returns the finished launches of the confirmation at a core distance, in order, with their settings."""
        return [
            (line.settings, line.to_pairs_by_case())
            for line in self._lines_of_distance(distance)
            if isinstance(line, LaunchLine)
        ]

    def _lines_of_distance(self, distance: str) -> list[DistanceLine]:
        """Returns the lines of a core distance that are still valid: those since it was last started from scratch."""
        lines = [one for one in self.lines if isinstance(one, DistanceLine) and one.distance == distance]
        restarts = [at for at, line in enumerate(lines) if isinstance(line, UndecidedLine) and line.goes_on == "anew"]
        return lines[restarts[-1] + 1 :] if restarts else lines

    def rule(self, distance: str) -> RuleTable | None:
        """Returns the confirmed rule of a core distance; None if there is none yet."""
        return next((one.rule for one in self.lines if isinstance(one, RuleLine) and one.distance == distance), None)

    def tried_distances(self) -> list[str]:
        """Returns the core distances with at least one trial."""
        return list(dict.fromkeys(line.distance for line in self.lines if isinstance(line, TrialLine)))

    def spent_s(self, distance: str) -> float:
        """Returns the time in seconds from the start of a core distance to its last line, over all sessions."""
        of_distance = [one for one in self.lines if isinstance(one, DistanceLine) and one.distance == distance]
        return max((one.spent_s for one in of_distance), default=0.0)

    def used_budget_s(self, distance: str) -> float:
        """Returns how much of a core distance's time budget is used up, in seconds: the time spent since a session last
        ended without a verdict."""
        ended = [one for one in self.lines if isinstance(one, UndecidedLine) and one.distance == distance]
        return self.spent_s(distance) - max((one.spent_s for one in ended), default=0.0)


def _is_inconsistent(line: LogLine, knobs: KnobFile, cases: Sequence[BenchmarkCase]) -> bool:
    if isinstance(line, TrialLine):
        return line.is_inconsistent(knobs, cases)
    return isinstance(line, WinnerLine | LaunchLine) and bool(knobs.find_problems(line.settings))
