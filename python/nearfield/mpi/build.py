"""Builds nearfield's native targets for one MPI with that MPI's compiler wrapper, and caches them.

The folder `builds/<fingerprint>/` of the cache contains the executable or library, `build.json` and `build.log`. The
fingerprint covers the MPI, the compiler behind its wrapper and the contents of the sources, so no entry is ever stale.
Build trees are in `work/` and are reused if only sources changed. If several processes request the same build, one
builds and the others wait.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from nearfield.base.disk_cache import cache_root
from nearfield.base.errors import MpiError, UsageError
from nearfield.base.progress import LOG_INTERVAL_S, LogLines, ReportLine, ignore_progress
from nearfield.mpi.compiler import compiler_environment, explain_build_failure, query_compiler_version
from nearfield.mpi.installation import Installation
from nearfield.mpi.tied import start_tied_process

ENGINE_TARGET = "nearfield-probe"
COMPONENT_TARGET = "mca_btl_nearfield.so"
SHIM_TARGET = "libnearfield_mpich.so"
PROFILING_LAYER_TARGET = "libnearfield_observe_mpi.so"
HALO_TARGET = "libnearfield_halo.so"
FORECAST_TARGET = "libnearfield_forecast.so"
COLLECTIVES_TARGET = "libnearfield_collectives.so"
COLLECTIVES_PROGRAM_TARGET = "nearfield-collectives"
_TARGET_NAMES = {
    ENGINE_TARGET: "the measuring engine",
    COMPONENT_TARGET: "the Open MPI component",
    SHIM_TARGET: "the MPICH shim",
    PROFILING_LAYER_TARGET: "the profiling layer",
    HALO_TARGET: "the halo library",
    FORECAST_TARGET: "the thin profiling layer",
    COLLECTIVES_TARGET: "the collectives of a node",
    COLLECTIVES_PROGRAM_TARGET: "the program that measures collectives",
}
CMAKE_OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DNEARFIELD_PROBE=ON"]
_SOURCE_FOLDERS_BY_TARGET = {  # target -> source folders; targets that are not listed use all folders
    ENGINE_TARGET: ("src/base", "src/scenario", "src/probe"),
    COMPONENT_TARGET: ("src/base", "src/preload/pair_rules", "src/preload/openmpi"),
    SHIM_TARGET: ("src/base", "src/preload/mpi", "src/preload/pair_rules", "src/preload/mpich"),
    PROFILING_LAYER_TARGET: ("src/base", "src/trace/stream", "src/preload/mpi", "src/preload/observe"),
    HALO_TARGET: ("src/base", "src/plan", "src/halo", "include"),
    FORECAST_TARGET: ("src/base", "src/preload/mpi", "src/preload/forecast"),
    **dict.fromkeys(
        (COLLECTIVES_TARGET, COLLECTIVES_PROGRAM_TARGET),
        ("src/base", "src/collectives", "src/preload/mpi", "src/preload/collectives"),
    ),
}


def build_target(
    inst: Installation, target: str = ENGINE_TARGET, progress: ReportLine = ignore_progress, source: Path | None = None
) -> Path:
    """Returns the path of the executable or library `target` for this MPI. The first call builds it. If the build
    fails, raises MpiError with the compiler's first error. `progress` is called with a line of text every few
    seconds."""
    source = source or native_source_folder()
    while not _is_intact(folder := _build_folder(inst, target, source), target):
        wait = f"waiting for another build for {inst.name}"
        with _cache_errors_as_mpi_errors(), _hold_lock(folder.with_suffix(".lock"), partial(progress, wait)):
            if not _is_intact(folder, target):
                progress(f"building {_TARGET_NAMES.get(target, target)} for {inst.name} (once)")
                _build(inst, target, source, folder, progress)
    return folder / target


def is_built(inst: Installation, target: str = ENGINE_TARGET, source: Path | None = None) -> bool:
    """Returns whether `build_target` would return from the cache without a build."""
    try:
        return _is_intact(_build_folder(inst, target, source or native_source_folder()), target)
    except (MpiError, UsageError):  # UsageError: the cache folder cannot be determined
        return False


def native_source_folder() -> Path:
    """Returns the folder of the CMake project: `native/` in an installed package, or the root of a checkout."""
    package = Path(__file__).resolve().parents[1]
    places = [package / "native", *package.parents[:3]]
    for place in places:
        if (place / "CMakeLists.txt").is_file() and (place / "src/probe").is_dir():
            return place
    raise MpiError(
        "nearfield's native sources are missing: no CMakeLists.txt with src/probe in " + ", ".join(map(str, places)),
        "reinstall nearfield",
    )


def build_fingerprint(inst: Installation, target: str, source: Path) -> str:
    """Returns a hash of everything that determines a build's result: MPI, compiler, flags, target and sources."""
    return _digest(*_toolchain_identity(inst), target, hash_sources(target, source))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def _toolchain_identity(inst: Installation) -> list[str]:
    library = ""
    if inst.library and inst.library.exists():
        stat = inst.library.stat()
        library = f"{inst.library} {stat.st_size} {stat.st_mtime_ns}"
    flags = [os.environ.get(name, "") for name in ("CXXFLAGS", "LDFLAGS")]
    compiler = [query_compiler_version(inst), *compiler_environment(inst).values()]
    return [
        inst.family,
        inst.version,
        str(inst.compiler),
        inst.show,
        library,
        *compiler,
        *flags,
        *CMAKE_OPTIONS,
        os.uname().machine,
    ]


