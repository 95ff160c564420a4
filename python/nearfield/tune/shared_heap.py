"""The shared heap (src/heap): what loads it into a program of any MPI, and what it reports afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nearfield import _native

NAME = "libnearfield_heap.so"
VARIABLE = "NEARFIELD_HEAP"  # its settings, "key=value,key=value" (src/heap/settings.hpp)


def library() -> Path:
    """The library to preload. It is built with the package and linked to no MPI."""
    return Path(_native.__file__).with_name(NAME)


def loading(here: Mapping[str, str]) -> dict[str, str]:
    """What loads it beside whatever an environment preloads already. AddressSanitizer's runtime refuses to start when
    another library is loaded before it; the heap then steps aside, so that order does no harm."""
    preloaded = [name for name in here.get("LD_PRELOAD", "").replace(":", " ").split() if name != str(library())]
    asan = [*filter(None, [here.get("ASAN_OPTIONS")]), "verify_asan_link_order=0"]
    return {"LD_PRELOAD": " ".join([str(library()), *preloaded]), "ASAN_OPTIONS": ":".join(asan)}
