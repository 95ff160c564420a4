"""Draws the key by which the ranks of a job recognise one another.

Where the kernel forbids a rank to copy from another one's memory, the shared heap of the other one makes the copy, if
the request carries this key (src/preload/heap/copy_service.hpp). This module imports next to nothing, since `nearfield
run` comes before every mpirun.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "NEARFIELD_HEAP_KEY"
_KEY_BYTES = 16  # 32 hexadecimal digits
_HEAP = "libnearfield_heap"


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variable with a new key, for an environment that preloads the shared heap; none for another one, or
    if there is a key already."""
    if _HEAP not in environment.get("LD_PRELOAD", "") or VARIABLE in environment:
        return {}
    return {VARIABLE: os.urandom(_KEY_BYTES).hex()}
