"""Determines the environment variables to set for a command line, and caches the result on disk until something
changes.

Without the cache this takes half a second: the rules are parsed and validated, the launcher and libmpi are queried for
their MPI, and hwloc reads the topology. Since `nearfield run` precedes every mpirun, the result is cached
(base/disk_cache.py), and this module has almost no imports.
"""

from __future__ import annotations

import os
from pathlib import Path

from nearfield.apply.launch_plan import EXTENDED_VARIABLES, AppliedRules, LaunchPlan, merge_environment
from nearfield.base import disk_cache
from nearfield.base.executables import find_executable, find_executables
from nearfield.rules.paths import default_rules_path, list_rules_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# Further variables on which a plan depends: they determine which MPIs are found and how components are built.
_INPUT_VARIABLES = (
    "PATH", "LD_LIBRARY_PATH", "MPI_HOME", "NEARFIELD_MPIS", "OPAL_PREFIX", "I_MPI_ROOT", "CXXFLAGS", "LDFLAGS",
    "OMPI_CXX", "MPICH_CXX", "I_MPI_CXX", "HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT", "HWLOC_THISSYSTEM",
)  # fmt: skip
_SOURCE_FOLDERS = [Path(__file__).parents[1] / folder for folder in ("apply", "rules", "rules/knobs", "mpi")]


def cached_launch_plan(argv: Sequence[str], rules_path: Path | None, force: bool, mpi_name: str | None) -> AppliedRules:
    """Returns the environment variables to set for this command. If the rules depend on the core-to-core latency and
    that has changed, returns only a warning. Raises UsageError or MpiError if the rules do not apply to this
    command."""
    key = _cache_key(argv, rules_path, force, mpi_name)
    stored = disk_cache.get_value("run", key) if key else None
    if stored:
        plan = LaunchPlan(**stored)
    else:
        from nearfield.apply.plan import plan_launch

        plan, depends_on = plan_launch(argv, rules_path, force, mpi_name)
        if key and depends_on is not None:
            disk_cache.store_value("run", key, vars(plan), [*depends_on, *plan.referenced_files()])
    warnings: list[str] = _drop_node_files(plan, argv)
    if not force and plan.recorded_latencies:
        from nearfield.apply.distance_check import RecordedLatency, find_changed_latencies

        why, further = find_changed_latencies(RecordedLatency(**latency) for latency in plan.recorded_latencies)
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
    from nearfield.apply.native import are_files_on_all_nodes

    if are_files_on_all_nodes(argv, os.environ, [plan.variables[name] for name in plan.node_files]):
        return []
    for name in plan.node_files:
        del plan.variables[name]
    return [
        "the MPI chooses its algorithms of collectives itself, since other nodes may not have the file that selects "
        "them; set NEARFIELD_ALL_NODES=1 if all nodes have the file"
    ]


def _first_use_notice(plan: LaunchPlan) -> list[str]:
    """Returns a line that lists the variables, if the rules were measured on another host and are used for the first
    time, so that nobody unknowingly applies another person's settings."""
    settings = [plan.tuned_on_host, plan.variables]
    if not plan.variables or plan.tuned_on_host == os.uname().nodename or disk_cache.get_value("told", settings):
        return []
    disk_cache.store_value("told", settings, True)
    values = ", ".join(f"{name} = {value}" for name, value in plan.variables.items())
    return [
        f"these rules were made on another host ({plan.tuned_on_host!r}) and set, which is printed only once: {values}"
    ]


def _cache_key(argv: Sequence[str], rules_path: Path | None, force: bool, mpi_name: str | None) -> list[Any] | None:
    """Returns everything on which a plan depends; None if the command or the rules file does not exist."""
    path = rules_path or default_rules_path()
    written = [[str(file), disk_cache.file_signature(file)] for file in list_rules_files(path)]
    if not any(stamp for _, stamp in written) or not find_executable(argv[0]):
        return None
    words = [
        [word, str(Path(path).absolute()), disk_cache.file_signature(path), may_be]
        for word, path, may_be in find_executables(argv)
    ]
    variables = [os.environ.get(name) for name in (*_INPUT_VARIABLES, *EXTENDED_VARIABLES)]
    return [str(path.absolute()), written, words, force, mpi_name, variables, _machine_identity(), _code_identity()]


def _machine_identity() -> list[Any]:
    """Returns values that identify this machine since boot, and the CPUs in this process's affinity mask."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        boot = ""
    return [os.uname().nodename, boot, sorted(os.sched_getaffinity(0))]


def _code_identity() -> list[Any]:
    files = [
        entry.path
        for folder in _SOURCE_FOLDERS
        for entry in os.scandir(folder)
        if entry.name.endswith((".py", ".toml"))
    ]
    stamps = [disk_cache.file_signature(file) or [0, 0] for file in files]
    return [str(_SOURCE_FOLDERS[0]), len(stamps), max(one[0] for one in stamps), sum(one[1] for one in stamps)]
