"""The schema of machines/NAME.toml. Each table corresponds to a struct of src/machine/machine.hpp, and each key to one
of its members. tests/support/doc_tables.py generates the table in docs/reference/machine.md from this schema. If a key
is absent, the struct's member keeps its default, which means that the machine lacks that part."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from pydantic.fields import FieldInfo

from nearfield._native import memory
from nearfield.base.toml import Table
from nearfield.machine import quantity as q
from nearfield.machine.communication import Communication


def _required_field(description: str, **constraints: Any) -> Any:
    return Field(description=description, **constraints)


def _optional_field(description: str, requirement: str = "") -> Any:
    """Returns the field of an optional key. `requirement` says, as human-readable text, in which machines the key is
    required; nearfield.machine.checks enforces it."""
    return Field(
        default=None, description=description, json_schema_extra={"needed": requirement} if requirement else None
    )


def requirement_of(info: FieldInfo) -> str:
    """Returns, as human-readable text, in which machines an optional key is required; empty if it is never required."""
    extra = info.json_schema_extra
    return str(extra["needed"]) if isinstance(extra, dict) and "needed" in extra else ""


class Core(Table):
    """The speed of one core."""

    clock_ghz: q.Ghz = _required_field("cycles per ns")
    cycles_per_access: q.Cycles = _required_field("of one load or store that hits the nearest cache, others in flight")
    outstanding_misses: q.Count = _required_field("of one core, at a time")
    outstanding_bypass: q.Count | None = _optional_field(
        "the same of accesses past the caches; absent: as outstanding_misses"
    )
    window: q.Count | None = _optional_field(
        "instructions in flight behind a load that waits for its data; absent: no limit"
    )
    flops_per_cycle: q.Rate | None = _optional_field(
        "floating-point instructions that need no other's result; absent: no limit"
    )
    flop_latency_cycles: q.Cycles | None = _optional_field(
        "from one to the next that needs its result; absent: no time"
    )
    mispredict_cycles: q.Cycles | None = _optional_field(
        "lost by a branch that the core predicts wrongly, after its condition is known; absent: no time"
    )
    copy_bytes_per_cycle: q.Rate | None = _optional_field(
        "of a copying loop in the nearest cache; absent: words of 8 bytes, two accesses each"
    )
    clock_reading_ns: q.Ns | None = _optional_field(
        "of reading the clock, as scenarios do around what they time; absent: none"
    )


class Cache(Table):
    """All data or unified caches of one level."""

    size_bytes: q.Size = _required_field("of one of them")
    ways: q.Count = _required_field("associativity; size / line: fully associative")
    line_bytes: q.Size = _required_field("what one tag stands for; a multiple of the nearer cache's")
    sub_blocks: q.Count | None = _optional_field("parts of a line that are valid and dirty on their own; absent: 1")
    shared_by: q.Count = _required_field("cores per cache, of consecutive numbers")
    inclusion: q.Inclusion | None = _optional_field(
        "of what nearer caches hold: inclusive, exclusive (a victim cache) or neither; absent only from the nearest",
        requirement="beyond the nearest cache",
    )
    write: q.WritePolicy | None = _optional_field(
        "back (absent) or through: stores go on, and a miss does not fill this one"
    )
    replacement: q.ReplacementPolicy = _required_field("lru, tree-plru or random")
    latency_cycles: q.Cycles = _required_field("load-to-use, from the core")
    bytes_per_cycle: q.Rate | None = _optional_field("at most, into nearer caches; absent: no limit")


class Transfers(Table):
    """The costs of getting a line from another core's cache."""

    shared_cycles: q.Cycles | None = _optional_field(
        "from a cache below the same last-level cache",
        requirement="where more cores share the last cache than a nearer one",
    )
    remote_cycles: q.Cycles | None = _optional_field(
        "from below another last-level cache of the node", requirement="with several last-level caches"
    )
    upgrade_cycles: q.Cycles | None = _optional_field(
        "of the core, for a store to a line that another core's cache has, too; absent: no more than for other stores"
    )
    upgrade_miss_cycles: q.Cycles | None = _optional_field(
        "the same for a store that misses the nearest cache; absent: as upgrade_cycles"
    )
    outstanding: q.Count | None = _optional_field(
        "lines from other cores' caches that a core has in flight; absent: as core.outstanding_misses"
    )


class MemoryTier(Table):
    """Further memory of a node, such as HBM, or memory behind CXL. Its pages are spread evenly over all addresses."""

    name: str = _required_field("for people", min_length=1)
    latency_ns: q.Ns = _required_field("as memory.latency_ns")
    gb_per_s: q.Rate = _required_field("as memory.gb_per_s")
    share: q.Fraction = _required_field("of the pages; those that are in no tier lie in the DRAM")


