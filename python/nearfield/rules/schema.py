"""`rules.toml`: what `tune` found for one MPI on one kind of machine, typed and checked; people may edit it.

Files of version 1 are read, too: keys that have another name since have the old one as an alias."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, AliasChoices, Field, field_validator, model_validator

from nearfield.base import own_command
from nearfield.base.cpu_load import BUSY_SHARE
from nearfield.base.errors import NearfieldError, ProfileError, UsageError
from nearfield.base.files import atomic_write, os_errors_as_profile_errors, read_file
from nearfield.base.toml import Table, dump_toml, parse_toml
from nearfield.base.topology import DISTANCES, Topology
from nearfield.base.units import counted, format_bytes
from nearfield.rules.collective_tables import CollectiveTable, NativeCollectiveTable
from nearfield.rules.criterion import COLLECTIVES, MIN_GAIN, MIN_REPORTED_GAIN
from nearfield.rules.gain_table import Bytes, GainTable, Ns, Ratio
from nearfield.rules.gains import MIN_CONFIRMING_LAUNCHES, MIN_LAUNCHES, Range, geometric_mean, select_gaining_range
from nearfield.rules.knobs import KnobFile, Value, find_knobs, numbers
from nearfield.rules.paths import default_rules, rules_files

VERSION = 2  # of the format that is written
UNTUNED = "settings for messages were not looked for"  # the reason of a rule that only has collectives
# Parameters of the shared heap by their names in version 1.
RENAMED_PARAMETERS = {"far_stream": "stream_when_far", "help": "cooperative_copy"}


class RangeTable(Table):
    """Sizes with one gain: the geometric mean over them and over ping-pong, stream and exchange."""

    from_bytes: Bytes
    to_bytes: Bytes
    gain: GainTable


class PointTable(Table):
    """One size and pattern as it was measured."""

    pattern: str
    size_bytes: Bytes
    baseline_ns: Ns = Field(validation_alias=AliasChoices("baseline_ns", "stock_ns"))  # per message, median
    tuned_ns: Ns
    gain: GainTable


class LatencyTable(Table):
    """The core-to-core latency during a share of the pairs: it changes where a virtual machine's cores move."""

    c2c_latency_ns: Ns = Field(validation_alias=AliasChoices("c2c_latency_ns", "flag_ns"))
    share: float = Field(gt=0, le=1)


