"""Checks whether the numbers of a described machine fit together. Each check yields sentences that begin with the key
and end with the nearest valid choice. The schema says what a single number may be, and which keys are required."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress

from nearfield._native import simulation
from nearfield.base.mistakes import field_at, missing
from nearfield.machine.schema import HARDWARE, Cache, DescribedMachine, Links, Network, Nic, needed_where


def problems(machine: DescribedMachine, *, partial: bool = False) -> list[str]:
    """Returns a sentence for every contradiction, in the order of the file.

    `partial` says that the machine lacks attributes which the schema requires, because the file lacks them or has them
    wrong; the user is told that elsewhere. A check ends when it meets such an attribute."""
    found = list(_sections(machine))
    if not any(getattr(machine, name, True) for name in HARDWARE):
        return found
    for check in CHECKS:
        with suppress(*ABSENT) if partial or found else nullcontext():
            for problem in check(machine):
                found.append(problem)  # one by one, to keep those before a missing attribute
    return found


ABSENT = (AttributeError, AssertionError, IndexError, ValueError)  # raised by a check that meets a missing attribute


def _sections(machine: DescribedMachine) -> Iterator[str]:
    """Yields the sections that are missing although others need them."""
    others = ("coherence", "transfers", "links", "pages", "prefetcher", "nic", "network", "messaging")
    given = [name for name in (*HARDWARE, *others) if getattr(machine, name, True)]
    if given:
        yield from (_missing(name) for name in HARDWARE if name not in given)
    elif getattr(machine, "communication", True) is None:
        yield "there is nothing in it: give [communication], or cores, [core], [[cache]] and [memory], or both"


def _missing(key: str) -> str:
    """Returns a sentence about a required key; the schema says where the key is required."""
    location = tuple(int(part) if part.isdecimal() else part for part in re.findall(r"\w+", key))
    info = field_at(DescribedMachine, location)
    return missing(DescribedMachine, location, needed_where(info) if info else "")


def _caches(machine: DescribedMachine) -> Iterator[str]:
    for place, cache in enumerate(machine.cache):
        yield from _geometry(f"cache[{place}]", cache)


def _geometry(key: str, cache: Cache) -> Iterator[str]:
    size, ways, line = cache.size_bytes.value, cache.ways.value, cache.line_bytes.value
    if line & (line - 1):
        yield f"{key}.line_bytes = {line}: not a power of two; {_nearest(line, _powers_of_two(line))}"
    if size % (ways * line):
        step = ways * line
        near = {max(1, size // step) * step, (size // step + 1) * step}
        yield f"{key}.size_bytes = {size}: not divisible by {ways} ways x {line} bytes; {_nearest(size, near)}"
    if cache.sub_blocks and line % cache.sub_blocks.value:
        parts = cache.sub_blocks.value
        yield f"{key}.sub_blocks = {parts}: does not divide a line of {line} bytes; {_nearest(parts, _divisors(line))}"
    if cache.replacement.value == "tree-plru" and ways & (ways - 1):
        yield f"{key}.ways = {ways}: tree-plru needs a power of two; {_nearest(ways, _powers_of_two(ways))}, or lru"
    if cache.sub_blocks and cache.sub_blocks.value > 1 and cache.inclusion and cache.inclusion.value == "inclusive":
        yield f"{key}.inclusion = 'inclusive': a cache with sub_blocks cannot be; valid: exclusive, neither"


def _levels(machine: DescribedMachine) -> Iterator[str]:
    caches = machine.cache
    if caches[0].inclusion and caches[0].inclusion.value != "neither":
        yield f"cache[0].inclusion = '{caches[0].inclusion.value}': there is no nearer cache; leave it out"
    for place, (inner, outer) in enumerate(zip(caches, caches[1:], strict=False), 1):
        key = f"cache[{place}]"
        if outer.inclusion is None:
            yield _missing(f"{key}.inclusion")
        if outer.line_bytes.value % inner.line_bytes.value:
            line, near = outer.line_bytes.value, inner.line_bytes.value
            yield f"{key}.line_bytes = {line}: not a multiple of cache[{place - 1}].line_bytes; nearest: {near}"
        if outer.latency_cycles.value < inner.latency_cycles.value:
            least = inner.latency_cycles.value
            yield f"{key}.latency_cycles = {outer.latency_cycles.value:g}: nearer caches take {least:g}; at least that"
        if outer.inclusion and outer.inclusion.value == "inclusive":
            yield from _holds(key, outer, caches[:place])


def _holds(key: str, outer: Cache, nearer: list[Cache]) -> Iterator[str]:
    for place, inner in enumerate(nearer):
        children = outer.shared_by.value // inner.shared_by.value
        held = children * inner.size_bytes.value
        victim = inner.inclusion is not None and inner.inclusion.value == "exclusive"
        if not victim and outer.size_bytes.value < held:
            yield (
                f"{key}.size_bytes = {outer.size_bytes.value}: inclusive, but smaller than the {children} of "
                f"cache[{place}] that it includes; nearest: {held}"
            )


def _sharing(machine: DescribedMachine) -> Iterator[str]:
    assert machine.cores and machine.memory
    cores = machine.cores.value
    shares = [(f"cache[{place}].shared_by", cache.shared_by.value) for place, cache in enumerate(machine.cache)]
    if machine.memory.shared_by:
        shares.append(("memory.shared_by", machine.memory.shared_by.value))
    before = 1
    for key, share in shares:
        valid = [n for n in _divisors(cores) if n % before == 0]
        if cores % share:
            yield f"{key} = {share}: does not divide {cores} cores; {_nearest(share, valid)}"
        elif share % before and key != "memory.shared_by":
            yield f"{key} = {share}: not a multiple of the {before} cores of a nearer cache; {_nearest(share, valid)}"
        elif key != "memory.shared_by":
            before = share


def _transfers(machine: DescribedMachine) -> Iterator[str]:
    assert machine.cores
    cores, last = machine.cores.value, machine.cache[-1].shared_by.value
    below = any(cache.shared_by.value < last for cache in machine.cache)
    given = machine.transfers
    if below and not (given and given.shared_cycles):
        yield _missing("transfers.shared_cycles")
    if last < cores and not (given and given.remote_cycles):
        yield _missing("transfers.remote_cycles")


def _memory(machine: DescribedMachine) -> Iterator[str]:
    memory, core = machine.memory, machine.core
    assert memory and core
    last_ns = machine.cache[-1].latency_cycles.value / core.clock_ghz.value
    if memory.latency_ns.value < last_ns:
        yield f"memory.latency_ns = {memory.latency_ns.value:g}: the last cache takes {last_ns:.3g} ns; at least that"
    banked = [memory.banks, memory.bank_interleave_bytes, memory.bank_busy_ns]
    names = ("banks", "bank_interleave_bytes", "bank_busy_ns")
    if any(banked):
        yield from (_missing(f"memory.{name}") for name, value in zip(names, banked, strict=True) if value is None)
    if memory.remote_ns and not memory.shared_by:
        yield _missing("memory.shared_by")


MOST_HUBS = 16  # each memory is 8 GiB, of the 128 that a node has


def _links(machine: DescribedMachine) -> Iterator[str]:
    if machine.links is None:
        return
    assert machine.memory and machine.cores
    if machine.memory.remote_ns is None:
        yield _missing("memory.remote_ns")
    if machine.memory.shared_by is None:
        return  # told by _memory
    hubs = machine.cores.value // machine.memory.shared_by.value
    if hubs > MOST_HUBS:
        least = -(-machine.cores.value // MOST_HUBS)
        yield f"memory.shared_by = {machine.memory.shared_by.value}: {hubs} hubs, {MOST_HUBS} at most; nearest: {least}"
    yield from _topology("links", machine.links, "hubs_per_router", hubs)


def _pages(machine: DescribedMachine) -> Iterator[str]:
    if machine.pages is None:
        return
    size = machine.pages.page_bytes.value
    line = max(cache.line_bytes.value for cache in machine.cache)
    if size & (size - 1):
        yield f"pages.page_bytes = {size}: not a power of two; {_nearest(size, _powers_of_two(size))}"
    if size < line:
        yield f"pages.page_bytes = {size}: smaller than a cache line; nearest: {line}"
    for place, tlb in enumerate(machine.pages.tlb):
        if tlb.entries.value % tlb.ways.value:
            near = _nearest(tlb.ways.value, _divisors(tlb.entries.value))
            yield f"pages.tlb[{place}].ways = {tlb.ways.value}: does not divide {tlb.entries.value} entries; {near}"


MOST_STREAMS = 63  # StreamFollower keeps two directions of each in a set of at most 126


def _prefetcher(machine: DescribedMachine) -> Iterator[str]:
    if machine.prefetcher and machine.prefetcher.streams.value > MOST_STREAMS:
        given = machine.prefetcher.streams.value
        yield f"prefetcher.streams = {given}: more than are simulated; nearest: {MOST_STREAMS}"
    if machine.prefetcher and machine.prefetcher.level.value >= len(machine.cache):
        level, last = machine.prefetcher.level.value, len(machine.cache) - 1
        yield f"prefetcher.level = {level}: there are {last + 1} caches, counted from 0; nearest: {last}"


def _between_nodes(machine: DescribedMachine) -> Iterator[str]:
    together = ("nic", "network", "messaging")
    if machine.nic or machine.network:
        yield from (_missing(name) for name in together if getattr(machine, name) is None)
    if machine.network:
        yield from _topology("network", machine.network, "nodes_per_router", machine.network.max_nodes.value)
    if machine.nic:
        yield from _policy(machine.nic, machine.cache)


def _policy(nic: Nic, caches: list[Cache]) -> Iterator[str]:
    policy = nic.policy.value if nic.policy else "memory"
    fits = [known.name for known in simulation.policies() if known.levels <= len(caches)]
    if policy not in fits:
        yield f"nic.policy = '{policy}': there are only {len(caches)} caches; valid: {', '.join(fits)}"
    if nic.policy_ways and nic.policy is None:
        yield _missing("nic.policy")
    most = max(cache.ways.value for cache in caches)
    if nic.policy_ways and nic.policy_ways.value > most:
        yield f"nic.policy_ways = {nic.policy_ways.value}: no cache has more than {most}; nearest: {most}"


SHAPES = {"torus": (1, 8), "fat-tree": (1, 8), "dragonfly": (3, 3)}  # how many numbers; the others take none


def _topology(key: str, table: Network | Links, beside: str, nodes: int) -> Iterator[str]:
    """Yields what is wrong with the routers of a table, whose key `beside` says how many nodes or hubs each has."""
    name, shape = table.topology.value, table.shape.value if table.shape else []
    per_router = given.value if (given := getattr(table, beside)) else 1
    count = "network.max_nodes" if key == "network" else "hubs"
    fewest, most = SHAPES.get(name, (0, 0))
    if not fewest <= len(shape) <= most:
        words = "has no shape; leave it out" if most == 0 else f"needs {fewest if fewest == most else '1 to 8'} numbers"
        yield f"{key}.shape = {shape}: the topology '{name}' {words}"
        return
    if name == "dragonfly" and per_router not in (1, shape[1]):
        yield f"{key}.{beside} = {per_router}: the shape says {shape[1]}; leave it out"
    if shape:
        room = math.prod(shape) * (1 if name == "dragonfly" else per_router)
        if nodes > room:
            yield f"{count} = {nodes}: a {name} of shape {shape} has {room} nodes; nearest: {room}"
    if name == "hypercube":
        routers = -(-nodes // per_router)
        if nodes % per_router or routers & (routers - 1):
            valid = [count * per_router for count in _powers_of_two(routers)]
            yield f"{count} = {nodes}: not a hypercube of {per_router} a router; {_nearest(nodes, valid)}"


NEEDED: dict[str, dict[str, tuple[str, ...]]] = {
    "network": {
        "eager-rendezvous": ("eager_bytes", "register_ns"),
        "buffered": ("eager_bytes",),
        "synchronous": ("eager_bytes",),
    },
    "node": {
        "copy-in-copy-out": ("node_eager_bytes", "ring_bytes"),
        "single-copy": ("node_eager_bytes", "system_call_ns"),
    },
}  # protocol -> keys that simulating it requires


def _messaging(machine: DescribedMachine) -> Iterator[str]:
    messaging = machine.messaging
    if messaging is None:
        return
    for where, needed in NEEDED.items():
        protocol = getattr(messaging, where)
        if protocol is None and (machine.network if where == "network" else machine.cores and machine.cores.value > 1):
            yield _missing(f"messaging.{where}")
        for name in needed.get(protocol.value, ()) if protocol else ():
            if getattr(messaging, name) is None:
                yield _missing(f"messaging.{name}")


CHECKS = (_caches, _levels, _sharing, _transfers, _memory, _links, _pages, _prefetcher, _between_nodes, _messaging)


# ---- nearest valid choices


def _nearest(value: int, valid: Iterable[int]) -> str:
    return f"nearest: {min(valid, key=lambda choice: (abs(choice - value), choice))}"


def _powers_of_two(value: int) -> list[int]:
    below = 1 << max(0, value.bit_length() - 1)
    return [below, 2 * below]


def _divisors(value: int) -> list[int]:
    small = [n for n in range(1, math.isqrt(value) + 1) if value % n == 0]
    return sorted({*small, *(value // n for n in small)})
