"""Determines the environment variables to set for a command line, and caches the result on disk until something
changes.

Without the cache this takes half a second: the rules are parsed and validated, the launcher and libmpi are queried for
their MPI, and hwloc reads the topology. Since `nearfield run` precedes every mpirun, the result is cached
(base/disk_cache.py), and this module has almost no imports.
"""

from __future__ import annotations

import os
from pathlib import Path

from nearfield.base import disk_cache
from nearfield.base.executables import find_executables, which
from nearfield.rules.paths import default_rules, rules_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

# Variables whose inherited values are retained, with nearfield's libraries added.
EXTENDED_VARIABLES = ("LD_PRELOAD", "ASAN_OPTIONS", "OMPI_MCA_mca_base_component_path")
# Further variables on which a plan depends: they determine which MPIs are found and how components are built.
_INPUT_VARIABLES = (
    "PATH", "LD_LIBRARY_PATH", "MPI_HOME", "NEARFIELD_MPIS", "OPAL_PREFIX", "I_MPI_ROOT", "CXXFLAGS", "LDFLAGS",
    "OMPI_CXX", "MPICH_CXX", "I_MPI_CXX", "HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT", "HWLOC_THISSYSTEM",
)  # fmt: skip
_SOURCES = [Path(__file__).parents[1] / folder for folder in ("apply", "rules", "rules/knobs", "mpi")]


class LaunchPlan:
    """The environment variables that the rules set for one MPI, before the user's own variables override some of them.
    Cached between runs."""

    def __init__(
        self,
        values: Mapping[str, str],
        notes: Iterable[str] = (),
        warnings: Iterable[str] = (),
        reason: str = "",
        latencies: Iterable[Mapping[str, Any]] = (),
        host: str = "",
        node_files: Iterable[str] = (),
    ) -> None:
        self.values = dict(values)
        self.notes = list(notes)
        self.warnings = list(warnings)
        self.reason = reason  # why no variable is set, if so
        self.latencies = list(latencies)  # fields of the RecordedLatency objects to check before a run
        self.host = host  # the host on which the rules were measured
        self.node_files = list(node_files)  # variables whose values are files that must exist on all nodes

    def files(self) -> list[str]:
        """Returns the files that the variables refer to, such as libraries to preload."""
        words = (
            " ".join(self.values[name] for name in EXTENDED_VARIABLES if name in self.values).replace(":", " ").split()
        )
        return [word for word in words if word.startswith("/")] + [self.values[name] for name in self.node_files]


class AppliedRules:
    """The environment variables to set for a launch, notes for verbose output, and warnings that are always printed."""

    def __init__(self, notes: Iterable[str] = (), warnings: Iterable[str] = ()) -> None:
        self.environment: dict[str, str] = {}
        self.notes = list(notes)
        self.warnings = list(warnings)


def cached_launch_plan(argv: Sequence[str], rules: Path | None, force: bool, mpi_name: str | None) -> AppliedRules:
    """Returns the environment variables to set for this command. If the rules depend on the core-to-core latency and
    that has changed, returns only a warning. Raises UsageError or MpiError if the rules do not apply to this
    command."""
    key = _cache_key(argv, rules, force, mpi_name)
    stored = disk_cache.get("run", key) if key else None
    if stored:
        plan = LaunchPlan(**stored)
    else:
        from nearfield.apply.plan import plan_launch

        plan, depends_on = plan_launch(argv, rules, force, mpi_name)
        if key and depends_on is not None:
            disk_cache.put("run", key, vars(plan), [*depends_on, *plan.files()])
    warnings: list[str] = _drop_node_files(plan, argv)
    if not force and plan.latencies:
        from nearfield.apply.distance_check import RecordedLatency, find_changed_distance

        why, further = find_changed_distance(RecordedLatency(**latency) for latency in plan.latencies)
        if why:
            return AppliedRules(warnings=[why])
        warnings += further
    made = merge_environment(plan, os.environ)
    made.warnings += [*_first_use_notice(plan), *warnings]
    return made


def _drop_node_files(plan: LaunchPlan, argv: Sequence[str]) -> list[str]:
    """Removes variables whose files may not exist on other nodes that the command uses. Returns a warning if it removed
    any."""
    if not plan.node_files:
        return []
    from nearfield.apply.native import is_found_on_all_nodes

    if is_found_on_all_nodes(argv, os.environ, [plan.values[name] for name in plan.node_files]):
        return []
    for name in plan.node_files:
        del plan.values[name]
    return [
        "the MPI chooses its algorithms of collectives itself, since other nodes may not have the file that selects "
        "them; NEARFIELD_ALL_NODES=1 says that they have it"
    ]


def _first_use_notice(plan: LaunchPlan) -> list[str]:
    """Returns a line that lists the variables, if the rules were measured on another host and are used for the first
    time, so that nobody unknowingly applies another person's settings."""
    settings = [plan.host, plan.values]
    if not plan.values or plan.host == os.uname().nodename or disk_cache.get("told", settings):
        return []
    disk_cache.put("told", settings, True)
    values = ", ".join(f"{name} = {value}" for name, value in plan.values.items())
    return [f"these rules were made on another host ({plan.host!r}) and set, as is said this once: {values}"]


def merge_environment(plan: LaunchPlan, inherited: Mapping[str, str]) -> AppliedRules:
    """Returns the variables to add to the inherited environment. A variable that the user has set keeps its value."""
    made = AppliedRules(plan.notes, plan.warnings)
    for name, value in plan.values.items():
        if name in inherited and name not in EXTENDED_VARIABLES:
            made.notes.append(f"{name} = {inherited[name]} stays, as it was set before (the rules have {value})")
        else:
            made.environment[name] = value
            made.notes.append(f"{name} = {value}")
    if not plan.values:
        why = f" ({plan.reason})" if plan.reason else ""
        made.warnings.append(f"the defaults of this MPI are best here; nothing is set{why}")
    elif not made.environment:
        made.notes.append("nothing is set beside what was set before")
    return made


def _cache_key(argv: Sequence[str], rules: Path | None, force: bool, mpi_name: str | None) -> list[Any] | None:
    """Returns everything on which a plan depends; None if the command or the rules file does not exist."""
    path = rules or default_rules()
    written = [[str(file), disk_cache.file_signature(file)] for file in rules_files(path)]
    if not any(stamp for _, stamp in written) or not which(argv[0]):
        return None
    words = [
        [word, str(Path(path).absolute()), disk_cache.file_signature(path), may_be]
        for word, path, may_be in find_executables(argv)
    ]
    variables = [os.environ.get(name) for name in (*_INPUT_VARIABLES, *EXTENDED_VARIABLES)]
    return [str(path.absolute()), written, words, force, mpi_name, variables, _machine_key(), _code_key()]


def _machine_key() -> list[Any]:
    """Returns values that identify this machine since boot, and the CPUs in this process's affinity mask."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        boot = ""
    return [os.uname().nodename, boot, sorted(os.sched_getaffinity(0))]


def _code_key() -> list[Any]:
    files = [entry.path for folder in _SOURCES for entry in os.scandir(folder) if entry.name.endswith((".py", ".toml"))]
    stamps = [disk_cache.file_signature(file) or [0, 0] for file in files]
    return [str(_SOURCES[0]), len(stamps), max(one[0] for one in stamps), sum(one[1] for one in stamps)]
