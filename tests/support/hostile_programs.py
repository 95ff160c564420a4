"""Random programs in C and C++ of the kinds that a front end may misread.

They are put together from tests/hostile/ingredients.toml, which has one entry for each way to make an array, to get a
pointer, to exchange an element with the neighbours, and to loop over arrays: references, casts, macros, attributes,
lambdas, wrappers, carried variables, derived types, OpenMP, ... Each program ends, has no undefined behaviour, and
needs no buffered sends, so both versions of it must do the same whatever an MPI does."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tomllib

INGREDIENTS = Path(__file__).parents[1] / "hostile" / "ingredients.toml"
HEADERS = ("mpi.h", "math.h", "stdint.h", "stdio.h", "stdlib.h", "string.h")
STEPS = 3
_RANK = "int rank, size; MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size);\n"
_SIDES = "const int up = (rank + 1) % size, down = (rank + size - 1) % size;\n"
_FILL = "for (int k = 0; k < n + 20; k++) { u[k] = rank * 100 + k; v[k] = k; w[k] = 3 * k; }\n"
_SHOW = 'for (int k = 0; k < n + 2; k++) printf("%a %a %a\\n", u[k], v[k], w[k]);\n'
# Two arrays that overlap may not be parameters with `restrict`, and `break` ends a loop of steps.
_NOT_IN_FUNCTIONS = ("one block, overlapping by a row", "an early end")


@dataclass(frozen=True)
class HostileProgram:
    """A program, the suffix and the compiler flags of its file, and the names of its ingredients."""

    seed: int
    text: str
    suffix: str
    flags: tuple[str, ...]
    names: tuple[str, ...]


@cache
def ingredients() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Returns the entries by table."""
    return tomllib.loads(INGREDIENTS.read_text(encoding="utf-8"))


def hostile_program(seed: int) -> HostileProgram:
    """Returns the program of a seed."""
    draw = random.Random(seed)
    language = draw.choice(("c", "c++"))
    frame = _take(draw, "frame", language, 1)[0]["name"]
    excluded = () if frame == "main" else _NOT_IN_FUNCTIONS
    arrays, pointer, exchange = (
        _take(draw, table, language, 1, excluded)[0] for table in ("arrays", "pointer", "exchange")
    )
    sweeps = _take(draw, "sweep", language, draw.randint(1, 3), excluded)
    statements = _take(draw, "statement", language, draw.randint(1, 2), excluded)
    step = [exchange, *sweeps, *statements]
    draw.shuffle(step)
    used = [arrays, pointer, *step]
    text = _text(frame, language, used, arrays, pointer, step)
    flags = dict.fromkeys(flag for one in used for flag in one.get("flags", ()))
    standard = () if language == "c" else ("-std=c++20",)
    names = (language, frame, *(one["name"] for one in used))
    return HostileProgram(seed, text, ".c" if language == "c" else ".cpp", (*standard, *flags), names)


def _take(
    draw: random.Random, table: str, language: str, count: int, excluded: Sequence[str] = ()
) -> list[Mapping[str, Any]]:
    """Returns different entries of a table, drawn by their weights."""
    fitting = [
        one for one in ingredients()[table]
        if one.get("language", language) == language and one["name"] not in excluded
    ]  # fmt: skip
    taken: list[Mapping[str, Any]] = []
    while len(taken) < count:
        [one] = draw.choices(fitting, [entry.get("weight", 1) for entry in fitting])
        if one not in taken:
            taken.append(one)
    return taken


def _text(
    frame: str,
    language: str,
    used: Sequence[Mapping[str, Any]],
    arrays: Mapping[str, Any],
    pointer: Mapping[str, Any],
    step: Sequence[Mapping[str, Any]],
) -> str:
    def parts(key: str, of: Sequence[Mapping[str, Any]]) -> str:
        return "".join(f"{one[key]}\n" for one in of if one.get(key))

    includes = "".join(f"#include <{name}>\n" for name in HEADERS)
    files = "".join(dict.fromkeys(one["file"] for one in used if one.get("file")))
    setup, body, after = parts("setup", [pointer, *step]), parts("text", step), parts("after", step)
    begin = "int main(int argc, char **argv) {\nMPI_Init(&argc, &argv);\nint n = atoi(argv[1]), m = n / 2;\n(void)m;\n"
    begin += _RANK + _SIDES + parts("setup", [arrays]) + _FILL
    loop = f"for (int s = 0; s < {STEPS}; s++) {{\n"
    end = "MPI_Finalize();\nreturn 0;\n}\n"
    if frame == "main":
        return f"{includes}{files}{begin}{setup}{loop}{body}{_SHOW}}}\n{after}{_SHOW}{end}"
    restrict = ("restrict" if language == "c" else "__restrict__") if "restrict" in frame else ""
    written = "double {}[]" if "array parameters" in frame else f"double *{restrict} {{}}"
    parameters = ", ".join(written.format(name) for name in "uvw")
    function = f"static void step({parameters}, int n, int m, int s, int rank, int size, int up, int down) {{\n"
    function += f"(void)m, (void)rank, (void)size;\n{setup}{body}{after}}}\n"
    third = "v" if "twice" in frame else "w"
    call = f"step(u, v, {third}, n, m, s, rank, size, up, down);\n"
    return f"{includes}{files}{function}{begin}{loop}{call}{_SHOW}}}\n{end}"
