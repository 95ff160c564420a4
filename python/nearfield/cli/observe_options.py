"""The options of observing that the commands have in common which read traces."""

from __future__ import annotations

from typing import Annotated

import typer

Valgrind = Annotated[
    bool, typer.Option("--valgrind", help="record loads and stores of a COMMAND that was compiled without hooks")
]
