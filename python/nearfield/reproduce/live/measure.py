"""Measures the live profiles that claims need: determines the launches (MPI jobs), loads those that the output folder
already has, and runs the others one by one. Each launch is saved as a separate profile, OUT/here/MPI/NAME-LAUNCH, and
measured like by `nearfield probe`."""

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
from nearfield.base.progress import Progress, Report, ignore_progress
from nearfield.base.units import counted
from nearfield.measure.checkpoint import CheckpointFolder
from nearfield.measure.live.session import probe
from nearfield.measure.request import Request, format_filter
from nearfield.profile import Profile
from nearfield.reproduce.live.answers import LiveData
from nearfield.reproduce.live.quiet import disturbance_reason
from nearfield.reproduce.live.sizes import FACTS_SCENARIO, MachineSizes
from nearfield.reproduce.papers import Paper
from nearfield.reproduce.schema import Claim, LiveProfile

NUM_LAUNCHES_BY_QUICK = {False: 5, True: 4}  # value of --quick -> number of launches per profile
FACTS_TARGET_S = 6.0  # expected duration of the launch that finds the protocol switches


@dataclass(frozen=True)
class MeasurementSetup:
    """The output folder, the MPI and the hosts of a measurement, and whether it is a quick one."""

    folder: Path  # OUT/here/MPI
    mpi: str
    hostfile: str | None = None
    is_quick: bool = False

    @property
    def num_launches(self) -> int:
        return NUM_LAUNCHES_BY_QUICK[self.is_quick]


@dataclass(frozen=True)
class Launch:
    """One launch (MPI job) of a live profile: the folder for its profile, and the request that measures it."""

    folder: Path
    request: Request
    profile_name: str
    expected_s: float  # expected duration of the launch in s


@dataclass
class LiveMeasurements:
    """The live profiles, including those of earlier calls, and the signal that stopped the measurement, if any."""

    live_data: LiveData
    folder: Path
    stop_signal: int | None = None


def measure_profiles(
    selected_claims: list[tuple[Paper, list[Claim]]], setup: MeasurementSetup, report: Report = ignore_progress
) -> LiveMeasurements:
    """Measures the profiles that the claims need, except those that the folder already has from a quiet machine. Ctrl-C
    interrupts the measurement, and the same call resumes it. If a launch fails, only the reason is recorded. Raises
    NearfieldError if the first launch fails, which means that this MPI does not work."""
    with os_errors_as_profile_errors(setup.folder, "Give another folder with --out."):
        setup.folder.mkdir(parents=True, exist_ok=True)
    base = Request(tier="quick", launches=1, mpi=setup.mpi, hostfile=setup.hostfile)
    first = _make_launch(
        setup.folder / "facts", FACTS_SCENARIO, base, scenarios=(FACTS_SCENARIO,), sizes=(8,), expected_s=FACTS_TARGET_S
    )
    runner = _LaunchRunner(report)
    if not (facts := runner.measure_or_load(first)):
        if runner.stop_signal:
            raise KeyboardInterrupt
        raise MeasurementError(
            runner.failure_by_profile[FACTS_SCENARIO], f"see whether this MPI works: {own_command.command_line('mpi')}"
        )
    sizes = MachineSizes(facts)
    launches = list(_launches_in_rounds(needed_live_profiles(selected_claims), base, sizes, setup))
    remaining = [one for one in launches if not _usable_profile(one)]
    runner.total_expected_s = sum(one.expected_s for one in remaining)
    finished_text = (
        f", {len(launches) - len(remaining)} more are there already" if len(remaining) < len(launches) else ""
    )
    estimate_text = (
        f": about {counted(max(1, round(runner.total_expected_s / 60)), 'minute')} on a quiet machine"
        if remaining
        else ""
    )
    report(f"measuring {counted(len(remaining), 'launch', 'launches')} here{finished_text}{estimate_text}")
    profiles_by_name: dict[str, list[Profile]] = defaultdict(list)
    for one in launches:
        if launch_profile := runner.measure_or_load(one):
            profiles_by_name[one.profile_name].append(launch_profile)
    return LiveMeasurements(
        LiveData(sizes, profiles_by_name, runner.failure_by_profile, runner.stop_signal is not None),
        setup.folder,
        runner.stop_signal,
    )


