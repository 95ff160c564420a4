"""Launches of an unmodified MPI program on two cores: as it is, and as `nearfield run` starts it."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nearfield import mpi
from nearfield.base.errors import MeasurementError, NearfieldError, UsageError
from nearfield.mpi import Installation, launch_command, remove_stale_shm, snapshot_shm
from nearfield.mpi.marked_processes import MARK_VARIABLE, end_launch
from nearfield.rules.knobs import KnobFile, Settings, find_knobs, version_numbers
from nearfield.rules.schema import Rules, load_rules, save_rules
from nearfield.tune.request import TuneRequest
from nearfield.tune.tuning import Tuning
from support import console, parser, two_cpus
from support.compare import NEVER_BELOW

LIMIT_S = 300.0


@dataclass(frozen=True)
class Way:
    """A way to run a command: the words that stand before it, and the variables that are set for it."""

    before: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def with_environment(self, more: Mapping[str, str]) -> Way:
        return replace(self, environment={**more, **self.environment})


STOCK = Way()


@dataclass(frozen=True)
class Tuned:
    """How programs are started tuned under one MPI."""

    words: str
    knobs: KnobFile
    way: Way


def options_for(description: str | None) -> argparse.ArgumentParser:
    """Returns the command line of a bench that compares stock and tuned launches."""
    made = parser(description)
    made.add_argument("--mpi", action="append", metavar="NAME", help="repeat for more (default: every MPI found)")
    made.add_argument("--cpus", metavar="A,B", help="where the two ranks run (default: the nearest pair of cores)")
    return add_comparison_options(made)


def add_comparison_options(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
    made.add_argument("--rounds", type=int, default=7, help="launches of each (default %(default)s)")
    made.add_argument("--rules", type=Path, metavar="PATH", help="rules: a file, or a folder of files MPI.toml")
    made.add_argument("--settings", type=_settings, metavar="JSON", help="""settings, as '{"shared_heap": "on"}'""")
    return made


def _settings(text: str) -> Settings:
    made = json.loads(text)
    if not isinstance(made, dict):
        raise ValueError(text)
    return made


def choose_mpis(options: argparse.Namespace) -> list[Installation]:
    return [mpi.choose_mpi(name) for name in options.mpi] if options.mpi else list(mpi.find_usable_mpis())


def load_or_tune(inst: Installation, options: argparse.Namespace, scratch: Path, **tuning: float) -> Tuned | None:
    """Returns what --settings or --rules set. Without either the MPI is tuned now, and the rules are left in `scratch`.
    Returns None if there is nothing to set, and says so."""
    try:
        if options.settings is not None:
            return _by_settings(inst, options.settings)
        path = _rules_at(inst, options.rules) if options.rules else tune_now(inst, scratch, **tuning)
        rules = load_rules(path)
        if not rules.rule[0].parameters:
            raise UsageError(f"stock is best ({rules.rule[0].reason})")
        return _by_rules(inst, rules, path)
    except NearfieldError as error:
        console.print(f"[bold]{inst.name}[/]: nothing to show, {error.message}")
        return None


def tune_now(
    inst: Installation, folder: Path, budget_s: float = 180.0, never_below: float = NEVER_BELOW, reuse: bool = False
) -> Path:
    """Tunes the MPI, and returns the file of the rules."""
    path = folder / f"{inst.name}.toml"
    if not (reuse and path.exists()):
        console.print(f"tuning {inst.name}: {budget_s:.0f} s")
        request = TuneRequest(mpi=inst.name, budget_s=budget_s, never_below=never_below, command="bench")
        save_rules(Tuning(request).run(), path)
    return path


def _by_settings(inst: Installation, settings: Settings) -> Tuned:
    knobs = find_knobs(inst.family, inst.version, mpi.transport_or_reason(inst)[0])
    if problems := knobs.find_problems(settings):
        raise UsageError(problems[0])
    made = knobs.launch_environment(settings, os.environ)
    return Tuned(f"settings {settings}", knobs, Way(environment=made))


def _by_rules(inst: Installation, rules: Rules, path: Path) -> Tuned:
    """Returns the launch by `nearfield run`, which sets nothing while the cores are more distant than the rules
    allow."""
    nearfield = str(Path(sys.executable).with_name("nearfield"))
    way = Way((nearfield, "run", "--mpi", inst.name, "--rules", str(path.absolute()), "--"))
    return Tuned(f"{path.name}, {rules.rule[0].distance}: {rules.rule[0].parameters}", rules.find_knob_file(), way)


def _rules_at(inst: Installation, given: Path) -> Path:
    if given.is_dir():
        return given / f"{inst.name}.toml"
    of = load_rules(given).mpi
    if (of.family, version_numbers(of.version)[:2]) != (inst.family, version_numbers(inst.version)[:2]):
        raise UsageError(f"{given.name} is for {of.family} {of.version}")
    return given


@dataclass(frozen=True)
class Place:
    """Two cores under one MPI, and what every launch there gets."""

    inst: Installation
    cpus: tuple[int, int]
    common: Mapping[str, str]

    def launch(self, argv: list[str], way: Way = STOCK, cwd: Path | None = None) -> str:
        """Standard output. MeasurementError if it fails or does not end, with the command that shows it."""
        command, env = self.command(argv)
        command = [*way.before, *command]
        added = {**self.common, **way.environment}
        shown = " ".join([*(f"{name}='{value}'" for name, value in added.items()), *command])
        mark, before = uuid.uuid4().hex, snapshot_shm()
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, env={**env, **added, MARK_VARIABLE: mark}, cwd=cwd, text=True, **pipes)
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise MeasurementError(f"does not end within {LIMIT_S:.0f} s: {shown}") from error
        finally:
            end_launch(mark, process)
            remove_stale_shm(before)
        for line in err.splitlines():
            if line.startswith("nearfield:"):
                console.print(f"  {line}", style="dim", markup=False)
        if process.returncode:
            raise MeasurementError(f"ends with {process.returncode}: {shown}\n{(err or out)[-600:]}")
        return out

    def check(self) -> None:
        """That the ranks are where they should be: launchers bind in ways of their own. MeasurementError if not."""
        allowed = self.launch(["/bin/grep", "Cpus_allowed_list", "/proc/self/status"]).split()[1::2]
        if sorted(allowed) != sorted(map(str, self.cpus)):
            raise MeasurementError(f"{self.inst.name} binds ranks to {allowed}, not to CPUs {self.cpus}")

    def command(self, argv: list[str]) -> tuple[list[str], dict[str, str]]:
        """As a person would write it, with the launcher's own option for where ranks go."""
        (launcher, *_), env = launch_command(self.inst, argv, 2)
        places = ",".join(map(str, self.cpus))
        if self.inst.family == "openmpi" and version_numbers(self.inst.version) >= (5,):
            bind = ["--map-by", f"pe-list={places}:ordered", "--bind-to", "core"]
        elif self.inst.family == "openmpi":
            bind = ["--cpu-list", places, "--bind-to", "cpu-list:ordered"]
        elif self.inst.family == "mpich":
            bind = ["-bind-to", f"user:{places}"]
        else:
            bind, env = [], env | {"I_MPI_PIN": "1", "I_MPI_PIN_PROCESSOR_LIST": places}
        return [launcher, *bind, "-n", "2", *argv], env


