"""Stores the results of a tune so far as a list of lines: the request, the circumstances in which the tune began, every
finished trial, the winner of a play-off, every finished launch of a confirmation, and every verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, TypeAdapter, ValidationError, model_validator

from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.paired import Gain
from nearfield.base.toml import Table
from nearfield.base.topology import DISTANCES
from nearfield.rules.criterion import COLLECTIVES, MESSAGES
from nearfield.rules.gain_table import Bytes, Ns, Ratio
from nearfield.rules.gains import Case, Pair
from nearfield.rules.knobs import KnobFile, Settings, Value
from nearfield.rules.schema import MachineTable, MpiTable, RuleTable, differences
from nearfield.tune.confirm import GoesOn
from nearfield.tune.request import Request
from nearfield.tune.search import Origin, State, Trial

ANEW = "start anew with --overwrite"

Distance = Literal[DISTANCES]  # type: ignore[valid-type]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
LatencyNs = Annotated[float, Field(ge=0, le=1e12)]
_PATTERNS = (*MESSAGES, *COLLECTIVES)
Measured = tuple[Literal[_PATTERNS], Bytes, Ratio, Ratio, Ratio, int]  # type: ignore[valid-type]


class RequestLine(Table):
    """The first line: the user's options."""

    type: Literal["request"] = "request"
    request: Request


class BeginLine(Table):
    """The circumstances in which the tune began. It can only be resumed in the same ones, since trials from different
    machines or MPIs cannot be compared."""

    type: Literal["begin"] = "begin"
    created: str
    busy_share: float = Field(ge=0, le=1)
    nearfield: str
    knobs: str  # a checksum of the parameters that could be set
    launcher: str
    mpi: MpiTable
    machine: MachineTable

    def differences(self, now: BeginLine) -> list[str]:
        """Returns the reasons why trials of this line do not count for `now`; empty if they count."""
        pairs = [
            ("nearfield", self.nearfield, now.nearfield),
            ("the MPI", self.launcher, now.launcher),
            ("the MPI's version", f"{self.mpi.family} {self.mpi.version}", f"{now.mpi.family} {now.mpi.version}"),
            ("what carries messages", self.mpi.transport, now.mpi.transport),
        ]
        found = [f"{what} was {then}, and is {here}" for what, then, here in pairs if then != here]
        found += [f"the machine is another: {difference}" for difference in differences(now.machine, self.machine)]
        if self.knobs != now.knobs and not found:
            found.append("the parameters that nearfield knows of this MPI are others now")
        return found


class TrialLine(Table):
    """A finished trial. Its score is not stored because it follows from the gains."""

    type: Literal["trial"] = "trial"
    distance: Distance
    spent_s: Seconds  # spent on this distance so far, in all sittings
    settings: dict[str, Value]
    origin: Origin
    state: State
    gains: list[Measured]
    c2c_latency_ns: LatencyNs = Field(validation_alias=AliasChoices("c2c_latency_ns", "flag_ns"))  # of old files
    reason: str

    @classmethod
    def of(cls, distance: str, spent_s: float, trial: Trial) -> TrialLine:
        """Returns the line of a trial. Its values are checked only when the line is read again; a line that fails is
        left out then, and its trial is measured again."""
        gains = [(*case, one.value, one.low, one.high, one.n) for case, one in trial.gains.items()]
        own = {name: getattr(trial, name) for name in ("settings", "origin", "state", "c2c_latency_ns", "reason")}
        return cls.model_construct(distance=distance, spent_s=spent_s, gains=gains, **own)

    def trial(self) -> Trial:
        gains = {(pattern, size): Gain(value, low, high, n) for pattern, size, value, low, high, n in self.gains}
        own = {name: getattr(self, name) for name in ("settings", "origin", "state", "c2c_latency_ns", "reason")}
        return Trial(gains=gains, **own)

    def is_inconsistent(self, knobs: KnobFile, cases: Sequence[Case]) -> bool:
        """Returns whether the trial has a setting or a case that the present search does not have."""
        return bool(knobs.problems(self.settings) if self.gains else ()) or not set(self.trial().gains) <= set(cases)

    @model_validator(mode="after")
    def _has_gains_if_measured(self) -> TrialLine:
        if self.state in ("measured", "left") and not self.gains:
            raise ValueError(f"{self.state}, without gains")
        return self


class WinnerLine(Table):
    """The settings that won the play-off of a distance, and how many there was no time to try."""

    type: Literal["winner"] = "winner"
    distance: Distance
    spent_s: Seconds
    settings: dict[str, Value]
    untried: int = Field(ge=0)


class LaunchLine(Table):
    """A finished launch in which settings were confirmed. A pair is a pattern, a size, and in ns the baseline's time,
    the settings' time and the core-to-core latency."""

    type: Literal["launch"] = "launch"
    distance: Distance
    spent_s: Seconds
    settings: dict[str, Value]
    pairs: list[tuple[Literal[_PATTERNS], Bytes, Ns, Ns, LatencyNs]]  # type: ignore[valid-type]

    @classmethod
    def of(cls, distance: str, spent_s: float, settings: Settings, launch: Mapping[Case, Sequence[Pair]]) -> LaunchLine:
        """Returns the line of a launch."""
        pairs = [(*case, *pair[:3]) for case, taken in launch.items() for pair in taken]
        return cls.model_construct(distance=distance, spent_s=spent_s, settings=settings, pairs=pairs)

    def launch(self) -> dict[Case, list[Pair]]:
        """Returns the pairs of each case."""
        found: dict[Case, list[Pair]] = {}
        for pattern, size, baseline_ns, other_ns, latency_ns in self.pairs:
            found.setdefault((pattern, size), []).append(Pair(baseline_ns, other_ns, latency_ns))
        return found


