"""How many accesses a second does the simulated memory take, beside pycachesim on the same traces?

POWER5's three levels (machines/power5-redstorm.toml): coherent and with time here; pycachesim has neither, and its last
level has 128-byte lines, as it knows no sub-blocks. Without TLBs and prefetching, which it has not either; --whole has
them. Both run in turn, in CPU seconds of this process; ratios are of the same round. Pass --without to leave pycachesim
out (it is a bench dependency only: pip install pycachesim==0.3.1).

The bars: 800 million a second sequential, 60 million uniform random over 64 MiB, 100 million over 1 MiB, and three
times pycachesim on each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from support import console, finish, new_table, parser, verdict

from nearfield import _native
from nearfield.errors import UsageError
from nearfield.machine import load_machine
from nearfield.machine.native import native

MIB = 1 << 20
BARS = {"sequential": 800e6, "random 64 MiB": 60e6, "random 1 MiB": 100e6}
TIMES_FASTER = 3.0
SEQUENTIAL_BYTES = 64 * MIB
# pycachesim takes a second for so many.
RANDOM_ACCESSES = 1 << 20


def main(options: argparse.Namespace) -> dict[str, Any]:
    theirs = None if options.without else pycachesim()
    table = new_table("Accesses per second, in millions", "trace", "nearfield, pycachesim, ratio, bar")
    results = []
    for name, bar in BARS.items():
        ours = Ours(name, options.whole)
        rounds = [(ours.rate(), theirs(name) if theirs else None) for _ in range(options.rounds)]
        rate = _native.median_estimate([a for a, _ in rounds])
        ratio = _native.median_estimate([a / b for a, b in rounds if b]) if theirs else None
        met = rate.low >= bar and (ratio is None or ratio.low >= TIMES_FASTER)
        their_rate = _native.quantile([b for _, b in rounds if b], 0.5) if theirs else None
        table.add_row(
            name,
            f"{rate.value / 1e6:.1f} ({rate.low / 1e6:.1f} to {rate.high / 1e6:.1f})",
            f"{their_rate / 1e6:.2f}" if their_rate else "-",
            f"{ratio.value:.1f} ({ratio.low:.1f} to {ratio.high:.1f})" if ratio else "-",
            f"{bar / 1e6:.0f}",
        )
        results.append({"trace": name, "per_s": rate.value, "pycachesim_per_s": their_rate, "met": met,
                        "ratio": (ratio.value, ratio.low, ratio.high) if ratio else None})  # fmt: skip
    console.print(table)
    met = all(r["met"] for r in results)
    verdict(met, ", ".join(f"{r['trace']}: {'met' if r['met'] else 'missed'}" for r in results))
    return {"met": met, "traces": results}


def random_addresses(name: str) -> np.ndarray:
    size = 64 * MIB if "64" in name else MIB
    return np.random.default_rng(1).integers(0, size // 8, RANDOM_ACCESSES, dtype=np.uint64) * np.uint64(8)


class Ours:
    """One trace on one memory, warm after a first round."""

    def __init__(self, name: str, whole: bool) -> None:
        machine = native(load_machine("power5-redstorm"))
        if not whole:
            pages = machine.pages
            pages.tlbs = []
            machine.pages, machine.prefetcher = pages, None
        self._memory = _native.memory.Memory(machine)
        self._addresses = None if name == "sequential" else random_addresses(name)
        self._count = SEQUENTIAL_BYTES // 8 if self._addresses is None else 8 * RANDOM_ACCESSES
        self.rate()

    def rate(self) -> float:
        start = time.process_time()
        if self._addresses is None:
            self._memory.sweep(0, _native.memory.Access.load, 0, self._count, 8, 8)
        else:
            for _ in range(8):
                self._memory.replay(self._addresses)
        return self._count / (time.process_time() - start)


def pycachesim() -> Callable[[str], float]:
    try:
        from cachesim import Cache, CacheSimulator, MainMemory
    except ImportError as error:
        raise UsageError(
            "pycachesim is not here", "pip install pycachesim==0.3.1, or give --without to measure nearfield alone."
        ) from error
    memory = MainMemory()
    l3 = Cache("L3", 3 * 8192, 12, 128, "LRU")
    l2 = Cache("L2", 3 * 512, 10, 128, "LRU", store_to=l3, load_from=l3)
    l1 = Cache("L1", 64, 4, 128, "LRU", write_back=False, write_allocate=False, store_to=l2, load_from=l2)
    memory.load_to(l3)
    memory.store_from(l3)
    simulator = CacheSimulator(l1, memory)

    def rate(name: str) -> float:
        addresses = range(0, SEQUENTIAL_BYTES // 8, 8) if name == "sequential" else random_addresses(name).tolist()
        start = time.process_time()
        simulator.load(addresses, length=8)
        return len(addresses) / (time.process_time() - start)

    return rate


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--rounds", type=int, default=7, help="of both (default %(default)s)")
    made.add_argument("--whole", action="store_true", help="with TLBs and prefetching")
    made.add_argument("--without", action="store_true", help="without pycachesim")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
