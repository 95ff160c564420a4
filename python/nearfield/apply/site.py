"""Installs rules for all users of a cluster: a folder from which every process takes those of its own node.

PREFIX/lib has a copy of the shared heap, which jobs preload. It finds PREFIX/rules.d by its own path, so PREFIX may be
moved or mounted at another place. The formats are those of src/preload/heap/site_rules.hpp; docs/reference/site.md
describes them. All nodes of a job need the same selection of collectives, so these files have none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from nearfield import _native
from nearfield.base import shared_heap
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import atomic_write, os_errors_as_profile_errors, read_user_file
from nearfield.rules.knobs import version_numbers
from nearfield.rules.schema import Rules

LIBRARY_PATH, RULES_FOLDER, SETTINGS_FILE = f"lib/{shared_heap.HEAP_LIBRARY_NAME}", "rules.d", "site.conf"
MODULEFILE_PATH, TASK_PROLOG_PATH = "modulefiles/nearfield", "share/task-prolog.sh"
OFF_KEY, LOG_KEY = "off", "log"  # keys of site.conf
# Variables that rules may set, as in src/preload/heap/site_rules.cpp: those of transports inside a node that load no
# code, and that nodes of one job may have different values of. A name that ends in "_" stands for all that begin so.
ALLOWED_VARIABLES = (
    "OMPI_MCA_btl_vader_", "OMPI_MCA_btl_sm_", "OMPI_MCA_smsc", "MPIR_CVAR_CH4_SHM_POSIX_", "MPIR_CVAR_CH4_IPC_CMA_",
    "MPIR_CVAR_CH4_PACK_BUFFER_SIZE", "I_MPI_SHM", "I_MPI_SHM_CELL_", "UCX_POSIX_",
)  # fmt: skip
_MAX_FILES, _MAX_FILE_BYTES, _MAX_VARIABLES = 256, 16383, 32  # limits of what a process reads
_SITE_FOLDERS = ("", "lib", RULES_FOLDER, "modulefiles", "share")
_NODE_TYPE_KEYS = ("mpi", "processor", "cache_bytes", "distances")  # keys of a rules file that identify MPI and node
_OTHER_FOLDER_REMEDY = "choose another folder, or run this as its owner"
_SETTINGS_TEXT = """\
# Settings for all users of this folder (docs: reference/site.md). An update does not overwrite this file.
#   off = REASON   the library does nothing in any process that starts from now on
#   log = FILE     adds a line of JSON for each node of each job
"""
_MODULEFILE_TEXT = """\
#%Module1.0
proc ModulesHelp { } {
    puts stderr "Rules of nearfield for MPI on this cluster: each node takes those of its type."
    puts stderr "NEARFIELD_OFF=1 switches them off for a job, NEARFIELD_VERBOSE=1 prints which are used."
}
module-whatis "Faster MPI inside a node, by the rules of nearfield for this type of node"
# This folder is found by the place of this file, so it may be moved.
set prefix [file dirname [file dirname [file normalize $ModulesCurrentModulefile]]]
if { [file readable $prefix/LIBRARY] || [module-info mode unload] } {
    prepend-path LD_PRELOAD $prefix/LIBRARY
    # AddressSanitizer's runtime must not refuse a library before it; the library then does nothing.
    prepend-path ASAN_OPTIONS verify_asan_link_order=0
}
"""
_TASK_PROLOG_TEXT = """\
#!/bin/sh
# For TaskProlog in slurm.conf, or srun --task-prolog: preloads the library that takes the rules of this node.
[ "${NEARFIELD_OFF:-0}" = 0 ] || exit 0
library=$(cd "$(dirname "$0")/.." && pwd)/LIBRARY
[ -r "$library" ] || exit 0
# nearfield's own commands and the environments that it exports for a job set the rules themselves.
[ "${NEARFIELD_SITE:-1}${NEARFIELD_HEAP+x}" = 1 ] || exit 0
case ":${LD_PRELOAD:-}:" in *:"$library":*) exit 0 ;; esac
echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}"
# AddressSanitizer's runtime must not refuse a library before it; the library then does nothing.
echo "export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0"
"""


@dataclass(frozen=True)
class NodeRules:
    """One file of rules.d: the MPI and the node type that it applies to, and the variables that it sets. `heap` has the
    settings of the shared heap; None if the heap is off."""

    name: str
    mpi: str
    processor: str
    cache_bytes: tuple[int, ...]
    distances: tuple[str, ...]
    variables: dict[str, str]
    heap: str | None
    left_out: tuple[str, ...] = ()  # variables of the tuned rules that a node must not set by itself

    def describe_node_difference(self) -> str:
        """Returns the first difference between this node and the node type of the rules; empty if there is none."""
        here = _native.node_type()
        pairs = (
            ("another processor", self.processor, here.processor),
            ("other caches", self.cache_bytes, tuple(here.cache_bytes)),
            ("cores at other distances", self.distances, tuple(here.distances)),
        )
        return next((what for what, theirs, ours in pairs if theirs != ours), "")


@dataclass
class Site:
    """The contents of a site's folder, and the problems that were found in it."""

    prefix: Path
    settings: dict[str, str] = field(default_factory=dict)  # of site.conf
    rules: list[NodeRules] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def make_node_rules(rules: Rules) -> NodeRules:
    """Returns the part of rules that each process can apply by itself: that for messages inside a node."""
    best = rules.best_rule_for_all_pairs().parameters
    variables = rules.find_knob_file().environment(best)
    heap = variables.pop(shared_heap.HEAP_VARIABLE, None)
    left_out = tuple(name for name in variables if not _is_allowed_variable(name))
    variables = {name: value for name, value in variables.items() if name not in left_out}
    series = ".".join(map(str, version_numbers(rules.mpi.version)[:2]))
    processor = " ".join(rules.machine.cpu_model.split())
    identity = [processor, rules.machine.cache_bytes, rules.machine.distances]
    words = re.sub(r"[^a-z0-9]+", "-", processor.lower()).strip("-")[:60]
    name = f"{rules.mpi.family}-{series}-{words}-{sha256(repr(identity).encode()).hexdigest()[:4]}.conf"
    return NodeRules(
        name, f"{rules.mpi.family} {series}", processor, tuple(rules.machine.cache_bytes),
        tuple(rules.machine.distances), variables, heap, left_out,
    )  # fmt: skip