class RuleTable(Table):
    """The rule for pairs of one distance: parameters, and their gain."""

    distance: Literal[DISTANCES]  # type: ignore[valid-type]
    pair: str = Field(pattern=r"^[0-9]{1,9}-[0-9]{1,9}$")  # the cores that it was measured on
    c2c_latency_ns: float = Field(  # core-to-core latency between them during the measurement; 0: not known
        default=0, ge=0, le=1e12, validation_alias=AliasChoices("c2c_latency_ns", "flag_ns")
    )
    parameters: dict[str, Value] = Field(default_factory=dict)  # none: the MPI's defaults are best
    reason: str = ""  # why there are none
    beyond: str = ""  # settings that would gain more if more loss were allowed
    memory_per_rank_bytes: int | None = Field(default=None, ge=0, le=1 << 50)  # none without parameters
    at_ranks_per_node: int = Field(ge=1, le=1 << 20)
    never_below: float = Field(default=MIN_GAIN, gt=0, le=1)  # of the baseline's speed: the promise for every size
    gain: GainTable | None = None
    baseline: dict[str, str] = Field(default_factory=dict)  # variables without which the MPI's defaults fail there
    launches: int = Field(default=0, ge=0, le=1 << 20)  # in which each size was confirmed; 0: not known
    latency: list[LatencyTable] = Field(  # none: the latency did not change
        default_factory=list, validation_alias=AliasChoices("latency", "apart")
    )
    other_distances: dict[str, Ratio] = Field(  # distance -> gain of these parameters there
        default_factory=dict, validation_alias=AliasChoices("other_distances", "elsewhere")
    )
    range: list[RangeTable] = Field(default_factory=list)
    point: list[PointTable] = Field(default_factory=list)
    collective: list[CollectiveTable] = Field(default_factory=list)  # of `tune --collectives`
    native_collective: list[NativeCollectiveTable] = Field(default_factory=list)  # of `tune --collectives --native`

    @property
    def is_tuned(self) -> bool:
        """Returns whether settings for messages were looked for; if not, the rule only has collectives."""
        return self.reason != UNTUNED

    def gain_at(self, distance: str) -> float | None:
        """Returns the gain of these parameters for pairs of that distance; None if it was not measured."""
        if not self.parameters:
            return 1.0
        if distance == self.distance:
            return self.gain.value if self.gain else None
        return self.other_distances.get(distance)

    def changed_latency(self) -> str:
        """Returns in words that the core-to-core latency changed during the tune; empty if it did not."""
        if not self.latency:
            return ""
        parts = ", ".join(f"{one.c2c_latency_ns:.0f} ns in {one.share:.0%} of the time" for one in self.latency)
        changed = f"the cores moved (a virtual machine?): the core-to-core latency was {parts}"
        return f"{changed}; the rule is for {self.c2c_latency_ns:.0f} ns" if self.c2c_latency_ns else changed

    def few_launches_note(self) -> str:
        """Returns in words that the intervals of the gains come from too few launches; empty if they do not."""
        if not 0 < self.launches < MIN_LAUNCHES:
            return ""
        return (
            f"confirmed in {counted(self.launches, 'launch')} instead of {MIN_CONFIRMING_LAUNCHES}: other launches may "
            "differ by a tenth, which the intervals do not contain"
        )

    def gaining(self) -> Range | None:
        """Returns the range of sizes in which all message patterns together gain; None if there is none."""
        points = [one for one in self.point if one.pattern not in COLLECTIVES]
        return select_gaining_range(
            {(one.pattern, one.size_bytes): one.gain.as_gain() for one in points}, MIN_REPORTED_GAIN
        )

    def promise(self) -> str:
        """Returns in words the promise about all sizes, and the patterns that are slower all the same."""
        below = "slower" if self.never_below >= MIN_GAIN else f"below {self.never_below:.2f} of the baseline's speed"
        promise = f"no size was found {below}"
        points = (f"{p.pattern} of {format_bytes(p.size_bytes)} ran at {p.gain.value:.2f}" for p in self.slower())
        slower = " and ".join(points)
        return f"{promise} over all patterns together, but {slower} of the baseline's speed" if slower else promise

    def slower(self) -> list[PointTable]:
        """Returns the points that are slower: a pattern at a size where other patterns gain, or what was allowed."""
        return [one for one in self.point if one.gain.as_gain().is_below(MIN_GAIN)]

    def patterns(self) -> list[str]:
        """Returns the message patterns that were measured, without collectives."""
        return list(dict.fromkeys(point.pattern for point in self.point if point.pattern not in COLLECTIVES))

    def gain_text(self, pattern: str, one: RangeTable) -> str:
        """Returns the gain of one pattern over the sizes of a range; "-" if a user has removed its points."""
        inside = [p for p in self.point if p.pattern == pattern and one.from_bytes <= p.size_bytes <= one.to_bytes]
        return f"{geometric_mean(point.gain.as_gain() for point in inside).value:.2f}x" if inside else "-"

    @field_validator("parameters", mode="before")
    @classmethod
    def _rename_parameters(cls, values: Any) -> Any:
        """Returns the parameters by their names of today. An old name beside its new one stays, and is refused."""
        if not isinstance(values, dict):
            return values
        names = {old: new for old, new in RENAMED_PARAMETERS.items() if new not in values}
        return {names.get(name, name): value for name, value in values.items()}

    @model_validator(mode="after")
    def _ordered(self) -> RuleTable:
        for one in self.range:
            if one.from_bytes > one.to_bytes:
                raise ValueError(f"range from {one.from_bytes} to {one.to_bytes}: ends before it begins")
        return self


class UndecidedTable(Table):
    """A distance without a verdict: `reason` says why, and `seen` what was found so far."""

    distance: Literal[DISTANCES]  # type: ignore[valid-type]
    reason: str
    seen: str = ""

    @property
    def explanation(self) -> str:
        """Returns in words why nothing is decided, and what was seen."""
        return "; ".join(filter(None, [self.reason, self.seen]))

    def __str__(self) -> str:
        return f"{self.distance}: not decided: {self.explanation}"


class MpiTable(Table):
    """The MPI that the rules are for."""

    family: str
    version: str = Field(max_length=64)
    transport: str


class MachineTable(Table):
    """Facts that must be the same where the rules are applied, as on nodes of one kind."""

    cpu_model: str
    cores: int = Field(ge=1, le=1 << 20)
    cache_bytes: list[Bytes]  # of a core, nearest first
    distances: list[str]


class TriedTable(Table):
    """The number of settings that were tried, by their outcome."""

    measured: int = Field(ge=0)
    left: int = Field(ge=0)  # left half-way, since they were worse than half of those before
    refused: int = Field(default=0, ge=0)  # never started: beyond the memory limit, or contradictory
    unfit: list[str] = Field(default_factory=list)  # settings with which this MPI does not start, hangs or fails


