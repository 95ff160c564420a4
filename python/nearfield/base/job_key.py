"""Generates the key by which the ranks of a job recognise one another.

Where the kernel denies a rank access to the memory of another rank, the shared heap of the other rank makes the copy,
if the request carries this key (src/preload/heap/copy_service.hpp). This module imports only `os`, since `nearfield
run` uses it before every mpirun.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

JOB_KEY_VARIABLE = "NEARFIELD_HEAP_KEY"
_KEY_BYTES = 16  # 16 bytes, as 32 hexadecimal digits
_HEAP_LIBRARY_NAME = "libnearfield_heap"


def make_key_variable(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns {JOB_KEY_VARIABLE: a new random key} for an environment that preloads the shared heap; {} for other
    environments, or if the environment has a key already."""
    if _HEAP_LIBRARY_NAME not in environment.get("LD_PRELOAD", "") or JOB_KEY_VARIABLE in environment:
        return {}
    return {JOB_KEY_VARIABLE: os.urandom(_KEY_BYTES).hex()}
