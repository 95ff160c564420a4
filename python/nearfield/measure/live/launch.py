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
from nearfield.measure.live.layout import RankGroup
from nearfield.measure.live.lines import (
    DescribedScenario,
    EndLine,
    ErrorLine,
    ScenarioEndLine,
    parse_scenarios,
    read_lines,
)
from nearfield.measure.live.watcher import OnScenarioProgress, OutputWatcher
from nearfield.measure.request import Request
from nearfield.mpi import Installation
from nearfield.profile.schema import LaunchState


@dataclass(frozen=True)
class LaunchJob:
    """The work of one launch: which scenarios a group of ranks measures, and for how long."""

    group: RankGroup
    launch_index: int  # index of this launch among those of its group
    budget_s_by_scenario: dict[str, float]  # scenario -> seconds

    def attempt_file(self, folder: Path, attempt: int, suffix: str) -> Path:
        return folder / f"{self.group.name}.{self.launch_index}.{attempt}{suffix}"

    def attempt_files(self, folder: Path) -> list[Path]:
        """Returns the output files of all attempts at this launch, in any session, oldest first."""
        files = (self.attempt_file(folder, attempt, ".jsonl") for attempt in count())
        return list(takewhile(Path.exists, files))


@dataclass(frozen=True)
class LaunchResult:
    """How a launch ended."""

    state: LaunchState
    reason: str | None = None
    duration_s: float = 0.0
    measuring_s: float = 0.0  # excludes start-up and shutdown of the ranks; 0: unknown
    num_missed_cases: int = 0  # cases skipped because of the time limit


def query_scenarios(inst: Installation, engine: Path) -> list[DescribedScenario]:
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
            f"check this MPI with: {own_command.command_line('mpi', '--mpi', inst.name)}",
        ) from error


def format_plan(
    job: LaunchJob, request: Request, topology: Topology, output: Path, stop_file: Path, extra_settings: dict[str, str]
) -> str:
    """Returns the text of the engine's plan file (src/probe/plan.hpp)."""
    tier = request.effective_tier
    levels = topology.cache_bytes(job.group.places[0].cpu)
    lines = {
        "output": str(output),
        "stop_file": str(stop_file),
        "tier": tier.name,
        "tolerance": f"{tier.tolerance:g}",
        "min_samples": str(tier.min_samples),
        "line_bytes": str(topology.line_bytes),
        "cache_bytes": " ".join(str(size) for size in levels),
        "oversubscribed": str(int(job.group.is_oversubscribed)),
        **extra_settings,
    }
    text = [f"{key} = {value}" for key, value in lines.items()]
    text += [f"rank = {place.cpu} {place.host}".rstrip() for place in job.group.places]
    text += [f"scenario = {name} {budget:.3f}" for name, budget in job.budget_s_by_scenario.items()]
    text += [f"only = {which}" for which in request.only]
    return "\n".join(text) + "\n"


def run_job(
    job: LaunchJob,
    inst: Installation,
    engine: Path,
    folder: Path,
    format_plan_for: Callable[[Path], str],
    *,
    launcher: str | None,
    on_progress: OnScenarioProgress,
) -> LaunchResult:
    """Runs the launch to its end. The engine writes its output into `folder`. `format_plan_for` returns the text of the
    plan file for an output file.

    Raises MeasurementError if every other launch would fail in the same way: a failed sanity check, a wrong binding,
    output that cannot be written, or hosts on which no rank starts. If a rank died, or the launch made no progress for
    too long, the returned LaunchResult has the reason."""
    attempt = len(job.attempt_files(folder))
    output, plan_file = job.attempt_file(folder, attempt, ".jsonl"), job.attempt_file(folder, attempt, ".plan")
    with os_errors_as_profile_errors(plan_file, _REMEDY_BY_ERROR_KIND["output"]):
        plan_file.unlink(missing_ok=True)  # left over if an earlier attempt did not start
        for file, text in ((plan_file, format_plan_for(output)), (output, "")):
            with file.open("x", encoding="utf-8") as new:  # mode "x" does not follow symbolic links
                new.write(text)
    with OutputWatcher(output, job.budget_s_by_scenario, on_progress) as watcher:
        finished = mpi.run(
            inst,
            [str(engine), str(plan_file)],
            len(job.group.places),
            hosts=job.group.hosts,
            launcher=launcher,
            oversubscribe=job.group.is_oversubscribed,
            is_dead=watcher.is_hung,
        )
    return _read_result(job, output, finished, watcher.format_silence())


