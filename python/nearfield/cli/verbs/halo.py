"""`nearfield halo`: builds the halo library for each MPI, and prints the compiler flags to use it."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from nearfield.base.errors import MpiError
from nearfield.cli.options import AsJson, Mpi
from nearfield.ui.terminal import err


def command(
    name: Mpi = None,
    everything: Annotated[bool, typer.Option("--all", help="For every MPI on this machine.")] = False,
    flags: Annotated[bool, typer.Option("--flags", help="Print compiler and linker flags and nothing else.")] = False,
    fortran_flags: Annotated[
        bool, typer.Option("--fortran-flags", help="The same for Fortran, including the module's source.")
    ] = False,
    costs: Annotated[
        Path | None,
        typer.Option(
            metavar="PROFILE",
            help="Print the costs of messages in this profile, as a file for the library, and nothing else.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build the halo library and show how to use it from C, C++ and Fortran.

    In Python you need not do anything: `from nearfield.halo import Grid` builds it on first use. Build it beforehand if
    compute nodes have no compiler. docs/tutorials/halo.md teaches the library, and docs/how-to/halo.md how to use it
    with CMake.

        mpicxx -std=c++20 app.cpp $(nearfield halo --flags)

        mpicc app.c $(nearfield halo --flags)

        mpifort $(nearfield halo --fortran-flags) app.f90

    The library splits a grid, and chooses how to exchange your arrays, by the costs of messages: stated defaults, or
    those of a profile, which programs in any language read from a file:

        nearfield halo --costs nearfield-profile > costs

        export NEARFIELD_HALO_COSTS=$PWD/costs
    """
    if costs is not None:
        from nearfield.plan import costs_file_text, measured_model
        from nearfield.profile import load

        known = measured_model(load(costs))
        for note in known.notes:
            print(note, file=sys.stderr)
        print(costs_file_text(known), end="")
        return
    from nearfield import mpi

    chosen = mpi.find_usable_mpis() if everything else [mpi.choose_mpi(name)]
    if (flags or fortran_flags) and len(chosen) > 1:
        raise MpiError("flags are of one MPI", "name it with --mpi")
    found = []
    for inst in chosen:
        library = mpi.build_target(inst, mpi.HALO_TARGET, progress=lambda text: err.print(text, style="dim"))
        found.append(
            {"mpi": inst.name, "compiler": str(inst.compiler), "library": str(library), "flags": flags_of(library)}
        )
    if as_json:
        print(json.dumps(found, indent=1))
    elif flags:
        print(found[0]["flags"])
    elif fortran_flags:
        print(fortran_flags_of(Path(found[0]["library"])))
    else:
        for one in found:
            print(f"{one['mpi']}:\n  {shlex.quote(one['compiler'])} -std=c++20 app.cpp {one['flags']}")


def flags_of(library: Path) -> str:
    """Returns the compiler and linker flags for C and C++ programs that use this halo library."""
    from nearfield.mpi import native_source_folder

    return f"-I{native_source_folder() / 'include'} {_format_link_options(library)}"


def fortran_flags_of(library: Path) -> str:
    """Returns the flags for Fortran programs that use this halo library. The source of its Fortran module comes first,
    because it must be compiled by the program's own compiler."""
    from nearfield.mpi import native_source_folder

    module = native_source_folder() / "src" / "halo" / "fortran" / "nearfield_halo.f90"
    return f"{module} -Wl,--no-as-needed {_format_link_options(library)}"


def _format_link_options(library: Path) -> str:
    return f"-L{library.parent} -lnearfield_halo -Wl,-rpath,{library.parent}"
