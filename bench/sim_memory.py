"""How fast is the simulated memory?

Accesses per second, beside two others on the same traces: a bare loop through three levels of LRU sets
(bench/bare_lru.cpp), which knows neither time nor coherence, and pycachesim (--without leaves it out; pip install
pycachesim==0.3.1). POWER5's three levels (machines/power5-redstorm.toml), coherent and with time, without TLBs and
prefetching, which the others have not either; --whole has them. All run in turn in processor seconds of this process,
and ratios are of the same round.

Then large machines, random in 64 MiB: one core of epyc-9755 and xeon-8470 against one of POWER5, and what a miss costs
with 64 cores at work (all of a socket's 52 of xeon-8470) against two, 8 MiB each. And how much longer a run of four
policies at four memory speeds takes than a run of one at one; the same for a trace in which every set of the second
and third cache soon holds something else under each variant.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from support import console, finish, new_table, parser, verdict

from nearfield import _native
from nearfield._native import simulation
from nearfield.base.errors import UsageError
from nearfield.machine import load_machine
from nearfield.machine.native import to_native
from nearfield.measure.sim.places import ALL_CORES

MIB = 1 << 20
# Times as fast as the bare loop and as pycachesim, at least.
LIMITS = {"sequential": (1.3, 10.0), "random 1 MiB": (1.0, 4.0), "random 64 MiB": (0.7, 3.0)}
SEQUENTIAL_BYTES = 64 * MIB
RANDOM_ACCESSES = 1 << 20  # for which pycachesim takes a second
LARGE = {"epyc-9755": 64, "xeon-8470": 52}  # cores at work
MIN_OF_POWER5, MAX_OF_TWO = 0.5, 1.5
ACCESSES_OF_A_CORE, TURN = 1 << 17, 64  # and before the next one's turn
POLICIES = ["memory", "header-l2", "payload-l3", "header-payload"]
SLOWDOWNS = [1.0, 2.5, 5.0, 7.5]
OPERATIONS = (("amg", 384, 8), ("fft", 65536, 8), ("bcast", 32768, 64), ("allreduce", 32768, 64))  # bytes, nodes
MAX_OF_ONE, MAX_DIVERGING = 2.0, 3.0
LEVELS = ((-1, 1, 2, 1), (-1, 1, 2, 2))  # into which each variant's device writes, in turn
PIECE, LINE, RING, OWN = 4096, 128, 64 * MIB, 4 * MIB

Measured = dict[str, Any]


def main(options: argparse.Namespace) -> Measured:
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as scratch:
        found = {
            "traces": traces(options, Bare(Path(scratch))),
            "machines": machines(options.rounds),
            "variants": variants(options.rounds),
        }
    met = all(row["met"] for rows in found.values() for row in rows)
    verdict(met, ", ".join(f"{r['what']}: {'met' if r['met'] else 'missed'}" for rows in found.values() for r in rows))
    return {"met": met, **found}


# ---- beside others


def traces(options: argparse.Namespace, bare: Bare) -> list[Measured]:
    theirs = None if options.without else pycachesim()
    table = new_table("Accesses per second, in millions", "trace", "nearfield, bare loop, ratio, pycachesim, ratio")
    results: list[Measured] = []
    for name, limits in LIMITS.items():
        ours = Ours(name, options.whole)
        others = [bare.on(name), *([lambda name=name: theirs(name)] if theirs else [])]
        rounds = [[way() for way in (ours.rate, *others)] for _ in range(options.rounds)]
        ratios = [_native.median_estimate([r[0] / r[k] for r in rounds]) for k in range(1, len(rounds[0]))]
        cells = [millions([r[0] for r in rounds])]
        for k, ratio in enumerate(ratios, 1):
            cells += [millions([r[k] for r in rounds]), f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"]
        table.add_row(name, *cells, *["-"] * (5 - len(cells)))
        met = all(ratio.value >= limit for ratio, limit in zip(ratios, limits, strict=False))
        results.append({"what": name, "met": met, "ratios": [(r.value, r.low, r.high) for r in ratios]})
    console.print(table)
    return results


def millions(rates: list[float]) -> str:
    return f"{_native.quantile(rates, 0.5) / 1e6:.1f}"


def random_addresses(name: str) -> np.ndarray:
    size = 64 * MIB if "64" in name else MIB
    return np.random.default_rng(1).integers(0, size // 8, RANDOM_ACCESSES, dtype=np.uint64) * np.uint64(8)


def memory_of(machine: str, *, whole: bool = False, slowdowns: list[float] | None = None, variants: int = 1) -> Any:
    described = to_native(load_machine(machine))
    if not whole:
        pages = described.pages
        pages.tlbs = []
        described.pages, described.prefetcher = pages, None
    return _native.memory.Memory(described, slowdowns or [1.0] * 4, variants)


def rate_of(count: int, work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return count / (time.process_time() - start)


class Ours:
    """One trace on one memory, warm after a first round."""

    def __init__(self, name: str, whole: bool) -> None:
        self._memory = memory_of("power5-redstorm", whole=whole)
        self._addresses = None if name == "sequential" else random_addresses(name)
        self.rate()

    def rate(self) -> float:
        if self._addresses is None:
            count = SEQUENTIAL_BYTES // 8
            return rate_of(count, lambda: self._memory.sweep(0, _native.memory.Access.load, 0, count, 8, 8))
        return rate_of(4 * RANDOM_ACCESSES, lambda: [self._memory.replay(self._addresses) for _ in range(4)])


class Bare:
    """The loop of bare_lru.cpp."""

    def __init__(self, scratch: Path) -> None:
        compiler = os.environ.get("CXX") or shutil.which("c++")
        if compiler is None:
            raise UsageError("there is no C++ compiler for the bare loop", "Install g++, or set CXX.")
        source, library = Path(__file__).with_name("bare_lru.cpp"), scratch / "bare_lru.so"
        subprocess.run([compiler, "-std=c++20", "-O3", "-shared", "-fPIC", source, "-o", library], check=True)
        self._library = ctypes.CDLL(str(library))
        self._library.bare_caches.restype = ctypes.c_void_p

    def on(self, name: str) -> Callable[[], float]:
        caches = ctypes.c_void_p(self._library.bare_caches())
        if name == "sequential":
            count = SEQUENTIAL_BYTES // 8
            return lambda: rate_of(count, lambda: self._library.bare_sweep(caches, ctypes.c_uint64(count)))
        addresses = random_addresses(name)

        def four_times() -> None:
            for _ in range(4):
                given = addresses.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(addresses.size)
                self._library.bare_random(caches, *given)

        return lambda: rate_of(4 * RANDOM_ACCESSES, four_times)


def pycachesim() -> Callable[[str], float]:
    try:
        from cachesim import Cache, CacheSimulator, MainMemory
    except ImportError as error:
        raise UsageError(
            "pycachesim is not here", "pip install pycachesim==0.3.1, or give --without to leave it out."
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
        return rate_of(len(addresses), lambda: simulator.load(addresses, length=8))

    return rate


# ---- large machines


def machines(rounds: int) -> list[Measured]:
    power5 = Cores("power5-redstorm", 1, 64 * MIB)
    results: list[Measured] = []
    for machine, cores in LARGE.items():
        one, two, many = Cores(machine, 1, 64 * MIB), Cores(machine, 2, 8 * MIB), Cores(machine, cores, 8 * MIB)
        measured = [(power5.ns(), one.ns(), two.ns_of_miss(), many.ns_of_miss()) for _ in range(rounds)]
        rate = _native.median_estimate([a / b for a, b, _, _ in measured])
        miss = _native.median_estimate([d / c for _, _, c, d in measured])
        for what, ratio, met in (
            (f"{machine}: rate of one core, of POWER5's", rate, rate.value >= MIN_OF_POWER5),
            (f"{machine}: a miss with {cores} cores, of two's", miss, miss.value <= MAX_OF_TWO),
        ):
            console.print(f"{what}: {ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})")
            results.append({"what": what, "met": met, "ratio": (ratio.value, ratio.low, ratio.high)})
    return results


class Cores:
    """Cores of one node that take turns, each with random loads in its own memory."""

    def __init__(self, machine: str, cores: int, bytes_each: int) -> None:
        self._memory = memory_of(machine)
        own = np.random.default_rng(2).integers(0, bytes_each // 8, ACCESSES_OF_A_CORE, dtype=np.uint64)
        self._own = [own * np.uint64(8) + np.uint64(core * bytes_each) for core in range(cores)]
        self.ns()

    def ns(self) -> float:
        """Returns the processor time of an access."""
        self._memory.reset_counts()
        return 1e9 / rate_of(sum(own.size for own in self._own), self._run)

    def ns_of_miss(self) -> float:
        """Returns the processor time for each access that missed a core's second cache."""
        ns = self.ns()
        return ns * sum(own.size for own in self._own) / self._memory.counts().levels[1].misses

    def _run(self) -> None:
        for begin in range(0, self._own[0].size, TURN):
            for core, own in enumerate(self._own):
                self._memory.replay(own[begin : begin + TURN], core)


