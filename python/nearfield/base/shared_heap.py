"""Preloads the shared heap (src/preload/heap) into programs of any MPI."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from pathlib import Path

HEAP_LIBRARY_NAME = "libnearfield_heap.so"
HEAP_VARIABLE = "NEARFIELD_HEAP"  # settings of the heap, "key=value,key=value" (src/preload/heap/settings.hpp)
SITE_VARIABLE = "NEARFIELD_SITE"  # 0: the rules of a site do not apply (src/preload/heap/site_rules.hpp)


def heap_library_path() -> Path:
    """Returns the path of the library to preload, which is built with the package and linked to no MPI."""
    from nearfield import _native  # imported late: the process that cleans up after a kill cannot import it

    return Path(_native.__file__).with_name(HEAP_LIBRARY_NAME)


def switch_site_rules_off(environment: MutableMapping[str, str]) -> None:
    """Changes an environment so that the rules of a site (apply/site.py) do not apply to the processes that inherit it,
    because nearfield measures with them or applies its own rules. Also removes the library that the site preloads from
    LD_PRELOAD. If the environment has settings for the shared heap, the user has set them, and the library stays."""
    environment[SITE_VARIABLE] = "0"
    names = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    others = [name for name in names if Path(name).name != HEAP_LIBRARY_NAME]
    if HEAP_VARIABLE in environment or len(others) == len(names):
        return
    del environment["LD_PRELOAD"]
    if others:
        environment["LD_PRELOAD"] = " ".join(others)


def is_nearfield_off(environment: Mapping[str, str]) -> bool:
    """Returns whether the user has switched nearfield off for a job (NEARFIELD_OFF)."""
    return environment.get("NEARFIELD_OFF", "") not in ("", "0")


def heap_preload_variables(inherited_environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that preload the heap before the other preloaded libraries of an environment. They disable
    the check of AddressSanitizer that its own runtime comes first; the order does no harm, since the heap then leaves
    malloc to AddressSanitizer."""
    preloaded = [
        name
        for name in inherited_environment.get("LD_PRELOAD", "").replace(":", " ").split()
        if Path(name).name != HEAP_LIBRARY_NAME
    ]
    asan = [*filter(None, [inherited_environment.get("ASAN_OPTIONS")]), "verify_asan_link_order=0"]
    return {"LD_PRELOAD": " ".join([str(heap_library_path()), *preloaded]), "ASAN_OPTIONS": ":".join(asan)}