class UndecidedLine(Table):
    """The end of a tune without a verdict on a distance. The resumed tune gets the whole budget again, and begins with
    the step `goes_on` (`confirm.GoesOn`)."""

    type: Literal["undecided"] = "undecided"
    distance: Distance
    spent_s: Seconds
    reason: str
    goes_on: GoesOn


class RuleLine(Table):
    """The verdict on a distance: a rule, or that the MPI's defaults are best there."""

    type: Literal["rule"] = "rule"
    distance: Distance
    spent_s: Seconds
    rule: RuleTable


OfDistance = TrialLine | WinnerLine | LaunchLine | UndecidedLine | RuleLine
Line = RequestLine | BeginLine | OfDistance
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])


def read_line(text: bytes) -> Line | None:
    """Returns the line that the text holds; None if it is damaged."""
    try:
        return _LINE.validate_json(text, strict=True)
    except ValidationError:
        return None


class TrialLog:
    """The lines of one tune, in memory. `TrialLogFile` also writes them to a file."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.damaged = 0  # lines that could not be read, or that do not fit the others

    def add(self, line: Line) -> None:
        self.lines.append(line)

    @property
    def begin(self) -> BeginLine | None:
        """Returns the line of the tune's beginning; None before it began."""
        return next((line for line in self.lines if isinstance(line, BeginLine)), None)

    def resume(self, now: BeginLine) -> BeginLine:
        """Returns the line of the tune's beginning, which is `now` for a new tune. Raises UsageError if the trials of
        an earlier sitting do not count here, and ProfileError if that line is damaged."""
        if self.begin is None and self.count_trials():
            raise ProfileError("cannot resume: the line that tells where the tune began is damaged", ANEW)
        if self.begin is None:
            self.add(now)
            return now
        if reasons := self.begin.differences(now):
            raise UsageError(f"cannot resume: {'; '.join(reasons)}", f"go on where it began, or {ANEW}")
        return self.begin

    def count_trials(self) -> int:
        """Returns how many trials have ended."""
        return sum(isinstance(line, TrialLine) for line in self.lines)

    def drop_inconsistent(self, knobs: KnobFile, cases: Sequence[Case]) -> None:
        """Removes trials, winners and launches that have other parameters than today's search, and trials with other
        cases, and counts them as damaged."""
        consistent = [line for line in self.lines if not _is_inconsistent(line, knobs, cases)]
        self.damaged += len(self.lines) - len(consistent)
        self.lines = consistent

    def trials(self, distance: str) -> list[Trial]:
        """Returns the trials of a distance. If the same settings were tried twice, the later trial counts, because
        settings may fail after they were measured."""
        lines = [line for line in self._of(distance) if isinstance(line, TrialLine)]
        return list({str(sorted(line.settings.items())): line.trial() for line in lines}.values())

    def winner(self, distance: str) -> WinnerLine | None:
        """Returns the winner of a distance's play-off; None if there was none since the search last had to go on."""
        found: WinnerLine | None = None
        for line in self._of(distance):
            if isinstance(line, WinnerLine):
                found = line
            elif isinstance(line, UndecidedLine) and line.goes_on != "confirming":
                found = None
        return found

    def launches(self, distance: str) -> list[tuple[Settings, dict[Case, list[Pair]]]]:
        """Returns the finished launches of a distance's confirmation, in order, with their settings."""
        return [(line.settings, line.launch()) for line in self._of(distance) if isinstance(line, LaunchLine)]

    def _of(self, distance: str) -> list[OfDistance]:
        """Returns the lines of a distance that count: those since it was last begun anew."""
        lines = [one for one in self.lines if isinstance(one, OfDistance) and one.distance == distance]
        restarts = [at for at, line in enumerate(lines) if isinstance(line, UndecidedLine) and line.goes_on == "anew"]
        return lines[restarts[-1] + 1 :] if restarts else lines

    def rule(self, distance: str) -> RuleTable | None:
        """Returns the confirmed rule of a distance; None if there is none yet."""
        return next((one.rule for one in self.lines if isinstance(one, RuleLine) and one.distance == distance), None)

    def distances(self) -> list[str]:
        """Returns the distances that have a trial."""
        return list(dict.fromkeys(line.distance for line in self.lines if isinstance(line, TrialLine)))

    def spent_s(self, distance: str) -> float:
        """Returns how long a distance took until its last line, in all sittings."""
        of_distance = [one for one in self.lines if isinstance(one, OfDistance) and one.distance == distance]
        return max((one.spent_s for one in of_distance), default=0.0)

    def used_s(self, distance: str) -> float:
        """Returns how much of the budget of a distance is used up: the time since a sitting last ended without a
        verdict."""
        ended = [one for one in self.lines if isinstance(one, UndecidedLine) and one.distance == distance]
        return self.spent_s(distance) - max((one.spent_s for one in ended), default=0.0)


def _is_inconsistent(line: Line, knobs: KnobFile, cases: Sequence[Case]) -> bool:
    if isinstance(line, TrialLine):
        return line.is_inconsistent(knobs, cases)
    return isinstance(line, WinnerLine | LaunchLine) and bool(knobs.problems(line.settings))
