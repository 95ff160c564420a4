"""`nearfield cxx`: compiles C++ programs with hooks, so that they can be observed."""

from __future__ import annotations

from nearfield.cli.fast_dispatch import compile_with_hooks
from nearfield.cli.options import CONTEXT as CONTEXT
from nearfield.cli.options import CompilerWords


def command(words: CompilerWords) -> None:
    """Compile C++ for `nearfield observe`: the real compiler, with a hook at every load and store.

    Takes the compiler's own arguments; nothing in the source changes. The real compiler is c++, or what NEARFIELD_CXX
    names (g++ or clang++). `nearfield cc --help` says more.

    Examples:

      OMPI_CXX="nearfield cxx" mpicxx -O2 -g app.cpp -o app

      CXX="nearfield cxx" cmake -S . -B build

      NEARFIELD_CXX=mpicxx nearfield cxx -O2 -g app.cpp -o app
    """
    compile_with_hooks("cxx", words)
