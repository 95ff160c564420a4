"""`nearfield fc`: compiles Fortran programs with hooks, so that they can be observed."""

from __future__ import annotations

from nearfield.cli.fast_dispatch import compile_with_hooks
from nearfield.cli.options import CONTEXT as CONTEXT
from nearfield.cli.options import CompilerWords


def command(words: CompilerWords) -> None:
    """Compile Fortran for `nearfield observe`: the real compiler, with a hook at every load and store.

    Takes the compiler's own arguments; nothing in the source changes. The real compiler is gfortran, or what
    NEARFIELD_FC names. Functions of the compiler's runtime library, such as matmul and reshape, have no hooks.
    `nearfield cc --help` says more.

    Examples:

      OMPI_FC="nearfield fc" mpif90 -O2 -g app.f90 -o app

      FC="nearfield fc" cmake -S . -B build

      NEARFIELD_FC=mpif90 nearfield fc -O2 -g app.f90 -o app
    """
    compile_with_hooks("fc", words)
