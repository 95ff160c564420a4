"""Dependencies point one way: fails if a file includes or imports what lies beyond it, or if packages or their files
import each other in a circle (docs: CONTRIBUTING.md).

A part may use itself and what ALLOWED names for it, and nothing else. What C and C++ files include is written
"part/file"; what Python files import counts with `from nearfield import x` and inside functions, too.
"""

import ast
import re
import sys
from collections.abc import Container, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "nearfield"

# base <- topology <- machine <- scenario <- {probe, sim <- trace}, base <- plan <- halo, all of these <- python; and
# base <- {trace/stream, preload}, where preload is loaded into other people's programs. sim and advise read streams.
# sim and preload have rooms; those of sim are a ladder: each uses the ones before it.
_BELOW = {"base", "topology", "machine"}
_SIM = ["sim/engine", "sim/network", "sim/memory", "sim/node", "sim/nic", "sim/mpi", "sim/run"]
NATIVE = {
    "base": set(),
    "topology": {"base"},
    "machine": {"base", "topology"},
    "calibrate": {"base"},
    "scenario": {"base", "machine"},
    "probe": _BELOW | {"scenario"},
    **{room: _BELOW | set(_SIM[:floor]) for floor, room in enumerate(_SIM)},
    "sim/run": _BELOW | set(_SIM[:-1]) | {"scenario", "trace/stream", "collectives"},
    "plan": {"base"},
    "halo": _BELOW | {"plan", "nearfield"},  # nearfield/: the installed headers
    "trace/stream": {"base"},
    **dict.fromkeys(("preload/mpi", "preload/heap", "preload/pair_rules"), {"base"}),
    "preload/openmpi": {"base", "preload/pair_rules"},
    "collectives": {"base"},
    "preload/forecast": {"base", "preload/mpi"},
    "preload/mpich": {"base", "preload/mpi", "preload/pair_rules"},
    "preload/collectives": {"base", "collectives", "preload/mpi"},
    "preload/observe": {"base", "preload/mpi", "trace/stream"},
    "preload/measure": set(),
    "preload/verify": {"trace/stream"},  # it is the other recorder of the hooks in preload/observe
    "analysis": {"base", "trace/stream"},
    "trace": {"base", "machine", "sim/memory"},
    "python": _BELOW | set(_SIM) | {"calibrate", "scenario", "plan", "trace", "trace/stream", "analysis"},
}

# What everything may use, and what uses nothing but each other and the extension.
_BASE = {"_native", "base", "follow"}
_SHOWN = _BASE | {"ui", "notes"}
_RECORDS = _SHOWN | {"profile"}
_MACHINES = _RECORDS | {"machine"}
_RULES = _MACHINES | {"mpi", "measure", "rules"}
PYTHON = {
    **dict.fromkeys(_BASE, _BASE),
    "ui": _BASE,
    "notes": _BASE,
    "mpi": _SHOWN,
    "profile": _SHOWN,
    "machine": _RECORDS,
    "measure": _MACHINES | {"mpi"},
    "simulate": _MACHINES | {"measure"},
    "calibrate": _MACHINES,
    "validate": _MACHINES | {"measure", "calibrate", "report"},
    "plan": _MACHINES,
    "halo": _MACHINES | {"plan", "mpi"},
    "rules": _MACHINES | {"mpi"},
    "tune": _RULES,
    "apply": _RULES,
    "observe": _MACHINES | {"measure", "mpi"},
    "forecast": _RULES | {"apply", "observe"},
    "report": _RULES,
    "advise": _RULES | {"observe", "plan", "report"},
    "rewrite": _RULES | {"observe"},  # what it verifies runs with the hooks of `observe`
    "reproduce": _RULES | {"observe", "report", "simulate", "apply", "tune"},
    "doctor": _RULES | {"apply", "halo"},
}
# Folders of a part, of which each may import the ones before it, and none the modules beside the folders.
FOLDERS = {"rewrite": ("frontend", "analysis", "model", "codegen", "check", "placement")}
# (file, imported file) -> why this import may close a circle; the docstring of one of the two says it, too.
ARGUED = {
    ("halo.field", "halo.grid"): "a grid creates its fields, which hold the grid; only annotations import it",
    ("halo.exchange", "halo.grid"): "a grid creates its exchanges, which hold the grid; only annotations import it",
}