def hash_sources(target: str, source: Path | None = None) -> str:
    """Returns a hash over all files that the build of the target may read."""
    source = source or native_source_folder()
    digest = hashlib.sha256()
    folders = [source / folder for folder in _SOURCE_FOLDERS_BY_TARGET.get(target, ("src",))]
    files = sorted(file for folder in folders for file in folder.rglob("*") if file.is_file())
    for file in [source / "CMakeLists.txt", source / "src" / "variants.cmake", *files]:
        digest.update(str(file.relative_to(source)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


def _build_folder(inst: Installation, target: str, source: Path) -> Path:
    return cache_root() / "builds" / build_fingerprint(inst, target, source)


def _is_intact(folder: Path, target: str) -> bool:
    """Returns whether the cache entry is complete and its checksum matches. If not, it is built again."""
    try:
        noted = json.loads((folder / "build.json").read_text(encoding="utf-8"))
        return os.access(folder / target, os.X_OK) and noted["sha256"] == _sha256(folder / target)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@contextmanager
def _hold_lock(file: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Holds an exclusive file lock, which the kernel releases if the process dies. While another process holds the
    lock, calls `on_wait` every few seconds."""
    from filelock import FileLock, Timeout  # imported late: the import is slow, and most programs are already built

    file.parent.mkdir(parents=True, exist_ok=True)
    lock, timeout_s = FileLock(file, fallback_to_soft=False), 0.0
    while not lock.is_locked:
        try:
            lock.acquire(timeout=timeout_s, poll_interval=0.1)
        except Timeout:
            on_wait()
            timeout_s = LOG_INTERVAL_S
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _cache_errors_as_mpi_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MpiError(
            f"cannot write to the cache {cache_root()}: {error.strerror or error}",
            "free some space there, or set NEARFIELD_CACHE to a writable folder",
        ) from error


def _build(inst: Installation, target: str, source: Path, folder: Path, report: ReportLine) -> None:
    """Builds in the work tree, then moves the result into the cache by one atomic rename."""
    work = cache_root() / "work" / _digest(*_toolchain_identity(inst), str(source))
    with _hold_lock(work.with_suffix(".lock"), lambda: None):
        log = _compile(inst, target, source, work, report)
        built = _output_folder(work) / target
        if not os.access(built, os.X_OK):
            raise MpiError(f"the build ended well but made no {target}", f"see {log}")
        if _build_folder(inst, target, source) != folder:
            return  # the sources changed during the build; the caller starts again
        fresh = folder.with_suffix(f".new-{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        shutil.copy2(built, fresh / target)
        shutil.copy2(log, fresh / "build.log")
        note = {"mpi": inst.name, "library": str(inst.library), "compiler": query_compiler_version(inst)}
        note |= {"source": str(source), "sha256": _sha256(fresh / target)}
        (fresh / "build.json").write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)


def _compile(inst: Installation, target: str, source: Path, work: Path, report: ReportLine) -> Path:
    """Runs CMake and Ninja in the work tree. If that fails in an old tree, starts again from an empty one. Returns the
    path of the log. Raises MpiError if the build fails."""
    configure = [_find_build_tool("cmake"), "-S", str(source), "-B", str(work), "-G", "Ninja"]
    configure += [f"-DCMAKE_MAKE_PROGRAM={_find_build_tool('ninja')}", f"-DCMAKE_CXX_COMPILER={inst.compiler}"]
    configure += [
        *CMAKE_OPTIONS,
        *(f"-DCMAKE_{kind}_OUTPUT_DIRECTORY={_output_folder(work)}" for kind in ("RUNTIME", "LIBRARY")),
    ]
    steps = [configure, [_find_build_tool("cmake"), "--build", str(work), "--target", target]]
    env = {**os.environ, **inst.env, **compiler_environment(inst), "LC_ALL": "C", "CLICOLOR_FORCE": "0"}
    log = work.with_suffix(".log")
    work.parent.mkdir(parents=True, exist_ok=True)
    for attempt in ("reuse", "afresh"):
        reused = attempt == "reuse" and (work / "CMakeCache.txt").exists()
        if not reused:
            shutil.rmtree(work, ignore_errors=True)
        if all(_run_build_step(command, env, log, report, truncates_log=command is configure) for command in steps):
            return log
        if not reused:
            break
    raise explain_build_failure(inst, _TARGET_NAMES.get(target, target), log)


def _run_build_step(
    command: list[str], env: dict[str, str], log: Path, report: ReportLine, *, truncates_log: bool
) -> bool:
    """Runs one command of the build and appends its output to the log. Returns whether the command succeeded."""
    with log.open("w" if truncates_log else "a", encoding="utf-8") as out:
        out.write("$ " + " ".join(command) + "\n")
        out.flush()
        with start_tied_process(command, env, out) as process:
            lines = LogLines(report, LOG_INTERVAL_S)
            while True:
                try:
                    return process.wait(min(1.0, LOG_INTERVAL_S)) == 0
                except subprocess.TimeoutExpired:
                    lines.add_line(_format_progress(log))


def _format_progress(log: Path) -> str:
    """Returns the progress of a build, such as 'still building: compiling 12 of 40', from Ninja's counters in the
    log."""
    steps = re.findall(r"^\[(\d+)/(\d+)\]", log.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    if not steps:
        return "still building: CMake looks at the compiler"
    done, of = map(int, steps[-1])
    return f"still building: compiling {min(done + 1, of)} of {of}"


def _output_folder(work: Path) -> Path:
    """Returns the output folder of this work tree. A reused tree may also contain outputs of sources that have moved
    since; this folder contains only current outputs."""
    return work / "products"


def _find_build_tool(name: str) -> str:
    """Returns the path of CMake or Ninja, from this Python environment or else from PATH. Raises MpiError if it is
    missing."""
    scripts = os.pathsep.join(
        [str(Path(sys.executable).parent), sysconfig.get_path("scripts"), os.environ.get("PATH", "")]
    )
    found = shutil.which(name, path=scripts)
    if not found:
        package = {"ninja": "ninja-build"}.get(name, name)
        raise MpiError(
            f"{name} is missing, which builds the engine",
            f"pip install {name}; or Debian: apt install {package}",
        )
    return found
