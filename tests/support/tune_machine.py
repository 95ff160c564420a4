"""A machine with MPIs whose jobs are a formula (factories.py), for tests of the whole `nearfield tune`."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factories import FormulaBenchmark
from typer.testing import CliRunner, Result

from nearfield import mpi
from nearfield.base.errors import NearfieldError, UsageError
from nearfield.base.topology import Topology
from nearfield.cli import app
from nearfield.rules.knobs import Settings, find_knobs
from nearfield.tune import tuning
from nearfield.tune.satisfy_constraints import iterate_grid_settings
from nearfield.tune.tuning import Tuning

TRANSPORTS = {"openmpi": "ob1 / sm", "mpich": "ch4 / posix"}
GRID = ("--exhaustive", "--sizes", "8,16KiB,1MiB", "--budget", "300")


def installation(family: str, version: str) -> mpi.Installation:
    root = Path("/opt") / family
    return mpi.Installation(f"{family}-{version}", family, version, root, root / "mpirun", root / "mpicxx", "made up")


OPENMPI, MPICH = installation("openmpi", "5.0.11"), installation("mpich", "5.0.2")


class Machine:
    """Two cores, MPIs, and what happens when a setting is started. `started`: of each MPI, but for stock."""

    def __init__(self) -> None:
        self.found = [OPENMPI, MPICH]
        self.topology = Topology.from_synthetic("package:1 l3:1 l2:2 core:1 pu:1")
        self.started: dict[str, list[Settings]] = {}
        self.on_start: Callable[[str, int], None] = lambda name, count: None
        self.gains = 1.3  # of the best setting
        self.phase = ("", "")  # the distance and the phase that have begun
        self.others = 0.0  # the share of the cores' time that other programs take

    def is_confirming(self, distance: str = "") -> bool:
        return self.phase[1] == "confirming" and distance in ("", self.phase[0])

    def choose(self, name: str | None = None) -> mpi.Installation:
        named = [i for i in self.found if name is None or i.name.startswith(name) or str(i.launcher) == name]
        if not named:
            raise UsageError(f"no MPI is called '{name}'")
        return named[0]

    def benchmark(
        self, inst: mpi.Installation, engine: Path, topology: Topology, pair: object, knobs: Any
    ) -> FormulaBenchmark:
        best = next(knob for knob in knobs.knob if len(knob.grid) > 1 and knob.carrier == "mpi")
        speed = lambda whole, case: self.gains if whole[best.name] == best.grid[-1] else 1.0  # noqa: E731

        def faults(settings: Settings, moment: str) -> str:
            if settings and moment == "start":
                mine = self.started.setdefault(inst.name, [])
                mine.append(settings)
                self.on_start(inst.name, len(mine))
            return ""

        return FormulaBenchmark(speed, faults, knobs=knobs)


def patched_machine(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Machine:
    """Returns a machine that `nearfield tune` finds in place of this one, with the folder as the working folder."""
    made = Machine()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("NEARFIELD_RULES", raising=False)
    monkeypatch.setattr(mpi, "choose_mpi", made.choose)
    monkeypatch.setattr(mpi, "find_usable_mpis", lambda: made.found)
    monkeypatch.setattr(mpi, "build_target", lambda inst, **more: Path("engine"))
    monkeypatch.setattr(mpi, "is_built", lambda inst: inst is OPENMPI)
    monkeypatch.setattr(mpi, "transport_or_reason", lambda inst: (TRANSPORTS[inst.family], ""))
    monkeypatch.setattr(Topology, "of_this_machine", lambda: made.topology)
    monkeypatch.setattr(tuning, "PairedBenchmark", made.benchmark)
    begin_phase = Tuning._report_phase

    def begin(tuning: Tuning, distance: str, phase: str, seconds: float) -> None:
        made.phase = (distance, phase)
        begin_phase(tuning, distance, phase, seconds)

    monkeypatch.setattr(Tuning, "_report_phase", begin)
    monkeypatch.setattr(tuning, "measure_cpu_utilization", lambda: dict.fromkeys(range(1024), (made.others, 0.0)))
    return made


def tune(*words: object) -> Result:
    done = CliRunner().invoke(app, ["tune", *map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit | NearfieldError), done.exception
    return done


def after(count: int, what: type[BaseException] = KeyboardInterrupt, of: str = "") -> Callable[[str, int], None]:
    """Fails when a number of settings have been started."""

    def on_start(name: str, started: int) -> None:
        if name.startswith(of) and started == count:
            raise what("made up")

    return on_start


def resuming(said: str) -> list[str]:
    """Returns the words behind `tune` in the printed command."""
    found = re.search(r"(?:To continue|continue with|next): (.*--resume.*)", said)
    assert found, said
    return shlex.split(found.group(1).partition(" tune ")[2])


def combinations(inst: mpi.Installation) -> list[Settings]:
    return [s for s in iterate_grid_settings(find_knobs(inst.family, inst.version, TRANSPORTS[inst.family])) if s]
