"""`nearfield rewrite`: proposes patches that reorder communication and computation for the caches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.base.files import atomic_write
from nearfield.base.units import counted
from nearfield.base.words import capitalize, suggest_name
from nearfield.cli.options import AsJson, Sarif, mpi_option, profile_option
from nearfield.notes import notes_as_dicts, notes_as_sarif
from nearfield.ui.terminal import Terminal, err

if TYPE_CHECKING:
    from nearfield.rewrite import Analysis, Patch

CONTEXT = {"allow_interspersed_args": True}

_CompilerArguments = Annotated[
    list[str] | None, typer.Argument(metavar="-- ARGUMENTS", help="The compiler's arguments, such as -I and -D.")
]
_CompileCommands = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Arguments from the compile_commands.json there.")
]
_AssumeNoalias = Annotated[
    list[str] | None,
    typer.Option(metavar="P,Q", help="Assume that these pointers do not alias; the patch notes it."),
]
_AssumeUniform = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME,...",
        help="Assume that these variables have the same value on all ranks, which allows splitting messages.",
    ),
]
_ONLY = "Only these transformations; persistent must be named, because its gain is not known."
_Every = Annotated[bool, typer.Option("--all", help="Print every legal variant, not only the best of each place.")]
_Size = Annotated[
    str | None,
    typer.Option("--message-size", metavar="SIZE", help="Length of a message, if the source does not determine it."),
]
_Piece = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Cut longer messages into such pieces (default with --profile: a quarter of a core's own cache, for "
        "messages beyond the last-level cache).",
    ),
]
_Report = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write an HTML page: before and after side by side, and why.")
]
_CommitMessage = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write a commit message for the best patch of each place: what changes, why, what is measured or not, and "
        "what the proof assumes.",
    ),
]
_Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Also report for every other place why its communication stays where it is."),
]
_Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Run the program before and after each patch, and compare every bit; drop patches that differ.",
    ),
]
_Unverified = Annotated[
    bool, typer.Option("--unverified", help="With --apply: write patches that no run has compared with the original.")
]
_Measure = Annotated[
    bool,
    typer.Option("--measure", help="Measure both on this machine, in turn; drop patches without a gain."),
]
_Run = Annotated[
    list[str] | None,
    typer.Option("--run", metavar="ARGUMENTS", help="Arguments of the program in such a run (repeat for more runs)."),
]
_Ranks = Annotated[
    str | None,
    typer.Option(
        "--ranks",
        metavar="N,...",
        help="Rank counts to verify with (1,2,3,4); --measure takes the last that fits.",
    ),
]
_Link = Annotated[
    list[str] | None,
    typer.Option(
        "--extra-source", metavar="FILE", help="Another source (which is read, too), object or library of the program."
    ),
]
_RunIn = Annotated[
    Path | None,
    typer.Option("--input-dir", metavar="FOLDER", help="Input files: each run works in a copy of this folder."),
]


def command(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A file in C or C++ (Fortran is not read).")],
    compiler_arguments: _CompilerArguments = None,
    compile_commands: _CompileCommands = None,
    function: Annotated[str | None, typer.Option(metavar="NAME", help="Only this function.")] = None,
    only: Annotated[str | None, typer.Option(metavar="NAME,...", help=_ONLY)] = None,
    assume_noalias: _AssumeNoalias = None,
    assume_uniform: _AssumeUniform = None,
    every: _Every = False,
    apply: Annotated[bool, typer.Option("--apply", help="Write the best variant of each place into the file.")] = False,
    profile: Annotated[Path | None, profile_option(help="Rank by this profile's costs.")] = None,
    size: _Size = None,
    piece: _Piece = None,
    mpi_name: Annotated[str | None, mpi_option(help="The MPI whose headers are read.")] = None,
    verify: _Verify = False,
    unverified: _Unverified = False,
    measure: _Measure = False,
    runs: _Run = None,
    ranks: _Ranks = None,
    link: _Link = None,
    run_in: _RunIn = None,
    sarif: Sarif = None,
    report: _Report = None,
    commit_message: _CommitMessage = None,
    verbose: _Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Move communication to where it suits the caches: print a patch for each place where MPI calls and loops can be
    executed in another order with the same results.

    A variant is printed only if every dependence between loops and messages is proved to be preserved; the text of the
    patch is then parsed and proved again. If the proof fails, a note names the line, the reason, and an assumption that
    would suffice, if there is one. docs/tutorials/rewrite.md teaches the rules.

    With --verify the program also runs before and after each patch: everything that it does is compared bit by bit, and
    so is which write each read of its memory saw. --apply writes only such patches, unless --unverified is given.
    With --measure a patch is printed only if it gains on this machine.

    Examples:

      nearfield rewrite stencil.c

      nearfield rewrite stencil.c --only overlap --verify --run "100 5" --apply -- -DROWS=100

      nearfield rewrite stencil.c --verify --measure --run "1000 50"

      nearfield rewrite solver.cpp --compile-commands build --function step --assume-noalias u,unew
    """
    from nearfield.rewrite import analyze
    from nearfield.rewrite.applying import apply_patches, select_best_patches
    from nearfield.rewrite.frontend.source import check_language
    from nearfield.rewrite.model.chunk_sizes import chunk_sizes_from_options
    from nearfield.rewrite.ranking import load_message_costs

    check_language(source)
    if apply and not (verify or unverified):
        raise UsageError(
            "--apply writes patches that no run has compared with the original program",
            "Add --verify, with --run for the arguments of each run; or --unverified to write them as they are.",
        )
    costs, pieces = load_message_costs(profile, size), chunk_sizes_from_options(profile, piece)
    arguments = _find_compiler_arguments(source, compile_commands, compiler_arguments or [], mpi_name)
    others = _other_sources(source, compile_commands, link or [], arguments)
    found = analyze(
        source, arguments, function=function,
        transformation_names=_parse_transformations(only, cutting=pieces is not None),
        assume_noalias=_parse_names(assume_noalias), costs=costs, other_files=others, chunk_sizes=pieces,
        assume_uniform=_parse_names(assume_uniform),
    )  # fmt: skip
    long = [] if every or only is not None else [patch for patch in found.patches if patch.is_long]
    if not as_json:
        found.patches = [patch for patch in found.patches if patch not in long]
    if verify or measure:
        from nearfield import mpi
        from nearfield.cli.rewrite_checks import RewriteChecks, compiler_flags_for

        flags = compiler_flags_for(source, compile_commands, compiler_arguments or [])
        checks = RewriteChecks(verify, measure, source, flags, runs or [], ranks, link or [], run_in)
        found.patches, refused = checks.select(found.patches, mpi.choose_mpi(mpi_name), every=every)
        found.missed += refused
    chosen = select_best_patches([patch for patch in found.patches if patch not in long])
    _write_files(found, source, sarif, report)
    _write_commit_message(chosen, commit_message)
    if as_json:
        print(json.dumps(_as_dict(found, verified=verify), indent=1))
    else:
        _print_patches(found.patches if every else chosen, found.patches, source)
        _print_long(long, source)
        _print_result(found, source, verbose=verbose, is_known=bool(found.patches or long))
        if found.patches:
            err.print(_order_text(found.patches, with_costs=costs is not None))
            if not verify:
                err.print("Not verified: no run has compared these patches with the original program (--verify does).")
    if apply and chosen:
        atomic_write(source, apply_patches(chosen).encode(), "Print the patch without --apply instead.")
        err.print(f"nearfield: {counted(len(chosen), 'place')} in {source} rewritten")