def _is_allowed_variable(variable: str) -> bool:
    return any(variable.startswith(name) if name[-1] == "_" else variable == name for name in ALLOWED_VARIABLES)


def install_site(prefix: Path, rules: Sequence[Rules]) -> list[NodeRules]:
    """Writes the library, the rules and what loads them into a folder, each file whole or not at all. Rules for the
    same MPI and type of node are replaced. Raises ProfileError if a file cannot be written."""
    if ":" in str(prefix) or len(str(prefix).split()) > 1:
        raise UsageError(f"a library in '{prefix}' cannot be preloaded", "name a folder without spaces and colons")
    with os_errors_as_profile_errors(prefix, _OTHER_FOLDER_REMEDY):
        for folder in [*reversed(prefix.parents), *(prefix / name for name in _SITE_FOLDERS)]:
            if not folder.exists():
                folder.mkdir()
                folder.chmod(0o755)  # whatever the umask is: all users read the folder, and only the owner writes
    _replace_file(prefix / LIBRARY_PATH, shared_heap.heap_library_path().read_bytes(), 0o755)
    _replace_file(prefix / MODULEFILE_PATH, _MODULEFILE_TEXT.replace("LIBRARY", LIBRARY_PATH), 0o644)
    _replace_file(prefix / TASK_PROLOG_PATH, _TASK_PROLOG_TEXT.replace("LIBRARY", LIBRARY_PATH), 0o755)
    if not (prefix / SETTINGS_FILE).exists():
        _replace_file(prefix / SETTINGS_FILE, _SETTINGS_TEXT, 0o644)
    written = [(make_node_rules(one), one) for one in rules]
    for made, one in written:
        _replace_file(prefix / RULES_FOLDER / made.name, _format_rules_file(made, one), 0o644)
    return [made for made, _ in written]


def write_setting(prefix: Path, key: str, value: str | None) -> None:
    """Sets a line of site.conf, or removes it. Comments and other lines stay."""
    path = prefix / SETTINGS_FILE
    if not (prefix / RULES_FOLDER).is_dir():
        raise UsageError(f"{prefix} is not the folder of a site", "install rules there first: name rules files, too")
    lines = _read_text(path).splitlines() if path.exists() else _SETTINGS_TEXT.splitlines()
    others = [line for line in lines if line.split("=")[0].strip() != key]
    added = [f"{key} = {' '.join(value.split())}"] if value is not None else []
    _replace_file(path, "\n".join([*added, *others, ""]), 0o644)


def create_log_file(path: Path) -> None:
    """Creates the log file if it is missing, with mode 0622: everybody may append to it, and only its owner may read
    it. Processes of jobs create no file, since it would belong to the first user."""
    if not path.is_absolute():
        raise UsageError(f"'{path}' is not the same file for all jobs", "name an absolute path with --log")
    if not path.exists():
        with os_errors_as_profile_errors(path, "choose another file with --log"):
            path.touch()
            path.chmod(0o622)


