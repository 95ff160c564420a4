"""Measures the live profiles of claims: determines the launches, finds those that the folder already has, and runs the
others one by one. Each launch is a profile of its own, OUT/here/MPI/NAME-LAUNCH, measured as by `nearfield probe`."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from nearfield import profile
from nearfield.base import own_command
from nearfield.base.errors import MeasurementError, NearfieldError, ProfileError
from nearfield.base.files import os_errors_as_profile_errors
from nearfield.base.progress import Progress, Report, ignore
from nearfield.base.units import counted
from nearfield.measure.checkpoint import CheckpointFolder
from nearfield.measure.live.session import probe
from nearfield.measure.request import Request, format_filter
from nearfield.profile import Profile
from nearfield.reproduce.live.answers import LiveData
from nearfield.reproduce.live.quiet import disturbance_reason
from nearfield.reproduce.live.sizes import FACTS, Sizes
from nearfield.reproduce.schema import Claim, LiveProfile, Paper

LAUNCHES_BY_QUICK = {False: 5, True: 4}  # --quick -> number of launches
FACTS_TARGET_S = 6.0  # seconds of the launch that finds the protocol switches


@dataclass(frozen=True)
class MeasurementSetup:
    """Where and by which MPI to measure, and how thoroughly."""

    folder: Path  # OUT/here/MPI
    mpi: str
    hostfile: str | None = None
    quick: bool = False

    @property
    def launches(self) -> int:
        return LAUNCHES_BY_QUICK[self.quick]


@dataclass(frozen=True)
class Launch:
    """One launch of a live profile: its folder, and the request to measure it."""

    folder: Path
    request: Request
    name: str
    seconds: float  # expected duration


@dataclass
class LiveMeasurements:
    """The live profiles, including those of earlier calls, and the signal that stopped the measurement, if any."""

    live: LiveData
    folder: Path
    stopped_by: int | None = None


def measure_profiles(
    wanted: list[tuple[Paper, list[Claim]]], setup: MeasurementSetup, report: Report = ignore
) -> LiveMeasurements:
    """Measures the profiles that the claims need and that the folder lacks, or has only from a busy machine. Ctrl-C
    interrupts; the same call resumes. If a launch fails, its reason is recorded and no error is raised. Raises
    NearfieldError if this MPI does not work at all."""
    with os_errors_as_profile_errors(setup.folder, "Give another folder with --out."):
        setup.folder.mkdir(parents=True, exist_ok=True)
    base = Request(tier="quick", launches=1, mpi=setup.mpi, hostfile=setup.hostfile)
    first = _make_launch(setup.folder / "facts", FACTS, base, scenarios=(FACTS,), sizes=(8,), seconds=FACTS_TARGET_S)
    runner = _LaunchRunner(report)
    if not (facts := runner.profile(first)):
        if runner.stopped_by:
            raise KeyboardInterrupt
        raise MeasurementError(runner.reasons[FACTS], f"see whether this MPI works: {own_command.line('mpi')}")
    sizes = Sizes(facts)
    launches = list(_launches_in_rounds(needed_profiles(wanted), base, sizes, setup))
    left = [one for one in launches if not _usable_profile(one)]
    runner.total_s = sum(one.seconds for one in left)
    finished = f", {len(launches) - len(left)} more are there already" if len(left) < len(launches) else ""
    about = f": about {counted(max(1, round(runner.total_s / 60)), 'minute')} on a quiet machine" if left else ""
    report(f"measuring {counted(len(left), 'launch', 'launches')} here{finished}{about}")
    found: dict[str, list[Profile]] = defaultdict(list)
    for one in launches:
        if made := runner.profile(one):
            found[one.name].append(made)
    return LiveMeasurements(
        LiveData(sizes, found, runner.reasons, runner.stopped_by is not None), setup.folder, runner.stopped_by
    )


def needed_profiles(wanted: list[tuple[Paper, list[Claim]]]) -> dict[str, LiveProfile]:
    """Returns name -> live profile, for all that the claims' statements and their controls need."""
    return {
        name: paper.here[name]
        for paper, claims in wanted
        for claim in claims
        for statement in claim.statement
        if statement.here
        for name in (statement.here.profile, statement.here.control.profile if statement.here.control else "")
        if name
    }