def needed_live_profiles(selected_claims: list[tuple[Paper, list[Claim]]]) -> dict[str, LiveProfile]:
    """Returns name -> live profile, for all profiles that the claims' statements and their control measurements
    need."""
    return {
        name: paper.here[name]
        for paper, claims in selected_claims
        for claim in claims
        for statement in claim.statement
        if statement.here
        for name in (statement.here.profile, statement.here.control.profile if statement.here.control else "")
        if name
    }


def _launches_in_rounds(
    live_profiles: dict[str, LiveProfile], base: Request, sizes: MachineSizes, setup: MeasurementSetup
) -> Iterator[Launch]:
    """Yields the launches in rounds of one launch per profile, so that a temporary disturbance does not affect all
    launches of one profile."""
    for round_number in range(1, setup.num_launches + 1):
        for name, one in live_profiles.items():
            own_sizes = sizes.resolve_known_sizes(one.quick if setup.is_quick and one.quick else one.size_bytes)
            share = len(own_sizes) / max(len(sizes.resolve_known_sizes(one.size_bytes)), 1) if own_sizes else 1.0
            yield _make_launch(setup.folder / f"{name}-{round_number}", name, base, scenarios=tuple(one.scenario),
                          sizes=own_sizes, only=tuple(one.only), expected_s=one.seconds * share)  # fmt: skip


def _make_launch(folder: Path, profile_name: str, base: Request, *, expected_s: float, **options: Any) -> Launch:
    request = replace(base, target_s=expected_s, **options)
    arguments = [
        "probe",
        "--quick",
        "--launches",
        "1",
        "--mpi",
        request.mpi or "",
        "--scenario",
        ",".join(request.scenarios),
    ]
    arguments += ["--sizes", ",".join(map(str, request.sizes))] if request.sizes else []
    arguments += ["--hostfile", request.hostfile] if request.hostfile else []
    arguments += [word for which in request.only for word in ("--filter", format_filter(which))]
    return Launch(folder, replace(request, command=shlex.join(["nearfield", *arguments])), profile_name, expected_s)


def _saved_profile(launch: Launch) -> Profile | None:
    """Returns the complete profile in the launch's folder; None if there is none, or if it was measured with another
    request."""
    try:
        saved = profile.load(launch.folder)
    except ProfileError:
        return None
    return saved if saved.run.complete and saved.run.command == launch.request.command else None


def _usable_profile(launch: Launch) -> Profile | None:
    """Returns the saved profile of the launch if it may be used to judge statements (see disturbance_reason); otherwise
    None."""
    saved = _saved_profile(launch)
    return saved if saved and not disturbance_reason(saved) else None


def _is_resumable(launch: Launch) -> bool:
    """Returns whether an interrupted attempt at this launch, with the same request, can be resumed."""
    with suppress(NearfieldError):  # the checkpoint does not exist, or is damaged
        return CheckpointFolder(launch.folder.resolve()).read_request().command == launch.request.command
    return False


@dataclass
class _LaunchRunner:
    """Measures launches one by one until Ctrl-C, and records why launches could not be measured."""

    report_progress: Report
    total_expected_s: float = 0.0  # expected duration of all launches; 0 before they are determined
    failure_by_profile: dict[str, str] = field(default_factory=dict)
    stop_signal: int | None = None
    _finished_s: float = 0.0

    def measure_or_load(self, launch: Launch) -> Profile | None:
        """Returns the launch's profile, after measuring it if no usable profile is saved; None if it could not be
        measured completely."""
        if found := _usable_profile(launch):
            return found
        if self.stop_signal:
            self.failure_by_profile.setdefault(
                launch.profile_name, "stopped before it was measured; the same command goes on"
            )
            return None
        try:
            self.stop_signal = self._measure(launch)
        except NearfieldError as error:
            self.failure_by_profile[launch.profile_name] = error.message
        self._finished_s += launch.expected_s if self.total_expected_s else 0.0
        return _saved_profile(launch)

    def _measure(self, launch: Launch) -> int | None:
        outcome = probe(launch.folder, launch.request, resume=_is_resumable(launch), overwrite=True, keep_samples=False,
                        report=partial(self._report_total, launch))  # fmt: skip
        return outcome.stop_signal

    def _report_total(self, launch: Launch, event: str | Progress) -> None:
        """Reports the progress of one launch as progress of all launches, once their total duration is known."""
        if isinstance(event, str):
            self.report_progress(f"{launch.folder.name}: {event}")
            return
        share = event.share or 0.0
        if self.total_expected_s:
            share = min(1.0, (self._finished_s + launch.expected_s * share) / self.total_expected_s)
        self.report_progress(Progress(event.text, share, phase=launch.folder.name))
