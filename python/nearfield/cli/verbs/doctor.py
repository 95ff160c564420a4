"""`nearfield doctor`: reports what can be measured on this machine, what cannot, and the remedy; explains messages of
MPIs; and finds what killed jobs left behind."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, UsageError
from nearfield.cli.help import with_own_name
from nearfield.cli.options import AsJson
from nearfield.ui.terminal import Column, Table, Terminal, err

if TYPE_CHECKING:
    from nearfield.doctor import Check
    from nearfield.mpi.leftovers import Leftover

MARKS = {"ok": "[green]✓ ok[/green]", "limited": "[yellow]! limited[/yellow]", "missing": "[red]✗ missing[/red]"}
MAX_MESSAGE_BYTES = 16 << 20  # of standard input


def command(
    message: Annotated[
        str | None,
        typer.Option(
            "--message", "-m", metavar="TEXT", help="Explain a message that an MPI printed; - reads standard input."
        ),
    ] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="List the files that killed jobs left in /dev/shm and /tmp.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="With --sweep: remove stale files that are yours.")] = False,
    as_json: AsJson = False,
) -> None:
    """Report what can be measured on this machine, what cannot, and what to do about it.

    Each check that is not fine says by which messages of MPIs it is noticed. With --message, the text of an MPI, UCX,
    PMIx or libfabric is explained: the cause, what to do, where people met it, and whether this machine has the cause.
    The exit code is 6 if the text is not known.

    With --sweep, the files of MPI jobs in /dev/shm, and session folders in /tmp and TMPDIR, are listed: owner, size,
    age, and whether they are stale. A file is stale if no process has it open or mapped; the kernel answers that for
    all users and namespaces. A folder is stale if that holds for each file in it, and its launcher has ended. What was
    changed in the last five minutes, and what cannot be judged, is never removed, and nothing at all without --remove.
    The exit code is 6 if something of yours cannot be judged.

    Examples:

      nearfield doctor

      nearfield doctor --message "Read -1, expected 10024, errno = 1"

      mpirun -n 2 ./app 2>&1 | nearfield doctor --message -

      nearfield doctor --sweep --remove
    """
    if remove and not sweep:
        raise UsageError("--remove is for --sweep", "add --sweep")
    if sweep and message is not None:
        raise UsageError("--sweep and --message exclude each other", "leave one of them out")
    if message is not None:
        _print_explanation(_read_standard_input() if message == "-" else message, as_json)
    elif sweep:
        _sweep_leftovers(remove, as_json)
    else:
        _print_checks(as_json)


# ---- the checks


def _print_checks(as_json: bool) -> None:
    from nearfield.doctor import examine

    checks = examine()
    blocked = any(check.blocks for check in checks)
    if as_json:
        print(json.dumps({"possible": not blocked, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        console = Terminal()
        console.print(checks_table(checks))
        for check in checks:
            if check.status != "ok":
                console.print(f"\n[bold]{check.name}[/bold]: {escape(check.means)}.")
                for quote in check.messages:
                    console.print(f"  [dim]seen as:[/dim] {escape(quote)}")
                console.print(f"  [dim]→[/dim] {escape(check.remedy)}")
        console.print(f"\n{verdict_line(checks)}")
    raise typer.Exit(1 if blocked else 0)


def checks_table(checks: list[Check]) -> Table:
    """Returns a table with a row for each check."""
    table = Table(Column(key=True), Column("check", key=True), Column("found", prose=True))
    for check in checks:
        table.add_row(MARKS[check.status], check.name, escape(check.found))
    return table


def verdict_line(checks: list[Check]) -> str:
    """Returns a line that states whether this machine can be measured."""
    blocking = [check.name for check in checks if check.blocks]
    if blocking:
        return f"[bold red]Nothing can be measured[/bold red] until this is fixed: {', '.join(blocking)}."
    fine = sum(check.status == "ok" for check in checks)
    limits = [check.name for check in checks if check.status != "ok"]
    rest = f"; limits: {', '.join(limits)}" if limits else ""
    return f"[bold green]Measuring is possible[/bold green]: {fine} of {len(checks)} checks are fine{rest}."


# ---- messages


def _read_standard_input() -> str:
    content = sys.stdin.buffer.read(MAX_MESSAGE_BYTES + 1)
    if len(content) > MAX_MESSAGE_BYTES:
        raise UsageError(f"the text is longer than {MAX_MESSAGE_BYTES >> 20} MiB", "give the lines around the message")
    return content.decode(errors="replace")


def _print_explanation(text: str, as_json: bool) -> None:
    """Prints what the table of messages says of a text. Exits with NOT_DECIDED_EXIT_CODE if it says nothing."""
    from nearfield.doctor import run_check
    from nearfield.doctor.messages import find_explanations

    if not text.strip():
        raise UsageError("there is no text to explain", 'for example --message "Read -1, expected 10024, errno = 1"')
    found = find_explanations(text)
    checks = {name: run_check(name) for name in dict.fromkeys(one.message.check for one in found) if name}
    if as_json:
        entries = [
            {
                **one.message.model_dump(exclude={"patterns", "check"}),
                "words": one.matched_text,
                "here": asdict(checks[one.message.check]) if one.message.check else None,
            }
            for one in found
        ]
        print(json.dumps({"known": bool(found), "messages": entries}, indent=2))
    for one in () if as_json else found:
        console, message = Terminal(), one.message
        console.print(f"[bold]{escape(one.matched_text)}[/bold]")
        console.print(f"  [dim]printed by:[/dim] {escape(message.printed_by)}")
        console.print(f"  {escape(message.cause)}")
        if message.check:
            here = checks[message.check]
            console.print(f"  [dim]on this machine:[/dim] {here.name}: {MARKS[here.status]}, {escape(here.found)}")
        console.print(f"  [dim]→[/dim] {escape(with_own_name(message.remedy))}")
        console.print(f"  [dim]see:[/dim] {escape(', '.join(message.sources))}\n")
    if not found:
        err.print("this message is not known")
        err.print(
            f"  [dim]→[/dim] see what measurements lack on this machine: {escape(own_command.command_line('doctor'))}"
        )
        raise typer.Exit(NOT_DECIDED_EXIT_CODE)


# ---- what killed jobs left


def _sweep_leftovers(remove: bool, as_json: bool) -> None:
    from nearfield.mpi.leftovers import find_leftovers

    found = find_leftovers(remove=remove)
    if as_json:
        rows = [{**asdict(one), "path": str(one.path), "owner": _user_name(one.owner)} for one in found]
        print(json.dumps({"removed": remove, "found": rows}, indent=2))
    else:
        _print_sweep(found, remove)
    if any(one.verdict == "cannot tell" for one in found):
        raise typer.Exit(NOT_DECIDED_EXIT_CODE)


def _print_sweep(leftovers: list[Leftover], remove: bool) -> None:
    from nearfield.base.units import counted, format_bytes

    console = Terminal()
    if not leftovers:
        console.print("there are no files of MPI jobs in /dev/shm, and no session folders")
        return
    console.print(_sweep_table(leftovers))
    stale = [one for one in leftovers if one.verdict == "stale"]
    what = f"{counted(len(stale), 'stale file or folder', 'stale files and folders')}, "
    what += format_bytes(sum(one.size_bytes for one in stale))
    if remove:
        console.print(f"\nremoved: {what}")
    elif stale:
        console.print(f"\n{what}; to remove them: {escape(own_command.command_line('doctor', '--sweep', '--remove'))}")
    else:
        console.print("\nno files of yours are known to be stale")


def _sweep_table(leftovers: list[Leftover]) -> Table:
    from nearfield.base.units import format_bytes, format_seconds

    table = Table(
        Column("path", key=True), Column("of"), Column("owner"), Column("size", right=True), Column("age", right=True),
        Column("verdict"), Column("since", prose=True),
    )  # fmt: skip
    colours = {"stale": "yellow", "in use": "green"}
    for one in leftovers:
        style = colours.get(one.verdict, "dim")
        cells = (str(one.path), one.made_by, _user_name(one.owner), format_bytes(one.size_bytes))
        table.add_row(
            *map(escape, cells), format_seconds(one.age_s), f"[{style}]{one.verdict}[/{style}]", escape(one.reason)
        )
    return table


def _user_name(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
