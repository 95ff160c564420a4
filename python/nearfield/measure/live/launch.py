"""One launch of the measuring engine: writes its plan, runs it, and reads its output."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import NoReturn

from nearfield import mpi
from nearfield.base import own_command
from nearfield.base.errors import MeasurementError, MpiError, ProfileError
from nearfield.base.files import os_errors_as_profile_errors
from nearfield.base.topology import Topology
from nearfield.base.units import counted
from nearfield.measure.live.layout import Group
from nearfield.measure.live.lines import (
    DescribedScenario,
    EndLine,
    ErrorLine,
    ScenarioEndLine,
    parse_scenarios,
    read_lines,
)
from nearfield.measure.live.watcher import OnProgress, Watcher
from nearfield.measure.request import Request
from nearfield.mpi import Installation
from nearfield.profile.schema import LaunchState


@dataclass(frozen=True)
class Job:
    """The work of one launch: which scenarios a group of ranks measures, and for how long."""

    group: Group
    number: int  # index of this launch among those of its group
    budgets: dict[str, float]  # scenario -> seconds

    def attempt_file(self, folder: Path, attempt: int, suffix: str) -> Path:
        return folder / f"{self.group.name}.{self.number}.{attempt}{suffix}"

    def attempt_files(self, folder: Path) -> list[Path]:
        """Returns the output files of all attempts at this launch, in any session, oldest first."""
        files = (self.attempt_file(folder, attempt, ".jsonl") for attempt in count())
        return list(takewhile(Path.exists, files))


@dataclass(frozen=True)
class LaunchResult:
    """How a launch ended."""

    state: LaunchState
    reason: str | None = None
    seconds: float = 0.0
    measuring_s: float = 0.0  # excludes start-up and shutdown of the ranks; 0: unknown
    missed: int = 0  # cases skipped because of the time limit


def describe_scenarios(inst: Installation, engine: Path) -> list[DescribedScenario]:
    """Returns the scenarios that `engine --describe` prints, without a launcher. Raises MpiError if the engine does not
    start."""
    environment = {**os.environ, **inst.env}
    result = subprocess.run(
        [engine, "--describe"], capture_output=True, text=True, errors="replace", env=environment, check=False
    )
    try:
        return parse_scenarios(result.stdout)
    except ValueError as error:
        raise MpiError(
            f"the engine built for {inst.name} does not start: {result.stderr.strip() or result.stdout.strip()}",
            f"check this MPI with: {own_command.line('mpi', '--mpi', inst.name)}",
        ) from error


def plan_text(
    job: Job, request: Request, topology: Topology, output: Path, stop_file: Path, extra: dict[str, str]
) -> str:
    """Returns the text of the engine's plan file (src/probe/plan.hpp)."""
    tier = request.thoroughness
    levels = topology.cache_bytes(job.group.places[0].cpu)
    lines = {
        "output": str(output),
        "stop_file": str(stop_file),
        "tier": tier.name,
        "tolerance": f"{tier.tolerance:g}",
        "min_samples": str(tier.min_samples),
        "line_bytes": str(topology.line_bytes),
        "cache_bytes": " ".join(str(size) for size in levels),
        "oversubscribed": str(int(job.group.oversubscribed)),
        **extra,
    }
    text = [f"{key} = {value}" for key, value in lines.items()]
    text += [f"rank = {place.cpu} {place.host}".rstrip() for place in job.group.places]
    text += [f"scenario = {name} {budget:.3f}" for name, budget in job.budgets.items()]
    text += [f"only = {which}" for which in request.only]
    return "\n".join(text) + "\n"


def run_job(
    job: Job,
    inst: Installation,
    engine: Path,
    folder: Path,
    plan: Callable[[Path], str],
    *,
    launcher: str | None,
    on_progress: OnProgress,
) -> LaunchResult:
    """Runs the launch to its end. The engine writes its output into `folder`. `plan` returns the plan for an output
    file.

    Raises MeasurementError if every other launch would fail in the same way: a failed sanity check, a wrong binding,
    output that cannot be written, or hosts on which no rank starts. If a rank died, or the launch made no progress for
    too long, the returned LaunchResult has the reason."""
    attempt = len(job.attempt_files(folder))
    output, plan_file = job.attempt_file(folder, attempt, ".jsonl"), job.attempt_file(folder, attempt, ".plan")
    with os_errors_as_profile_errors(plan_file, _REMEDIES["output"]):
        plan_file.unlink(missing_ok=True)  # left over if an earlier attempt did not start
        for file, text in ((plan_file, plan(output)), (output, "")):
            with file.open("x", encoding="utf-8") as new:  # mode "x" does not follow symbolic links
                new.write(text)
    with Watcher(output, job.budgets, on_progress) as watcher:
        finished = mpi.run(
            inst,
            [str(engine), str(plan_file)],
            len(job.group.places),
            hosts=job.group.hosts,
            launcher=launcher,
            oversubscribe=job.group.oversubscribed,
            is_dead=watcher.is_dead,
        )
    return _read_result(job, output, finished, watcher.silence())


