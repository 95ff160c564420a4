"""Reorders the communication of MPI programs for cache reuse and overlap. Every rewrite is proved to keep the results.

The folders import in one direction: `frontend` reads C and C++, `analysis` finds regions and their memory accesses,
`model` decides which orders are legal, `codegen` writes C code for an order, `check` proves and runs that code.
`driver` runs all of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearfield.rewrite.analysis.program import MissedOptimization
    from nearfield.rewrite.driver import analyze
    from nearfield.rewrite.patch import Analysis, Patch

__all__ = ["Analysis", "Patch", "MissedOptimization", "analyze"]

_MODULES = {"Analysis": "patch", "analyze": "driver", "Patch": "patch", "MissedOptimization": "analysis.program"}


def __getattr__(name: str) -> Any:
    """Imports a public name on first use, so that `--help` loads neither libclang nor isl."""
    if name not in _MODULES:
        raise AttributeError(f"module 'nearfield.rewrite' has no attribute '{name}'")
    return getattr(import_module(f"nearfield.rewrite.{_MODULES[name]}"), name)
