"""The simulated memory of a described machine, for address streams of your own.

>>> import numpy as np
>>> from nearfield.simulate import Access, Memory
>>> memory = Memory("power5-redstorm")
>>> memory.run(np.arange(0, 1 << 20, 8))  # reads 1 MiB, 8 bytes at a time, in order
>>> nearest = memory.counts.levels[0]
>>> nearest.hits + nearest.misses
131072
>>> memory.run([0x7FFE_0000_1000, 0x7FFE_0000_1008], kinds=Access.store)
>>> [speed > 0 for speed in memory.cycles]
[True]

`Memory` says what is simulated, `nearfield simulate trace` reads traces of other tools, and docs/how-to/traces.md
teaches both.
"""

from nearfield._native.memory import Access
from nearfield.simulate.memory import Memory

__all__ = ["Access", "Memory"]
