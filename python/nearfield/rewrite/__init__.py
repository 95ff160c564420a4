"""Reorders the communication of MPI programs for cache reuse and overlap; every rewrite is proved to keep results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearfield.rewrite.analysis import Analysis, analyse
    from nearfield.rewrite.patch import MissedOptimization, Patch

__all__ = ["Analysis", "Patch", "MissedOptimization", "analyse"]


def __getattr__(name: str) -> Any:
    """Imports a name on first use, so that `--help` loads neither libclang nor isl."""
    if name in ("Analysis", "analyse"):
        from nearfield.rewrite import analysis

        return getattr(analysis, name)
    if name in ("Patch", "MissedOptimization"):
        from nearfield.rewrite import patch

        return getattr(patch, name)
    raise AttributeError(f"module 'nearfield.rewrite' has no attribute '{name}'")