def _write_files(analysis: Analysis, source: Path, sarif: Path | None, report: Path | None) -> None:
    """Writes the notes as a SARIF file, and the patches as an HTML page, if the options name such files."""
    from nearfield.rewrite.notes import RULE_BY_TRANSFORMATION, make_notes, sarif_root_folder

    if sarif:
        rules, root = list(RULE_BY_TRANSFORMATION.values()), sarif_root_folder(source)
        log = notes_as_sarif(
            make_notes(analysis),
            evaluated_rules=rules,
            root_folder=root,
            command_line=own_command.original_command_line(),
        )
        atomic_write(sarif, json.dumps(log, indent=1).encode(), "Give another file with --sarif.")
    if report:
        from nearfield.rewrite.page import render_page
        from nearfield.ui.html import write_page

        write_page(report, render_page(analysis, own_command.original_command_line()))


def _write_commit_message(patches: list[Patch], file: Path | None) -> None:
    """Writes the commit message for the best patch of each place, if an option names a file for it and there is a
    patch."""
    from nearfield.rewrite.commit_message import commit_message

    if file is None:
        return
    if patches:
        atomic_write(file, commit_message(patches).encode(), "Give another file with --commit-message.")
    else:
        err.print(f"nearfield: no patch, so {escape(str(file))} is not written")


