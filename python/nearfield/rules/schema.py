"""The schema of `rules.toml`, the file with the rules that `tune` found for one MPI on one kind of machine. Users may
edit the file.

Files of format version 1 are accepted, too: each renamed key has its old name as an alias."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, AliasChoices, Field, field_validator, model_validator

from nearfield.base import own_command
from nearfield.base.cpu_load import BUSY_SHARE
from nearfield.base.errors import NearfieldError, ProfileError, UsageError
from nearfield.base.files import atomic_write, os_errors_as_profile_errors, read_user_file
from nearfield.base.toml import Table, dump_toml, parse_toml
from nearfield.base.topology import CORE_DISTANCES
from nearfield.base.units import counted, format_bytes
from nearfield.rules.collective_tables import CollectiveTable, NativeCollectiveTable
from nearfield.rules.criterion import COLLECTIVE_PATTERNS, MIN_GAIN, MIN_REPORTED_GAIN
from nearfield.rules.gain_table import Bytes, Ns, Ratio, StoredGain
from nearfield.rules.gains import MIN_CONFIRMING_LAUNCHES, MIN_LAUNCHES, SizeRange, geometric_mean, select_gaining_range
from nearfield.rules.knobs import KnobFile, KnobValue, find_knobs, version_numbers
from nearfield.rules.paths import default_rules_path, list_rules_files

FORMAT_VERSION = 2  # version of the file format that is written
UNTUNED_REASON = (
    "settings for messages were not looked for"  # `reason` of a rule that only selects algorithms of collectives
)
# Old name (format version 1) -> new name of parameters of the shared heap.
RENAMED_PARAMETERS = {"far_stream": "stream_when_far", "help": "cooperative_copy"}


class RangeTable(Table):
    """A range of message sizes with its gain: the geometric mean over the sizes and the message patterns."""

    from_bytes: Bytes
    to_bytes: Bytes
    gain: StoredGain


class PointTable(Table):
    """The measured times and gain of one message size and pattern."""

    pattern: str
    size_bytes: Bytes
    baseline_ns: Ns = Field(validation_alias=AliasChoices("baseline_ns", "stock_ns"))  # median time per message
    tuned_ns: Ns
    gain: StoredGain


class LatencyTable(Table):
    """A class of core-to-core latency and the share of measured pairs that had it. There are several if a virtual
    machine's vCPUs were moved to other cores."""

    c2c_latency_ns: Ns = Field(validation_alias=AliasChoices("c2c_latency_ns", "flag_ns"))
    share: float = Field(gt=0, le=1)


