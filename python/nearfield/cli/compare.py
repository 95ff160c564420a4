"""`nearfield compare`: runs a program under stock and under tuned MPI, in turn."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from typing import Annotated

import typer
from rich.markup import escape

from nearfield import _native, itself
from nearfield.cli.run import CONTEXT as CONTEXT
from nearfield.cli.run import CommandArgument, ForceOption, MpiOption, RulesOption
from nearfield.errors import MeasurementError, UsageError
from nearfield.terminal import err
from nearfield.tune.prepared import prepared

FEWEST = 6  # runs of each; fewer have no interval
SAME = 0.01  # smaller differences do not count


def command(
    argv: CommandArgument,
    runs: Annotated[int, typer.Option("-n", "--runs", min=2, help="Runs of each.")] = 10,
    metric: Annotated[
        str,
        typer.Option(metavar="REGEX", help="A number that the program prints, instead of wall time: the first group."),
    ] = "",
    higher: Annotated[bool, typer.Option("--higher-is-better", help="The metric is a rate, not a time.")] = False,
    rules: RulesOption = None,
    force: ForceOption = False,
    mpi_name: MpiOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Run a program with stock and with tuned MPI, in turn, and say what tuning is worth to it.

    A first run of each does not count. Then they alternate; each pair gives a ratio, and the verdict is the median of
    the ratios with its 95 % interval.

    Examples:

      nearfield compare -- mpirun -n 2 ./app

      nearfield compare -n 20 --metric 'GFLOPS: ([0-9.]+)' --higher-is-better -- mpirun -n 2 ./app
    """
    pattern = _pattern(metric)
    made = prepared(argv, rules, force, mpi_name)
    for warning in made.warnings:
        err.print(f"nearfield: {escape(warning)}")
    if not made.environment:
        raise UsageError("the rules set nothing: stock and tuned are the same", "; ".join(made.notes + made.warnings))
    environments = {"stock": dict(os.environ), "tuned": {**os.environ, **made.environment}}
    for name, environment in environments.items():
        measured(argv, environment, pattern, name)
    values: dict[str, list[float]] = {"stock": [], "tuned": []}
    for number in range(runs):
        for name in ("stock", "tuned") if number % 2 == 0 else ("tuned", "stock"):
            values[name].append(measured(argv, environments[name], pattern, name))
        if not as_json:
            pair = f"stock {values['stock'][-1]:.4g}, tuned {values['tuned'][-1]:.4g}"
            err.print(f"[dim]{number + 1} of {runs}: {pair}[/dim]")
    slow, fast = ("tuned", "stock") if higher else ("stock", "tuned")
    ratio = _native.paired_ratio(values[fast], values[slow])
    gain = {"value": ratio.value, "low": ratio.low, "high": ratio.high, "n": ratio.n}
    if as_json:
        print(json.dumps({"gain": gain, "metric": metric or "wall time", **values}, indent=1))
    else:
        print(verdict(ratio.value, ratio.low, ratio.high, ratio.n))


def verdict(value: float, low: float, high: float, n: int) -> str:
    """Returns the verdict in one line; `value` is how many times as fast as stock it is."""
    interval = f"{value:.3f}x of stock ({low:.3f} to {high:.3f}, n = {n})"
    if n < FEWEST:
        return f"tuned: {interval}; too few runs for a verdict"
    if low > 1 + SAME:
        return f"tuned is faster: {interval}"
    if high < 1 - SAME:
        return f"tuned is slower: {interval}"
    return f"no difference that these runs can show: {interval}"


def measured(argv: list[str], environment: dict[str, str], pattern: re.Pattern[str] | None, name: str) -> float:
    """Returns the seconds of a run, or the number that it printed."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
    except OSError as error:
        raise UsageError(f"cannot start {argv[0]}: {error.strerror}") from error
    seconds = time.monotonic() - start
    if done.returncode:
        words = [line for line in (done.stderr + done.stdout).splitlines() if line.strip(" -=")]
        said = f": {words[0]}" if words else " and printed nothing"
        by_hand = shlex.join(argv) if name == "stock" else itself.command("run", "--", *argv)
        raise MeasurementError(
            f"the {name} run ended with exit code {done.returncode}{said}", f"see it by hand: {by_hand}"
        )
    if pattern is None:
        return seconds
    found = pattern.findall(done.stdout + done.stderr)
    if not found:
        raise MeasurementError(
            f"the {name} run printed nothing that fits '{pattern.pattern}'", f"it printed: {done.stdout[-300:]}"
        )
    try:
        return float(found[-1])
    except ValueError as error:
        raise UsageError(f"'{found[-1]}' is no number", "put the number into the first group of --metric") from error


def _pattern(metric: str) -> re.Pattern[str] | None:
    if not metric:
        return None
    try:
        pattern = re.compile(metric)
    except re.error as error:
        raise UsageError(f"--metric '{metric}' is no regular expression: {error}") from error
    if pattern.groups != 1:
        raise UsageError(f"--metric '{metric}' must have one group, the number", r"for instance 'time: ([0-9.]+)'")
    return pattern
