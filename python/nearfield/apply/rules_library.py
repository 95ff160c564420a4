"""The rules library: rules by processor model that come with nearfield, and files of strangers.

A file of the library was measured on a quiet machine that had nothing else to do. `library_problems` says what is
required of it; the README of the folder says how to contribute one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from nearfield.apply.distance_check import RecordedLatency, depends_on_core_latency, find_changed_latencies
from nearfield.apply.site import make_node_rules
from nearfield.base import own_command
from nearfield.base.errors import NearfieldError, ProfileError, UsageError
from nearfield.base.files import read_user_file
from nearfield.base.toml import CONTROL_CHARACTERS
from nearfield.base.topology import Topology
from nearfield.base.units import format_bytes
from nearfield.mpi import Installation
from nearfield.rules.applicability import machine_differences, make_machine_table, rules_mismatches
from nearfield.rules.collective_tables import CollectiveTable, NativeCollectiveTable
from nearfield.rules.criterion import MIN_GAIN, find_violations
from nearfield.rules.gain_table import StoredGain
from nearfield.rules.gains import MIN_CONFIRMING_LAUNCHES, MIN_LAUNCHES
from nearfield.rules.knobs import version_numbers
from nearfield.rules.schema import (
    MachineTable,
    Rules,
    RuleTable,
    parse_rules,
)

LIBRARY_FOLDER = Path(__file__).parents[1] / "rules" / "library"
MAX_FILE_BYTES = 1 << 20
MAX_BUSY_SHARE = 0.05  # of the cores' time that other programs may have taken while a file of the library was measured
MIN_PLACEMENT_SHARE = 0.8  # of the measurements, at the most frequent core-to-core latency
DOWNLOAD_LIMIT_S, DOWNLOAD_READ_LIMIT_S = 60.0, 20.0
_LIBRARY_FILE_REMEDY = "correct the file, or tune again: see the README of the rules library"


# ---- reading files, of the library and of strangers


def list_library_files() -> list[Path]:
    """Returns the files of the library in alphabetical order."""
    return sorted(LIBRARY_FOLDER.glob("*.toml"))


def read_rules(source: str) -> Rules:
    """Reads rules from a path or from an https URL. Raises an error if they are longer than MAX_FILE_BYTES, or break
    the schema, or set anything but known parameters within their ranges."""
    if "://" in source:
        return _parse_and_check_rules(_download(source), Path(source.rpartition("/")[2] or "rules"))
    path = Path(source)
    try:
        content = read_user_file(path, MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "name a rules file, or an https URL") from error
    return _parse_and_check_rules(content, path)


def _parse_and_check_rules(content: bytes, path: Path) -> Rules:
    if len(content) > MAX_FILE_BYTES:
        raise ProfileError(
            f"{path} is longer than {format_bytes(MAX_FILE_BYTES)}, which no rules file is", _LIBRARY_FILE_REMEDY
        )
    rules = parse_rules(content, path)
    if foreign := [name for rule in rules.rule for name in rule.baseline if name not in _baseline_variables(rules)]:
        raise ProfileError(
            f"{path}: no baseline of {rules.mpi.family} needs the variable '{foreign[0]}'", _LIBRARY_FILE_REMEDY
        )
    return rules


def _baseline_variables(rules: Rules) -> Iterable[str]:
    """Returns the names of the environment variables that `tune` sets for the baseline if messages fail with the MPI's
    defaults."""
    return rules.find_knob_file().without_single_copy


class _HttpsRedirectHandler(HTTPRedirectHandler):
    """Follows redirections to https URLs only."""

    def redirect_request(
        self, req: Request, fp: object, code: int, msg: str, headers: object, newurl: str
    ) -> Request | None:
        _require_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _require_https(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.username is not None or CONTROL_CHARACTERS.search(url):
        raise UsageError(f"'{url}' is not an https URL of a file", "name a path, or https://HOST/FILE")


def _download(url: str) -> bytes:
    """Returns the content of an https URL, at most one byte more than MAX_FILE_BYTES. Raises ProfileError."""
    _require_https(url)
    deadline, content = time.monotonic() + DOWNLOAD_LIMIT_S, b""
    try:
        with build_opener(_HttpsRedirectHandler).open(Request(url), timeout=DOWNLOAD_READ_LIMIT_S) as response:
            while len(content) <= MAX_FILE_BYTES and (part := response.read(1 << 16)):
                content += part
                if time.monotonic() > deadline:
                    raise ProfileError(
                        f"{url} did not arrive within {DOWNLOAD_LIMIT_S:.0f} s", "fetch it by other means"
                    )
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ProfileError(f"cannot fetch {url}: {reason}", "fetch it by other means, and name its path") from error
    return content[: MAX_FILE_BYTES + 1]


# ---- whether rules fit here


@dataclass(frozen=True)
class RulesFit:
    """The comparison of rules with this machine and its MPIs."""

    matching_mpis: tuple[str, ...]  # names of this machine's MPIs that the rules fit, if they fit the machine
    differences: tuple[str, ...]  # reasons why the rules do not fit; empty if they fit
    current_obstacle: str = ""  # reason why `run` would not use fitting rules now; empty if it would

    @property
    def verdict_text(self) -> str:
        """Returns the verdict as human-readable text."""
        if self.differences:
            return "; ".join(self.differences)
        return "; ".join(filter(None, [f"fits {', '.join(self.matching_mpis)}", self.current_obstacle]))


def describe_this_machine() -> MachineTable:
    """Returns the hardware facts by which rules files recognize this machine."""
    topology = Topology.of_this_machine()
    return make_machine_table(topology, topology.cache_bytes(topology.pus[0]))


def check_fit(rules: Rules, machine: MachineTable, installations: Sequence[Installation]) -> RulesFit:
    """Returns whether rules fit a machine and any of its MPIs, by what `run` checks: MPI family and version, processor,
    caches, distances of cores and, for rules that depend on it, the core-to-core latency, which takes some
    milliseconds."""
    series = rules.mpi.family, version_numbers(rules.mpi.version)[:2]
    mpis = tuple(one.name for one in installations if (one.family, version_numbers(one.version)[:2]) == series)
    differences = tuple(machine_differences(machine, rules.machine))
    if not mpis:
        differences += (f"no {series[0]} {'.'.join(map(str, series[1]))} is here",)
    if differences:
        return RulesFit(mpis, differences)
    recorded = [
        RecordedLatency.from_latency(one.pair, one.c2c_latency_ns)
        for one in rules.rule
        if depends_on_core_latency(rules, one)
    ]
    why, warnings = find_changed_latencies(recorded)
    return RulesFit(mpis, (), why or "; ".join(warnings))


def has_rules_for(family: str, version: str) -> bool:
    """Returns whether the library has rules for this MPI and machine."""
    machine = describe_this_machine()
    known = (read_rules(str(path)) for path in list_library_files())
    return any(not rules_mismatches(rules, family, version, machine) for rules in known)


def choose_library_rules(inst: Installation, machine: MachineTable) -> tuple[Path, Rules]:
    """Returns the file of the library that fits this MPI and machine: that of the same version, or else of the newest
    one. Raises ProfileError that names the nearest files if none fits."""
    known = [(path, read_rules(str(path))) for path in list_library_files()]
    fitting = [one for one in known if not check_fit(one[1], machine, [inst]).differences]
    if fitting:
        return max(fitting, key=lambda one: (one[1].mpi.version == inst.version, version_numbers(one[1].mpi.version)))
    near = [one for one in known if one[1].mpi.family == inst.family] or known
    differences = [f"{path.name}: {check_fit(rules, machine, [inst]).verdict_text}" for path, rules in near]
    why = f" ({'; '.join(differences[:3])})" if differences else ", which is empty"
    raise ProfileError(
        f"no rules for {inst.name} on {machine.cpu_model or 'this processor'} are in the library{why}",
        f"tune here: {own_command.command_line('tune', '--mpi', inst.name)}",
    )


# ---- what is required of a file of the library


def library_file_name(rules: Rules) -> str:
    """Returns the name that a file has in the library: MPI, processor, and a digest of what the machine is recognised
    by."""
    return make_node_rules(rules).name.removesuffix(".conf") + ".toml"


def library_problems(rules: Rules, name: str) -> list[str]:
    """Returns the reasons why a file must not be in the library, as human-readable texts; empty if it may."""
    of_machine = [*_disturbance_problems(rules), *_machine_problems(rules)]
    return [*_name_problems(rules, name), *of_machine, *_all_gain_problems(rules)]


def notes_for_readers(rules: Rules) -> list[str]:
    """Returns notes on a file for its readers that are no reasons to reject it."""
    if re.search(r"\d", rules.machine.cpu_model):
        return []
    return [
        f"'{rules.machine.cpu_model}' names no model of a processor (a virtual machine?): other processors with the "
        "same caches take these rules as well"
    ]


def _name_problems(rules: Rules, name: str) -> Iterator[str]:
    if name != library_file_name(rules):
        yield f"its name in the library is {library_file_name(rules)}"
    try:
        datetime.fromisoformat(rules.created)
    except ValueError:
        yield f"created = '{rules.created}' is no time"


def _disturbance_problems(rules: Rules) -> Iterator[str]:
    """Yields the reasons why the machine was not quiet, or may not have been, while the rules were measured."""
    if "busy_share" not in rules.model_fields_set:
        yield "it lacks the share of the cores' time that other programs took (busy_share)"
    if rules.busy_share > MAX_BUSY_SHARE:
        yield (
            f"other programs took {rules.busy_share:.0%} of the cores' time while it was measured, and at most "
            f"{MAX_BUSY_SHARE:.0%} are allowed"
        )
    for rule in rules.rule:
        if rule.latency and (largest := max(one.share for one in rule.latency)) < MIN_PLACEMENT_SHARE:
            yield f"{rule.distance}: the cores moved: the core-to-core latency was one in {largest:.0%} of the time"
        if rule.baseline:
            yield f"{rule.distance}: the MPI's defaults fail where it was measured ({', '.join(rule.baseline)})"


def _machine_problems(rules: Rules) -> Iterator[str]:
    if not (rules.machine.cpu_model.strip() and rules.machine.cache_bytes and rules.machine.distances):
        yield "it lacks the processor, the caches or the core distances on which it was measured"
    tuned = [rule.distance for rule in rules.rule]
    missing = [distance for distance in rules.machine.distances if distance not in tuned]
    if missing or len(set(tuned)) < len(tuned):
        yield f"each distance of the machine needs one rule: {', '.join(missing) or 'one is there twice'}"
    yield from (f"{one.distance}: it is not decided" for one in rules.undecided)
    if not rules.tried.measured:
        yield "no setting was measured"


def _all_gain_problems(rules: Rules) -> Iterator[str]:
    for rule in rules.rule:
        yield from (f"{rule.distance}: {problem}" for problem in _gain_problems(rule))
        tables: list[CollectiveTable | NativeCollectiveTable] = [*rule.collective, *rule.native_collective]
        for table in tables:
            yield from (f"{rule.distance}: {problem}" for problem in _collective_problems(table))


def _gain_problems(rule: RuleTable) -> Iterator[str]:
    """Yields the reasons why the measurements of a rule do not support its gain."""
    if not rule.parameters:
        if not rule.reason:
            yield "it lacks the reason why the defaults are best"
        return
    if rule.launches < MIN_CONFIRMING_LAUNCHES:
        yield f"confirmed in {rule.launches} launches; at least {MIN_CONFIRMING_LAUNCHES} are needed"
    if not rule.c2c_latency_ns:
        yield "it lacks the core-to-core latency at which it was measured"
    if rule.never_below < MIN_GAIN:
        yield f"sizes may be at {rule.never_below:.2f} of the baseline's speed; the library promises {MIN_GAIN:.2f}"
    if not rule.gain or not rule.point or not rule.range:
        yield "it has no gain with its ranges and points"
        return
    gains = [rule.gain, *(one.gain for one in rule.range), *(one.gain for one in rule.point)]
    if any(not _is_valid_interval(gain) for gain in gains):
        yield "a gain lies outside of its interval"
    if not any(gain.low > 1 for gain in (rule.gain, *(one.gain for one in rule.range))):
        yield "no interval of a gain lies above 1"
    points = {(one.pattern, one.size_bytes): one.gain.as_gain() for one in rule.point}
    if slower := [one for one in find_violations(points, rule.never_below) if one.is_significant]:
        pattern, size = slower[0].case
        yield f"{pattern} of {format_bytes(size)} is at {slower[0].gain.value:.2f} of the baseline's speed"


def _is_valid_interval(gain: StoredGain) -> bool:
    return gain.low <= gain.value <= gain.high


def _collective_problems(table: CollectiveTable | NativeCollectiveTable) -> Iterator[str]:
    if few := [one for one in table.point if one.gain.n < MIN_LAUNCHES or not _is_valid_interval(one.gain)]:
        yield f"{table.operation} of {format_bytes(few[0].size_bytes)} was measured in {few[0].gain.n} launches"
    if not table.point:
        yield f"{table.operation} has no measurements"


def check_rules_file(path: Path, *, is_in_library: bool) -> tuple[Rules | None, list[str]]:
    """Returns (rules, problems): the rules of a file, or None if it is unreadable or invalid, and a text for each
    problem. If `is_in_library` is set, also checks the requirements of the library of rules."""
    try:
        rules = read_rules(str(path))
    except NearfieldError as error:
        return None, [error.message]
    return rules, library_problems(rules, path.name) if is_in_library else []