class RuleTable(Table):
    """The rule for pairs of ranks at one core distance: the parameters to set, and the gain measured for them."""

    distance: Literal[CORE_DISTANCES]  # type: ignore[valid-type]
    pair: str = Field(pattern=r"^[0-9]{1,9}-[0-9]{1,9}$")  # the pair of cores on which the rule was measured
    c2c_latency_ns: float = Field(  # core-to-core latency of the pair during the measurement; 0: unknown
        default=0, ge=0, le=1e12, validation_alias=AliasChoices("c2c_latency_ns", "flag_ns")
    )
    parameters: dict[str, KnobValue] = Field(default_factory=dict)  # empty: the MPI's defaults are best
    reason: str = ""  # why there are no parameters
    beyond: str = ""  # text about settings that would gain more if a larger loss were allowed
    memory_per_rank_bytes: int | None = Field(default=None, ge=0, le=1 << 50)  # None without parameters
    at_ranks_per_node: int = Field(ge=1, le=1 << 20)
    # promised minimum speed for every size, as a fraction of the baseline's
    never_below: float = Field(default=MIN_GAIN, gt=0, le=1)
    gain: StoredGain | None = None
    baseline: dict[str, str] = Field(default_factory=dict)  # variables that the baseline needs to run on that machine
    launches: int = Field(default=0, ge=0, le=1 << 20)  # number of launches that measured every size; 0: unknown
    latency: list[LatencyTable] = Field(  # empty: the core-to-core latency did not change
        default_factory=list, validation_alias=AliasChoices("latency", "apart")
    )
    other_distances: dict[str, Ratio] = Field(  # other core distance -> gain of these parameters at that distance
        default_factory=dict, validation_alias=AliasChoices("other_distances", "elsewhere")
    )
    range: list[RangeTable] = Field(default_factory=list)
    point: list[PointTable] = Field(default_factory=list)
    collective: list[CollectiveTable] = Field(default_factory=list)  # result of `tune --collectives`
    # result of `tune --collectives --native`
    native_collective: list[NativeCollectiveTable] = Field(default_factory=list)

    @property
    def is_tuned_for_messages(self) -> bool:
        """Returns whether the tune searched settings for messages. If not, the rule only selects algorithms of
        collectives."""
        return self.reason != UNTUNED_REASON

    def gain_at(self, distance: str) -> float | None:
        """Returns the gain of these parameters at the given core distance; None if it was not measured."""
        if not self.parameters:
            return 1.0
        if distance == self.distance:
            return self.gain.value if self.gain else None
        return self.other_distances.get(distance)

    def changed_latency_note(self) -> str:
        """Returns a note that the core-to-core latency changed during the tune; empty if it did not."""
        if not self.latency:
            return ""
        parts = ", ".join(f"{one.c2c_latency_ns:.0f} ns in {one.share:.0%} of the time" for one in self.latency)
        changed = f"the cores moved (a virtual machine?): the core-to-core latency was {parts}"
        return f"{changed}; the rule is for {self.c2c_latency_ns:.0f} ns" if self.c2c_latency_ns else changed

    def few_launches_note(self) -> str:
        """Returns a note that the gains' intervals are based on too few launches; empty if there were enough."""
        if not 0 < self.launches < MIN_LAUNCHES:
            return ""
        return (
            f"confirmed in {counted(self.launches, 'launch')} instead of {MIN_CONFIRMING_LAUNCHES}: other launches may "
            "differ by a tenth, which the intervals do not contain"
        )

    def gaining_range(self) -> SizeRange | None:
        """Returns the range of message sizes in which the joint gain of all patterns is significant; None if there is
        none."""
        points = [one for one in self.point if one.pattern not in COLLECTIVE_PATTERNS]
        return select_gaining_range(
            {(one.pattern, one.size_bytes): one.gain.as_gain() for one in points}, MIN_REPORTED_GAIN
        )

    def describe_promise(self) -> str:
        """Returns, as human-readable text, the promise that no size is slower, and the patterns that are slower
        nevertheless."""
        below = "slower" if self.never_below >= MIN_GAIN else f"below {self.never_below:.2f} of the baseline's speed"
        promise = f"no size was found {below}"
        points = (
            f"{p.pattern} of {format_bytes(p.size_bytes)} ran at {p.gain.value:.2f}" for p in self.slower_points()
        )
        slower = " and ".join(points)
        return f"{promise} over all patterns together, but {slower} of the baseline's speed" if slower else promise

    def slower_points(self) -> list[PointTable]:
        """Returns the points that are slower than the baseline: patterns compensated by other patterns at the same
        size, or losses that the user allowed."""
        return [one for one in self.point if one.gain.as_gain().is_below(MIN_GAIN)]

    def message_patterns(self) -> list[str]:
        """Returns the measured message patterns, without collectives."""
        return list(dict.fromkeys(point.pattern for point in self.point if point.pattern not in COLLECTIVE_PATTERNS))

    def format_pattern_gain(self, pattern: str, size_range: RangeTable) -> str:
        """Returns the gain of one pattern over the sizes of a range, as text; "-" if the rule has no points there."""
        inside = [
            p
            for p in self.point
            if p.pattern == pattern and size_range.from_bytes <= p.size_bytes <= size_range.to_bytes
        ]
        return f"{geometric_mean(point.gain.as_gain() for point in inside).value:.2f}x" if inside else "-"

    @field_validator("parameters", mode="before")
    @classmethod
    def _rename_parameters(cls, values: Any) -> Any:
        """Replaces old parameter names of format version 1 by their new names. If both names are present, keeps both,
        so that validation rejects the old one."""
        if not isinstance(values, dict):
            return values
        names = {old: new for old, new in RENAMED_PARAMETERS.items() if new not in values}
        return {names.get(name, name): value for name, value in values.items()}

    @model_validator(mode="after")
    def _check_range_order(self) -> RuleTable:
        for one in self.range:
            if one.from_bytes > one.to_bytes:
                raise ValueError(f"range from {one.from_bytes} to {one.to_bytes}: ends before it begins")
        return self


class UndecidedTable(Table):
    """A core distance without a verdict. `reason` explains why, and `seen` summarises the measurements so far."""

    distance: Literal[CORE_DISTANCES]  # type: ignore[valid-type]
    reason: str
    seen: str = ""

    @property
    def explain(self) -> str:
        """Returns, as human-readable text, why there is no verdict, and what was measured so far."""
        return "; ".join(filter(None, [self.reason, self.seen]))

    def __str__(self) -> str:
        return f"{self.distance}: not decided: {self.explain}"


class MpiTable(Table):
    """The MPI for which the rules were measured."""

    family: str
    version: str = Field(max_length=64)
    transport: str


