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
from nearfield.base.executables import which
from nearfield.base.progress import ReportLine, ignore
from nearfield.mpi.compiler import first_error
from nearfield.mpi.detect_command import program_index
from nearfield.mpi.tied import run_tied

_TOOL, _PLATFORM = "nearfield", "amd64-linux"
_PRELOADED = f"vgpreload_core-{_PLATFORM}.so"
_TOOL_SOURCES = {  # compiler -> source files of the tool
    "cc": ("src/preload/observe/valgrind/tool.c",),
    "c++": (
        "src/preload/observe/valgrind/recording.cpp",
        "src/preload/observe/process_stream.cpp",
        "src/trace/stream/encoder.cpp",
    ),
}
_FLAGS = ["-O2", "-fomit-frame-pointer", "-fno-stack-protector", "-fno-pie", "-fno-strict-aliasing"]
_CPP_FLAGS = ["-std=c++20", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]
_TARGET_MACROS = ["-DVGA_amd64=1", "-DVGO_linux=1", "-DVGP_amd64_linux=1", "-DVGPV_amd64_linux_vanilla=1"]
_LINK_OPTIONS = [
    "-static", "-no-pie", "-nodefaultlibs", "-nostartfiles", "-u", "_start", "-Wl,--build-id=none",
    "-Wl,-Ttext-segment=0x58000000",  # the load address of Valgrind's own tools, which programs do not use
]  # fmt: skip


@dataclass(frozen=True)
class Valgrind:
    """A Valgrind installation with its developer files."""

    command: Path
    headers: Path
    libraries: Path  # folder of libcoregrind, with which tools are linked
    preloaded: Path  # folder of the library that Valgrind preloads into programs


def find_valgrind() -> Valgrind:
    """Returns the Valgrind installation on PATH. Raises UsageError if there is none, or if its developer files are
    missing."""
    hooks = f"or compile the program with {own_command.line('cc')}"
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
            [f"lib*/valgrind/{_PRELOADED}", f"lib*/*/valgrind/{_PRELOADED}"],
        )
    ]
    headers, libraries, preloaded = parts
    if not (headers and libraries and preloaded):
        raise UsageError(
            f"{command} has no developer files below {root}", f"install them (Fedora: valgrind-devel), {hooks}"
        )
    return Valgrind(Path(command), headers, libraries, preloaded)


def command_under_valgrind(argv: Sequence[str], progress: ReportLine = ignore) -> list[str]:
    """Returns the command line with Valgrind and nearfield's tool before its program. Raises UsageError if Valgrind is
    missing or the program is a script, and MpiError if the tool cannot be built."""
    at = program_index(argv)
    if path := which(argv[at]):
        with Path(path).open("rb") as file:
            if file.read(2) == b"#!":
                raise UsageError(f"{argv[at]} is a script", "observe the program that it starts")
    valgrind = find_valgrind()
    words = [
        "env",
        f"VALGRIND_LIB={tool_folder(valgrind, progress)}",
        str(valgrind.command),
        f"--tool={_TOOL}",
        "--quiet",
    ]
    return [*argv[:at], *words, *argv[at:]]


def tool_folder(valgrind: Valgrind, progress: ReportLine = ignore) -> Path:
    """Returns the folder of the tool for this Valgrind; builds the tool on the first call. Raises MpiError."""
    source, folder = mpi.native_source(), _tool_folder_path(valgrind)
    if not is_tool_built(valgrind):
        progress("building the tool for valgrind (once)")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix="valgrind-new-") as fresh:
            _build_tool(valgrind, source, Path(fresh))
            with suppress(FileExistsError, OSError):  # another process was faster
                Path(fresh).rename(folder)
                Path(fresh).mkdir()
    return folder


def is_tool_built(valgrind: Valgrind) -> bool:
    """Returns whether `tool_folder` would find the tool already built."""
    return _tool_folder_path(valgrind).is_dir()


def _tool_folder_path(valgrind: Valgrind) -> Path:
    return cache_root() / "builds" / f"valgrind-{_fingerprint(valgrind, mpi.native_source())}"


def _fingerprint(valgrind: Valgrind, source: Path) -> str:
    digest = hashlib.sha256(repr(valgrind).encode())
    core = (valgrind.libraries / f"libcoregrind-{_PLATFORM}.a").stat()
    digest.update(f"{core.st_size} {core.st_mtime_ns}".encode())
    for file in _build_inputs(source):
        digest.update(file.read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()[:20]


def _build_inputs(source: Path) -> Iterator[Path]:
    """Yields the source files on which the built tool depends."""
    for folder in ("src/preload/observe", "src/preload/observe/valgrind", "src/trace/stream"):
        yield from sorted(file for file in (source / folder).iterdir() if file.suffix in (".h", ".hpp", ".c", ".cpp"))


def _build_tool(valgrind: Valgrind, source: Path, folder: Path) -> None:
    headers = ["-I", str(source / "src"), "-isystem", str(valgrind.headers)]
    for compiler, files in _TOOL_SOURCES.items():
        more = _CPP_FLAGS if compiler == "c++" else []
        _run_compiler(
            folder, [compiler, *_FLAGS, *more, *_TARGET_MACROS, *headers, "-c", *(str(source / file) for file in files)]
        )
    core = [str(valgrind.libraries / f"lib{name}-{_PLATFORM}.a") for name in ("coregrind", "vex")]
    support = [str(file) for file in valgrind.libraries.glob(f"libgcc-sup-{_PLATFORM}.a")]
    objects = sorted(str(file) for file in folder.glob("*.o"))
    _run_compiler(folder, ["cc", *_LINK_OPTIONS, "-o", f"{_TOOL}-{_PLATFORM}", *objects, *core, "-lgcc", *support])
    (folder / _PRELOADED).symlink_to(valgrind.preloaded / _PRELOADED)


def _run_compiler(folder: Path, words: list[str]) -> None:
    if not shutil.which(words[0]):
        raise MpiError(f"there is no {words[0]} to build the tool for valgrind", "install gcc and g++")
    log = folder / "build.log"
    if run_tied(words, folder, log):
        error = first_error(log.read_text(encoding="utf-8", errors="replace"))
        raise MpiError(f"the tool for valgrind cannot be built: {error}", " ".join(words))
