"""The options of observing that all commands that read traces share."""

from __future__ import annotations

from typing import Annotated

import typer

Valgrind = Annotated[
    bool, typer.Option("--valgrind", help="record loads and stores of a COMMAND that was compiled without hooks")
]