class MachineTable(Table):
    """The hardware facts that must match on the machine where the rules are applied, such as another node of the same
    kind."""

    cpu_model: str
    cores: int = Field(ge=1, le=1 << 20)
    cache_bytes: list[Bytes]  # cache sizes of a core, L1 first
    distances: list[str]


class TriedTable(Table):
    """The number of settings that were tried, by outcome."""

    measured: int = Field(ge=0)
    left: int = Field(ge=0)  # pruned trials: half-measured and worse than the median of earlier trials
    refused: int = Field(default=0, ge=0)  # never launched: above the memory limit, or violate a constraint
    unfit: list[str] = Field(default_factory=list)  # settings with which this MPI does not start, hangs or fails


class Rules(Table):
    """The content of a `rules.toml`."""

    newest_version: ClassVar[int] = FORMAT_VERSION

    # files of older versions are converted on reading
    schema_version: Annotated[int, AfterValidator(lambda _: FORMAT_VERSION)]
    nearfield: str
    created: str
    command: str
    seconds: float = Field(ge=0, le=1e9)
    host: str
    busy_share: float = Field(default=0, ge=0, le=1)  # fraction of CPU time used by other programs during the tune
    mpi: MpiTable
    machine: MachineTable
    tried: TriedTable
    rule: list[RuleTable]
    undecided: list[UndecidedTable] = Field(default_factory=list)

    @property
    def has_any_setting(self) -> bool:
        """Returns whether any rule sets a parameter or selects an algorithm. If not, the MPI's defaults are best, or
        nothing is decided."""
        return any(rule.parameters for rule in self.rule) or self.loads_collectives or self.selects_native_algorithms

    def collective_tables(self) -> list[CollectiveTable]:
        """Returns the algorithms selected for collectives. If several core distances have a selection, returns that of
        the farthest, where a wrong choice costs most."""
        return next((rule.collective for rule in reversed(self.rule) if rule.collective), [])

    @property
    def loads_collectives(self) -> bool:
        """Returns whether the rules select one of nearfield's own algorithms for any collective."""
        return not all(one.is_left_to_mpi for one in self.collective_tables())

    def native_collective_tables(self) -> list[NativeCollectiveTable]:
        """Returns the selection among the MPI's own algorithms. If several core distances have a selection, returns
        that of the farthest."""
        return next((rule.native_collective for rule in reversed(self.rule) if rule.native_collective), [])

    @property
    def selects_native_algorithms(self) -> bool:
        """Returns whether the rules select any of the MPI's own algorithms in place of the MPI's choice."""
        return not all(one.is_left_to_mpi for one in self.native_collective_tables())

    def to_json(self) -> dict[str, Any]:
        """Returns the rules for JSON output, with a verdict for each core distance: "rule", "defaults are best", "not
        tuned" or "not decided"."""
        verdicts = {rule.distance: "rule" if rule.parameters else "defaults are best" for rule in self.rule}
        verdicts |= {rule.distance: "not tuned" for rule in self.rule if not rule.is_tuned_for_messages}
        verdicts |= {one.distance: "not decided" for one in self.undecided}
        return {"verdicts": verdicts, **self.model_dump(exclude_none=True)}

    def find_knob_file(self) -> KnobFile:
        return find_knobs(self.mpi.family, self.mpi.version, self.mpi.transport)

    def busy_machine_note(self) -> str:
        """Returns a note that other programs used the machine during the tune; empty if they did not."""
        if self.busy_share <= BUSY_SHARE:
            return ""
        return f"other programs took {self.busy_share:.0%} of the cores' time while this was measured"

    def best_rule_for_all_pairs(self) -> RuleTable:
        """Returns the rule to use if all pairs of ranks must have the same parameters: among the rules that slow down
        no core distance, the one with the largest product of gains over all distances. If every rule slows down some
        distance, returns a rule without parameters. If some gains at other distances are unknown, returns the rule of
        the farthest distance, where messages cost most."""
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


def run_command_line(path: Path, works_in_any_folder: bool = False) -> str:
    """Returns the command line that runs a program under the rules at `path`. With `works_in_any_folder`, the command
    works from any folder; otherwise from the current one."""
    if works_in_any_folder:
        path = path.absolute()
    found_anyway = not works_in_any_folder and path.absolute() == default_rules_path().absolute()
    named = [] if found_anyway else ["--rules", path]
    return f"{own_command.command_line('run', *named, works_in_any_folder=works_in_any_folder)} -- mpirun ..."


MAKE_RULES_PREFIX = "make them with: "