def _find_compiler_arguments(
    source: Path, database: Path | None, typed_arguments: list[str], mpi_name: str | None
) -> list[str]:
    """Returns the compiler arguments for the source file. Adds the MPI's include path unless an argument already names
    a folder with mpi.h."""
    from nearfield import mpi
    from nearfield.rewrite.check.build import mpi_include_folders
    from nearfield.rewrite.frontend.compile_commands import compiler_arguments_of

    words = [*(compiler_arguments_of(source, database) if database else []), *typed_arguments]
    folders = [Path(word.removeprefix("-I")) for word in words if word.startswith("-I")]
    if any((folder / "mpi.h").exists() for folder in folders):
        return words
    return [*words, *(f"-I{folder}" for folder in mpi_include_folders(mpi.choose_mpi(mpi_name)))]


def _other_sources(
    source: Path, database: Path | None, linked: list[str], arguments: list[str]
) -> list[tuple[Path, list[str]]]:
    """Returns the program's other source files whose functions are analysed, each with its compiler arguments."""
    from nearfield.rewrite.check.build import SOURCE_SUFFIXES
    from nearfield.rewrite.frontend.compile_commands import compiler_arguments_of, listed_source_files

    listed = (
        [(path, [*compiler_arguments_of(path, database), *arguments]) for path in listed_source_files(database)]
        if database
        else []
    )
    named = [Path(name) for name in linked if Path(name).suffix in SOURCE_SUFFIXES]
    return [*listed, *((path, arguments) for path in named)]


def _parse_names(options: list[str] | None) -> list[str]:
    return [name.strip() for words in options or [] for name in words.split(",")]


def _parse_transformations(text: str | None, *, cutting: bool) -> frozenset[str] | None:
    from nearfield.rewrite.model.schedules import TRANSFORMATION_NAMES as SCHEDULES
    from nearfield.rewrite.model.schedules import TRANSFORMATIONS
    from nearfield.rewrite.placement import PLACEMENT_NAMES as PLACEMENTS

    if text is None:
        return None
    names = _parse_names([text])
    known = (*SCHEDULES, *PLACEMENTS)
    for name in names:
        if name not in known:
            raise UsageError(f"no transformation is called '{name}'", capitalize(suggest_name(name, known)))
    if not cutting and set(names) <= {one.name for one in TRANSFORMATIONS if one.chunks_messages}:
        raise UsageError(
            f"{' and '.join(names)} cut messages into pieces, and the size of a piece is unknown",
            "Give a size with --piece, or a profile, which has the machine's caches, with --profile.",
        )
    return frozenset(names)


def _print_patches(shown_patches: list[Patch], all_patches: list[Patch], source: Path) -> None:
    """Prints diffs to standard output, to be piped into `patch`, and everything else to standard error."""
    for patch in shown_patches:
        where = f"{source}:{patch.changed_lines[0]}"
        err.print(f"[bold]{escape(where)}: {escape(patch.transformation)}[/bold]: {escape(patch.reason)}")
        long = "[yellow]more than 3 times as long as before:[/yellow] " if patch.is_long else ""
        err.print(f"  {long}{escape(patch.size_text)}; {escape(str(patch.expected_gain))}")
        for assumption in patch.assumptions:
            err.print(f"  it needs that {escape(assumption)}")
        others = [
            one.transformation
            for one in all_patches
            if one.changed_lines == patch.changed_lines and one not in shown_patches
        ]
        if others:
            err.print(f"  also legal here: {', '.join(others)} (--only NAME prints one, --all prints all)")
        print(patch.diff, end="")


