"""Compiler options that insert hooks at loads and stores and link the hook library.

The compiler instruments the code as for ThreadSanitizer; the hook library (src/preload/observe) records accesses
instead of checking for races. Memory copies stay calls, so that they are recorded. Calls never become tail jumps, so
that every access has a location of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearfield import _native
from nearfield.base import disk_cache
from nearfield.base.errors import MpiError, UsageError
from nearfield.base.files import atomic_write

HOOK_LIBRARY_NAME = "libnearfield_observe.so"
_COPY_FUNCTIONS = ("memcpy", "memmove", "memset")
# Functions of the C library that ranges.cpp replaces at link time (--wrap)
WRAPPED_FUNCTIONS = (*_COPY_FUNCTIONS, "memcmp")


@dataclass(frozen=True)
class Language:
    """A language, identified by the nearfield verb that compiles it."""

    verb: str
    name: str
    compiler_variable: str  # environment variable that names the real compiler
    default_compiler: str  # the default compiler


LANGUAGES = {
    one.verb: one
    for one in (
        Language("cc", "C", "NEARFIELD_CC", "cc"),
        Language("cxx", "C++", "NEARFIELD_CXX", "c++"),
        Language("fc", "Fortran", "NEARFIELD_FC", "gfortran"),
    )
}


def hook_library() -> Path:
    """Returns the path of the hook library, which is built with the package and is not linked to any MPI."""
    return Path(_native.__file__).with_name(HOOK_LIBRARY_NAME)


def compiler_command(language: Language, arguments: Sequence[str]) -> list[str]:
    """Returns the command line of the real compiler with hook options. Raises UsageError if the compiler is missing,
    and MpiError if it does not support hooks."""
    compiler = (os.environ.get(language.compiler_variable) or language.default_compiler).split()
    compiler_path = shutil.which(compiler[0])
    if not compiler_path:
        remedy = f"install one, or name it: {language.compiler_variable}=/path/of/compiler"
        raise UsageError(f"there is no {language.name} compiler '{compiler[0]}'", remedy)
    return [compiler_path, *compiler[1:], *hook_options(compiler_path, language), *arguments]


def hook_options(compiler: str, language: Language, *, links_library: bool = True) -> list[str]:
    """Returns the options with which the compiler inserts hooks; with `links_library`, also those that link the hook
    library. Raises MpiError if the compiler is neither gcc nor clang."""
    kind = disk_cache.get_or_compute(
        "compiler", [compiler, _wrapper_variables()], lambda: _compiler_kind(compiler), [compiler]
    )
    if kind == "gcc":
        return [f"-specs={_specs_file(language, links_library=links_library)}"]
    if kind == "clang":
        return [*_clang_options(language), *(_link_options("-Wl,") if links_library else [])]
    raise MpiError(
        f"{compiler} is neither gcc nor clang, and other compilers have no hooks at loads and stores",
        f"compile this program with gcc, clang or gfortran: {language.compiler_variable}=gcc",
    )


def _wrapper_variables() -> list[str | None]:
    """Returns the values of the environment variables that change the compiler behind an MPI wrapper."""
    return [os.environ.get(f"{mpi}_{what}") for mpi in ("OMPI", "MPICH", "I_MPI") for what in ("CC", "CXX", "FC")]


def _compiler_kind(compiler: str) -> str | None:
    try:
        version_text = subprocess.run(
            [compiler, "-v"], capture_output=True, text=True, errors="replace", timeout=20
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    return "clang" if "clang version" in version_text else "gcc" if "gcc version" in version_text else None


def _code_options(language: Language) -> list[str]:
    # Fortran has no such options.
    copies = [f"-fno-builtin-{name}" for name in _COPY_FUNCTIONS] if language.verb != "fc" else []
    return [*copies, "-fno-optimize-sibling-calls", "-fno-plt"]


def _link_options(prefix: str = "") -> list[str]:
    folder = hook_library().parent
    options = ["-rpath", str(folder), *(f"--wrap={name}" for name in WRAPPED_FUNCTIONS)]
    prefixed_options = [f"{prefix}{word}" for word in options]
    return [f"-L{folder}", "-lnearfield_observe", *prefixed_options]


def _specs_file(language: Language, *, links_library: bool) -> Path:
    """Returns the path of a gcc spec file that passes the sanitizer option to the compiler proper only. Given to the
    driver, the option would also link the sanitizer's own library."""
    hooks = "-fsanitize=thread -U__SANITIZE_THREAD__"
    text = f"*cc1_options:\n+ {hooks} {' '.join(_code_options(language))}\n"
    if links_library:
        text += f"\n*lib:\n+ {' '.join(_link_options())}\n"
    folder = disk_cache.cache_root() / "observe"
    file = folder / f"{zlib.crc32(text.encode()):08x}.specs"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(file, text.encode(), "Set NEARFIELD_CACHE to a folder that can be written.")
    return file


def _clang_options(language: Language) -> list[str]:
    """Returns the options for clang. -Xclang passes the sanitizer option to the compiler proper only, since the driver
    would also link the sanitizer's own library."""
    hooks = ["-Xclang", "-fsanitize=thread"]
    reads = ["-mllvm", "-tsan-instrument-read-before-write=1"]  # otherwise clang omits these loads
    return [
        "-Wno-unused-command-line-argument",
        *hooks,
        *reads,
        *_code_options(language),
    ]
