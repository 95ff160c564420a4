"""The options of `nearfield rewrite` for compiling and running the program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

VerifyOption = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="compile and run the program before and after each patch, and compare every bit; drop patches that differ",
    ),
]
MeasureOption = Annotated[
    bool,
    typer.Option("--measure", help="measure both on this machine, in turn; drop patches without a gain"),
]
RunOption = Annotated[
    list[str] | None,
    typer.Option(
        "--run", metavar="ARGUMENTS", help="arguments of the program in such a run; may be given several times"
    ),
]
RanksOption = Annotated[
    str | None,
    typer.Option(
        "--ranks", metavar="N,...", help="rank counts to verify with (1,2,3,4); --measure takes the last that fits here"
    ),
]
LinkOption = Annotated[
    list[str] | None,
    typer.Option(
        "--extra-source", metavar="FILE", help="another source (which is read, too), object or library of the program"
    ),
]
RunInOption = Annotated[
    Path | None,
    typer.Option("--input-dir", metavar="FOLDER", help="input files: each run works in a copy of this folder"),
]
