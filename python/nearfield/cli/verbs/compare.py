"""`nearfield compare`: runs a program alternately with the baseline MPI and with the tuned MPI."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, MeasurementError, MpiError, UsageError
from nearfield.base.paired import MIN_PAIRS, Gain, measure_alternately, paired_gain
from nearfield.base.units import parse_share
from nearfield.cli.options import CONTEXT as CONTEXT
from nearfield.cli.options import AsJson, Command, Force, MpiOfCommand, NoForecast, RulesOfCommand
from nearfield.ui.terminal import err

if TYPE_CHECKING:
    from nearfield.forecast.recording import Recording
    from nearfield.forecast.run import RecordedRun


def command(
    argv: Command,
    runs: Annotated[int, typer.Option("-n", "--runs", min=2, help="Runs of each; a verdict needs at least 6.")] = 10,
    metric: Annotated[
        str,
        typer.Option(metavar="REGEX", help="Compare a number that the program prints (first group), not wall time."),
    ] = "",
    higher: Annotated[bool, typer.Option("--higher-is-better", help="The metric is a rate, not a time.")] = False,
    fail_if_slower: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="Exit code 1 if tuned is significantly slower by more than this (5%), 6 if it may be."
        ),
    ] = "",
    rules: RulesOfCommand = None,
    no_forecast: NoForecast = False,
    force: Force = False,
    mpi_name: MpiOfCommand = None,
    as_json: AsJson = False,
) -> None:
    """Run a program alternately with the baseline and with the tuned MPI, and report what tuning gains.

    The first run of each is a warm-up; that of the baseline also measures the share of MPI, which is the most that
    tuning can gain. Then the runs alternate; each pair gives a ratio, and the verdict is the median of the ratios with
    its 95 % interval.

    Examples:

      nearfield compare -- mpirun -n 2 ./app

      nearfield compare -n 20 --metric 'GFLOPS: ([0-9.]+)' --higher-is-better -- mpirun -n 2 ./app

      nearfield compare --fail-if-slower 2% -- mpirun -n 2 ./app
    """
    from nearfield.apply.cached_plan import cached_launch_plan
    from nearfield.base import all_nodes
    from nearfield.forecast.saying import run_summary
    from nearfield.forecast.watching import print_message

    pattern = _compile_metric_pattern(metric)
    max_slowdown = parse_share(fail_if_slower) if fail_if_slower else None
    made = cached_launch_plan(argv, rules, force, mpi_name)
    for warning in made.warnings:
        err.print(f"nearfield: {escape(warning)}")
    if not made.environment:
        remedy = "; ".join(made.notes + made.warnings)
        raise UsageError("the rules set nothing: baseline and tuned are the same", remedy)
    busy = _measure_load()
    baseline = dict(os.environ)
    tuned = {**baseline, **made.environment}
    tuned |= all_nodes.variables_for_all_nodes(argv, tuned)
    program = ComparedProgram(argv, pattern, {"baseline": baseline, "tuned": tuned})
    forecast, unknown = (None, "") if no_forecast else _run_forecast(program, mpi_name, prices_of=rules)
    if not forecast:
        program.measure("baseline")
    if unknown:
        print_message(f"how much of this run is MPI is not known: {unknown}")
    program.measure("tuned")
    values = program.pairs(runs, verbose=not as_json)
    slow, fast = ("tuned", "baseline") if higher else ("baseline", "tuned")
    gain = paired_gain(values[slow], values[fast])
    if as_json:
        outcome = {"gain": vars(gain), "metric": metric or "wall time", "busy_share": busy}
        outcome |= {"forecast": run_summary(forecast) if forecast else None}
        print(json.dumps({**outcome, "stock": values["baseline"], "tuned": values["tuned"]}, indent=1))
    else:
        print(verdict_on(gain))
        print(_next_command_text(argv, gain, forecast, busy))
    raise typer.Exit(0 if max_slowdown is None else gate_exit_code(gain, max_slowdown))


def verdict_on(gain: Gain) -> str:
    """Returns the verdict on the gain of the tuned runs as one line of text."""
    interval = f"{gain.value:.3f}x of the baseline ({gain.low:.3f} to {gain.high:.3f}, n = {gain.n})"
    if gain.n < MIN_PAIRS:
        return f"tuned: {interval}; a verdict needs at least {MIN_PAIRS} runs of each (-n {MIN_PAIRS})"
    if gain.is_gain:
        return f"tuned is faster: {interval}"
    return f"{'tuned is slower' if gain.is_loss else 'no difference that these runs can show'}: {interval}"


def gate_exit_code(gain: Gain, max_slowdown: float) -> int:
    """Returns the exit code for --fail-if-slower: 0 if the interval excludes a slowdown above the limit, 1 if the whole
    interval is beyond the limit, otherwise NOT_DECIDED_EXIT_CODE."""
    lowest = 1 - max_slowdown
    if gain.n < MIN_PAIRS:
        return NOT_DECIDED_EXIT_CODE
    return 0 if gain.low >= lowest else 1 if gain.high < lowest else NOT_DECIDED_EXIT_CODE


class ComparedProgram:
    """The program to compare, with the environments of its baseline and tuned runs."""

    def __init__(
        self, argv: Sequence[str], pattern: re.Pattern[str] | None, environments: Mapping[str, dict[str, str]]
    ) -> None:
        self.argv, self.pattern, self.environments = argv, pattern, environments

    def measure(self, name: str, record: Recording | None = None) -> float:
        """Runs the program in environment `name`, or under the counting layer of `record`. Returns the run time in
        seconds, or the number that --metric matches in the output. Raises MeasurementError if the program fails."""
        from nearfield.mpi.process import run_command

        environment, folders = (record.environment, record.scratch_folders) if record else (self.environments[name], ())
        lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        try:
            done = run_command(self.argv, environment, lambda stream, line: lines[stream].append(line), folders)
        except MpiError as error:
            raise UsageError(error.message) from error
        out, said = "\n".join(lines["stdout"]), [*lines["stderr"], *lines["stdout"]]
        if done.exit_code:
            raise _run_error(self.argv, name, done.exit_code, said)
        if self.pattern is None:
            return done.seconds
        return _parse_metric(self.pattern.findall("\n".join([out, *lines["stderr"]])), self.pattern.pattern, name, out)

    def pairs(self, runs: int, verbose: bool) -> dict[str, list[float]]:
        """Runs the program alternately in both environments. Returns the values of each. If `verbose`, prints each pair
        to standard error."""
        values: dict[str, list[float]] = {"baseline": [], "tuned": []}
        rounds = measure_alternately({name: partial(self.measure, name) for name in values})
        for number, pair in zip(range(1, runs + 1), rounds, strict=False):
            for name in values:
                values[name].append(pair[name])
            if verbose:
                err.print(f"[dim]{number} of {runs}: baseline {pair['baseline']:.4g}, tuned {pair['tuned']:.4g}[/dim]")
        return values


def _run_error(argv: Sequence[str], name: str, code: int, output_lines: list[str]) -> MeasurementError:
    words = [line for line in output_lines if line.strip(" -=")]
    outcome = f": {words[0]}" if words else " and printed nothing"
    by_hand = shlex.join(argv) if name == "baseline" else own_command.command_line("run", "--", *argv)
    return MeasurementError(f"the {name} run ended with exit code {code}{outcome}", f"to see the error, run: {by_hand}")


def _parse_metric(matches: list[str], pattern: str, name: str, out: str) -> float:
    if not matches:
        raise MeasurementError(f"the {name} run printed nothing that fits '{pattern}'", f"it printed: {out[-300:]}")
    try:
        return float(matches[-1])
    except ValueError as error:
        raise UsageError(f"'{matches[-1]}' is no number", "put the number into the first group of --metric") from error


def _measure_load() -> float:
    """Returns the fraction of CPU time that other programs use. Prints a warning if it disturbs the runs."""
    from nearfield.base.cpu_load import BUSY_SHARE, measure_cpu_utilization

    shares = measure_cpu_utilization()
    mine = [shares[cpu] for cpu in os.sched_getaffinity(0) if cpu in shares]
    busy = sum(sum(pair) for pair in mine) / len(mine) if mine else 0.0
    if busy > BUSY_SHARE:
        err.print(f"nearfield: other programs take {busy:.0%} of these cores' time: the runs will differ much")
    return busy


def _run_forecast(
    program: ComparedProgram, mpi_name: str | None, prices_of: Path | None
) -> tuple[RecordedRun | None, str]:
    """Makes the first baseline run under the counting layer and prints the upper bound of a gain. Returns (run, ""), or
    (None, the reason) on failure."""
    from nearfield.forecast.saying import ceiling_sentence
    from nearfield.forecast.watching import find_prices_or_none, recording_if_possible

    with recording_if_possible(program.argv, program.environments["baseline"], mpi_name) as record:
        if not record:
            return None, ""
        try:
            program.measure("baseline", record)
        except MeasurementError as error:
            return None, error.message
        run = record.read_run(find_prices_or_none(prices_of))
    if sentence := ceiling_sentence(run):
        err.print(f"nearfield: {escape(sentence)}")
    if crowded := run.oversubscribed_node:
        err.print(f"nearfield: {crowded[0]} ranks share {crowded[1]} cores: while one waits, another one loses time")
    return run, ""


def _next_command_text(argv: Sequence[str], gain: Gain, forecast: RecordedRun | None, busy: float) -> str:
    """Returns the suggested next command as one line of text."""
    from nearfield.base.cpu_load import BUSY_SHARE
    from nearfield.forecast.saying import MIN_SPEEDUP

    undecided = gain.n < MIN_PAIRS or not (gain.is_gain or gain.is_loss)
    rules = forecast.rules_ceiling if forecast and not forecast.inconclusive_reasons() else None
    if rules and rules.max_speedup and rules.max_speedup < MIN_SPEEDUP:
        return (
            f"next: tuning is not worthwhile, since it can make this program {rules.max_speedup_text} as fast at most"
        )
    if undecided and busy > BUSY_SHARE:
        return "next: again while no other programs run, since they decide how long a run takes"
    if undecided and gain.n < 2 * MIN_PAIRS:
        return f"next: {own_command.command_line('compare', '-n', 30, '--', *argv)}"
    if gain.is_gain:
        return f"next: {own_command.command_line('run', '--', *argv)}"
    return f"next: {own_command.command_line('forecast', '--', *argv)}"


def _compile_metric_pattern(metric: str) -> re.Pattern[str] | None:
    if not metric:
        return None
    try:
        pattern = re.compile(metric)
    except re.error as error:
        raise UsageError(f"--metric '{metric}' is no regular expression: {error}") from error
    if pattern.groups != 1:
        raise UsageError(f"--metric '{metric}' must have one group, the number", r"for instance 'time: ([0-9.]+)'")
    return pattern
