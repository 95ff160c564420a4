"""Rewrites MPI programs so that they communicate when the caches want it; each rewrite is proved to keep results."""

from nearfield.rewrite.analysis import Analysis, analyse
from nearfield.rewrite.patch import Patch, Refusal

__all__ = ["Analysis", "Patch", "Refusal", "analyse"]
