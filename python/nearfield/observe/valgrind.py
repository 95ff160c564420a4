"""Runs programs without hooks under Valgrind with nearfield's tool (src/preload/observe/valgrind). The tool is built on
first use, once per Valgrind installation, from Valgrind's developer files."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from nearfield import mpi
from nearfield.base import own_command
from nearfield.base.disk_cache import cache_root
from nearfield.base.errors import MpiError, UsageError
from nearfield.base.executables import find_executable
from nearfield.base.progress import ReportLine, ignore_progress
from nearfield.mpi.compiler import find_first_error
from nearfield.mpi.detect_command import program_index
from nearfield.mpi.tied import run_tied_command

_TOOL_NAME, _PLATFORM = "nearfield", "amd64-linux"
_PRELOADED_LIBRARY = f"vgpreload_core-{_PLATFORM}.so"
_TOOL_SOURCES = {  # compiler -> source files of the tool
    "cc": ("src/preload/observe/valgrind/tool.c",),
    "c++": (
        "src/preload/observe/valgrind/recording.cpp",
        "src/preload/observe/process_stream.cpp",
        "src/trace/stream/encoder.cpp",
    ),
}
_COMPILER_FLAGS = ["-O2", "-fomit-frame-pointer", "-fno-stack-protector", "-fno-pie", "-fno-strict-aliasing"]
_CPP_FLAGS = ["-std=c++20", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]
_TARGET_MACROS = ["-DVGA_amd64=1", "-DVGO_linux=1", "-DVGP_amd64_linux=1", "-DVGPV_amd64_linux_vanilla=1"]
_LINK_OPTIONS = [
    "-static", "-no-pie", "-nodefaultlibs", "-nostartfiles", "-u", "_start", "-Wl,--build-id=none",
    "-Wl,-Ttext-segment=0x58000000",  # the load address of Valgrind's own tools, which programs do not use
]  # fmt: skip


@dataclass(frozen=True)
class ValgrindInstallation:
    """A Valgrind installation with its developer files."""

    command: Path
    header_folder: Path
    library_folder: Path  # folder of libcoregrind, with which tools are linked
    preloaded_folder: Path  # folder of the library that Valgrind preloads into programs


def find_valgrind() -> ValgrindInstallation:
    """Returns the Valgrind installation on PATH. Raises UsageError if there is none, or if its developer files are
    missing."""
    hooks = f"or compile the program with {own_command.command_line('cc')}"
    if os.uname().machine != "x86_64":
        raise UsageError("--valgrind is for x86-64 alone", hooks)
    if not (command := shutil.which("valgrind")):
        raise UsageError("there is no valgrind here", f"install it (Debian: apt install valgrind), {hooks}")
    root = Path(command).resolve().parents[1]
    parts = [
        next((file.parent for place in places for file in root.glob(place)), None)
        for places in (
            ["include/valgrind/pub_tool_basics.h"],
            [f"lib*/valgrind/libcoregrind-{_PLATFORM}.a", f"lib*/*/valgrind/libcoregrind-{_PLATFORM}.a"],
            [f"lib*/valgrind/{_PRELOADED_LIBRARY}", f"lib*/*/valgrind/{_PRELOADED_LIBRARY}"],
        )
    ]
    headers, libraries, preloaded = parts
    if not (headers and libraries and preloaded):
        raise UsageError(
            f"{command} has no developer files below {root}", f"install them (Fedora: valgrind-devel), {hooks}"
        )
    return ValgrindInstallation(Path(command), headers, libraries, preloaded)


def command_under_valgrind(argv: Sequence[str], progress: ReportLine = ignore_progress) -> list[str]:
    """Returns the command line with Valgrind and nearfield's tool before its program. Raises UsageError if Valgrind is
    missing or the program is a script, and MpiError if the tool cannot be built."""
    program_position = program_index(argv)
    if path := find_executable(argv[program_position]):
        with Path(path).open("rb") as file:
            if file.read(2) == b"#!":
                raise UsageError(f"{argv[program_position]} is a script", "observe the program that it starts")
    valgrind = find_valgrind()
    valgrind_command = [
        "env",
        f"VALGRIND_LIB={tool_folder(valgrind, progress)}",
        str(valgrind.command),
        f"--tool={_TOOL_NAME}",
        "--quiet",
    ]
    return [*argv[:program_position], *valgrind_command, *argv[program_position:]]


def tool_folder(valgrind: ValgrindInstallation, progress: ReportLine = ignore_progress) -> Path:
    """Returns the folder of the tool for this Valgrind; builds the tool on the first call. Raises MpiError."""
    source, folder = mpi.native_source_folder(), _tool_folder_path(valgrind)
    if not is_tool_built(valgrind):
        progress("building the tool for valgrind (once)")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix="valgrind-new-") as new_folder:
            _build_tool(valgrind, source, Path(new_folder))
            with suppress(FileExistsError, OSError):  # another process was faster
                Path(new_folder).rename(folder)
                Path(new_folder).mkdir()
    return folder


def is_tool_built(valgrind: ValgrindInstallation) -> bool:
    """Returns whether `tool_folder` would find the tool already built."""
    return _tool_folder_path(valgrind).is_dir()


def _tool_folder_path(valgrind: ValgrindInstallation) -> Path:
    return cache_root() / "builds" / f"valgrind-{_tool_fingerprint(valgrind, mpi.native_source_folder())}"


def _tool_fingerprint(valgrind: ValgrindInstallation, source: Path) -> str:
    digest = hashlib.sha256(repr(valgrind).encode())
    core = (valgrind.library_folder / f"libcoregrind-{_PLATFORM}.a").stat()
    digest.update(f"{core.st_size} {core.st_mtime_ns}".encode())
    for file in _build_inputs(source):
        digest.update(file.read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()[:20]


def _build_inputs(source: Path) -> Iterator[Path]:
    """Yields the source files on which the built tool depends."""
    for folder in ("src/preload/observe", "src/preload/observe/valgrind", "src/trace/stream"):
        yield from sorted(file for file in (source / folder).iterdir() if file.suffix in (".h", ".hpp", ".c", ".cpp"))


def _build_tool(valgrind: ValgrindInstallation, source: Path, folder: Path) -> None:
    headers = ["-I", str(source / "src"), "-isystem", str(valgrind.header_folder)]
    for compiler, files in _TOOL_SOURCES.items():
        more = _CPP_FLAGS if compiler == "c++" else []
        _run_compiler(
            folder,
            [
                compiler,
                *_COMPILER_FLAGS,
                *more,
                *_TARGET_MACROS,
                *headers,
                "-c",
                *(str(source / file) for file in files),
            ],
        )
    core = [str(valgrind.library_folder / f"lib{name}-{_PLATFORM}.a") for name in ("coregrind", "vex")]
    support = [str(file) for file in valgrind.library_folder.glob(f"libgcc-sup-{_PLATFORM}.a")]
    objects = sorted(str(file) for file in folder.glob("*.o"))
    _run_compiler(folder, ["cc", *_LINK_OPTIONS, "-o", f"{_TOOL_NAME}-{_PLATFORM}", *objects, *core, "-lgcc", *support])
    (folder / _PRELOADED_LIBRARY).symlink_to(valgrind.preloaded_folder / _PRELOADED_LIBRARY)


def _run_compiler(folder: Path, command: list[str]) -> None:
    if not shutil.which(command[0]):
        raise MpiError(f"there is no {command[0]} to build the tool for valgrind", "install gcc and g++")
    log = folder / "build.log"
    if run_tied_command(command, folder, log):
        error = find_first_error(log.read_text(encoding="utf-8", errors="replace"))
        raise MpiError(f"the tool for valgrind cannot be built: {error}", " ".join(command))
