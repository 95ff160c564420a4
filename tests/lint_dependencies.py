"""Dependencies point one way: fails if a file includes or imports what lies beyond it, or if packages import each other
in a circle (docs: CONTRIBUTING.md).

A part may use itself and what ALLOWED names for it, and nothing else. What C and C++ files include is written
"part/file"; what Python files import counts with `from nearfield import x` and inside functions, too.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

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
    **dict.fromkeys(("preload/mpi", "preload/heap", "preload/openmpi"), {"base"}),
    "collectives": {"base"},
    **dict.fromkeys(("preload/forecast", "preload/mpich"), {"base", "preload/mpi"}),
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
        elif isinstance(node, ast.ImportFrom) and node.module == "nearfield":
            names = [f"nearfield.{alias.name}" for alias in node.names if not alias.name.startswith("__")]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name.removeprefix("nearfield.") for name in names if name.startswith("nearfield."))


def python_problems() -> Iterator[str]:
    package = ROOT / "python" / "nearfield"
    for file in sorted(package.rglob("*.py")):
        part, *inner = file.relative_to(package).with_suffix("").parts
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


def module_circles() -> Iterator[str]:
    """Yields the circles of modules that import each other when they are loaded."""
    root = ROOT / "python"
    modules = {".".join(file.relative_to(root).with_suffix("").parts): file for file in root.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): file for name, file in modules.items()}
    graph = {name: set(_loaded(file, set(modules))) - {name} for name, file in modules.items()}
    for start in sorted(graph):
        reached, todo = set(), list(graph[start])
        while todo:
            name = todo.pop()
            if name not in reached:
                reached.add(name)
                todo += graph[name]
        if start in reached:
            yield f"{modules[start].relative_to(ROOT)}: it imports modules that import it"


def _loaded(file: Path, modules: set[str]) -> Iterator[str]:
    """Yields the modules that the file imports at its top level."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            whole = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else node.module for name in whole if node.module in modules)


def circles(allowed: dict[str, set[str]]) -> Iterator[str]:
    """Yields the circles that the lists themselves would allow; base modules count as one."""
    graph = {part: {used for used in uses if used not in _BASE} for part, uses in allowed.items()}
    for start in graph:
        reached, todo = set(), list(graph[start])
        while todo:
            part = todo.pop()
            if part not in reached:
                reached.add(part)
                todo += graph.get(part, set())
        if start in reached:
            yield f"the lists allow a circle through {start}"


if __name__ == "__main__":
    found = [*native_problems(), *python_problems(), *circles(NATIVE), *circles(PYTHON), *module_circles()]
    print("\n".join(found) or "dependencies point one way")
    sys.exit(bool(found))