def _read_result(job: Job, output: Path, finished: mpi.Finished, silence: str = "") -> LaunchResult:
    """Returns the result of a launch from its output file and exit code. `silence` describes the time without
    progress."""
    missed, line = 0, None
    for line in read_lines(output):
        if isinstance(line, ScenarioEndLine):
            missed += line.missed
        elif isinstance(line, ErrorLine):
            _raise_error(line.kind, line.message)
        elif isinstance(line, EndLine):
            reason = f"the time was over: {counted(missed, 'case')} not reached" if missed else None
            state: LaunchState = "stopped" if missed or line.type == "stopped" else "complete"
            return LaunchResult(state, reason, finished.seconds, line.measuring_s, missed)
    if job.group.hosts and not line and not finished.timed_out and not _rank_error(finished):
        _raise_unreachable_hosts([host for host, _ in job.group.hosts], finished)
    # After an error of a rank, the launcher may hang until it times out; the error is then the cause.
    reason = silence if finished.timed_out and not _rank_error(finished) else _failure_reason(finished)
    return LaunchResult("failed", reason, finished.seconds)


def _failure_reason(finished: mpi.Finished) -> str:
    said = _rank_error(finished)
    if said and said[1] in _REMEDIES:
        _raise_error(said[1], said[2])
    where = finished.first_ended_node
    first = f"the processes on node {where} ended first; " if where else ""
    return f"{first}exit code {finished.exit_code}: {_error_line(finished) or finished.silence}"


def _rank_error(finished: mpi.Finished) -> re.Match[str] | None:
    """Returns the match of the error line that a rank printed: group 1 is the kind, group 2 the text; None if no rank
    printed one."""
    return re.search(r"nearfield-probe: (\w+): (.*)", finished.stderr)


_REMEDIES = {
    "sanity": "this MPI delivers wrong data; do not use it for anything",
    "binding": "let no launcher option, cgroup or MPI setting bind the ranks; name hosts as they name themselves",
    "output": "free some space or choose another folder with --out",
    "plan": "with a hostfile, the folder of --out must be the same on all nodes",
}


def _raise_error(kind: str, message: str) -> NoReturn:
    error = ProfileError if kind == "output" else MeasurementError
    raise error(message, _REMEDIES.get(kind, ""))


# Pattern of a message of ssh or the launcher about an unreachable host -> remedy.
_HOST_REMEDIES = {
    r"resolve|not known|name resolution|[Uu]nknown host": "correct the name in the hostfile; this must find it: "
    "getent hosts {host}",
    r"[Pp]ermission denied|verification failed|[Pp]assword": "let ssh in without a question; try: ssh {host} true",
    r"refused|timed out|[Nn]o route|unreachable": "start sshd there, or open its port; try: ssh {host} true",
    r"ssh.*not found|not found.*ssh|execvp.*ssh": "install ssh, or start inside a batch job with --launcher srun",
}


def _raise_unreachable_hosts(hosts: list[str], finished: mpi.Finished) -> NoReturn:
    """Raises the error of a launch in which no rank started, with the message of ssh or the launcher, and a remedy."""
    lines = finished.words
    remote = next((host for host in hosts if host != socket.gethostname()), hosts[0])
    said = lines[0] if lines else finished.silence
    remedy = "see whether this works: ssh {host} true"
    for pattern, other in _HOST_REMEDIES.items():
        if found := next((line for line in lines if re.search(pattern, line)), None):
            said, remedy = found, other
            remote = next((host for host in hosts if re.search(rf"\b{re.escape(host)}\b", found)), remote)
            break
    raise MeasurementError(
        f"no rank could be started on {', '.join(dict.fromkeys(hosts))}: {said}", remedy.format(host=remote)
    )


def _error_line(finished: mpi.Finished) -> str:
    """Returns the most informative line of the output: the engine's own error, otherwise a line on how a rank ended,
    otherwise the last line; '' if there is no output."""
    lines = finished.words
    for telling in (r"^nearfield-probe:", r"signal|[Kk]illed|[Tt]erminat|EXIT CODE|[Aa]bort"):
        found = [line for line in lines if re.search(telling, line)]
        if found:
            return found[0]
    return lines[-1] if lines else ""
