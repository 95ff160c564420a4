"""A program with one file that may be rewritten: how it is compiled, linked and run."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearfield.base.errors import MpiError
from nearfield.mpi import Installation
from nearfield.mpi.compiler import first_error

COMPILE_LIMIT_S = 120.0
SOURCES = (".c", ".cc", ".cpp", ".cxx", ".C")
_WITH_VALUE = ("-o", "-MF", "-MT", "-MQ")
_DROPPED = ("-c", "-S", "-E", "-M", "-MM", "-MD", "-MMD", "-MP", "-pipe")
_CHANGES_BITS = ("-O", "-ffast-math", "-Ofast", "-funsafe-math", "-fassociative-math", "-ffp-contract", "-g", "-flto")


class CompileError(MpiError):
    """A text does not compile or link; the message has the compiler's first error."""


@dataclass(frozen=True)
class Program:
    """A program: its file `source`, the compiler's `arguments` for it, which are taken as from `directory`, and what
    else is linked (sources, objects, libraries). Each of `runs` is the arguments of one run; a run gets a copy of
    `folder` as its working folder, else an empty one."""

    source: Path
    arguments: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    runs: tuple[tuple[str, ...], ...] = ((),)
    directory: Path = Path()
    folder: Path | None = None

    @property
    def is_c(self) -> bool:
        return self.source.suffix == ".c"


def c_wrapper(inst: Installation) -> Path:
    """Returns the MPI's wrapper of the C compiler, which lies beside that of the C++ compiler."""
    for cxx in ("mpicxx", "mpic++", "mpiCC"):
        wrapper = inst.compiler.with_name(inst.compiler.name.replace(cxx, "mpicc"))
        if wrapper != inst.compiler and wrapper.exists():
            return wrapper
    raise MpiError(f"{inst.name} has no mpicc beside {inst.compiler}", "install its development files")


def include_folders(inst: Installation) -> list[str]:
    """Returns where the MPI's headers are, for a parser that is not started by its wrapper."""
    shown = [word.removeprefix("-I") for word in shlex.split(inst.show) if word.startswith("-I")]
    return shown or [str(inst.root / "include")]


def flags_of(program: Program, *, keep_optimisation: bool) -> list[str]:
    """Returns the compiler's flags without those that say what to write. `keep_optimisation` keeps -O and the flags
    that allow other roundings."""
    kept: list[str] = []
    arguments = iter(program.arguments)
    for argument in arguments:
        if argument in _WITH_VALUE:
            next(arguments, None)
        elif argument in _DROPPED or (not keep_optimisation and argument.startswith(_CHANGES_BITS)):
            continue
        elif (
            argument.startswith("-") or kept and kept[-1] in ("-I", "-D", "-U", "-isystem", "-include", "-iquote", "-x")
        ):
            kept.append(argument)
    return kept


def build(
    program: Program, inst: Installation, text: str, folder: Path, flags: Sequence[str], more: Sequence[str] = ()
) -> Path:
    """Compiles the program with `text` in place of its file, and returns the executable, `folder`/program. Headers
    beside the file are found, and __FILE__ is its name. `more` is linked, too. Raises CompileError."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / program.source.name
    copy.write_text(text, encoding="utf-8", errors="surrogateescape")
    beside = ["-iquote", str(program.source.resolve().parent), f"-ffile-prefix-map={folder}/="]
    compiler = str(c_wrapper(inst) if program.is_c else inst.compiler)
    executable = folder / "program"
    own = [*flags, *beside, "-w", str(copy), *program.linked, *more, "-lm", "-o", str(executable)]
    try:
        compiled([compiler, *own], program.directory, inst)
    except CompileError as error:
        raise CompileError(error.message.replace(f"{folder}/", "")) from None
    return executable


def objects(program: Program, inst: Installation, folder: Path, flags: Sequence[str]) -> list[str]:
    """Returns what the program links, with an object in the folder for each source. Raises CompileError."""
    folder.mkdir(parents=True, exist_ok=True)
    compiler = str(c_wrapper(inst) if program.is_c else inst.compiler)
    made = []
    for number, linked in enumerate(program.linked):
        if Path(linked).suffix in SOURCES:
            target = str(folder / f"{number}.o")
            compiled([compiler, *flags, "-w", "-c", linked, "-o", target], program.directory, inst)
            linked = target
        made.append(linked)
    return made


def compiled(command: list[str], directory: Path, inst: Installation) -> None:
    """Runs a compiler. Raises CompileError with its first error."""
    try:
        done = subprocess.run(
            command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=COMPILE_LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"the compiler of {inst.name} does not end within {COMPILE_LIMIT_S:.0f} s") from error
    except OSError as error:
        raise CompileError(f"{command[0]} does not run: {error.strerror}") from error
    if done.returncode:
        raise CompileError(first_error(done.stderr + done.stdout))
