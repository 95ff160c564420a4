"""Checks the numbers of a described machine against each other. A check yields sentences, each of which begins with the
key and ends with the nearest valid choice; or it yields smaller checks. The schema covers bounds of single numbers and
required keys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress

from nearfield._native import simulation
from nearfield.base.validation_errors import field_at, missing_key
from nearfield.machine.schema import (
    HARDWARE,
    Cache,
    DescribedMachine,
    Links,
    Memory,
    Messaging,
    Network,
    Nic,
    Tlb,
    requirement_of,
)

Checks = Iterator["str | Checks"]  # a missing attribute ends only the innermost check


def find_contradictions(machine: DescribedMachine, *, partial: bool = False) -> list[str]:
    """Returns a sentence for every contradiction, in the order of the file.

    With `partial`, the machine lacks attributes that the schema requires, because they are missing or wrong in the
    file, which the caller reports separately. A check ends at a missing attribute; the other checks continue."""
    found = list(_missing_sections(machine))
    if not any(getattr(machine, name, True) for name in HARDWARE):
        return found
    partial = partial or bool(found)
    for check in CHECKS:
        _append_sentences(check(machine), found, partial)
    return found


def _append_sentences(check: Checks, found: list[str], partial: bool) -> None:
    """Appends the sentences of a check and of its smaller checks to `found`. With `partial`, a missing attribute ends
    the check without an error."""
    with suppress(*MISSING_ATTRIBUTE_ERRORS) if partial else nullcontext():
        for one in check:
            if isinstance(one, str):
                found.append(one)  # one at a time, so that sentences before a missing attribute remain
            else:
                _append_sentences(one, found, partial)


# Exceptions by which a check fails at a missing attribute.
MISSING_ATTRIBUTE_ERRORS = (AttributeError, AssertionError, IndexError, ValueError)


def _missing_sections(machine: DescribedMachine) -> Iterator[str]:
    """Yields a sentence for each section that is missing although another section requires it."""
    others = ("coherence", "transfers", "links", "pages", "prefetcher", "nic", "network", "messaging")
    given = [name for name in (*HARDWARE, *others) if getattr(machine, name, True)]
    if given:
        yield from (_missing_key_sentence(name) for name in HARDWARE if name not in given)
    elif getattr(machine, "communication", True) is None:
        yield "there is nothing in it: give [communication], or cores, [core], [[cache]] and [memory], or both"


def _missing_key_sentence(key: str) -> str:
    """Returns the sentence for a missing key, including in which machines the schema requires the key."""
    location = tuple(int(part) if part.isdecimal() else part for part in re.findall(r"\w+", key))
    info = field_at(DescribedMachine, location)
    return missing_key(DescribedMachine, location, requirement_of(info) if info else "")


def _check_caches(machine: DescribedMachine) -> Checks:
    for place, cache in enumerate(machine.cache):
        for check in (_check_line_size, _check_size_divides, _check_sub_blocks, _check_replacement):
            yield check(f"cache[{place}]", cache)


def _check_line_size(key: str, cache: Cache) -> Checks:
    line = cache.line_bytes.value
    if line & (line - 1):
        yield f"{key}.line_bytes = {line}: not a power of two; {_nearest_choice(line, _powers_of_two(line))}"


def _check_size_divides(key: str, cache: Cache) -> Checks:
    size, ways, line = cache.size_bytes.value, cache.ways.value, cache.line_bytes.value
    if size % (ways * line):
        step = ways * line
        near = {max(1, size // step) * step, (size // step + 1) * step}
        yield f"{key}.size_bytes = {size}: not divisible by {ways} ways x {line} bytes; {_nearest_choice(size, near)}"


def _check_sub_blocks(key: str, cache: Cache) -> Checks:
    if cache.sub_blocks is None:
        return
    parts = cache.sub_blocks.value
    if parts > 1 and cache.inclusion and cache.inclusion.value == "inclusive":
        yield f"{key}.inclusion = 'inclusive': a cache with sub_blocks cannot be; valid: exclusive, neither"
    line = cache.line_bytes.value
    if line % parts:
        choice = _nearest_choice(parts, _divisors(line))
        yield f"{key}.sub_blocks = {parts}: does not divide a line of {line} bytes; {choice}"


def _check_replacement(key: str, cache: Cache) -> Checks:
    ways = cache.ways.value
    if cache.replacement.value == "tree-plru" and ways & (ways - 1):
        choice = _nearest_choice(ways, _powers_of_two(ways))
        yield f"{key}.ways = {ways}: tree-plru needs a power of two; {choice}, or lru"


def _check_levels(machine: DescribedMachine) -> Checks:
    yield _check_nearest_cache(machine.cache[0])
    for place, (inner, outer) in enumerate(zip(machine.cache, machine.cache[1:], strict=False), 1):
        key = f"cache[{place}]"
        yield _check_inclusion(key, outer, machine.cache[:place])
        yield _check_line_multiple(key, outer, f"cache[{place - 1}]", inner)
        yield _check_latency_order(key, outer, inner)


def _check_nearest_cache(cache: Cache) -> Checks:
    if cache.inclusion and cache.inclusion.value != "neither":
        yield f"cache[0].inclusion = '{cache.inclusion.value}': there is no nearer cache; leave it out"


def _check_inclusion(key: str, outer: Cache, nearer: list[Cache]) -> Checks:
    if outer.inclusion is None:
        yield _missing_key_sentence(f"{key}.inclusion")
    elif outer.inclusion.value == "inclusive":
        for place, inner in enumerate(nearer):
            yield _check_capacity_for_inclusion(key, outer, place, inner)


def _check_line_multiple(key: str, outer: Cache, inner_key: str, inner: Cache) -> Checks:
    line, near = outer.line_bytes.value, inner.line_bytes.value
    if line % near:
        yield f"{key}.line_bytes = {line}: not a multiple of {inner_key}.line_bytes; nearest: {near}"


def _check_latency_order(key: str, outer: Cache, inner: Cache) -> Checks:
    least = inner.latency_cycles.value
    if outer.latency_cycles.value < least:
        yield f"{key}.latency_cycles = {outer.latency_cycles.value:g}: nearer caches take {least:g}; at least that"


def _check_capacity_for_inclusion(key: str, outer: Cache, place: int, inner: Cache) -> Checks:
    """Yields an error if an inclusive cache is smaller than the nearer caches whose lines it must include."""
    children = outer.shared_by.value // inner.shared_by.value
    held = children * inner.size_bytes.value
    victim = inner.inclusion is not None and inner.inclusion.value == "exclusive"
    if not victim and outer.size_bytes.value < held:
        yield (
            f"{key}.size_bytes = {outer.size_bytes.value}: inclusive, but smaller than the {children} of "
            f"cache[{place}] that it includes; nearest: {held}"
        )


def _shared_by_values(machine: DescribedMachine) -> Iterator[tuple[str, int]]:
    """Yields (key, number of cores) for every key that states how many cores share a cache or a memory. Skips values
    that are missing or wrong."""
    for place, cache in enumerate(machine.cache):
        with suppress(*MISSING_ATTRIBUTE_ERRORS):
            yield f"cache[{place}].shared_by", cache.shared_by.value
    with suppress(*MISSING_ATTRIBUTE_ERRORS):
        if machine.memory and machine.memory.shared_by:
            yield "memory.shared_by", machine.memory.shared_by.value


def _check_sharing(machine: DescribedMachine) -> Checks:
    assert machine.cores
    cores, before = machine.cores.value, 1
    for key, share in _shared_by_values(machine):
        valid = [n for n in _divisors(cores) if n % before == 0]
        if cores % share:
            yield f"{key} = {share}: does not divide {cores} cores; {_nearest_choice(share, valid)}"
        elif share % before and key != "memory.shared_by":
            choice = _nearest_choice(share, valid)
            yield f"{key} = {share}: not a multiple of the {before} cores of a nearer cache; {choice}"
        elif key != "memory.shared_by":
            before = share


def _check_transfers(machine: DescribedMachine) -> Checks:
    yield _check_shared_transfers(machine)
    yield _check_remote_transfers(machine)


def _check_shared_transfers(machine: DescribedMachine) -> Checks:
    last = machine.cache[-1].shared_by.value
    below = any(share < last for key, share in _shared_by_values(machine) if key != "memory.shared_by")
    if below and not (machine.transfers and machine.transfers.shared_cycles):
        yield _missing_key_sentence("transfers.shared_cycles")


def _check_remote_transfers(machine: DescribedMachine) -> Checks:
    assert machine.cores
    if machine.cache[-1].shared_by.value < machine.cores.value and not (
        machine.transfers and machine.transfers.remote_cycles
    ):
        yield _missing_key_sentence("transfers.remote_cycles")


def _check_memory(machine: DescribedMachine) -> Checks:
    assert machine.memory
    yield _check_memory_latency(machine)
    yield _check_banks(machine.memory)
    yield _check_tiers(machine)
    if machine.memory.remote_ns and not machine.memory.shared_by:
        yield _missing_key_sentence("memory.shared_by")


def _check_memory_latency(machine: DescribedMachine) -> Checks:
    assert machine.memory and machine.core
    latency_ns, last = machine.memory.latency_ns.value, machine.cache[-1]
    last_ns = last.latency_cycles.value / machine.core.clock_ghz.value
    if latency_ns < last_ns:
        yield f"memory.latency_ns = {latency_ns:g}: the last cache takes {last_ns:.3g} ns; at least that"


def _check_tiers(machine: DescribedMachine) -> Checks:
    assert machine.memory and machine.core
    last_ns = machine.cache[-1].latency_cycles.value / machine.core.clock_ghz.value
    for place, tier in enumerate(machine.memory.tier):
        if tier.latency_ns.value < last_ns:
            key = f"memory.tier[{place}].latency_ns = {tier.latency_ns.value:g}"
            yield f"{key}: the last cache takes {last_ns:.3g} ns; at least that"
    shares = sum(tier.share.value for tier in machine.memory.tier)
    if shares > 1:
        yield f"memory.tier[].share: they add up to {shares:.3g}; 1 at most"


def _check_banks(memory: Memory) -> Checks:
    names = ("banks", "bank_interleave_bytes", "bank_busy_ns")
    given = [getattr(memory, name, True) for name in names]
    if any(given):
        yield from (
            _missing_key_sentence(f"memory.{name}") for name, value in zip(names, given, strict=True) if value is None
        )


MAX_HUBS = 16  # the simulator gives each hub's memory 8 GiB of a node's 128 GiB


def _check_links(machine: DescribedMachine) -> Checks:
    if machine.links is None:
        return
    assert machine.memory
    if machine.memory.remote_ns is None:
        yield _missing_key_sentence("memory.remote_ns")
    if machine.memory.shared_by is not None:  # otherwise _check_memory reports the missing key
        yield _check_hubs(machine, machine.links)


def _check_hubs(machine: DescribedMachine, links: Links) -> Checks:
    assert machine.cores and machine.memory and machine.memory.shared_by
    share = machine.memory.shared_by.value
    hubs = machine.cores.value // share
    if hubs > MAX_HUBS:
        least = -(-machine.cores.value // MAX_HUBS)
        yield f"memory.shared_by = {share}: {hubs} hubs, {MAX_HUBS} at most; nearest: {least}"
    yield _check_topology("links", links, "hubs_per_router", hubs)


def _check_pages(machine: DescribedMachine) -> Checks:
    if machine.pages is None:
        return
    for place, tlb in enumerate(machine.pages.tlb):
        yield _check_tlb(place, tlb)
    size = machine.pages.page_bytes.value
    if size & (size - 1):
        yield f"pages.page_bytes = {size}: not a power of two; {_nearest_choice(size, _powers_of_two(size))}"
    line = max(cache.line_bytes.value for cache in machine.cache)
    if size < line:
        yield f"pages.page_bytes = {size}: smaller than a cache line; nearest: {line}"


def _check_tlb(place: int, tlb: Tlb) -> Checks:
    if tlb.entries.value % tlb.ways.value:
        near = _nearest_choice(tlb.ways.value, _divisors(tlb.entries.value))
        yield f"pages.tlb[{place}].ways = {tlb.ways.value}: does not divide {tlb.entries.value} entries; {near}"


MAX_STREAMS = 63  # the simulator's StreamPrefetcher stores two directions per stream in a set of at most 126


def _check_prefetcher(machine: DescribedMachine) -> Checks:
    if machine.prefetcher is None:
        return
    streams, last = getattr(machine.prefetcher.streams, "value", 0), len(machine.cache) - 1
    if streams > MAX_STREAMS:
        yield f"prefetcher.streams = {streams}: more than are simulated; nearest: {MAX_STREAMS}"
    if (level := machine.prefetcher.level.value) > last:
        yield f"prefetcher.level = {level}: there are {last + 1} caches, counted from 0; nearest: {last}"


def _check_node_sections(machine: DescribedMachine) -> Checks:
    together = ("nic", "network", "messaging")
    if getattr(machine, "nic", True) or getattr(machine, "network", True):
        yield from (_missing_key_sentence(name) for name in together if getattr(machine, name, True) is None)
    yield _check_network_shape(machine)
    if machine.nic:
        yield _check_policy(machine.nic, machine.cache)


def _check_network_shape(machine: DescribedMachine) -> Checks:
    if machine.network:
        yield _check_topology("network", machine.network, "nodes_per_router", machine.network.max_nodes.value)


def _check_policy(nic: Nic, caches: list[Cache]) -> Checks:
    policy = nic.policy.value if nic.policy else "memory"
    fits = [known.name for known in simulation.policies() if known.levels <= len(caches)]
    if policy not in fits:
        yield f"nic.policy = '{policy}': there are only {len(caches)} caches; valid: {', '.join(fits)}"
    if nic.policy_ways and nic.policy is None:
        yield _missing_key_sentence("nic.policy")
    maximum = max(cache.ways.value for cache in caches)
    if nic.policy_ways and nic.policy_ways.value > maximum:
        yield f"nic.policy_ways = {nic.policy_ways.value}: no cache has more than {maximum}; nearest: {maximum}"


# Topology -> minimum and maximum length of `shape`; other topologies have no shape.
SHAPE_LENGTHS = {"torus": (1, 8), "fat-tree": (1, 8), "dragonfly": (3, 3)}


def _check_topology(key: str, table: Network | Links, count_key: str, nodes: int) -> Checks:
    """Yields the errors of topology and shape in [network] or [links]. `count_key` is the key with the number of nodes
    or hubs per router, and `nodes` the total number of nodes or hubs."""
    name, shape = table.topology.value, table.shape.value if table.shape else []
    per_router = given.value if (given := getattr(table, count_key)) else 1
    count = "network.max_nodes" if key == "network" else "hubs"
    low, high = SHAPE_LENGTHS.get(name, (0, 0))
    if not low <= len(shape) <= high:
        words = "has no shape; leave it out" if high == 0 else f"needs {low if low == high else '1 to 8'} numbers"
        yield f"{key}.shape = {shape}: the topology '{name}' {words}"
        return
    if name == "dragonfly" and per_router not in (1, shape[1]):
        yield f"{key}.{count_key} = {per_router}: the shape says {shape[1]}; leave it out"
    if shape:
        room = math.prod(shape) * (1 if name == "dragonfly" else per_router)
        if nodes > room:
            yield f"{count} = {nodes}: a {name} of shape {shape} has {room} nodes; nearest: {room}"
    if name == "hypercube":
        routers = -(-nodes // per_router)
        if nodes % per_router or routers & (routers - 1):
            valid = [count * per_router for count in _powers_of_two(routers)]
            yield f"{count} = {nodes}: not a hypercube of {per_router} a router; {_nearest_choice(nodes, valid)}"


# Protocol -> keys that the simulation of the protocol requires.
KEYS_OF_PROTOCOLS: dict[str, dict[str, tuple[str, ...]]] = {
    "network": {
        "eager-rendezvous": ("eager_bytes", "register_ns"),
        "buffered": ("eager_bytes",),
        "synchronous": ("eager_bytes",),
    },
    "node": {
        "copy-in-copy-out": ("node_eager_bytes", "ring_bytes"),
        "single-copy": ("node_eager_bytes", "system_call_ns"),
    },
}


def _check_messaging(machine: DescribedMachine) -> Checks:
    if machine.messaging is not None:
        yield _check_protocol(machine, machine.messaging, "network")
        yield _check_protocol(machine, machine.messaging, "node")


def _check_protocol(machine: DescribedMachine, messaging: Messaging, where: str) -> Checks:
    protocol = getattr(messaging, where)
    if protocol is None and (machine.network if where == "network" else machine.cores and machine.cores.value > 1):
        yield _missing_key_sentence(f"messaging.{where}")
    for name in KEYS_OF_PROTOCOLS[where].get(protocol.value, ()) if protocol else ():
        if getattr(messaging, name, True) is None:
            yield _missing_key_sentence(f"messaging.{name}")


CHECKS = (
    _check_caches,
    _check_levels,
    _check_sharing,
    _check_transfers,
    _check_memory,
    _check_links,
    _check_pages,
    _check_prefetcher,
    _check_node_sections,
    _check_messaging,
)


# ---- nearest valid choices, for the ends of sentences


def _nearest_choice(value: int, valid: Iterable[int]) -> str:
    return f"nearest: {min(valid, key=lambda choice: (abs(choice - value), choice))}"


def _powers_of_two(value: int) -> list[int]:
    below = 1 << max(0, value.bit_length() - 1)
    return [below, 2 * below]


def _divisors(value: int) -> list[int]:
    small = [n for n in range(1, math.isqrt(value) + 1) if value % n == 0]
    return sorted({*small, *(value // n for n in small)})