def _read_result(job: LaunchJob, output: Path, launch: mpi.FinishedLaunch, silence_text: str = "") -> LaunchResult:
    """Returns the result of a launch from its output file and exit code. `silence_text` is the reason to report if the
    launch made no progress until its time-out."""
    num_missed, line = 0, None
    for line in read_lines(output):
        if isinstance(line, ScenarioEndLine):
            num_missed += line.missed
        elif isinstance(line, ErrorLine):
            _raise_error(line.kind, line.message)
        elif isinstance(line, EndLine):
            reason = f"the time was over: {counted(num_missed, 'case')} not reached" if num_missed else None
            state: LaunchState = "stopped" if num_missed or line.type == "stopped" else "complete"
            return LaunchResult(state, reason, launch.seconds, line.measuring_s, num_missed)
    if job.group.hosts and not line and not launch.timed_out and not _match_rank_error(launch):
        _raise_unreachable_hosts([host for host, _ in job.group.hosts], launch)
    # After an error of a rank, the launcher may hang until it times out; the error is then the cause.
    reason = silence_text if launch.timed_out and not _match_rank_error(launch) else _describe_failure(launch)
    return LaunchResult("failed", reason, launch.seconds)


def _describe_failure(launch: mpi.FinishedLaunch) -> str:
    rank_error = _match_rank_error(launch)
    if rank_error and rank_error[1] in _REMEDY_BY_ERROR_KIND:
        _raise_error(rank_error[1], rank_error[2])
    node = launch.first_ended_node
    first = f"the processes on node {node} ended first; " if node else ""
    return f"{first}exit code {launch.exit_code}: {_find_error_line(launch) or launch.describe_silence}"


def _match_rank_error(launch: mpi.FinishedLaunch) -> re.Match[str] | None:
    """Returns the match of the error line that a rank printed: group 1 is the kind, group 2 the text; None if no rank
    printed one."""
    return re.search(r"nearfield-probe: (\w+): (.*)", launch.stderr)


_REMEDY_BY_ERROR_KIND = {
    "sanity": "this MPI delivers wrong data; do not use it for anything",
    "binding": "let no launcher option, cgroup or MPI setting bind the ranks; name hosts as they name themselves",
    "output": "free some space or choose another folder with --out",
    "plan": "with a hostfile, the folder of --out must be the same on all nodes",
}


def _raise_error(kind: str, message: str) -> NoReturn:
    error = ProfileError if kind == "output" else MeasurementError
    raise error(message, _REMEDY_BY_ERROR_KIND.get(kind, ""))


# Pattern of a message of ssh or the launcher about an unreachable host -> remedy.
_REMEDY_BY_HOST_ERROR = {
    r"resolve|not known|name resolution|[Uu]nknown host": "correct the name in the hostfile; this must find it: "
    "getent hosts {host}",
    r"[Pp]ermission denied|verification failed|[Pp]assword": "let ssh in without a question; try: ssh {host} true",
    r"refused|timed out|[Nn]o route|unreachable": "start sshd there, or open its port; try: ssh {host} true",
    r"ssh.*not found|not found.*ssh|execvp.*ssh": "install ssh, or start inside a batch job with --launcher srun",
}


def _raise_unreachable_hosts(hosts: list[str], launch: mpi.FinishedLaunch) -> NoReturn:
    """Raises the error of a launch in which no rank started, with the message of ssh or the launcher, and a remedy."""
    lines = launch.output_lines
    remote = next((host for host in hosts if host != socket.gethostname()), hosts[0])
    error_line = lines[0] if lines else launch.describe_silence
    remedy = "see whether this works: ssh {host} true"
    for pattern, other_remedy in _REMEDY_BY_HOST_ERROR.items():
        if matching_line := next((line for line in lines if re.search(pattern, line)), None):
            error_line, remedy = matching_line, other_remedy
            remote = next((host for host in hosts if re.search(rf"\b{re.escape(host)}\b", matching_line)), remote)
            break
    raise MeasurementError(
        f"no rank could be started on {', '.join(dict.fromkeys(hosts))}: {error_line}", remedy.format(host=remote)
    )


def _find_error_line(launch: mpi.FinishedLaunch) -> str:
    """Returns the most informative line of the output: an error of the engine, otherwise a line that says how a rank
    ended, otherwise the last line; '' if there is no output."""
    lines = launch.output_lines
    for pattern in (r"^nearfield-probe:", r"signal|[Kk]illed|[Tt]erminat|EXIT CODE|[Aa]bort"):
        matching_lines = [line for line in lines if re.search(pattern, line)]
        if matching_lines:
            return matching_lines[0]
    return lines[-1] if lines else ""
