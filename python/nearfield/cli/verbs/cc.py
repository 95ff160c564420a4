"""`nearfield cc`: compiles C programs with hooks, so that they can be observed."""

from __future__ import annotations

from nearfield.cli.fast_dispatch import compile_with_hooks
from nearfield.cli.options import CONTEXT as CONTEXT
from nearfield.cli.options import CompilerWords


def command(words: CompilerWords) -> None:
    """Compile C for `nearfield observe`: the real compiler, with a hook at every load and store.

    Takes the compiler's own arguments; nothing in the source changes. The real compiler is cc, or what NEARFIELD_CC
    names (gcc or clang). The results of the program stay the same, but it runs several times slower; it records
    its accesses only under `nearfield observe`.

    Examples:

      OMPI_CC="nearfield cc" mpicc -O2 -g app.c -o app

      MPICH_CC="nearfield cc" mpicc -O2 -g app.c -o app

      CC="nearfield cc" cmake -S . -B build

      NEARFIELD_CC=mpicc nearfield cc -O2 -g app.c -o app
    """
    compile_with_hooks("cc", words)
