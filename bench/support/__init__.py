"""Common parts of the benches: the command line, where ranks go, running the engine as a probe does, the end."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from nearfield import mpi
from nearfield.base.errors import MeasurementError, NearfieldError, UsageError
from nearfield.base.topology import Topology
from nearfield.measure.live.launch import LaunchJob, format_plan, run_job
from nearfield.measure.live.layout import RankGroup, RankPlace
from nearfield.measure.live.lines import LaunchLine, Line, SamplesLine, read_lines
from nearfield.measure.request import Request
from nearfield.mpi import Installation

console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)


def parser(description: str | None) -> argparse.ArgumentParser:
    """With what every bench understands."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", type=Path, metavar="FILE", help="write every number here too")
    made.add_argument("--check", action="store_true", help="exit with 1 unless the limit is met")
    return made


def finish(main: Callable[[argparse.Namespace], dict[str, Any]], options: argparse.Namespace) -> int:
    """Runs a bench to its exit code. What it returns goes to --json; its key "met" is True, False, or None when
    this machine cannot tell, which only --check takes for a failure."""
    try:
        result = main(options)
    except NearfieldError as error:
        console.print(f"error: {error.message}\n{error.remedy}".rstrip(), style="red", markup=False)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return int(options.check and not result["met"])


def verdict(met: bool | None, text: str) -> None:
    word, style = {True: ("met", "green"), False: ("missed", "red"), None: ("open", "yellow")}[met]
    console.print(f"[bold {style}]{word}[/]: {text}")


def new_table(title: str, words: str, numbers: str) -> Table:
    """Columns by name, separated by commas: first those of words, then those of numbers."""
    made = Table(title=title, title_justify="left")
    for names, justify in ((words, "left"), (numbers, "right")):
        for name in names.split(","):
            made.add_column(name.strip(), justify=justify)  # type: ignore[arg-type]
    return made


def two_cpus(text: str | None) -> tuple[int, int]:
    """'0,1' as given, else the representatives of the nearest distance between two cores."""
    if text:
        try:
            a, b = (int(cpu) for cpu in text.split(","))
        except ValueError as error:
            raise UsageError(f"--cpus {text}: not two CPU numbers", "write them as 0,1") from error
        return a, b
    between_cores = [p for d, p in Topology.of_this_machine().representative_pairs().items() if d != "same-core"]
    if not between_cores:
        raise UsageError("two ranks need two cores; this machine lets us use one")
    return between_cores[0]


def run_engine(
    inst: Installation,
    engine: Path,
    cpus: tuple[int, int],
    scenario: str,
    *,
    budget_s: float,
    min_samples: int,
    sizes: tuple[int, ...] = (),
) -> list[Line]:
    """One launch of one scenario on two ranks, planned and run as `nearfield probe` does; the lines it wrote."""
    group = RankGroup(("pair",), tuple(RankPlace(cpu) for cpu in cpus))
    job = LaunchJob(group, 0, {scenario: budget_s})
    extra = {"tolerance": "0.01", "min_samples": str(min_samples)}
    extra |= {"sizes": " ".join(map(str, sizes))} if sizes else {}
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as name:
        folder = Path(name)
        ending = run_job(
            job,
            inst,
            engine,
            folder,
            lambda output: format_plan(job, Request(), Topology.of_this_machine(), output, folder / "stop", extra),
            launcher=None,
            on_progress=lambda scenario, share: None,
        )
        if ending.state != "complete":
            raise MeasurementError(f"the engine under {inst.name}: {ending.reason}")
        return [line for path in job.attempt_files(folder) for line in read_lines(path)]


def header_of(lines: list[Line]) -> LaunchLine:
    """Returns what the launch found out before it measured."""
    return next(line for line in lines if isinstance(line, LaunchLine))


def samples_of(lines: list[Line], metric: str, side: str | None = None, **parameters: Any) -> list[float]:
    """Returns the samples of the one case with these parameters, disturbed ones too: what they are compared with has
    them."""
    for line in lines:
        here = isinstance(line, SamplesLine) and line.metric == metric and line.side == side
        if here and parameters.items() <= line.parameters.items():
            return [sample for sample in line.samples + line.disturbed if sample is not None]
    raise MeasurementError(f"the engine did not measure {metric} with {parameters}")


def engine_for(inst: Installation, source: Path | None = None) -> Path:
    return mpi.build_target(inst, progress=lambda text: console.print(text, style="dim"), source=source)
