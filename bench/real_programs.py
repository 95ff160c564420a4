"""What does `nearfield forecast` say of real programs, what does it cost them, and what do they gain by tuning?

Takes the programs of bench/real_programs.toml that are found in --programs and on PATH, and leaves out the others with
a word. Each is prepared in a folder of its own (--folder keeps them), forecast once, and then started on two ranks: as
it is, under the layer of the forecast, and with the settings of the rules, in turn. Time is that of the whole command.
A control has nothing but one variable of 3,000 bytes more in its environment: it moves the stack and the C library's
heap, as whatever is preloaded does, and so shows what the time of a program owes to where its memory lies.

Criteria: the layer takes at most 1 % of the time, or no more than the control; no gain is above the ceiling; and the
results in the output are the same in each run.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support import console, finish, new_table
from support.compare import Criterion, Times, in_turn, report_criteria
from support.launches import STOCK, Place, Way, choose_mpis, load_or_tune, options_for, place
from support.programs import hpcc_input

from nearfield import mpi
from nearfield.base.errors import MeasurementError
from nearfield.base.paired import Gain
from nearfield.base.toml import parse_toml_values
from nearfield.forecast.recording import FOLDER_VARIABLE

MAX_OVERHEAD = 1.01
CASE = ("time", "")
CONTROL = Way((), {"NEARFIELD_BENCH_CONTROL": "x" * 3000})


@dataclass(frozen=True)
class Program:
    """A program that is there, in its folder."""

    name: str
    argv: list[str]
    folder: Path
    results: re.Pattern[str]
    results_file: str | None
    output: str | None  # a pattern for the files that a run leaves, which the next would add to or refuse

    def remove_output(self) -> None:
        for old in self.folder.glob(self.output) if self.output else ():
            old.unlink()

    def run(self, here: Place, way: Way, seen: set[str]) -> Times:
        """Returns the time of one run in seconds, and adds its results to `seen`."""
        self.remove_output()
        start = time.monotonic()
        printed = here.launch(self.argv, way, self.folder)
        seconds = time.monotonic() - start
        text = (self.folder / self.results_file).read_text() if self.results_file else printed
        seen.add("\n".join(sorted(self.results.findall(text))))
        return {CASE: seconds}


def main(options: argparse.Namespace) -> dict[str, Any]:
    """Returns what was found for each program."""
    (inst,) = choose_mpis(options)
    criteria: list[Criterion] = []
    found: dict[str, Any] = {}
    with TemporaryDirectory(prefix="nearfield-bench-") as name:
        scratch = options.folder or Path(name)
        if not (setting := load_or_tune(inst, options, scratch)):
            return {"met": None}
        here = place(inst, options, setting.knobs)
        layer = Way((), {"LD_PRELOAD": str(mpi.build_target(inst, mpi.FORECAST_TARGET)), FOLDER_VARIABLE: name})
        made = new_table("on two ranks", "program", "MPI, at most, likely, gain, layer, control, same results")
        for program in programs(options, scratch):
            before = forecast(program, here, options.rules)
            seen: set[str] = set()
            ways = {"stock": STOCK, "control": CONTROL, "layer": layer, "tuned": setting.way}
            runs = {way: partial(program.run, here, how, seen) for way, how in ways.items()}
            turns = in_turn(runs, options.rounds, here.cpus, program.name, takes=1)
            gain, cost = turns.gains()[CASE], turns.gains("stock", "layer")[CASE]
            control = turns.gains("stock", "control")[CASE]
            ratios = {"gain": gain.value, "layer": cost.value, "control": control.value}
            found[program.name] = {**before, **ratios, **turns.as_json()}
            ceiling = before["at_most"] or float("inf")
            likely = f"{before['likely']:.2f}" if before["likely"] else "not known"
            made.add_row(
                program.name, f"{before['share']:.1%}", f"{ceiling:.2f}", likely,
                text(gain), text(cost), text(control), "yes" if len(seen) == 1 else "no",
            )  # fmt: skip
            criteria += [
                Criterion(
                    f"{program.name}, layer: {text(cost)}, control: {text(control)}",
                    decided(cost, max(MAX_OVERHEAD, control.high)),
                ),
                Criterion(f"{program.name}, gain: {text(gain)}, ceiling {ceiling:.3f}", decided(gain, ceiling)),
                Criterion(f"{program.name}: results {'are the same' if len(seen) == 1 else 'differ'}", len(seen) == 1),
            ]
    console.print(made)
    return {"met": report_criteria(criteria), "programs": found, "bars": [one._asdict() for one in criteria]}


def programs(options: argparse.Namespace, scratch: Path) -> list[Program]:
    """Returns the programs that are here, prepared. The others are left out, with where they come from."""
    made = []
    for name, about in parse_toml_values(Path(__file__).with_suffix(".toml").read_text()).items():
        if options.only and not re.search(options.only, name):
            continue
        program = shutil.which(about["program"], path=options.programs) or shutil.which(about["program"])
        if not program:
            console.print(f"without {name}: there is no {about['program']} ({about['from']})", markup=False)
            continue
        folder = scratch / re.sub(r"\W+", "-", name)
        if not folder.exists():
            prepare(about, program, folder)
        argv = shlex.split(about["command"].replace("{program}", program))
        results = re.compile(about["results"], re.MULTILINE)
        made.append(Program(name, argv, folder, results, about.get("results_file"), about.get("output")))
    return made


def prepare(about: dict[str, Any], program: str, folder: Path) -> None:
    """Writes the program's files and runs what prepares it. MeasurementError if that fails."""
    folder.mkdir(parents=True)
    for file, text in about.get("files", {}).items():
        folder.joinpath(file).write_text(text.lstrip().replace("{hpcc_input}", hpcc_input(3000, columns=2)))
    script = about.get("prepare", "").replace("{program}", program)
    done = subprocess.run(["sh", "-e", "-c", script], cwd=folder, text=True, capture_output=True)
    if done.returncode:
        problem = f"{about['program']} cannot be prepared in {folder}"
        raise MeasurementError(problem, (done.stderr or done.stdout)[-600:])


