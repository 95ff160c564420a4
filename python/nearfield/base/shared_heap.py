"""Preloads the shared heap (src/preload/heap) into programs of any MPI."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from pathlib import Path

NAME = "libnearfield_heap.so"
VARIABLE = "NEARFIELD_HEAP"  # settings of the heap, "key=value,key=value" (src/preload/heap/settings.hpp)


def library_path() -> Path:
    """Returns the path of the library to preload, which is built with the package and linked to no MPI."""
    from nearfield import _native  # imported late: the process that cleans up after a kill cannot import it

    return Path(_native.__file__).with_name(NAME)


def drop_site_library(environment: MutableMapping[str, str]) -> None:
    """Removes the library that a site preloads (apply/site.py), which would set rules where this program measures, or
    sets its own. If the environment has settings for a shared heap, the user has set them, and it stays."""
    names = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    others = [name for name in names if Path(name).name != NAME]
    if VARIABLE in environment or len(others) == len(names):
        return
    del environment["LD_PRELOAD"]
    if others:
        environment["LD_PRELOAD"] = " ".join(others)


def is_off(environment: Mapping[str, str]) -> bool:
    """Returns whether the user has switched nearfield off for a job (NEARFIELD_OFF)."""
    return environment.get("NEARFIELD_OFF", "") not in ("", "0")


def preload_variables(inherited: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that preload the heap before the other preloaded libraries of an environment. They disable
    the check of AddressSanitizer that its own runtime comes first; the order does no harm, since the heap then leaves
    malloc to AddressSanitizer."""
    preloaded = [name for name in inherited.get("LD_PRELOAD", "").replace(":", " ").split() if Path(name).name != NAME]
    asan = [*filter(None, [inherited.get("ASAN_OPTIONS")]), "verify_asan_link_order=0"]
    return {"LD_PRELOAD": " ".join([str(library_path()), *preloaded]), "ASAN_OPTIONS": ":".join(asan)}
