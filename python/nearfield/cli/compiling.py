"""What `nearfield cc`, `cxx` and `fc` share. Builds start them for every file, so fast_dispatch.py avoids typer."""

from __future__ import annotations

from typing import Annotated

import typer

from nearfield.cli.fast_dispatch import compile_with_hooks as compile_with_hooks

CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}  # -o belongs to the compiler
CompilerWords = Annotated[list[str], typer.Argument(metavar="ARGUMENTS...", help="The compiler's own arguments.")]