class Memory(Table):
    """The DRAM of a node."""

    latency_ns: q.Ns = _required_field("of a load that no cache has, nothing else in flight; load-to-use")
    gb_per_s: q.Rate = _required_field("of one memory, cores and NIC together")
    shared_by: q.Count | None = _optional_field("cores per memory; absent: all", requirement="with remote_ns")
    remote_ns: q.Ns | None = _optional_field("extra latency from cores of another memory", requirement="with [links]")
    banks: q.Count | None = _optional_field(
        "that can be in flight at a time; absent: no conflicts", requirement="with the other keys of banks"
    )
    bank_interleave_bytes: q.Size | None = _optional_field(
        "the next bank begins after this number of bytes", requirement="with the other keys of banks"
    )
    bank_busy_ns: q.Ns | None = _optional_field(
        "between two accesses to one bank", requirement="with the other keys of banks"
    )
    gb_per_s_bypass: q.Rate | None = _optional_field(
        "of loads and stores past the caches, per core; absent: as gb_per_s"
    )
    tier: list[MemoryTier] = Field(
        default_factory=list, max_length=4, description="beside each memory; absent: all pages lie in the DRAM"
    )


class Socket(Table):
    """The connection of a socket to the rest of its node: links to other sockets, or a front-side bus."""

    gb_per_s: q.Rate = _required_field("of links, into one socket; of a bus, in and out together")
    shared_by: q.Count = _required_field("cores of a socket")
    carries: q.SocketTraffic | None = _optional_field(
        "remote (absent): links, for lines of their caches and memories; everything: a bus, for all memory"
    )


class Links(Table):
    """The links between the hubs of a node. A hub joins the cores of one memory, that memory with its coherence
    directory, and one link to a router."""

    topology: q.Topology = _required_field("of the routers: full, torus, hypercube, fat-tree or dragonfly")
    shape: q.Shape | None = _optional_field(
        "as network.shape", requirement="with topology torus, fat-tree or dragonfly"
    )
    hubs_per_router: q.Count | None = _optional_field("absent: 1")
    hop_ns: q.Ns = _required_field(
        "extra latency of memory for every router beyond the first, which memory.remote_ns contains"
    )
    gb_per_s: q.Rate = _required_field("of a link, each way")


class Tlb(Table):
    """One level of TLBs."""

    entries: q.Count = _required_field("pages it knows")
    ways: q.Count = _required_field("associativity; entries: fully associative")
    miss_cycles: q.Cycles = _required_field("extra cycles when a miss here hits the next TLB or walks the page table")


class Pages(Table):
    """The pages of ordinary memory."""

    page_bytes: q.Size = _required_field("of ordinary memory")
    placement: q.PagePlacement | None = _optional_field(
        "identity (absent): a page lies where its address says; random: anywhere"
    )
    fault_ns: q.Ns = _required_field("the first touch of a page")
    huge_fault_ns: q.Ns | None = _optional_field("the first touch of a huge page of 2 MiB; absent: as fault_ns")
    walkers: q.Count | None = _optional_field(
        "TLB misses of a core that are resolved at a time, while it goes on; absent: it waits for each"
    )
    tlb: list[Tlb] = Field(default_factory=list, max_length=4, description="nearest first; absent: no misses")


class Prefetcher(Table):
    """A stream prefetcher, which fetches lines ahead of their use."""

    streams: q.Count = _required_field("followed at a time, per core")
    distance_lines: q.Count = _required_field("how far ahead of the access")
    level: q.CacheIndex = _required_field("into which cache, counted from 0")
    outstanding: q.Count | None = _optional_field(
        "requests of its own in flight at a time; absent: they are among core.outstanding_misses"
    )
    start: q.StreamStart | None = _optional_field(
        "what a found stream fetches: one line, at the distance (absent), or all up to it; then uses advance it, too"
    )


class Nic(Table):
    """The network adapter of a node."""

    gb_per_s: q.Rate = _required_field("between memory and network, each way")
    dma_ns: q.Ns = _required_field("from the decision to write until the line is there")
    post_ns: q.Ns = _required_field("of the core: to tell the NIC of a message")
    event_bytes: q.Size = _required_field("of an entry of the event queue")
    event_entries: q.Count = _required_field("of the event queue")
    read_of_modified: q.DmaRead = _required_field(
        "what becomes of a modified line that is read: keep, clean or invalidate"
    )
    polling: q.Polling | None = _optional_field(
        "queue (absent): cores read a queue that the NIC writes events into; command: they ask it, and it answers"
    )
    policy: q.PlacementPolicy | None = _optional_field(
        "where it puts incoming bytes unless a run says otherwise; absent: memory", requirement="with policy_ways"
    )
    policy_ways: q.Count | None = _optional_field("of a set of that cache, that they may take; absent: any")


