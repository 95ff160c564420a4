"""`nearfield tune --all-mpis`: tunes every MPI of this machine in turn, each with a rules file of its own."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import typer
from rich.markup import escape

from nearfield import mpi
from nearfield.base import own_command
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, MeasurementError, NearfieldError, UsageError
from nearfield.base.units import format_seconds, format_size_range
from nearfield.cli.tune_session import INTERRUPTED, TuneOptions, tune_and_save
from nearfield.rules.schema import Rules, require_writable_rules_file, run_command_line
from nearfield.tune.request import TuneRequest
from nearfield.tune.trial_log_file import TRIAL_LOG_SUFFIX, TrialLogFile
from nearfield.tune.tuning import ESTIMATED_ENGINE_BUILD_S, JOB_EXIT_S, max_duration_factor, measure_other_load
from nearfield.ui.terminal import Column, Table, Terminal, err, print_error

Results = dict[str, Rules | NearfieldError]  # name of the MPI -> its rules, or the error that prevented them


def run(folder: Path, options: TuneOptions, as_json: bool) -> None:
    """Tunes every MPI. Creates the trial logs of all MPIs first, so that `--resume` knows which MPIs are left."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"'{folder}' is a file; --all-mpis writes a folder of rules", "name another one with --out")
    files = _unfinished_rules_files(folder) if options.resume else _all_rules_files(folder)
    with ExitStack() as stack:
        locked = [stack.enter_context(TrialLogFile(file).open_locked(resume=options.resume)) for file in files]
        for one in locked:
            options.require_free(one)
        pending_tunings = [(one, options.begin(one, one.rules.stem)) for one in locked]
        _print_estimated_time(pending_tunings)
        try:
            results = _tune_each(pending_tunings, options.confirm_best)
        except SystemExit:  # raised by the handler of SIGTERM or SIGHUP
            err.print(escape(f"stopped; the measurements are saved. To continue: {_resume_command_line(folder)}"))
            raise
    left = [unfinished for unfinished, _ in pending_tunings if unfinished.path.exists()]
    if as_json:
        found = {name: one for name, one in results.items() if isinstance(one, Rules)}
        print(json.dumps({name: rules.to_json() for name, rules in found.items()}, indent=1))
    elif results:
        Terminal().print(results_table(results))
    _print_next_steps(folder, results)
    _exit_if_unfinished(folder, results, left, was_stopped=len(results) < len(pending_tunings))


def _resume_command_line(folder: Path) -> str:
    return own_command.command_line("tune", "--all-mpis", "--resume", "-o", folder)


def _all_rules_files(folder: Path) -> list[Path]:
    """Returns the paths of the rules files of all MPIs, the default MPI's first. Raises NearfieldError if there is no
    MPI, or if the folder cannot be written."""
    mpi.choose_mpi()
    files = [folder / f"{inst.name}.toml" for inst in mpi.find_usable_mpis()]
    require_writable_rules_file(files[0])
    return files


def _unfinished_rules_files(folder: Path) -> list[Path]:
    trial_logs = sorted(folder.glob(f"*.toml{TRIAL_LOG_SUFFIX}"))
    if not trial_logs:
        raise UsageError(
            f"there is nothing to resume in {folder}: every MPI is done, or none was begun",
            "start a new tune without --resume",
        )
    return [path.with_name(path.name.removesuffix(TRIAL_LOG_SUFFIX)) for path in trial_logs]


def _print_estimated_time(pending_tunings: list[tuple[TrialLogFile, TuneRequest]]) -> None:
    """Prints the estimated total time for all MPIs, before anything is built or measured."""
    names = [unfinished.rules.stem for unfinished, _ in pending_tunings]
    many = f"{len(names)} MPIs ({', '.join(names)})" if len(names) > 1 else names[0]
    if pending_tunings[0][1].exhaustive:
        err.print(escape(f"{many}: the time of each is printed when it begins"))
        return
    seconds = sum(_remaining_s(unfinished, request) for unfinished, request in pending_tunings)
    unbuilt = sum(inst.name in names and not mpi.is_built(inst) for inst in mpi.find_usable_mpis())
    builds_s, max_s = (
        unbuilt * ESTIMATED_ENGINE_BUILD_S,
        max_duration_factor(measure_other_load()) * seconds + len(pending_tunings) * JOB_EXIT_S,
    )
    building = f", of which {format_seconds(builds_s)} to build the measuring engine" if unbuilt else ""
    about, longest = format_seconds(seconds + builds_s), format_seconds(max_s + builds_s)
    err.print(escape(f"{many}: about {about} in all{building}; at most {longest}"))


