"""`nearfield report`: writes an HTML page about one or more profiles and prints the most important findings."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from nearfield.base import own_command
from nearfield.base.errors import NearfieldError, UsageError
from nearfield.cli.options import out_option, rules_option
from nearfield.cli.report_plots import FORMATS, require_format, write_plots
from nearfield.rules.paths import default_rules_path
from nearfield.ui.terminal import Terminal

if TYPE_CHECKING:
    from nearfield.profile import Profile
    from nearfield.report.advice import ProgramAdvice
    from nearfield.report.findings import Finding
    from nearfield.rules.schema import Rules

MAX_FINDINGS = 4  # max number of findings printed to the terminal
REPRODUCTION = "reproduction.json"  # this file, written by nearfield.reproduce, identifies the folder of a reproduction

_Profiles = Annotated[
    list[Path] | None,
    typer.Argument(
        help="./nearfield-profile, or the only one here, if absent. The first is compared with the others.",
        metavar="PROFILE",
        show_default=False,
    ),
]
_Out = Annotated[
    Path | None,
    out_option(
        help="Default: report.html in the profile's folder; for several profiles, comparison.html here. A folder for "
        "--format svg and csv.",
        metavar="FILE",
    ),
]
_Rules = Annotated[
    Path | None,
    rules_option(
        help="Add the comparison of the baseline with tuned MPI: a file, or a folder of `tune --all-mpis`. Default: "
        "rules.toml in that folder or here, else nearfield-rules here."
    ),
]
_Trace = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Add the notes of `nearfield advise` on this trace of `nearfield observe`."),
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print findings or verdicts as JSON; write no page.")]
_Summary = Annotated[
    bool,
    typer.Option("--summary", help="Write one sheet for a talk instead: summary.html, with three findings and a plot."),
]
_Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar=" | ".join(FORMATS),
        help="svg: each plot as a file, drawn by an installed Chromium or Chrome. csv: the table behind each plot.",
    ),
]


def command(
    profiles: _Profiles = None,
    out: _Out = None,
    rules: _Rules = None,
    trace: _Trace = None,
    as_json: _AsJson = False,
    summary: _Summary = False,
    format_: _Format = FORMATS[0],
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Write one self-contained HTML page about a profile: findings, rules, plots, provenance. For a folder of
    `nearfield reproduce` it has the claims and verdicts.

    For several profiles, the page first lists the significant differences from the first one. Then it shows the
    findings of each side by side, the curves of all in the same plots, and the provenance of all.

    Examples:

      nearfield report

      nearfield report before after -o comparison.html
    """
    from nearfield.profile import find_profile, load
    from nearfield.report.data import findings_as_data
    from nearfield.report.findings import findings
    from nearfield.rules.schema import load_rules, run_command_line
    from nearfield.ui.html import write_page

    _refuse_contradictions(format_, as_json=as_json, summary=summary, trace=trace, open_it=open_it)
    if profiles and len(profiles) > 1:
        _refuse_options_of_one(as_json, summary, rules, trace)
        _print_written(_write_several(profiles, out, format_), open_it)
        return
    profile = profiles[0] if profiles else None
    if profile and (profile / REPRODUCTION).is_file():
        if format_ != FORMATS[0]:
            raise UsageError("a reproduction has no plots to write", "Leave out --format.")
        _write_reproduction(profile, out, as_json)
        return
    loaded = load(find_profile(profile))
    used = _rules_file(loaded, rules)
    tuned = load_rules(used) if used else None
    if format_ != FORMATS[0]:
        _print_written(write_plots(format_, [loaded], tuned, out), open_it)
        return
    found = findings(loaded, tuned, run_command_line(used) if used else "")
    if as_json:
        print(json.dumps(findings_as_data(loaded, found).model_dump(), indent=1))
        return
    from nearfield.report import page  # imported late, because plotly is slow to import

    target = _output_path(loaded.path, out, "summary.html" if summary else "report.html")
    apply = run_command_line(used, works_in_any_folder=True) if used else ""
    if summary:
        path = write_page(target, page.render_summary(loaded, tuned, apply))
    else:
        path = write_page(target, page.render_report(loaded, tuned, apply, _advise_trace(loaded, trace)))
    _print_findings(found)
    _print_written(path, open_it)


def _refuse_contradictions(format_: str, *, as_json: bool, summary: bool, trace: Path | None, open_it: bool) -> None:
    """Raises UsageError for options that contradict each other."""
    if trace and (as_json or summary):
        raise UsageError("--trace is for the page", f"For notes alone: {own_command.command_line('advise', trace)}")
    require_format(format_)
    if format_ != FORMATS[0] and (as_json or summary or trace or open_it):
        raise UsageError(f"--format {format_} writes plots alone", "Leave out --json, --summary, --trace and --open.")
    if as_json and summary:
        raise UsageError("--json writes no page, --summary writes one", "Give one of them.")


