"""`nearfield show`: prints a profile as tables, or its records as JSON or CSV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from nearfield.cli import complete
from nearfield.cli.options import AsCsv, AsJson, require_single_format
from nearfield.ui.terminal import Terminal


def command(
    profile: Annotated[
        Path | None,
        typer.Argument(help="./nearfield-profile, or the only one here, if absent.", show_default=False),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(help="All records of one scenario.", show_default=False, autocompletion=complete.scenarios),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Records of one metric.", show_default=False)] = None,
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="NAME=VALUE",
            help="Records with these values: size_bytes=4KiB, state=invalid,modified. Repeatable.",
        ),
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show a profile: an overview, or every record that the options select."""
    from nearfield.cli import show_tables as tables
    from nearfield.profile import find_profile, load

    require_single_format(as_json, as_csv)
    loaded = load(find_profile(profile))
    selected = tables.select_records(loaded.records, scenario, metric, conditions or [])
    if as_json:
        print(json.dumps(tables.as_dict(loaded, selected), indent=1))
    elif as_csv:
        print(selected.write_csv(), end="")
    else:
        narrowed = bool(scenario or metric or conditions)
        view = tables.tables_of(selected, metric) if narrowed else tables.overview_of(loaded)
        Terminal().print(view)