# ---- policies and memory speeds


def variants(rounds: int) -> list[Measured]:
    results: list[Measured] = []
    for operation, size, nodes in OPERATIONS:
        measured = [
            (
                simulated_s(operation, size, nodes, POLICIES, SLOWDOWNS),
                simulated_s(operation, size, nodes, ["memory"], [1.0]),
            )
            for _ in range(rounds)
        ]
        ratio = _native.median_estimate([a / b for a, b in measured])
        what = f"{operation} on {nodes} nodes: four policies and speeds, of one"
        console.print(f"{what}: {ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})")
        met = ratio.value <= MAX_OF_ONE
        results.append({"what": what, "met": met, "ratio": (ratio.value, ratio.low, ratio.high)})
    together, alone = Diverging(len(POLICIES)), Diverging(1)
    ratio = _native.median_estimate([together.seconds() / alone.seconds() for _ in range(rounds)])
    what = "a trace that diverges everywhere: four variants, of one"
    console.print(f"{what}: {ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})")
    results.append({"what": what, "met": ratio.value <= MAX_DIVERGING, "ratio": (ratio.value, ratio.low, ratio.high)})
    return results


class Diverging:
    """A device writes pieces of a ring that no cache holds, elsewhere under each variant; the core loads their lines,
    and as many at random from a memory of its own."""

    def __init__(self, variants: int) -> None:
        self._memory = memory_of("power5-redstorm", slowdowns=SLOWDOWNS, variants=variants)
        self._variants = variants
        own = np.random.default_rng(3).integers(0, OWN // 8, RING // LINE, dtype=np.uint64)
        self._own = (own * np.uint64(8) + np.uint64(RING)).reshape(-1, PIECE // LINE)
        self.seconds()

    def seconds(self) -> float:
        return 1 / rate_of(1, self._run)

    def _run(self) -> None:
        for number, own in enumerate(self._own):
            at = number * PIECE
            self._memory.write_by_device(at, PIECE, LEVELS[number % len(LEVELS)][: self._variants])
            self._memory.sweep(0, _native.memory.Access.load, at, PIECE // LINE, LINE, 8)
            self._memory.replay(own)


def simulated_s(operation: str, size: int, nodes: int, policies: list[str], slowdowns: list[float]) -> float:
    """Returns the processor seconds of a simulation."""
    machine = to_native(load_machine("power5-redstorm"))
    parameters: list[Any] = [("operation", operation), ("size_bytes", size), ("ranks", nodes), ("nodes", nodes)]
    scenario = "application" if operation in ("amg", "fft") else "collective"
    return 1 / rate_of(
        1, lambda: simulation.run(scenario, machine, ALL_CORES.to_native_place(), parameters, policies, slowdowns, 1)
    )


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--rounds", type=int, default=7, help="of all (default %(default)s)")
    made.add_argument("--whole", action="store_true", help="with TLBs and prefetching")
    made.add_argument("--without", action="store_true", help="without pycachesim")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