class Rules(Table):
    """The content of a `rules.toml`."""

    newest_version: ClassVar[int] = VERSION

    schema_version: Annotated[int, AfterValidator(lambda _: VERSION)]  # a file of an older version is read as this one
    nearfield: str
    created: str
    command: str
    seconds: float = Field(ge=0, le=1e9)
    host: str
    busy_share: float = Field(default=0, ge=0, le=1)  # the share of the cores' time that others took during it
    mpi: MpiTable
    machine: MachineTable
    tried: TriedTable
    rule: list[RuleTable]
    undecided: list[UndecidedTable] = Field(default_factory=list)

    @property
    def sets_something(self) -> bool:
        """Returns whether any rule has parameters; otherwise the MPI's defaults are best, or nothing is decided."""
        return any(rule.parameters for rule in self.rule) or self.loads_collectives or self.selects_native

    def collectives(self) -> list[CollectiveTable]:
        """Returns what is selected for collectives: of several distances, the farthest, where most is to lose."""
        return next((rule.collective for rule in reversed(self.rule) if rule.collective), [])

    @property
    def loads_collectives(self) -> bool:
        """Returns whether any collective is done inside the node by nearfield's own algorithms."""
        return not all(one.is_left_to_mpi for one in self.collectives())

    def native_collectives(self) -> list[NativeCollectiveTable]:
        """Returns what is selected of the MPI's own algorithms: of several distances, the farthest."""
        return next((rule.native_collective for rule in reversed(self.rule) if rule.native_collective), [])

    @property
    def selects_native(self) -> bool:
        """Returns whether any of the MPI's own algorithms is selected that the MPI would not select by itself."""
        return not all(one.is_left_to_mpi for one in self.native_collectives())

    def as_json(self) -> dict[str, Any]:
        """Returns the rules with the verdict on each distance: "rule", "defaults are best" or "not decided"."""
        verdicts = {rule.distance: "rule" if rule.parameters else "defaults are best" for rule in self.rule}
        verdicts |= {rule.distance: "not tuned" for rule in self.rule if not rule.is_tuned}
        verdicts |= {one.distance: "not decided" for one in self.undecided}
        return {"verdicts": verdicts, **self.model_dump(exclude_none=True)}

    def knobs(self) -> KnobFile:
        return find_knobs(self.mpi.family, self.mpi.version, self.mpi.transport)

    def busy(self) -> str:
        """Returns in words that other programs used the machine; empty if they did not."""
        if self.busy_share <= BUSY_SHARE:
            return ""
        return f"other programs took {self.busy_share:.0%} of the cores' time while this was measured"

    def best_for_all(self) -> RuleTable:
        """Returns the rule to use if all pairs must have the same. That is the rule with the largest product of gains
        over all distances among those that slow no distance; one without parameters if each slows one; and the rule of
        the farthest distance, where messages cost most, if gains at other distances are not known."""
        distances = [rule.distance for rule in self.rule]
        known = [rule for rule in self.rule if all(rule.gain_at(d) is not None for d in distances)]
        if len(known) < len(self.rule):
            return self.rule[-1]
        everywhere = [*distances, *(one.distance for one in self.undecided)]
        harmless = [rule for rule in known if min(rule.gain_at(d) or 1.0 for d in everywhere) >= MIN_GAIN]
        if not harmless:
            update = {"parameters": {}, "reason": "each distance's rule makes another slower"}
            return self.rule[-1].model_copy(update=update)
        return max(harmless, key=lambda rule: prod(rule.gain_at(d) or 1.0 for d in distances))


def machine_table(topology: Topology, cache_bytes: list[int]) -> MachineTable:
    """Returns the facts by which the rules file recognises this machine."""
    return MachineTable(
        cpu_model=topology.cpu_model,
        cores=len(topology.cores),
        cache_bytes=cache_bytes,
        distances=topology.distances(),
    )


def run_command_line(path: Path, anywhere: bool = False) -> str:
    """Returns the command that runs programs under the rules in that file or folder, from this folder or from any."""
    if anywhere:
        path = path.absolute()
    found_anyway = not anywhere and path.absolute() == default_rules().absolute()
    named = [] if found_anyway else ["--rules", path]
    return f"{own_command.line('run', *named, anywhere=anywhere)} -- mpirun ..."


MAKE_THEM = "make them with: "


def _command_to_make(path: Path) -> str:
    """Returns how to get rules to this place."""
    trials = path.with_name(f"{path.name}.trials")  # of trial_log_file.py, which imports this module
    if trials.is_file():
        return f"complete the interrupted tune: {own_command.line('tune', '--resume', '-o', path)}"
    return f"{MAKE_THEM}{own_command.line('tune')}"