def read_site(prefix: Path) -> Site:
    """Returns the settings and rules that are installed in the folder. Raises UsageError if no site is installed
    there."""
    if not (prefix / RULES_FOLDER).is_dir():
        raise UsageError(f"{prefix} is not the folder of a site", "install rules there first: name rules files, too")
    site = Site(prefix)
    site.problems += [
        problem
        for name in _SITE_FOLDERS
        if (prefix / name).exists()
        for problem in _permission_problems(prefix / name, prefix)
    ]
    if (prefix / SETTINGS_FILE).exists():
        _parse_key_value_file(prefix / SETTINGS_FILE, site, lambda key, value: _add_setting(site, key, value))
    files = sorted((prefix / RULES_FOLDER).glob("*.conf"))
    if len(files) > _MAX_FILES:
        site.problems.append(f"{prefix / RULES_FOLDER} has {len(files)} files; processes read {_MAX_FILES} of them")
    for path in files:
        if made := _read_rules(path, site):
            site.rules.append(made)
    if not (prefix / LIBRARY_PATH).is_file():
        site.problems.append(f"{prefix / LIBRARY_PATH} is missing")
    return site


def _permission_problems(path: Path, prefix: Path) -> Iterator[str]:
    """Yields the reasons why processes of other users ignore a file or folder, by the criteria of
    src/preload/heap/site_rules.cpp."""
    status = path.stat()
    owner = (prefix / LIBRARY_PATH).stat().st_uid if (prefix / LIBRARY_PATH).exists() else status.st_uid
    if status.st_mode & 0o022 or status.st_uid not in (0, owner):
        yield f"{path} can be changed by others than root and the library's owner (chmod go-w, chown)"
    wanted = 0o055 if path.is_dir() else 0o044
    if status.st_mode & wanted != wanted:
        yield f"{path} cannot be read by all users (chmod go+r{'x' if path.is_dir() else ''})"


def _read_rules(path: Path, site: Site) -> NodeRules | None:
    values: dict[str, str] = {}
    variables: dict[str, str] = {}

    def add(key: str, value: str) -> bool:
        if key.startswith("set "):
            name = key.removeprefix("set ").strip()
            variables[name] = value
            return _is_allowed_variable(name) and len(variables) <= _MAX_VARIABLES
        values[key] = value
        return key in (*_NODE_TYPE_KEYS, "heap")

    if not _parse_key_value_file(path, site, add):
        return None
    if missing := [key for key in _NODE_TYPE_KEYS if key not in values]:
        site.problems.append(f"{path} has no line '{missing[0]} = ...'")
        return None
    sizes = values["cache_bytes"].split()
    if not all(size.isdigit() for size in sizes):
        site.problems.append(f"{path}: cache_bytes are no numbers")
        return None
    return NodeRules(
        path.name, values["mpi"], values["processor"], tuple(map(int, sizes)),
        tuple(values["distances"].split()), variables, values.get("heap"),
    )  # fmt: skip


def _add_setting(site: Site, key: str, value: str) -> bool:
    site.settings[key] = value
    return key in (OFF_KEY, LOG_KEY)


def _parse_key_value_file(path: Path, site: Site, add: Callable[[str, str], bool]) -> bool:
    """Calls add(key, value) for each line "key = value". Returns whether processes use the file: all lines are
    understood, it is not too long, and nobody else can change it."""
    if problems := list(_permission_problems(path, site.prefix)):
        site.problems += problems
        return False
    if path.stat().st_size > _MAX_FILE_BYTES:
        site.problems.append(f"{path} is longer than {_MAX_FILE_BYTES} bytes")
        return False
    for number, line in enumerate(_read_text(path).splitlines(), 1):
        key, equals, value = (word.strip() for word in line.partition("="))
        if key and not key.startswith("#") and not (equals and add(key, value)):
            site.problems.append(f"{path}: line {number} is not understood: {line[:60]}")
            return False
    return True


def _read_text(path: Path) -> str:
    try:
        return read_user_file(path).decode(errors="replace")
    except OSError as error:
        raise ProfileError(f"cannot read {path}: {error.strerror}", _OTHER_FOLDER_REMEDY) from error


def _format_rules_file(node_rules: NodeRules, rules: Rules) -> str:
    """Returns the content of a file of rules.d."""
    lines = [
        f"# Tuned for {rules.mpi.family} {rules.mpi.version} by nearfield {rules.nearfield} on {rules.host},",
        f"# {rules.created}: {rules.command}",
        f"mpi = {node_rules.mpi}",
        f"processor = {node_rules.processor}",
        f"cache_bytes = {' '.join(map(str, node_rules.cache_bytes))}",
        f"distances = {' '.join(node_rules.distances)}",
        *(f"set {name} = {value}" for name, value in node_rules.variables.items()),
    ]
    if node_rules.heap is not None:
        lines.append(f"heap = {node_rules.heap}")
    if not node_rules.variables and node_rules.heap is None:
        lines.append("# The defaults of this MPI are best on such a node.")
    return "".join(f"{' '.join(line.split())}\n" for line in lines)


def _replace_file(path: Path, content: bytes | str, mode: int) -> None:
    """Writes a file by renaming a new one, since jobs may have the old library open."""
    atomic_write(path, content, _OTHER_FOLDER_REMEDY)
    with os_errors_as_profile_errors(path, _OTHER_FOLDER_REMEDY):
        path.chmod(mode)