def _command_to_make_rules(path: Path) -> str:
    """Returns the command that creates rules at `path`, or that completes an interrupted tune."""
    trials = path.with_name(f"{path.name}.trials")  # the suffix of trial_log_file.py, which cannot be imported (cycle)
    if trials.is_file():
        return f"complete the interrupted tune: {own_command.command_line('tune', '--resume', '-o', path)}"
    return f"{MAKE_RULES_PREFIX}{own_command.command_line('tune')}"


def find_rules_path(path: Path | None) -> Path:
    """Returns the given file or folder of rules, or the default one. Raises UsageError if it contains no rules."""
    path = path or default_rules_path()
    if not any(file.is_file() for file in list_rules_files(path)):
        raise UsageError(f"there are no rules at {path}", _command_to_make_rules(path))
    return path


def load_rules_of_mpi(path: Path, family: str, version: str) -> tuple[Path, Rules]:
    """Returns the rules file for this MPI in a folder, and its rules. If `path` is a file, returns its rules whatever
    their MPI is. Raises UsageError if the folder has no rules for this MPI."""
    if not path.is_dir():
        return path, load_rules(path)
    series = family, version_numbers(version)[:2]
    if found := _matching_rules(
        path, lambda rules: (rules.mpi.family, version_numbers(rules.mpi.version)[:2]) == series
    ):
        return next((one for one in found if one[1].mpi.version == version), found[0])
    name = f"{family}-{version}"
    raise UsageError(
        f"no rules in {path} are for {family} {version}; there are {_format_mpis_of_rules(path)}",
        f"make them with: {own_command.command_line('tune', '--mpi', name, '-o', path / f'{name}.toml')}",
    )


def load_only_rules(path: Path, family: str = "") -> tuple[Path, Rules]:
    """Returns the rules file and its rules: `path` itself, or the only file of this MPI family in the folder. Raises
    UsageError unless there is exactly one."""
    if not path.is_dir():
        return path, load_rules(path)
    found = _matching_rules(path, lambda rules: family in ("", rules.mpi.family, rules.find_knob_file().family))
    if len(found) == 1:
        return found[0]
    raise UsageError(
        f"{path} has rules for {_format_mpis_of_rules(path)}",
        f"name one of them, such as --rules {list_rules_files(path)[0]}",
    )


def _matching_rules(folder: Path, is_match: Callable[[Rules], bool]) -> list[tuple[Path, Rules]]:
    """Returns the files of a folder whose rules satisfy `is_match`, with the rules. If no file matches and some are
    unreadable, raises the first error."""
    found: list[tuple[Path, Rules]] = []
    bad: list[NearfieldError] = []
    for file in list_rules_files(folder):
        try:
            rules = load_rules(file)
            found += [(file, rules)] if is_match(rules) else []
        except NearfieldError as error:
            bad.append(error)
    if bad and not found:
        raise bad[0]
    return found


def _format_mpis_of_rules(folder: Path) -> str:
    found = [f"{rules.mpi.family} {rules.mpi.version} ({file.name})" for file, rules in _matching_rules(folder, bool)]
    return ", ".join(found) or "none"


def load_rules(path: Path) -> Rules:
    """Reads and validates a rules file. Errors name the file, the key and its valid values."""
    try:
        content = read_user_file(path)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", f"make one with: {own_command.command_line('tune')}"
        ) from error
    return parse_rules(content, path)


def parse_rules(content: bytes, path: Path) -> Rules:
    """Returns the rules in the content of a file. `path` names the file in errors."""
    rules = parse_toml(Rules, content, path, _REMEDY)
    if not rules.rule:
        raise ProfileError(f"{path} has no rule", _REMEDY)
    knobs = rules.find_knob_file()
    if problems := [f"rule for {r.distance}: {what}" for r in rules.rule for what in knobs.find_problems(r.parameters)]:
        raise ProfileError(f"{path}: {'; '.join(problems)}", _REMEDY)
    return rules


_REMEDY = (
    "Correct that line if the file was edited by hand; otherwise create it again with: "
    f"{own_command.command_line('tune')}"
)


def require_writable_rules_file(path: Path) -> None:
    """Raises an error if `save_rules` could not write to `path`. Call it before minutes of measurement."""
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder", f"name a file: -o {path / 'rules.toml'}")
    _write_rules_file(path, b"", keep=False)


def save_rules(rules: Rules, path: Path, comment: str = "Rules from nearfield tune.") -> None:
    """Writes the rules file atomically, with a comment in the first line."""
    _write_rules_file(path, dump_toml(rules, comment, "docs/reference/rules.md"), keep=True)


def _write_rules_file(path: Path, text: bytes, *, keep: bool) -> None:
    with os_errors_as_profile_errors(path, "choose another file with --out"):
        path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, text, "choose another file with --out", keep=keep)