def _advise_trace(profile: Profile, trace: Path | None) -> ProgramAdvice | None:
    """Returns the notes of `nearfield advise` on an observed program; None without a trace."""
    if not trace:
        return None
    from nearfield.advise import DEFAULT_MIN_LOSS_SHARE, advise, read_run
    from nearfield.observe.trace import Trace
    from nearfield.report.advice import ProgramAdvice

    observed = Trace(trace)
    found = advise(read_run(observed, profile), DEFAULT_MIN_LOSS_SHARE)
    return ProgramAdvice(observed.metadata.command, found.headline, found.warnings, found.notes, found.remarks)


def _refuse_options_of_one(as_json: bool, summary: bool, rules: Path | None, trace: Path | None) -> None:
    """Raises UsageError for options that require exactly one profile."""
    if as_json:
        several = own_command.command_line("diff", "A", "B", "--json")
        raise UsageError("--json is for the findings of one profile", f"For differences of two: {several}")
    if summary or rules or trace:
        name = "--summary" if summary else "--rules" if rules else "--trace"
        raise UsageError(f"{name} is for one profile", f"Leave {name} out, or name one profile.")


def _write_several(folders: list[Path], out: Path | None, format_: str) -> Path:
    """Writes the page about several profiles, or their plots. Returns the path."""
    from nearfield.profile import load

    loaded = [load(folder) for folder in folders]
    if format_ != FORMATS[0]:
        return write_plots(format_, loaded, None, out)
    from nearfield.report import comparison
    from nearfield.ui.html import write_page

    path = write_page(_output_path(Path(), out, "comparison.html"), comparison.render_comparison(loaded))
    for line in comparison.describe_differences(loaded):
        Terminal().print(Text(f"• {line}"))
    return path


def _print_written(path: Path, open_it: bool) -> None:
    console = Terminal()
    console.print(Text("report  ", style="dim").append(str(path), style="bold not dim"))
    if open_it and not webbrowser.open(path.resolve().as_uri()):
        console.print(Text("no browser could be opened; open that file in one", style="yellow"))


def _write_reproduction(folder: Path, out: Path | None, as_json: bool) -> None:
    from nearfield.reproduce import outcome, page
    from nearfield.ui.html import write_page

    found = outcome.load_reproduction(folder)
    if as_json:
        print(found.model_dump_json(indent=1))
    else:
        print("report ", write_page(_output_path(folder, out, "report.html"), page.render_page(found, folder)))


def _rules_file(profile: Profile, path: Path | None) -> Path | None:
    """Returns the path of the rules for the report: the given rules, else those in the profile's folder, else the
    default rules. Ignores default rules for another MPI or processor with a message. Raises UsageError if the given
    rules or the profile's are for another MPI."""
    from nearfield.rules.schema import load_rules_of_mpi

    own_rules = profile.path / "rules.toml"
    measured = profile.run.mpi
    if path or own_rules.exists():
        path, rules = load_rules_of_mpi(path or own_rules, measured.family, measured.version)
        _require_rules_of_profile(rules, path, profile)
        if other := _other_processor(rules, path, profile):
            Terminal(stderr=True).print(Text(f"caution: {other}", style="yellow"))
        return path
    usual = default_rules_path()
    if not usual.exists():
        return None
    try:
        usual, rules = load_rules_of_mpi(usual, measured.family, measured.version)
        _require_rules_of_profile(rules, usual, profile)
        if other := _other_processor(rules, usual, profile):
            raise UsageError(other)
    except NearfieldError as error:
        Terminal(stderr=True).print(Text(f"{usual} is left out: {error.message}", style="dim"))
        return None
    return usual


def _other_processor(rules: Rules, path: Path, profile: Profile) -> str:
    """Returns a text that the rules were measured on another processor than the profile; "" if it is the same."""
    found, measured = rules.machine.cpu_model, profile.machine.cpu_model
    return "" if found == measured else f"{path} is for {found}, the profile of {measured}"


def _require_rules_of_profile(rules: Rules, path: Path, profile: Profile) -> None:
    measured = (profile.run.mpi.family, profile.run.mpi.version)
    if (rules.mpi.family, rules.mpi.version) != measured:
        raise UsageError(
            f"{path} is for {rules.mpi.family} {rules.mpi.version}, the profile of {' '.join(measured)}",
            "give the rules of that MPI with --rules",
        )


def _output_path(folder: Path, out: Path | None, name: str) -> Path:
    """Returns the path of the output file. Raises UsageError if `out` is a folder, or if its parent folder does not
    exist."""
    path = folder / name if out is None else out
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder", f"Name a file: -o {path / name}.")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder '{path.parent}'", "Make it, or name another file with -o.")
    return path


def _print_findings(findings: list[Finding]) -> None:
    from nearfield.report.findings import select_headlines

    console = Terminal()
    shown = select_headlines(findings)[:MAX_FINDINGS] or findings[:MAX_FINDINGS]
    for finding in shown:
        console.print(Text(f"• {finding.text}"))
    if len(findings) > len(shown):
        console.print(Text(f"  and {len(findings) - len(shown)} more in the report", style="dim"))
    if shown:
        console.print()