def _launches_in_rounds(
    wanted: dict[str, LiveProfile], base: Request, sizes: Sizes, setup: MeasurementSetup
) -> Iterator[Launch]:
    """Yields the launches in rounds of one launch per profile, so that a disturbance during one round does not affect a
    single profile only."""
    for number in range(1, setup.launches + 1):
        for name, one in wanted.items():
            own_sizes = sizes.known_bytes(one.quick if setup.quick and one.quick else one.size_bytes)
            share = len(own_sizes) / max(len(sizes.known_bytes(one.size_bytes)), 1) if own_sizes else 1.0
            yield _make_launch(setup.folder / f"{name}-{number}", name, base, scenarios=tuple(one.scenario),
                          sizes=own_sizes, only=tuple(one.only), seconds=one.seconds * share)  # fmt: skip


def _make_launch(folder: Path, name: str, base: Request, *, seconds: float, **options: Any) -> Launch:
    request = replace(base, target_s=seconds, **options)
    words = [
        "probe",
        "--quick",
        "--launches",
        "1",
        "--mpi",
        request.mpi or "",
        "--scenario",
        ",".join(request.scenarios),
    ]
    words += ["--sizes", ",".join(map(str, request.sizes))] if request.sizes else []
    words += ["--hostfile", request.hostfile] if request.hostfile else []
    words += [word for which in request.only for word in ("--filter", format_filter(which))]
    return Launch(folder, replace(request, command=shlex.join(["nearfield", *words])), name, seconds)


def _saved_profile(launch: Launch) -> Profile | None:
    """Returns the complete profile that the folder has for the launch's current request; None if there is none."""
    try:
        found = profile.load(launch.folder)
    except ProfileError:
        return None
    return found if found.run.complete and found.run.command == launch.request.command else None


def _usable_profile(launch: Launch) -> Profile | None:
    """Returns the saved profile of the launch if it is undisturbed, so that it can judge statements; otherwise None."""
    found = _saved_profile(launch)
    return found if found and not disturbance_reason(found) else None


def _is_resumable(launch: Launch) -> bool:
    """Returns whether an interrupted attempt at this launch, with the same request, can be resumed."""
    with suppress(NearfieldError):  # the checkpoint does not exist, or is damaged
        return CheckpointFolder(launch.folder.resolve()).read_request().command == launch.request.command
    return False


@dataclass
class _LaunchRunner:
    """Measures launches until Ctrl-C, and records why some could not be measured."""

    report: Report
    total_s: float = 0.0  # the expected duration of all launches; 0 while they are not known
    reasons: dict[str, str] = field(default_factory=dict)
    stopped_by: int | None = None
    _done_s: float = 0.0

    def profile(self, launch: Launch) -> Profile | None:
        """Returns the launch's profile, after measuring it if it is missing; None if it could not be measured
        completely."""
        if found := _usable_profile(launch):
            return found
        if self.stopped_by:
            self.reasons.setdefault(launch.name, "stopped before it was measured; the same command goes on")
            return None
        try:
            self.stopped_by = self._measure(launch)
        except NearfieldError as error:
            self.reasons[launch.name] = error.message
        self._done_s += launch.seconds if self.total_s else 0.0
        return _saved_profile(launch)

    def _measure(self, launch: Launch) -> int | None:
        outcome = probe(launch.folder, launch.request, resume=_is_resumable(launch), overwrite=True, keep_samples=False,
                        report=partial(self._report_total, launch))  # fmt: skip
        return outcome.stopped_by

    def _report_total(self, launch: Launch, event: str | Progress) -> None:
        """Reports the progress of one launch as progress of all launches, once their total duration is known."""
        if isinstance(event, str):
            self.report(f"{launch.folder.name}: {event}")
            return
        share = event.share or 0.0
        if self.total_s:
            share = min(1.0, (self._done_s + launch.seconds * share) / self.total_s)
        self.report(Progress(event.text, share, phase=launch.folder.name))
