"""Measures the live profiles of claims: which launches there are to make, what the folder holds of them, and the rest
one by one. Each launch is a profile of its own, OUT/here/MPI/NAME-LAUNCH, as `nearfield probe` makes it."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nearfield import profile
from nearfield.base import own_command
from nearfield.base.errors import MeasurementError, NearfieldError, ProfileError
from nearfield.base.files import os_errors_as_profile_errors
from nearfield.measure.live.session import Listener, probe
from nearfield.measure.request import Request, as_filter
from nearfield.measure.work import Work
from nearfield.profile import Profile
from nearfield.reproduce.here.answers import Live
from nearfield.reproduce.here.quiet import disturbance
from nearfield.reproduce.here.sizes import FACTS, Sizes
from nearfield.reproduce.schema import Claim, HereProfile, Paper

LAUNCHES = {False: 5, True: 4}  # with --quick
FACTS_S = 6.0  # seconds that finding the switches takes


@dataclass(frozen=True)
class Setup:
    """Where and how to measure."""

    folder: Path  # OUT/here/MPI
    mpi: str
    hostfile: str | None = None
    quick: bool = False

    @property
    def launches(self) -> int:
        return LAUNCHES[self.quick]


@dataclass(frozen=True)
class Launch:
    """One launch of a profile: its folder and what it measures."""

    folder: Path
    request: Request
    name: str
    seconds: float  # as expected


class Watcher(Listener):
    """Is told of the launches, too; this base class prints nothing."""

    def launches(self, launches: list[Launch], kept: int) -> None: ...
    def start_launch(self, launch: Launch) -> None: ...
    def launch_done(self, launch: Launch) -> None: ...


@dataclass
class Measured:
    """What there is now."""

    live: Live
    folder: Path
    stopped_by: int | None = None


def measure(wanted: list[tuple[Paper, list[Claim]]], setup: Setup, watcher: Watcher) -> Measured:
    """Measures what the claims need and the folder lacks, or has of a busy machine only. Ctrl-C ends it; the same call
    goes on. A launch that fails is a reason, not an error. Raises NearfieldError if this MPI does not work at all."""
    with os_errors_as_profile_errors(setup.folder, "Give another folder with --out."):
        setup.folder.mkdir(parents=True, exist_ok=True)
    base = Request(tier="quick", launches=1, mpi=setup.mpi, hostfile=setup.hostfile)
    first = _launch(setup.folder / "facts", FACTS, base, scenarios=(FACTS,), sizes=(8,), seconds=FACTS_S)
    runner = _Runner(watcher)
    if not (facts := runner.profile(first)):
        if runner.stopped_by:
            raise KeyboardInterrupt
        raise MeasurementError(runner.reasons[FACTS], f"see whether this MPI works: {own_command.line('mpi')}")
    sizes = Sizes(facts)
    launches = list(_launches(needed(wanted), base, sizes, setup))
    left = [one for one in launches if not _usable(one)]
    watcher.launches(left, len(launches) - len(left))
    found: dict[str, list[Profile]] = defaultdict(list)
    for one in launches:
        if made := runner.profile(one):
            found[one.name].append(made)
    return Measured(Live(sizes, found, runner.reasons, runner.stopped_by is not None), setup.folder, runner.stopped_by)


def needed(wanted: list[tuple[Paper, list[Claim]]]) -> dict[str, HereProfile]:
    """Returns the live profiles that the claims' statements need."""
    return {
        statement.here.profile: paper.here[statement.here.profile]
        for paper, claims in wanted
        for claim in claims
        for statement in claim.statement
        if statement.here and statement.here.profile
    }


def _launches(wanted: dict[str, HereProfile], base: Request, sizes: Sizes, setup: Setup) -> Iterator[Launch]:
    """Yields the launches, one of each profile before the second of any: what lasts as long as a launch of all is not
    mistaken for a property of one."""
    for number in range(1, setup.launches + 1):
        for name, one in wanted.items():
            its_sizes = sizes.all_bytes(one.quick if setup.quick and one.quick else one.size_bytes)
            share = len(its_sizes) / max(len(sizes.all_bytes(one.size_bytes)), 1) if its_sizes else 1.0
            yield _launch(setup.folder / f"{name}-{number}", name, base, scenarios=tuple(one.scenario), sizes=its_sizes,
                          only=tuple(one.only), seconds=one.seconds * share)  # fmt: skip


def _launch(folder: Path, name: str, base: Request, *, seconds: float, **asked: Any) -> Launch:
    request = replace(base, target_s=seconds, **asked)
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
    words += [word for which in request.only for word in ("--filter", as_filter(which))]
    return Launch(folder, replace(request, command=shlex.join(["nearfield", *words])), name, seconds)


def _kept(launch: Launch) -> Profile | None:
    """Returns the profile of the launch if the folder holds it whole, as it is to be measured now."""
    try:
        found = profile.load(launch.folder)
    except ProfileError:
        return None
    return found if found.run.complete and found.run.command == launch.request.command else None


def _usable(launch: Launch) -> Profile | None:
    """Returns the profile of the launch if the folder holds it whole and statements may be judged by it."""
    found = _kept(launch)
    return found if found and not disturbance(found) else None


def _is_begun(launch: Launch) -> bool:
    """Returns whether an interrupted attempt at this launch can be resumed."""
    with suppress(NearfieldError):  # there is none, or it is damaged
        return Work(launch.folder.resolve()).read_request().command == launch.request.command
    return False


@dataclass
class _Runner:
    """Makes profiles until Ctrl-C, and remembers why some could not be made."""

    watcher: Watcher
    reasons: dict[str, str] = field(default_factory=dict)
    stopped_by: int | None = None

    def profile(self, launch: Launch) -> Profile | None:
        """Returns the launch's profile, measured now if it is not there; None if it could not be measured whole."""
        if kept := _usable(launch):
            return kept
        if self.stopped_by:
            self.reasons.setdefault(launch.name, "stopped before it was measured; the same command goes on")
            return None
        self.watcher.start_launch(launch)
        try:
            self.stopped_by = self._measure(launch)
        except NearfieldError as error:
            self.reasons[launch.name] = error.message
        self.watcher.launch_done(launch)
        return _kept(launch)

    def _measure(self, launch: Launch) -> int | None:
        outcome = probe(launch.folder, launch.request, resume=_is_begun(launch), overwrite=True, keep_samples=False,
                        listener=self.watcher)  # fmt: skip
        return outcome.stopped_by
