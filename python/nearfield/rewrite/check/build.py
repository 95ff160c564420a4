"""Compiles and links a program in which one source file is replaced by a rewritten text."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearfield.base.errors import MpiError
from nearfield.mpi import Installation
from nearfield.mpi.compiler import find_first_error

COMPILE_LIMIT_S = 120.0
SOURCE_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".C")
_OPTIONS_WITH_VALUE = ("-o", "-MF", "-MT", "-MQ")
_DROPPED_OPTIONS = ("-c", "-S", "-E", "-M", "-MM", "-MD", "-MMD", "-MP", "-pipe")
_PREFIXES_OF_ROUNDING_OPTIONS = (
    "-O",
    "-ffast-math",
    "-Ofast",
    "-funsafe-math",
    "-fassociative-math",
    "-ffp-contract",
    "-g",
    "-flto",
)


class CompileError(MpiError):
    """Raised if a program does not compile or link; the message is the compiler's first error."""


@dataclass(frozen=True)
class Program:
    """A program to compile and run: the source file to be rewritten, the compiler `arguments` for it, relative to
    `directory`, and `linker_inputs` (other sources, objects, libraries). `arguments_by_run` are the command-line
    arguments of each run. A run starts in a copy of `input_folder`, or in an empty folder."""

    source: Path
    arguments: tuple[str, ...] = ()
    linker_inputs: tuple[str, ...] = ()
    arguments_by_run: tuple[tuple[str, ...], ...] = ((),)
    directory: Path = Path()
    input_folder: Path | None = None

    @property
    def is_c(self) -> bool:
        """Returns whether the source file is C, not C++."""
        return self.source.suffix == ".c"


def c_compiler_wrapper(inst: Installation) -> Path:
    """Returns the path of the MPI's C compiler wrapper (mpicc), which is in the folder of the C++ wrapper. Raises
    MpiError if there is none."""
    for cxx in ("mpicxx", "mpic++", "mpiCC"):
        wrapper = inst.compiler.with_name(inst.compiler.name.replace(cxx, "mpicc"))
        if wrapper != inst.compiler and wrapper.exists():
            return wrapper
    raise MpiError(f"{inst.name} has no mpicc beside {inst.compiler}", "install its development files")


def mpi_include_folders(inst: Installation) -> list[str]:
    """Returns the MPI's include folders, for a parser that does not run the compiler wrapper."""
    folders = [word.removeprefix("-I") for word in shlex.split(inst.show) if word.startswith("-I")]
    return folders or [str(inst.root / "include")]


def compiler_flags_of(program: Program, *, keeps_optimization: bool) -> list[str]:
    """Returns the flags with which a program is compiled, except those that name outputs (-o, -MF) or select what the
    compiler generates (-c, -E, -MD). Flags for optimization, rounding and debugging (-O, -ffast-math, -g) are included
    only if `keeps_optimization` is set."""
    flags: list[str] = []
    arguments = iter(program.arguments)
    for argument in arguments:
        if argument in _OPTIONS_WITH_VALUE:
            next(arguments, None)
        elif argument in _DROPPED_OPTIONS or (
            not keeps_optimization and argument.startswith(_PREFIXES_OF_ROUNDING_OPTIONS)
        ):
            continue
        elif (
            argument.startswith("-")
            or flags
            and flags[-1] in ("-I", "-D", "-U", "-isystem", "-include", "-iquote", "-x")
        ):
            flags.append(argument)
    return flags


def build_program(
    program: Program,
    inst: Installation,
    text: str,
    folder: Path,
    flags: Sequence[str],
    extra_linker_inputs: Sequence[str] = (),
) -> Path:
    """Compiles the program with `text` in place of its source file, and returns the path of the executable,
    `folder`/program. Headers in the source file's folder are found, and __FILE__ expands to the name of the source
    file. `extra_linker_inputs` is linked as well. Raises CompileError."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / program.source.name
    copy.write_text(text, encoding="utf-8", errors="surrogateescape")
    source_flags = ["-iquote", str(program.source.resolve().parent), f"-ffile-prefix-map={folder}/="]
    compiler = str(c_compiler_wrapper(inst) if program.is_c else inst.compiler)
    executable = folder / "program"
    arguments = [
        *flags,
        *source_flags,
        "-w",
        str(copy),
        *program.linker_inputs,
        *extra_linker_inputs,
        "-lm",
        "-o",
        str(executable),
    ]
    try:
        run_compiler([compiler, *arguments], program.directory, inst)
    except CompileError as error:
        raise CompileError(error.message.replace(f"{folder}/", "")) from None
    return executable


def compile_linked_sources(program: Program, inst: Installation, folder: Path, flags: Sequence[str]) -> list[str]:
    """Compiles the other sources of a program to objects in `folder`, and returns the program's linker inputs. Raises
    CompileError."""
    folder.mkdir(parents=True, exist_ok=True)
    compiler = str(c_compiler_wrapper(inst) if program.is_c else inst.compiler)
    linker_inputs = []
    for number, linker_input in enumerate(program.linker_inputs):
        if Path(linker_input).suffix in SOURCE_SUFFIXES:
            target = str(folder / f"{number}.o")
            run_compiler([compiler, *flags, "-w", "-c", linker_input, "-o", target], program.directory, inst)
            linker_input = target
        linker_inputs.append(linker_input)
    return linker_inputs


def run_compiler(command: list[str], directory: Path, inst: Installation) -> None:
    """Runs a compiler. Raises CompileError, with the compiler's first error, if it fails."""
    try:
        result = subprocess.run(
            command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=COMPILE_LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"the compiler of {inst.name} does not end within {COMPILE_LIMIT_S:.0f} s") from error
    except OSError as error:
        raise CompileError(f"{command[0]} does not run: {error.strerror}") from error
    if result.returncode:
        raise CompileError(find_first_error(result.stderr + result.stdout))
