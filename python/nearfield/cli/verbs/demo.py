"""`nearfield demo`: measures this machine, tunes its MPI and writes a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, MeasurementError, NearfieldError
from nearfield.cli.demo_steps import (
    StepProgress,
    describe_profile,
    describe_rules,
    probe_progress,
    run_step,
    tune_progress,
)
from nearfield.cli.options import out_option
from nearfield.measure import TIERS
from nearfield.ui.terminal import err, print_error

if TYPE_CHECKING:
    from nearfield.base.cpu_load import Busyness
    from nearfield.mpi import Installation

TUNE_S = 45
MAX_TIME_FACTOR = 6.0  # max factor by which a busy machine extends the measuring time
AGAIN_FROM_START = (2, 4)  # exit codes of `--resume` after which the step must start from scratch


def command(
    out: Annotated[Path, out_option(help="The folder for the profile, the rules and the report.")] = Path(
        "demo-profile"
    ),
) -> None:
    """Measure this machine, tune its MPI, and write a report: a first look at what nearfield finds, in a few minutes.

    It runs `nearfield probe --quick`, `nearfield tune` and `nearfield report` one after the other. If a step fails, the
    next ones run all the same, so that there is a report at the end, and what is missing is reported. It uses the MPI
    of the `mpicc` on PATH if that works, else the Open MPI that comes with nearfield.

    Ctrl-C ends it and saves what was measured. The same command then continues from there; if everything is complete,
    it starts anew.

    Examples:

      nearfield demo

      nearfield demo -o first-look
    """
    from nearfield.base.cpu_load import busyness_advice, measure_busyness

    seen = measure_busyness()
    err.print(escape(busyness_advice(seen)))
    probe, tune = probe_progress(out), tune_progress(out)
    if (probe, tune) == (StepProgress.COMPLETE, StepProgress.COMPLETE):
        err.print(escape(f"{out} is complete, so everything is measured again"))
        probe = tune = StepProgress.ABSENT
    inst = _choose_mpi(out, probe)
    codes = {
        "probe": _run_or_resume("probe", probe, _probe_words(out, inst, seen)),
        "tune": _run_or_resume("tune", tune, _tune_words(out, inst)),
    }
    codes["report"] = run_step("report", ["report", str(out)])
    _print_summary(out, codes)
    if codes["report"]:
        raise MeasurementError(
            f"there is no report: its step ended with exit code {codes['report']}",
            f"its message is above; to continue: {own_command.command_line('demo', '-o', out)}",
        )


def _choose_mpi(out: Path, probe: StepProgress) -> Installation:
    """Returns the MPI of the existing profile, else the default MPI, with its measuring engine built. If the engine
    cannot be built for the default, tries the other MPIs. Raises MeasurementError if all fail."""
    from nearfield import mpi

    if probe is not StepProgress.ABSENT and (name := _mpi_of_profile(out)):
        err.print(escape(f"MPI: {name}, as before"))
        return mpi.choose_mpi(name)
    first = mpi.choose_default_mpi(lambda text: err.print(escape(text)))
    err.print(escape(f"MPI: {first.reason}; --mpi of the single commands takes another one"))
    others = [inst for inst in mpi.find_usable_mpis() if inst != first.installation]
    for inst in (first.installation, *others):
        try:
            mpi.build_target(inst, progress=lambda text: err.print(escape(text)))
        except NearfieldError as error:
            print_error(error)
            continue
        if inst != first.installation:
            err.print(escape(f"MPI: {inst.name} instead, since the measuring engine can be built for it"))
        return inst
    raise MeasurementError(
        "the measuring engine cannot be built for any MPI", f"see the reason: {own_command.command_line('doctor')}"
    )


def _mpi_of_profile(out: Path) -> str | None:
    """Returns the name of the MPI that the profile was measured with; None if it is no longer installed."""
    from nearfield import mpi
    from nearfield.measure.checkpoint import CheckpointFolder
    from nearfield.profile import find_profile, load

    try:
        work = CheckpointFolder(out.resolve())
        if work.folder.exists():
            name = work.read_request().mpi
        else:
            measured = load(find_profile(out)).run.mpi
            name = f"{measured.family}-{measured.version}"
        return mpi.choose_mpi(name).name if name else None
    except NearfieldError:
        return None


def _run_or_resume(verb: str, standing: StepProgress, words: list[str]) -> int:
    """Runs a verb that measures, or resumes it if it was interrupted. Returns its exit code."""
    if standing is StepProgress.COMPLETE:
        err.print(f"{verb}: complete already")
        return 0
    if standing is StepProgress.UNFINISHED:
        output, budget = (
            words[words.index("--out") :][:2],
            words[words.index("--budget") :][:2] if "--budget" in words else [],
        )
        code = run_step(verb, [verb, "--resume", *output, *(budget if verb == "probe" else [])])
        if code not in AGAIN_FROM_START:
            return code
        err.print(f"{verb}: that cannot be resumed, so it starts again")
    return run_step(verb, [verb, *words])


def _probe_words(out: Path, inst: Installation, seen: Busyness) -> list[str]:
    """Returns the options for `nearfield probe`. On a busy machine, extends the time budget up to a limit; the next
    demo measures the rest."""
    words = ["--quick", "--mpi", inst.name, "--overwrite", "--out", str(out)]
    slower = min(seen.slowdown, MAX_TIME_FACTOR)
    return [*words, "--budget", f"{TIERS['quick'].budget_s * slower:.0f}"] if slower > 1.5 else words


def _tune_words(out: Path, inst: Installation) -> list[str]:
    return ["--budget", str(TUNE_S), "--mpi", inst.name, "--overwrite", "--out", str(out / "rules.toml")]


def _print_summary(out: Path, codes: dict[str, int]) -> None:
    """Prints what was measured and tuned, what is missing, and the suggested next commands."""
    rules = out / "rules.toml"
    err.print()
    err.print(f"[bold]measured[/bold]  {escape(describe_profile(out))}")
    err.print(f"[bold]tuned[/bold]     {escape(describe_rules(rules, codes['tune']))}")
    unfinished = probe_progress(out) is StepProgress.UNFINISHED or tune_progress(out) is StepProgress.UNFINISHED
    if unfinished or any(codes.values()):
        reason = "could not decide" if codes["tune"] == NOT_DECIDED_EXIT_CODE else "is not complete"
        err.print(
            escape(f"It {reason}. To continue, better when it is quiet: {own_command.command_line('demo', '-o', out)}")
        )
    if not codes["report"]:
        err.print(f"[bold]report[/bold]    {escape(str(out / 'report.html'))}")
    program = ("--", "mpirun", "-n", "2", "./your_program")
    with_rules = ("--rules", str(rules)) if rules.exists() else ()
    err.print("next:")
    for words, what in (
        (("doctor",), "see which measurements this machine permits"),
        (("compare", *with_rules, *program), "measure how much tuning gains for your program"),
        (("run", *with_rules, *program), "run it so"),
    ):
        err.print(escape(f"  {own_command.command_line(*words)}   ({what})"))