class Network(Table):
    """The network between the nodes."""

    topology: q.Topology = _required_field("full, torus, hypercube, fat-tree or dragonfly")
    shape: q.Shape | None = _optional_field(
        "torus: routers per dimension; fat-tree: children per level; "
        "dragonfly: routers per group, nodes per router, groups",
        requirement="with topology torus, fat-tree or dragonfly",
    )
    nodes_per_router: q.Count | None = _optional_field("absent: 1")
    max_nodes: q.Count = _required_field("that there are")
    latency_ns: q.Ns = _required_field("of the wire and the routers' fixed part, from NIC to NIC")
    hop_ns: q.Ns = _required_field("of every hop beyond the first")
    gap_ns: q.Ns = _required_field("between two messages of a NIC")
    link_gb_per_s: q.Rate = _required_field("each way")


class Messaging(Table):
    """The protocols of this machine's MPI and the sizes at which it changes them."""

    network: q.NetworkProtocol | None = _optional_field("protocol between nodes", requirement="with [network]")
    node: q.NodeProtocol | None = _optional_field("protocol inside a node", requirement="with several cores")
    eager_bytes: q.ByteLimit | None = _optional_field(
        "the longest eager message between nodes", requirement="with network eager-rendezvous, buffered or synchronous"
    )
    pieces: q.NodeProtocol | None = _optional_field(
        "protocol inside a node of long messages whose data are not contiguous; absent: as node"
    )
    min_pieces: q.Count | None = _optional_field("the least number of contiguous pieces of such a message; absent: 2")
    node_eager_bytes: q.ByteLimit | None = _optional_field(
        "the same inside a node", requirement="with node copy-in-copy-out or single-copy"
    )
    ring_bytes: q.Size | None = _optional_field(
        "of the ring that copy-in-copy-out goes through", requirement="with node copy-in-copy-out"
    )
    send_ns: q.Ns = _required_field("of the core, per call, apart from memory")
    receive_ns: q.Ns = _required_field("the same of a receive")
    match_ns: q.Ns = _required_field("of an arrived header")
    register_ns: q.Ns | None = _optional_field(
        "of memory for a zero-copy transfer, per page", requirement="with network eager-rendezvous"
    )
    system_call_ns: q.Ns | None = _optional_field("of a kernel's single copy", requirement="with node single-copy")
    copy_page_ns: q.Ns | None = _optional_field("of a kernel's single copy, for each page; absent: none")
    inline_bytes: q.ByteLimit | None = _optional_field(
        "the longest message inside a node that travels in the cache line that announces it; absent: 0"
    )
    unattended_bytes: q.ByteLimit | None = _optional_field(
        "the longest eager message inside a node whose send does not wait for the receiver; absent: no limit"
    )
    headers: q.PacketHeader | None = _optional_field(
        "inside a node: a packet's header is in the line that announces it (inline; absent), or in a list (separate)"
    )
    collectives: q.CollectiveAlgorithms | None = _optional_field(
        "whose algorithms collectives follow: mpich (absent), of 1.2.7, or openmpi, of 4.1 and 5.0"
    )
    piece_ns: q.Ns | None = _optional_field("of the core, for each contiguous piece of a datatype; absent: none")


HARDWARE_SECTIONS = ("cores", "core", "cache", "memory")  # a machine has all of these or none


class MachineTables(Table):
    """All keys of a machine file. `described.DescribedMachine` also requires that they are consistent (checks.py)."""

    schema_version: Literal[1] = _required_field("version of this format")
    name: str = _required_field("the file's name without .toml")
    title: str = _required_field("for people")
    study: str = _required_field("what the sources are sections of, if they name nothing else")
    references: dict[str, str] = Field(
        default_factory=dict, description="short name in sources -> what it is and where"
    )
    cores: q.Count | None = _optional_field("of one node", requirement="unless only messages are described")
    coherence: q.Coherence | None = _optional_field("between caches: mesi (absent) or moesi")
    core: Core | None = _optional_field("what one core does", requirement="unless only messages are described")
    cache: list[Cache] = Field(
        default_factory=list,
        max_length=memory.max_cache_levels,
        description="nearest first; data and unified ones",
        json_schema_extra={"needed": "unless only messages are described"},
    )
    transfers: Transfers | None = _optional_field(
        "from other cores' caches", requirement="with several cores that do not share every cache"
    )
    memory: Memory | None = _optional_field("main memory", requirement="unless only messages are described")
    socket: Socket | None = _optional_field("absent: what connects sockets limits nothing")
    links: Links | None = _optional_field(
        "absent: between memories of a node nothing is limited but what [socket] says"
    )
    pages: Pages | None = _optional_field("absent: pages cost nothing")
    prefetcher: Prefetcher | None = _optional_field("absent: there is none")
    nic: Nic | None = _optional_field("absent: one node only", requirement="with [network]")
    network: Network | None = _optional_field("absent: one node only", requirement="with [nic]")
    messaging: Messaging | None = _optional_field("its MPI", requirement="with [nic] or [network]")
    communication: Communication | None = _optional_field(
        "what messages cost, for `nearfield plan`", requirement="unless the rest can be simulated"
    )
