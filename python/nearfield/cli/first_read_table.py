"""Formats the results of `nearfield simulate run --first-reads`, as a table for people and data for --json."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.markup import escape

from nearfield.base.units import format_bytes, format_ns
from nearfield.observe.first_reads import mean_unread_bytes, received_data
from nearfield.observe.replay import Replay
from nearfield.ui.terminal import Column, Table, Terminal


def print_first_reads(replay: Replay) -> None:
    """Prints, for each line that receives data, how long the data lies before it is read."""
    out = Terminal()
    lines = received_data(replay)
    if not lines:
        out.print("\nno data was received")
        return
    numbers = ("messages", "bytes each", "in MPI", "until read", "never read")
    table = Table(
        Column("received by", key=True), Column("line", prose=True), *(Column(name, right=True) for name in numbers)
    )
    for one in lines:
        unread = 1 - one.read_bytes / one.bytes
        table.add_row(
            one.name, escape(one.line), f"{one.messages:,}", format_bytes(one.bytes / one.messages, digits=3),
            format_ns(one.in_mpi_ns / one.messages) if one.in_mpi_ns else "-",
            format_ns(one.byte_ns_until_read / one.read_bytes) if one.read_bytes else "-",
            f"{100 * unread:.3g} %" if unread else "-",
        )  # fmt: skip
    out.print()
    out.print(table)
    out.print(
        "[dim]in MPI: from a message's arrival to the end of the call (not known of collectives); until read: from "
        "there to the load of each cache line; means, by the base policy; never read: share of the bytes in lines that "
        "are overwritten before they are loaded, or never loaded[/dim]"
    )
    waiting = format_bytes(mean_unread_bytes(replay), digits=3)
    out.print(f"a node holds {waiting} of received data that its ranks have yet to read, as the mean over the time")


def first_reads_as_dict(replay: Replay) -> dict[str, Any]:
    """Returns the results for --json, with the sums of ReceivedData."""
    return {"received": [asdict(one) for one in received_data(replay)], "mean_unread_bytes": mean_unread_bytes(replay)}
