"""What must be loaded into an MPI program for settings to be obeyed."""

from __future__ import annotations

from collections.abc import Mapping

from nearfield.errors import MpiError
from nearfield.mpi import Installation
from nearfield.tune import per_pair, shared_heap
from nearfield.tune.knobs import KnobFile, Settings


def loaded(knobs: KnobFile, settings: Settings, inst: Installation | None, here: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that load it, besides what `here` loads already. Builds our component on first use, for
    which the MPI must be known. MpiError if it cannot be built."""
    found: dict[str, str] = {}
    if knobs.needs("component", settings):
        if inst is None:
            raise MpiError("the MPI is not here to build nearfield's component for")
        found |= per_pair.loading(inst, here)
    if knobs.needs("heap", settings):
        found |= shared_heap.loading(here)
    return found