def _remaining_s(unfinished: TrialLogFile, request: TuneRequest) -> float:
    return max(0.0, request.budget_s - sum(map(unfinished.used_budget_s, unfinished.tried_distances())))


def _tune_each(pending_tunings: list[tuple[TrialLogFile, TuneRequest]], confirm_best: bool) -> Results:
    """Tunes the MPIs one after the other. Returns the results of all, or of those finished before Ctrl-C."""
    results: Results = {}
    for number, (unfinished, request) in enumerate(pending_tunings, 1):
        name, prefix = unfinished.rules.stem, f"{number} of {len(pending_tunings)}, "
        try:
            rules = tune_and_save(unfinished, request, confirm_best=confirm_best, prefix=prefix)
            if rules is None:
                break
            results[name] = rules
        except NearfieldError as error:
            results[name] = error
            print_error(error)
    return results


def results_table(results: Results) -> Table:
    """Returns a table with a row for each core distance of each MPI."""
    table = Table(Column("MPI", key=True), Column("distance", key=True), Column("gain"), Column("", prose=True))
    for name, result in results.items():
        if isinstance(result, NearfieldError):
            table.add_row(escape(name), "", "", f"[red]failed:[/red] {escape(result.message)}")
            continue
        for undecided in result.undecided:
            table.add_row(escape(name), undecided.distance, "not decided", escape(undecided.explain))
        for rule in result.rule:
            if not rule.parameters:
                verdict = f"the defaults are best ({rule.reason})"
            elif best := rule.gaining_range():
                verdict = f"most at {format_size_range(best.from_bytes, best.to_bytes)}: {best.gain.value:.2f}x"
            else:
                verdict = "a little at all sizes"
            gain = f"{rule.gain.value:.2f}x" if rule.gain else "1.00x"
            table.add_row(escape(name), rule.distance, gain, escape(verdict))
    return table


def _print_next_steps(folder: Path, results: Results) -> None:
    for name, one in results.items():
        if isinstance(one, Rules) and (busy := one.busy_machine_note()):
            err.print(f"[yellow]{escape(name)}: {escape(busy)}: tune again when it is quiet[/yellow]")
    if any(isinstance(one, Rules) and one.has_any_setting for one in results.values()):
        err.print(f"rules: [bold]{escape(str(folder))}[/bold], of which each program gets those of its MPI")
        err.print(f"next: {escape(run_command_line(folder))}")


def _exit_if_unfinished(
    folder: Path, results: Results, unfinished_logs: list[TrialLogFile], *, was_stopped: bool
) -> None:
    """If MPIs are left to tune, prints them and how to resume, and exits with a code other than 0."""
    if not unfinished_logs:
        return
    again = _resume_command_line(folder)
    failed = [name for name, one in results.items() if isinstance(one, NearfieldError)]
    if failed and not was_stopped:
        raise MeasurementError(
            f"{len(failed)} of {len(results)} MPIs could not be tuned: {', '.join(failed)}",
            f"when that is fixed, continue with: {again}",
        )
    undecided = any(isinstance(one, Rules) and one.undecided for one in results.values())
    remaining = ", ".join(
        f"{one.rules.stem} ({one.describe_content()})" if one.count_trials() else one.rules.stem
        for one in unfinished_logs
    )
    err.print(escape(f"not done yet: {remaining}. To continue: {again}"))
    raise typer.Exit(NOT_DECIDED_EXIT_CODE if undecided and not was_stopped else INTERRUPTED)