def forecast(program: Program, here: Place, rules: Path | None) -> dict[str, Any]:
    """Returns the share of MPI, the ceiling of the rules and the likely gain that a forecast of one run gives.
    MeasurementError if it cannot tell them."""
    program.remove_output()
    command, env = here.command(program.argv)
    priced = ("--rules", str(rules.absolute())) if rules else ()
    done = subprocess.run(
        [sys.executable, "-m", "nearfield", "forecast", "--json", *priced, "--", *command],
        cwd=program.folder, env={**env, **here.common}, text=True, errors="replace", capture_output=True,
    )  # fmt: skip
    if done.returncode:
        raise MeasurementError(f"the forecast of {program.name} ends with {done.returncode}", done.stderr[-600:])
    said = json.loads(done.stdout[done.stdout.rindex('{\n "decided"') :])
    (of_rules,) = (one for one in said["ceilings"] if one["means"].startswith("rules"))
    return {"share": said["mpi_share"], "at_most": of_rules["at_most"], "likely": of_rules["likely"]}


def text(one: Gain) -> str:
    return f"{one.value:.3f} ({one.low:.3f} to {one.high:.3f})"


def decided(one: Gain, limit: float) -> bool | None:
    """Returns whether a ratio is at most the limit; None if the limit lies in its interval."""
    return True if one.high <= limit else False if one.low > limit else None


def make_parser(description: str | None) -> argparse.ArgumentParser:
    made = options_for(description)
    made.add_argument("--programs", metavar="PATH", help="folders of programs, before those of $PATH")
    made.add_argument("--folder", type=Path, help="where programs are prepared, and found prepared the next time")
    made.add_argument("--only", metavar="REGEX", help="programs in whose name this is found (default: all)")
    return made


if __name__ == "__main__":
    sys.exit(finish(main, make_parser(__doc__).parse_args()))
