"""Compares variants of random programs with their originals: compiles many programs into one executable, which runs all
of them on the same data (tests/programs/rewrite_variants.c), linked with what makes early reads and late writes of
message buffers visible (src/preload/verify)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from random_programs import RandomProgram

from nearfield import mpi
from nearfield.mpi import Installation
from nearfield.rewrite.check.build import c_compiler_wrapper, run_compiler
from nearfield.rewrite.check.observed import ObservedRun, RankLog, read_run
from nearfield.rewrite.check.verify import COMPILER_FLAGS, layer_linker_inputs

RANKS = (1, 2, 4)
_HARNESS = Path(__file__).parents[1] / "programs" / "rewrite_variants.c"
_LIMIT_S = 300.0
_FUNCTIONS = ("region", *(f"part{number}" for number in range(10)))  # of each program


@dataclass(frozen=True)
class Candidate:
    """A program and its variants, whole files: some name of each, and its text."""

    program: RandomProgram
    variants: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Mismatch:
    """A variant whose results differ from those of the original."""

    program: RandomProgram
    variant: str
    text: str
    ranks: int
    says: str


def compare_variants(
    candidates: Sequence[Candidate], inst: Installation, ranks: Sequence[int] = RANKS, patience_s: int = 20
) -> tuple[int, list[Mismatch]]:
    """Returns how many cases were run (a variant, a size, a rank count, in a ring or a chain), and which variants do
    not do as the original in some of them. Raises CompileError if a text does not compile."""
    with TemporaryDirectory(prefix="nearfield-variants-", ignore_cleanup_errors=True) as folder:
        executable = _built(candidates, inst, Path(folder))
        cases, found = 0, dict[str, Mismatch]()
        for count in ranks:
            done, wrong = _run(candidates, executable, inst, count, patience_s)
            cases += done
            found = wrong | found
        return cases, list(found.values())


def _built(candidates: Sequence[Candidate], inst: Installation, folder: Path) -> Path:
    functions, lists = ["#include <mpi.h>"], []
    for number, one in enumerate(candidates):
        texts = [one.program.text, *(text for _, text in one.variants)]
        stems = [f"region_{number}_{variant}" for variant in range(len(texts))]
        names = [f"{stem}_region" for stem in stems]
        for name, text in zip(stems, texts, strict=True):
            (folder / f"{name}.c").write_text(text)
            functions += [f"#define {one} {name}_{one}" for one in _FUNCTIONS]
            functions += [f'#include "{name}.c"', "#undef AT", *(f"#undef {one}" for one in _FUNCTIONS)]
        lists.append(_declare_variants(number, one.program, names))
    (folder / "functions.c").write_text("\n".join([*functions, ""]))
    table = "".join(f"{{{row}}},\n" for _, row in lists)
    head = "\n".join(line for line, _ in lists)
    (folder / "variants.inc").write_text(
        f"{head}\nstatic const program programs[] = {{\n{table}}};\nstatic const int program_count = {len(lists)};\n"
    )
    executable = folder / "variants"
    sources = [str(folder / "functions.c"), str(_HARNESS), *layer_linker_inputs(inst)]
    options = ["-std=gnu11", *COMPILER_FLAGS, "-O1", "-fPIC", "-w", f"-I{folder}", "-o", str(executable)]
    run_compiler([str(c_compiler_wrapper(inst)), *options, *sources], folder, inst)
    return executable


def _declare_variants(number: int, program: RandomProgram, names: list[str]) -> tuple[str, str]:
    """Returns the declarations for a program and its row of the table."""
    declared = f"extern region {', '.join(names)};\nstatic region* const variants_{number}[] = {{{', '.join(names)}}};"
    sizes = ", ".join("{" + ", ".join(map(str, size)) + "}" for size in program.sizes)
    kinds = f"{int(program.element == 'int')}, {int(program.element == 'float')}"
    return declared, f"{program.seed}, {kinds}, {len(names)}, variants_{number}, {{{sizes}}}"


def _run(
    candidates: Sequence[Candidate], executable: Path, inst: Installation, ranks: int, patience_s: int
) -> tuple[int, dict[str, Mismatch]]:
    """Runs all on `ranks` ranks; those that end the program are left out of another run."""
    left_out: list[str] = []
    found: dict[str, Mismatch] = {}
    while True:
        with TemporaryDirectory(prefix="nearfield-variants-", ignore_cleanup_errors=True) as folder:
            env = {
                "NEARFIELD_VERIFY": folder,
                "NEARFIELD_VERIFY_SYNCHRONOUS": "1",
                "NEARFIELD_PATIENCE_S": str(patience_s),
            }
            argv = [str(executable), *left_out]
            done = mpi.run(inst, argv, ranks, oversubscribe=True, timeout_s=_LIMIT_S, env=env)
            run = read_run(Path(folder), Path(folder), done.exit_code, done.seconds, done.timed_out, done.stderr)
        failed = False
        for name, says in _problems(run):
            failed = failed or says.startswith("FAILED")
            if name not in found:
                found[name] = _mismatch(candidates, name, ranks, says)
                left_out.append(name)
        finished = re.search(r"^DONE (\d+)$", "\n".join(run.texts_by_stream["stdout"]), re.MULTILINE)
        if finished and not failed:
            return int(finished[1]), found
        if not failed:
            last = [rank.memory_checks[-1:] for rank in run.ranks]
            raise AssertionError(
                f"{ranks} ranks ended with {done.exit_code} after {done.seconds:.0f} s at {last}: "
                f"{run.first_error_line}"
            )


def _problems(run: ObservedRun) -> list[tuple[str, str]]:
    """Returns the names of variants with what is wrong with them."""
    lines = [line for text in run.texts_by_stream["stdout"] for line in text.splitlines()]
    reports = [(line.split()[1], line) for line in lines if line.startswith(("MISMATCH", "FAILED"))]
    return reports + [(_name_before(rank, places), text) for rank in run.ranks for places, text in rank.buffer_misuses]


def _name_before(rank: RankLog, places: int) -> str:
    """Returns the variant that ran; a program may have places of its own."""
    return next(where.split()[0] for where, _ in reversed(rank.memory_checks[:places]) if " size " in where)


def _mismatch(candidates: Sequence[Candidate], name: str, ranks: int, says: str) -> Mismatch:
    number, variant = map(int, name.split("."))
    one = candidates[number]
    assert variant > 0, f"the original itself fails, seed {one.program.seed}, {ranks} ranks: {says}"
    return Mismatch(one.program, *one.variants[variant - 1], ranks, says)
