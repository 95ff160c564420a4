"""Rewrites MPI programs so that they communicate when the caches want it; each rewrite is proved to keep results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearfield.rewrite.analysis import Analysis, analyse
    from nearfield.rewrite.patch import Patch, Refusal

__all__ = ["Analysis", "Patch", "Refusal", "analyse"]


def __getattr__(name: str) -> Any:
    """Imports a name only when it is used: help needs neither the parser nor the polyhedra."""
    if name in ("Analysis", "analyse"):
        from nearfield.rewrite import analysis

        return getattr(analysis, name)
    if name in ("Patch", "Refusal"):
        from nearfield.rewrite import patch

        return getattr(patch, name)
    raise AttributeError(f"module 'nearfield.rewrite' has no attribute '{name}'")