def find_rules(given: Path | None) -> Path:
    """Returns the given file or folder, else the default one. Raises UsageError if it has no rules."""
    path = given or default_rules()
    if not any(file.is_file() for file in rules_files(path)):
        raise UsageError(f"there are no rules at {path}", _command_to_make(path))
    return path


def rules_of_mpi(path: Path, family: str, version: str) -> tuple[Path, Rules]:
    """Returns the file of a folder whose rules are for this MPI, and these rules. If `path` is a file, its rules are
    returned whatever their MPI is."""
    if not path.is_dir():
        return path, load_rules(path)
    series = family, numbers(version)[:2]
    if found := _matching_rules(path, lambda rules: (rules.mpi.family, numbers(rules.mpi.version)[:2]) == series):
        return next((one for one in found if one[1].mpi.version == version), found[0])
    name = f"{family}-{version}"
    raise UsageError(
        f"no rules in {path} are for {family} {version}; there are {_list_mpis(path)}",
        f"make them with: {own_command.line('tune', '--mpi', name, '-o', path / f'{name}.toml')}",
    )


def only_rules(path: Path, family: str = "") -> tuple[Path, Rules]:
    """Returns the file, or the only file of a folder for this family, and its rules. Raises UsageError if there is not
    exactly one."""
    if not path.is_dir():
        return path, load_rules(path)
    found = _matching_rules(path, lambda rules: family in ("", rules.mpi.family, rules.knobs().family))
    if len(found) == 1:
        return found[0]
    raise UsageError(
        f"{path} has rules for {_list_mpis(path)}", f"name one of them, such as --rules {rules_files(path)[0]}"
    )


def _matching_rules(folder: Path, wanted: Callable[[Rules], bool]) -> list[tuple[Path, Rules]]:
    """Returns the wanted files with their rules. If there is none, raises the error of the first unreadable file."""
    found: list[tuple[Path, Rules]] = []
    bad: list[NearfieldError] = []
    for file in rules_files(folder):
        try:
            rules = load_rules(file)
            found += [(file, rules)] if wanted(rules) else []
        except NearfieldError as error:
            bad.append(error)
    if bad and not found:
        raise bad[0]
    return found


def _list_mpis(folder: Path) -> str:
    found = [f"{rules.mpi.family} {rules.mpi.version} ({file.name})" for file, rules in _matching_rules(folder, bool)]
    return ", ".join(found) or "none"


def load_rules(path: Path) -> Rules:
    """Reads and checks rules. Errors name the file, the key and its valid values."""
    try:
        content = read_file(path)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", f"make one with: {own_command.line('tune')}"
        ) from error
    rules = parse_toml(Rules, content, path, _REMEDY)
    if not rules.rule:
        raise ProfileError(f"{path} has no rule", _REMEDY)
    knobs = rules.knobs()
    for rule in rules.rule:
        if problems := knobs.problems(rule.parameters):
            raise ProfileError(f"{path}: rule for {rule.distance}: {problems[0]}", _REMEDY)
    return rules


_REMEDY = f"Mend that line if the file was edited by hand; otherwise make it anew with: {own_command.line('tune')}"


def require_writable(path: Path) -> None:
    """Raises an error if `save_rules` could not write there; call it before minutes of measuring."""
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder", f"name a file: -o {path / 'rules.toml'}")
    _write(path, b"", keep=False)


def save_rules(rules: Rules, path: Path) -> None:
    """Writes the rules, whole or not at all."""
    _write(path, dump_toml(rules, "What nearfield tune found.", "docs/reference/rules.md"), keep=True)


def _write(path: Path, text: bytes, *, keep: bool) -> None:
    with os_errors_as_profile_errors(path, "choose another file with --out"):
        path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, text, "choose another file with --out", keep=keep)


def mismatches(rules: Rules, family: str, version: str, machine: MachineTable) -> list[str]:
    """Returns the reasons why the rules are not for this MPI or this machine; empty if they are."""
    found = []
    if family != rules.mpi.family:
        found.append(f"they are for {rules.mpi.family}, the program runs under {family}")
    elif numbers(version)[:2] != numbers(rules.mpi.version)[:2]:
        found.append(f"they are for {family} {rules.mpi.version}, the program runs under {version}")
    return found + [f"they were measured on another machine: {one}" for one in differences(machine, rules.machine)]


def differences(new: MachineTable, old: MachineTable) -> list[str]:
    """Returns in words the differences between two machines on which rules depend; empty if there are none."""
    pairs = (
        ("processor", new.cpu_model, old.cpu_model),
        ("caches (bytes)", new.cache_bytes, old.cache_bytes),
        ("core distances", new.distances, old.distances),
    )
    return [f"{what} {_text(then)}, here {_text(now)}" for what, now, then in pairs if now != then]


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