def place(inst: Installation, options: argparse.Namespace, knobs: KnobFile) -> Place:
    common = {name: value for name, value in knobs.while_tuning.items() if name not in os.environ}
    made = Place(inst, two_cpus(options.cpus), common)
    made.check()
    return made


def pingpong_for(inst: Installation, folder: Path) -> Path:
    """bench/pingpong.c, compiled by this MPI's C compiler."""
    return program_for(inst, "pingpong", folder)


def program_for(inst: Installation, name: str, folder: Path) -> Path:
    """Returns bench/NAME.c, compiled by this MPI's C compiler into the folder."""
    compiler = inst.compiler.with_name(inst.compiler.name.replace("mpicxx", "mpicc").replace("mpic++", "mpicc"))
    source = Path(__file__).parents[1] / f"{name}.c"
    return compile_c(source, folder / f"{name}.{inst.name}", [str(compiler)], inst.env)


def compile_c(source: Path, program: Path, compiler: list[str], env: Mapping[str, str] | None = None) -> Path:
    """With -O2, as programs are. MeasurementError with the compiler's words."""
    command = [*compiler, "-O2", str(source), "-o", str(program)]
    done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True)
    if done.returncode:
        raise MeasurementError(f"{' '.join(command)} fails", done.stderr[-600:])
    return program