def _print_long(long: list[Patch], source: Path) -> None:
    """Prints a note for each place for which only long patches are known. Such patches are not printed, since nobody
    would merge them."""
    for line in dict.fromkeys(patch.changed_lines[0] for patch in long):
        here = [patch for patch in long if patch.changed_lines[0] == line]
        names, shortest = (
            ", ".join(one.transformation for one in here),
            min(here, key=lambda one: one.num_code_lines_before_and_after[1]),
        )
        err.print(
            f"{escape(str(source))}:{line}: not printed: {names}: more than 3 times as long as before "
            f"({escape(shortest.size_text)}); --only NAME prints one, --all prints all"
        )


def _print_result(analysis: Analysis, source: Path, *, verbose: bool, is_known: bool) -> None:
    """Prints the reasons why communication stays in place. If any patch is known, prints only the reasons that concern
    patches, unless `verbose` is set."""
    terminal = Terminal(stderr=True)
    shown = [one for one in analysis.missed if verbose or one.tried or not is_known]
    for one in shown:
        terminal.print(f"{source}:{one.line}: communication stays where it is: {escape(one.reason)}")
        if one.assumption:
            terminal.print(f"  if you know that this does not happen, use: {escape(one.assumption)}")
    if hidden := len(analysis.missed) - len(shown):
        are = "is" if hidden == 1 else "are"
        terminal.print(f"{counted(hidden, 'other place')} {are} not changed (-v prints the reasons).")
    if not is_known and not analysis.missed:
        terminal.print(f"{source}: no function has both messages and loops in one block")


def _order_text(patches: list[Patch], *, with_costs: bool) -> str:
    """Returns a sentence that explains the order of a place's variants."""
    if with_costs and any(one.expected_gain.message_times for one in patches):
        return "The variant with a significantly larger gain comes first; if intervals overlap, the shorter patch does."
    why = "" if with_costs else ": no profile is named (--profile)"
    return f"No gain is known{why}. The shortest patch of a place comes first."


def _as_dict(analysis: Analysis, *, verified: bool) -> dict[str, Any]:
    """Returns the output of --json."""
    from nearfield.rewrite.notes import make_notes

    missed = [vars(refusal) for refusal in analysis.missed]
    return {
        "patches": [{**_patch_as_dict(patch), "verified": verified} for patch in analysis.patches],
        "refusals": missed,
        "notes": notes_as_dicts(make_notes(analysis)),
    }


def _patch_as_dict(patch: Patch) -> dict[str, Any]:
    return {
        "path": str(patch.path), "function": patch.function, "lines": list(patch.changed_lines),
        "transformation": patch.transformation, "reason": patch.reason, **_gain_as_dict(patch),
        "lines_before": patch.num_code_lines_before_and_after[0],
        "lines_after": patch.num_code_lines_before_and_after[1],
        "lines_changed": patch.num_changed_lines,
        "assumptions": patch.assumptions, "checks": patch.checks, "diff": patch.diff,
    }  # fmt: skip


def _gain_as_dict(patch: Patch) -> dict[str, Any]:
    """Returns the expected gain for --json: a ratio of speeds with its interval, and the times of both versions in ns;
    or nulls and the reason why the gain is unknown."""
    gain = patch.expected_gain.message_times
    if gain is None:
        names = ("gain", "gain_low", "gain_high", "before_ns", "after_ns")
        return {**dict.fromkeys(names), "gain_unknown": patch.expected_gain.unknown_reason}
    ratio = gain.speedup
    return {
        "gain": ratio.value, "gain_low": ratio.low, "gain_high": ratio.high,
        "before_ns": gain.time_before.value, "after_ns": gain.time_after.value, "gain_unknown": "",
    }  # fmt: skip