def part_of(path: str) -> str:
    """Returns the part of a file below src: its room, as `sim/memory`, if that is listed, else its first folder."""
    folders = path.split("/")[:-1]
    room = "/".join(folders[:2])
    return room if room in NATIVE else folders[0] if folders else ""


def native_problems() -> Iterator[str]:
    for file in sorted((ROOT / "src").rglob("*.[ch]*")):
        part = part_of(file.relative_to(ROOT / "src").as_posix())
        for path in re.findall(r'^#include "(\w+/[^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE):
            if (used := part_of(path)) != part and used not in NATIVE.get(part, set()):
                yield f"{file.relative_to(ROOT)}: {part} must not include {used}"


def imports(file: Path) -> Iterator[str]:
    """Yields the modules of nearfield that the file imports, wherever in it, without 'nearfield.'."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            folders = ["nearfield", *file.relative_to(PACKAGE).parts[: -node.level]] if node.level else []
            origin = ".".join(filter(None, [*folders, node.module]))
            names = [f"{origin}.{alias.name}" for alias in node.names if not alias.name.startswith("__")]
        yield from (name.removeprefix("nearfield.") for name in names if name.startswith("nearfield."))


def python_problems() -> Iterator[str]:
    for file in sorted(PACKAGE.rglob("*.py")):
        part, *inner = file.relative_to(PACKAGE).with_suffix("").parts
        if part in ("cli", "__init__", "__main__"):
            continue  # they may use everything
        used = [name.split(".") for name in imports(file)]
        for other in sorted({names[0] for names in used} - {part} - PYTHON.get(part, set())):
            yield f"{file.relative_to(ROOT)}: {part} must not import {other}"
        folders = FOLDERS.get(part, ())
        if inner and inner[0] in folders:
            allowed = folders[: folders.index(inner[0]) + 1]
            for other in sorted({names[1] for names in used if names[0] == part and names[1:]} - {*allowed}):
                yield f"{file.relative_to(ROOT)}: {inner[0]} must not import {other}"


def module_graph() -> dict[str, set[str]]:
    """Returns file -> imported files, wherever in the file the import is. A package that imports files by names that it
    finds at run time counts as importing all of its files."""
    files = {".".join(file.relative_to(PACKAGE).with_suffix("").parts): file for file in PACKAGE.rglob("*.py")}
    files = {name.removesuffix(".__init__"): file for name, file in files.items()}
    graph = {name: {_file_of(imported, files) for imported in imports(file)} for name, file in files.items()}
    for name, file in files.items():
        if file.name == "__init__.py" and "import_module(" in file.read_text(encoding="utf-8"):
            graph[name] |= {other for other in files if other.rpartition(".")[0] == name}
    return {name: used - {name, ""} for name, used in graph.items()}


def _file_of(name: str, files: Container[str]) -> str:
    """Returns the file that holds an imported name: the longest beginning of the name that is a file; "" if none is."""
    while name and name not in files:
        name = name.rpartition(".")[0]
    return name


def module_circles() -> Iterator[str]:
    """Yields the circles of files that import each other, and the imports of ARGUED that close no circle."""
    graph = module_graph()
    for importer, used in ARGUED:
        if used not in graph[importer] or not path_between(graph, used, importer):
            yield f"ARGUED: the import of {used} in {importer} closes no circle"
    graph = {name: {other for other in used if (name, other) not in ARGUED} for name, used in graph.items()}
    for name in sorted(graph):
        path = path_between(graph, name, name)
        if path and name == min(path):
            yield f"a circle of imports: {' -> '.join(path)}"


def circles(allowed: dict[str, set[str]]) -> Iterator[str]:
    """Yields the circles that the lists themselves would allow; base modules count as one."""
    graph = {part: {used for used in uses if used not in _BASE} for part, uses in allowed.items()}
    yield from (f"the lists allow a circle through {part}" for part in graph if path_between(graph, part, part))


def path_between(graph: dict[str, set[str]], start: str, end: str) -> list[str]:
    """Returns a shortest path of at least one step from `start` to `end`; [] if there is none."""
    paths, reached = [[start]], set()
    for path in paths:
        for used in sorted(graph.get(path[-1], set()) - reached):
            if used == end:
                return [*path, used]
            reached.add(used)
            paths.append([*path, used])
    return []


if __name__ == "__main__":
    found = [*native_problems(), *python_problems(), *circles(NATIVE), *circles(PYTHON), *module_circles()]
    print("\n".join(found) or "dependencies point one way")
    sys.exit(bool(found))
