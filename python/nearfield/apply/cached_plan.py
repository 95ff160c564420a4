"""Decides which variables to set for a command line, and stores the decision until something changes.

To decide takes half a second: the rules are read and checked, the launcher and the library are queried for the MPI that
they belong to, and hwloc reads the topology. `nearfield run` comes before every mpirun, so the decision is stored
(base/disk_cache.py), and this module imports next to nothing.
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

# Variables that keep their values, to which our libraries are added.
ADDED_TO = ("LD_PRELOAD", "ASAN_OPTIONS", "OMPI_MCA_mca_base_component_path")
# Variables on which the decision also depends: they decide which MPIs exist and how components are built.
_READ = (
    "PATH", "LD_LIBRARY_PATH", "MPI_HOME", "NEARFIELD_MPIS", "OPAL_PREFIX", "I_MPI_ROOT", "CXXFLAGS", "LDFLAGS",
    "OMPI_CXX", "MPICH_CXX", "I_MPI_CXX", "HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT", "HWLOC_THISSYSTEM",
)  # fmt: skip
_SOURCES = [Path(__file__).parents[1] / folder for folder in ("apply", "rules", "rules/knobs", "mpi")]


class Plan:
    """The variables that rules set for one MPI. It is stored from run to run, before the user's own variables replace
    some of them."""

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
        self.reason = reason  # why the MPI's defaults are best, if they are
        self.latencies = list(latencies)  # the fields of each RecordedLatency that must hold now (distance_check.py)
        self.host = host  # where the rules were made
        self.node_files = list(node_files)  # variables that name files which all nodes must have

    def files(self) -> list[str]:
        """Returns the files that the plan names, such as libraries to preload."""
        words = " ".join(self.values[name] for name in ADDED_TO if name in self.values).replace(":", " ").split()
        return [word for word in words if word.startswith("/")] + [self.values[name] for name in self.node_files]


class Application:
    """The variables to set for a launch, notes for a user who asks for them, and warnings for every user."""

    def __init__(self, notes: Iterable[str] = (), warnings: Iterable[str] = ()) -> None:
        self.environment: dict[str, str] = {}
        self.notes = list(notes)
        self.warnings = list(warnings)


def cached_launch_plan(argv: Sequence[str], rules: Path | None, force: bool, mpi_name: str | None) -> Application:
    """Returns the variables to set for this command. If the rules depend on the core-to-core latency and that has
    changed, returns a warning only. Raises UsageError or MpiError if the rules are not for this command."""
    key = _cache_key(argv, rules, force, mpi_name)
    stored = disk_cache.get("run", key) if key else None
    if stored:
        plan = Plan(**stored)
    else:
        from nearfield.apply.plan import plan_launch

        plan, depends_on = plan_launch(argv, rules, force, mpi_name)
        if key and depends_on is not None:
            disk_cache.put("run", key, vars(plan), [*depends_on, *plan.files()])
    warnings: list[str] = _drop_node_files(plan, argv)
    if not force and plan.latencies:
        from nearfield.apply.distance_check import RecordedLatency, changed_distance

        why, further = changed_distance(RecordedLatency(**latency) for latency in plan.latencies)
        if why:
            return Application(warnings=[why])
        warnings += further
    made = merge_environment(plan, os.environ)
    made.warnings += [*_first_use_notice(plan), *warnings]
    return made


def _drop_node_files(plan: Plan, argv: Sequence[str]) -> list[str]:
    """Removes variables that name files which ranks on other nodes may not have. Returns a warning if there are any."""
    if not plan.node_files:
        return []
    from nearfield.apply.native import all_nodes_find

    if all_nodes_find(argv, os.environ, [plan.values[name] for name in plan.node_files]):
        return []
    for name in plan.node_files:
        del plan.values[name]
    return [
        "the MPI chooses its algorithms of collectives itself, since other nodes may not have the file that selects "
        "them; NEARFIELD_ALL_NODES=1 says that they have it"
    ]


def _first_use_notice(plan: Plan) -> list[str]:
    """Returns a line with the values of rules from another host at their first use, so that nobody applies another
    person's file without seeing what it sets."""
    settings = [plan.host, plan.values]
    if not plan.values or plan.host == os.uname().nodename or disk_cache.get("told", settings):
        return []
    disk_cache.put("told", settings, True)
    values = ", ".join(f"{name} = {value}" for name, value in plan.values.items())
    return [f"these rules were made on another host ({plan.host!r}) and set, as is said this once: {values}"]


def merge_environment(plan: Plan, inherited: Mapping[str, str]) -> Application:
    """Returns the variables to add to an environment. A variable that is already set there keeps its value, because the
    user has set it."""
    made = Application(plan.notes, plan.warnings)
    for name, value in plan.values.items():
        if name in inherited and name not in ADDED_TO:
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
    """Returns everything on which the decision depends, or None if there is no command or no rules file."""
    path = rules or default_rules()
    written = [[str(file), disk_cache.file_signature(file)] for file in rules_files(path)]
    if not any(stamp for _, stamp in written) or not which(argv[0]):
        return None
    words = [
        [word, str(Path(path).absolute()), disk_cache.file_signature(path), may_be]
        for word, path, may_be in find_executables(argv)
    ]
    variables = [os.environ.get(name) for name in (*_READ, *ADDED_TO)]
    return [str(path.absolute()), written, words, force, mpi_name, variables, _machine(), _code()]


def _machine() -> list[Any]:
    """Returns what identifies this machine since its start, and the PUs that this process may use."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        boot = ""
    return [os.uname().nodename, boot, sorted(os.sched_getaffinity(0))]


def _code() -> list[Any]:
    files = [entry.path for folder in _SOURCES for entry in os.scandir(folder) if entry.name.endswith((".py", ".toml"))]
    stamps = [disk_cache.file_signature(file) or [0, 0] for file in files]
    return [str(_SOURCES[0]), len(stamps), max(one[0] for one in stamps), sum(one[1] for one in stamps)]
