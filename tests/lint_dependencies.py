"""Dependencies point one way: fails if a file includes or imports what lies beyond it.

C++: base <- topology <- machine <- {probe, halo, sim} <- python, and base <- {heap, tune} (docs: CONTRIBUTING.md). A
part may include itself and everything before it; parts in one bracket never include one another. Python: measuring
(probe) may use mpi, profile and topology; what reads profiles (report, profile) must not import what measures.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASE = {"base"}
CPP = {
    "base": set(),
    "topology": BASE,
    "machine": BASE | {"topology"},
    "probe": BASE | {"topology", "machine"},
    "halo": BASE | {"topology", "machine"},
    "sim": BASE | {"topology", "machine"},
    "heap": BASE,
    "tune": BASE,
    "python": BASE | {"topology", "machine", "halo", "sim"},
}
# Python packages that must not import those named.
PYTHON_FORBIDDEN = {
    "mpi": {"probe", "profile", "report", "cli"},
    "profile": {"probe", "mpi", "report", "cli"},
    "report": {"probe", "mpi", "reproduce", "cli"},
    "probe": {"report", "cli"},
    "tune": {"probe", "report", "cli"},
    "machine": {"probe", "mpi", "plan", "tune", "report", "cli"},
    "plan": {"probe", "mpi", "tune", "report", "cli"},
    "simulate": {"probe", "reproduce", "mpi", "plan", "tune", "report", "cli"},
    "reproduce": {"mpi", "plan", "tune", "cli"},
    "doctor": {"probe", "report", "cli"},
}


def cpp_problems() -> list[str]:
    problems = []
    for file in sorted((ROOT / "src").rglob("*.[ch]pp")):
        part = file.relative_to(ROOT / "src").parts[0]
        for used in re.findall(r'^#include "(\w+)/', file.read_text(), re.MULTILINE):
            if used in CPP and used != part and used not in CPP[part]:
                problems.append(f"{file.relative_to(ROOT)}: {part} must not include {used}")
    return problems


def python_problems() -> list[str]:
    package = ROOT / "python" / "nearfield"
    problems = []
    for part, forbidden in PYTHON_FORBIDDEN.items():
        for file in sorted((package / part).rglob("*.py")):
            for used in re.findall(r"^\s*(?:from|import) nearfield\.(\w+)", file.read_text(), re.MULTILINE):
                if used in forbidden:
                    problems.append(f"{file.relative_to(ROOT)}: {part} must not import {used}")
    return problems


if __name__ == "__main__":
    found = cpp_problems() + python_problems()
    print("\n".join(found) or "dependencies point one way")
    sys.exit(bool(found))
