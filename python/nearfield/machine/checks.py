"""Checks the numbers of a described machine for consistency with each other. A check yields error messages, each of
which begins with the key and ends with the nearest valid choice; or it yields further checks. The schema already checks
the bounds of single numbers and the required keys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress

from nearfield._native import simulation
from nearfield.base.validation_errors import field_at, missing_key_message
from nearfield.machine.schema import (
    HARDWARE_SECTIONS,
    Cache,
    Links,
    MachineTables,
    Memory,
    Messaging,
    Network,
    Nic,
    Tlb,
    requirement_of,
)

Checks = Iterator["str | Checks"]  # a missing attribute ends only the innermost check


def find_contradictions(machine: MachineTables, *, is_partial: bool = False) -> list[str]:
    """Returns a sentence for every contradiction, in the order of the file.

    With `is_partial`, the machine may lack attributes that the schema requires, because their keys are missing or wrong
    in the file; the caller reports those keys. A check that needs a missing attribute ends there; the other checks
    continue."""
    contradictions = list(_find_missing_sections(machine))
    if not any(getattr(machine, name, True) for name in HARDWARE_SECTIONS):
        return contradictions
    is_partial = is_partial or bool(contradictions)
    for check in MACHINE_CHECKS:
        _append_sentences(check(machine), contradictions, is_partial)
    return contradictions


def _append_sentences(check: Checks, sentences: list[str], is_partial: bool) -> None:
    """Appends the sentences of a check, and of the checks that it yields, to `sentences`. With `is_partial`, a missing
    attribute ends the check without an error."""
    with suppress(*MISSING_ATTRIBUTE_ERRORS) if is_partial else nullcontext():
        for one in check:
            if isinstance(one, str):
                sentences.append(one)  # one at a time, so that sentences before a missing attribute remain
            else:
                _append_sentences(one, sentences, is_partial)


# Exceptions by which a check fails at a missing attribute.
MISSING_ATTRIBUTE_ERRORS = (AttributeError, AssertionError, IndexError, ValueError)


def _find_missing_sections(machine: MachineTables) -> Iterator[str]:
    """Yields an error message for each section that is missing although another section requires it."""
    others = ("coherence", "transfers", "links", "pages", "prefetcher", "nic", "network", "messaging")
    present_sections = [name for name in (*HARDWARE_SECTIONS, *others) if getattr(machine, name, True)]
    if present_sections:
        yield from (_missing_key_sentence(name) for name in HARDWARE_SECTIONS if name not in present_sections)
    elif getattr(machine, "communication", True) is None:
        yield "there is nothing in it: give [communication], or cores, [core], [[cache]] and [memory], or both"


def _missing_key_sentence(key: str) -> str:
    """Returns the sentence for a missing key, including in which machines the schema requires the key."""
    location = tuple(int(part) if part.isdecimal() else part for part in re.findall(r"\w+", key))
    info = field_at(MachineTables, location)
    return missing_key_message(MachineTables, location, requirement_of(info) if info else "")


def _check_caches(machine: MachineTables) -> Checks:
    for place, cache in enumerate(machine.cache):
        for check in (_check_line_size, _check_divisible_size, _check_sub_blocks, _check_replacement):
            yield check(f"cache[{place}]", cache)


def _check_line_size(key: str, cache: Cache) -> Checks:
    line = cache.line_bytes.value
    if line & (line - 1):
        yield f"{key}.line_bytes = {line}: not a power of two; {_format_nearest(line, _near_powers_of_two(line))}"


def _check_divisible_size(key: str, cache: Cache) -> Checks:
    size, ways, line = cache.size_bytes.value, cache.ways.value, cache.line_bytes.value
    if size % (ways * line):
        step = ways * line
        near = {max(1, size // step) * step, (size // step + 1) * step}
        yield f"{key}.size_bytes = {size}: not divisible by {ways} ways x {line} bytes; {_format_nearest(size, near)}"


def _check_sub_blocks(key: str, cache: Cache) -> Checks:
    if cache.sub_blocks is None:
        return
    parts = cache.sub_blocks.value
    if parts > 1 and cache.inclusion and cache.inclusion.value == "inclusive":
        yield f"{key}.inclusion = 'inclusive': a cache with sub_blocks cannot be; valid: exclusive, neither"
    line = cache.line_bytes.value
    if line % parts:
        choice = _format_nearest(parts, _divisors(line))
        yield f"{key}.sub_blocks = {parts}: does not divide a line of {line} bytes; {choice}"


def _check_replacement(key: str, cache: Cache) -> Checks:
    ways = cache.ways.value
    if cache.replacement.value == "tree-plru" and ways & (ways - 1):
        choice = _format_nearest(ways, _near_powers_of_two(ways))
        yield f"{key}.ways = {ways}: tree-plru needs a power of two; {choice}, or lru"


def _check_levels(machine: MachineTables) -> Checks:
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
    min_cycles = inner.latency_cycles.value
    if outer.latency_cycles.value < min_cycles:
        yield f"{key}.latency_cycles = {outer.latency_cycles.value:g}: nearer caches take {min_cycles:g}; at least that"


def _check_capacity_for_inclusion(key: str, outer: Cache, index: int, inner: Cache) -> Checks:
    """Yields an error if an inclusive cache is smaller than the nearer caches whose lines it must include."""
    children = outer.shared_by.value // inner.shared_by.value
    included_bytes = children * inner.size_bytes.value
    victim = inner.inclusion is not None and inner.inclusion.value == "exclusive"
    if not victim and outer.size_bytes.value < included_bytes:
        yield (
            f"{key}.size_bytes = {outer.size_bytes.value}: inclusive, but smaller than the {children} of "
            f"cache[{index}] that it includes; nearest: {included_bytes}"
        )


def _shared_by_values(machine: MachineTables) -> Iterator[tuple[str, int]]:
    """Yields (key, number of cores) for every key that states how many cores share a cache or a memory. Skips values
    that are missing or wrong."""
    for place, cache in enumerate(machine.cache):
        with suppress(*MISSING_ATTRIBUTE_ERRORS):
            yield f"cache[{place}].shared_by", cache.shared_by.value
    with suppress(*MISSING_ATTRIBUTE_ERRORS):
        if machine.memory and machine.memory.shared_by:
            yield "memory.shared_by", machine.memory.shared_by.value


def _check_sharing(machine: MachineTables) -> Checks:
    assert machine.cores
    cores, nearer_share = machine.cores.value, 1
    for key, share in _shared_by_values(machine):
        valid = [n for n in _divisors(cores) if n % nearer_share == 0]
        if cores % share:
            yield f"{key} = {share}: does not divide {cores} cores; {_format_nearest(share, valid)}"
        elif share % nearer_share and key != "memory.shared_by":
            choice = _format_nearest(share, valid)
            yield f"{key} = {share}: not a multiple of the {nearer_share} cores of a nearer cache; {choice}"
        elif key != "memory.shared_by":
            nearer_share = share


def _check_transfers(machine: MachineTables) -> Checks:
    yield _check_shared_transfers(machine)
    yield _check_remote_transfers(machine)


def _check_shared_transfers(machine: MachineTables) -> Checks:
    last = machine.cache[-1].shared_by.value
    below = any(share < last for key, share in _shared_by_values(machine) if key != "memory.shared_by")
    if below and not (machine.transfers and machine.transfers.shared_cycles):
        yield _missing_key_sentence("transfers.shared_cycles")


def _check_remote_transfers(machine: MachineTables) -> Checks:
    assert machine.cores
    if machine.cache[-1].shared_by.value < machine.cores.value and not (
        machine.transfers and machine.transfers.remote_cycles
    ):
        yield _missing_key_sentence("transfers.remote_cycles")


def _check_memory(machine: MachineTables) -> Checks:
    assert machine.memory
    yield _check_memory_latency(machine)
    yield _check_banks(machine.memory)
    yield _check_tiers(machine)
    if machine.memory.remote_ns and not machine.memory.shared_by:
        yield _missing_key_sentence("memory.shared_by")


def _check_memory_latency(machine: MachineTables) -> Checks:
    assert machine.memory and machine.core
    latency_ns, last = machine.memory.latency_ns.value, machine.cache[-1]
    last_ns = last.latency_cycles.value / machine.core.clock_ghz.value
    if latency_ns < last_ns:
        yield f"memory.latency_ns = {latency_ns:g}: the last cache takes {last_ns:.3g} ns; at least that"


def _check_tiers(machine: MachineTables) -> Checks:
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
    values = [getattr(memory, name, True) for name in names]
    if any(values):
        yield from (
            _missing_key_sentence(f"memory.{name}") for name, value in zip(names, values, strict=True) if value is None
        )


MAX_HUBS = 16  # the simulator gives each hub's memory 8 GiB of a node's 128 GiB


def _check_links(machine: MachineTables) -> Checks:
    if machine.links is None:
        return
    assert machine.memory
    if machine.memory.remote_ns is None:
        yield _missing_key_sentence("memory.remote_ns")
    if machine.memory.shared_by is not None:  # otherwise _check_memory reports the missing key
        yield _check_hubs(machine, machine.links)


def _check_hubs(machine: MachineTables, links: Links) -> Checks:
    assert machine.cores and machine.memory and machine.memory.shared_by
    share = machine.memory.shared_by.value
    hubs = machine.cores.value // share
    if hubs > MAX_HUBS:
        min_share = -(-machine.cores.value // MAX_HUBS)
        yield f"memory.shared_by = {share}: {hubs} hubs, {MAX_HUBS} at most; nearest: {min_share}"
    yield _check_topology("links", links, "hubs_per_router", hubs)


def _check_pages(machine: MachineTables) -> Checks:
    if machine.pages is None:
        return
    for place, tlb in enumerate(machine.pages.tlb):
        yield _check_tlb(place, tlb)
    size = machine.pages.page_bytes.value
    if size & (size - 1):
        yield f"pages.page_bytes = {size}: not a power of two; {_format_nearest(size, _near_powers_of_two(size))}"
    line = max(cache.line_bytes.value for cache in machine.cache)
    if size < line:
        yield f"pages.page_bytes = {size}: smaller than a cache line; nearest: {line}"


def _check_tlb(index: int, tlb: Tlb) -> Checks:
    if tlb.entries.value % tlb.ways.value:
        near = _format_nearest(tlb.ways.value, _divisors(tlb.entries.value))
        yield f"pages.tlb[{index}].ways = {tlb.ways.value}: does not divide {tlb.entries.value} entries; {near}"


MAX_STREAMS = 63  # the simulator's StreamPrefetcher stores two directions per stream in a set of at most 126


def _check_prefetcher(machine: MachineTables) -> Checks:
    if machine.prefetcher is None:
        return
    streams, last = getattr(machine.prefetcher.streams, "value", 0), len(machine.cache) - 1
    if streams > MAX_STREAMS:
        yield f"prefetcher.streams = {streams}: more than are simulated; nearest: {MAX_STREAMS}"
    if (level := machine.prefetcher.level.value) > last:
        yield f"prefetcher.level = {level}: there are {last + 1} caches, counted from 0; nearest: {last}"


def _check_node_sections(machine: MachineTables) -> Checks:
    together = ("nic", "network", "messaging")
    if getattr(machine, "nic", True) or getattr(machine, "network", True):
        yield from (_missing_key_sentence(name) for name in together if getattr(machine, name, True) is None)
    yield _check_network_shape(machine)
    if machine.nic:
        yield _check_policy(machine.nic, machine.cache)


def _check_network_shape(machine: MachineTables) -> Checks:
    if machine.network:
        yield _check_topology("network", machine.network, "nodes_per_router", machine.network.max_nodes.value)


def _check_policy(nic: Nic, caches: list[Cache]) -> Checks:
    policy = nic.policy.value if nic.policy else "memory"
    valid_names = [known_policy.name for known_policy in simulation.policies() if known_policy.levels <= len(caches)]
    if policy not in valid_names:
        yield f"nic.policy = '{policy}': there are only {len(caches)} caches; valid: {', '.join(valid_names)}"
    if nic.policy_ways and nic.policy is None:
        yield _missing_key_sentence("nic.policy")
    maximum = max(cache.ways.value for cache in caches)
    if nic.policy_ways and nic.policy_ways.value > maximum:
        yield f"nic.policy_ways = {nic.policy_ways.value}: no cache has more than {maximum}; nearest: {maximum}"


# Topology -> minimum and maximum length of `shape`; other topologies have no shape.
SHAPE_LENGTH_RANGE_BY_TOPOLOGY = {"torus": (1, 8), "fat-tree": (1, 8), "dragonfly": (3, 3)}


def _check_topology(key: str, table: Network | Links, count_key: str, num_nodes: int) -> Checks:
    """Yields the errors of topology and shape in [network] or [links]. `count_key` is the key with the number of nodes
    or hubs per router, and `num_nodes` the total number of nodes or hubs."""
    name, shape = table.topology.value, table.shape.value if table.shape else []
    per_router = count_fact.value if (count_fact := getattr(table, count_key)) else 1
    count = "network.max_nodes" if key == "network" else "hubs"
    low, high = SHAPE_LENGTH_RANGE_BY_TOPOLOGY.get(name, (0, 0))
    if not low <= len(shape) <= high:
        problem = "has no shape; leave it out" if high == 0 else f"needs {low if low == high else '1 to 8'} numbers"
        yield f"{key}.shape = {shape}: the topology '{name}' {problem}"
        return
    if name == "dragonfly" and per_router not in (1, shape[1]):
        yield f"{key}.{count_key} = {per_router}: the shape says {shape[1]}; leave it out"
    if shape:
        max_nodes = math.prod(shape) * (1 if name == "dragonfly" else per_router)
        if num_nodes > max_nodes:
            yield f"{count} = {num_nodes}: a {name} of shape {shape} has {max_nodes} nodes; nearest: {max_nodes}"
    if name == "hypercube":
        routers = -(-num_nodes // per_router)
        if num_nodes % per_router or routers & (routers - 1):
            near = _format_nearest(num_nodes, [power * per_router for power in _near_powers_of_two(routers)])
            yield f"{count} = {num_nodes}: not a hypercube of {per_router} a router; {near}"


# Protocol -> keys that the simulation of the protocol requires.
REQUIRED_KEYS_BY_PROTOCOL: dict[str, dict[str, tuple[str, ...]]] = {
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


def _check_messaging(machine: MachineTables) -> Checks:
    if machine.messaging is not None:
        yield _check_protocol(machine, machine.messaging, "network")
        yield _check_protocol(machine, machine.messaging, "node")


def _check_protocol(machine: MachineTables, messaging: Messaging, scope: str) -> Checks:
    protocol = getattr(messaging, scope)
    if protocol is None and (machine.network if scope == "network" else machine.cores and machine.cores.value > 1):
        yield _missing_key_sentence(f"messaging.{scope}")
    for name in REQUIRED_KEYS_BY_PROTOCOL[scope].get(protocol.value, ()) if protocol else ():
        if getattr(messaging, name, True) is None:
            yield _missing_key_sentence(f"messaging.{name}")


MACHINE_CHECKS = (
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


def _format_nearest(value: int, valid: Iterable[int]) -> str:
    return f"nearest: {min(valid, key=lambda choice: (abs(choice - value), choice))}"


def _near_powers_of_two(value: int) -> list[int]:
    below = 1 << max(0, value.bit_length() - 1)
    return [below, 2 * below]


def _divisors(value: int) -> list[int]:
    small = [n for n in range(1, math.isqrt(value) + 1) if value % n == 0]
    return sorted({*small, *(value // n for n in small)})
