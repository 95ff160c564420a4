"""The schema of machines/NAME.toml. Each table corresponds to a struct of src/machine/machine.hpp, and each key to one
of its members. tests/support/doc_tables.py generates the table in docs/reference/machine.md from this schema. An absent
key leaves the struct's default: the machine lacks that part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic.fields import FieldInfo

from nearfield._native import memory
from nearfield.base.toml import Table
from nearfield.base.validation_errors import ValidationErrors
from nearfield.machine import quantity as q
from nearfield.machine.communication import Communication


def _key(description: str, **constraints: Any) -> Any:
    return Field(description=description, **constraints)


def _optional(description: str, needed: str = "") -> Any:
    """Returns the field of an optional key. `needed` states, as text for people, in which machines the key is required;
    nearfield.machine.checks enforces that."""
    return Field(default=None, description=description, json_schema_extra={"needed": needed} if needed else None)


def requirement_of(info: FieldInfo) -> str:
    """Returns in which machines an optional key is required, as text for people; empty if in none."""
    extra = info.json_schema_extra
    return str(extra["needed"]) if isinstance(extra, dict) and "needed" in extra else ""


class Core(Table):
    """The speed of one core."""

    clock_ghz: q.Ghz = _key("cycles per ns")
    cycles_per_access: q.Cycles = _key("of one load or store that hits the nearest cache, others in flight")
    outstanding_misses: q.Count = _key("of one core, at a time")
    outstanding_bypass: q.Count | None = _optional(
        "the same of accesses past the caches; absent: as outstanding_misses"
    )
    window: q.Count | None = _optional("instructions in flight behind a load that waits for its data; absent: no limit")
    flops_per_cycle: q.Rate | None = _optional(
        "floating-point instructions that need no other's result; absent: no limit"
    )
    flop_latency_cycles: q.Cycles | None = _optional("from one to the next that needs its result; absent: no time")
    mispredict_cycles: q.Cycles | None = _optional(
        "lost by a branch that the core predicts wrongly, after its condition is known; absent: no time"
    )
    copy_bytes_per_cycle: q.Rate | None = _optional(
        "of a copying loop in the nearest cache; absent: words of 8 bytes, two accesses each"
    )
    clock_reading_ns: q.Ns | None = _optional(
        "of reading the clock, as scenarios do around what they time; absent: none"
    )


class Cache(Table):
    """All data or unified caches of one level."""

    size_bytes: q.Size = _key("of one of them")
    ways: q.Count = _key("associativity; size / line: fully associative")
    line_bytes: q.Size = _key("what one tag stands for; a multiple of the nearer cache's")
    sub_blocks: q.Count | None = _optional("parts of a line that are valid and dirty on their own; absent: 1")
    shared_by: q.Count = _key("cores per cache, of consecutive numbers")
    inclusion: q.Inclusion | None = _optional(
        "of what nearer caches hold: inclusive, exclusive (a victim cache) or neither; absent only from the nearest",
        needed="beyond the nearest cache",
    )
    write: q.Write | None = _optional("back (absent) or through: stores go on, and a miss does not fill this one")
    replacement: q.Replacement = _key("lru, tree-plru or random")
    latency_cycles: q.Cycles = _key("load-to-use, from the core")
    bytes_per_cycle: q.Rate | None = _optional("at most, into nearer caches; absent: no limit")


class Transfers(Table):
    """The costs of getting a line from another core's cache."""

    shared_cycles: q.Cycles | None = _optional(
        "from a cache below the same last-level cache", needed="where more cores share the last cache than a nearer one"
    )
    remote_cycles: q.Cycles | None = _optional(
        "from below another last-level cache of the node", needed="with several last-level caches"
    )
    upgrade_cycles: q.Cycles | None = _optional(
        "of the core, for a store to a line that another core's cache has, too; absent: no more than for other stores"
    )
    upgrade_miss_cycles: q.Cycles | None = _optional(
        "the same for a store that misses the nearest cache; absent: as upgrade_cycles"
    )
    outstanding: q.Count | None = _optional(
        "lines from other cores' caches that a core has in flight; absent: as core.outstanding_misses"
    )


class MemoryTier(Table):
    """Further memory of a node, such as HBM, or memory behind CXL. Its pages are spread evenly over all addresses."""

    name: str = _key("for people", min_length=1)
    latency_ns: q.Ns = _key("as memory.latency_ns")
    gb_per_s: q.Rate = _key("as memory.gb_per_s")
    share: q.Share = _key("of the pages; those that are in no tier lie in the DRAM")


class Memory(Table):
    """The DRAM of a node."""

    latency_ns: q.Ns = _key("of a load that no cache has, nothing else in flight; load-to-use")
    gb_per_s: q.Rate = _key("of one memory, cores and NIC together")
    shared_by: q.Count | None = _optional("cores per memory; absent: all", needed="with remote_ns")
    remote_ns: q.Ns | None = _optional("extra latency from cores of another memory", needed="with [links]")
    banks: q.Count | None = _optional(
        "that can be in flight at a time; absent: no conflicts", needed="with the other keys of banks"
    )
    bank_interleave_bytes: q.Size | None = _optional(
        "the next bank begins after this number of bytes", needed="with the other keys of banks"
    )
    bank_busy_ns: q.Ns | None = _optional("between two accesses to one bank", needed="with the other keys of banks")
    gb_per_s_bypass: q.Rate | None = _optional("of loads and stores past the caches, per core; absent: as gb_per_s")
    tier: list[MemoryTier] = Field(
        default_factory=list, max_length=4, description="beside each memory; absent: all pages lie in the DRAM"
    )


class Socket(Table):
    """What connects a socket to the rest of its node: links to other sockets, or a front-side bus."""

    gb_per_s: q.Rate = _key("of links, into one socket; of a bus, in and out together")
    shared_by: q.Count = _key("cores of a socket")
    carries: q.SocketTraffic | None = _optional(
        "remote (absent): links, for lines of their caches and memories; everything: a bus, for all memory"
    )


class Links(Table):
    """The links between the hubs of a node. A hub joins the cores of one memory, that memory with its coherence
    directory, and one link to a router."""

    topology: q.Topology = _key("of the routers: full, torus, hypercube, fat-tree or dragonfly")
    shape: q.Shape | None = _optional("as network.shape", needed="with topology torus, fat-tree or dragonfly")
    hubs_per_router: q.Count | None = _optional("absent: 1")
    hop_ns: q.Ns = _key("extra latency of memory for every router beyond the first, which memory.remote_ns contains")
    gb_per_s: q.Rate = _key("of a link, each way")


class Tlb(Table):
    """One level of TLBs."""

    entries: q.Count = _key("pages it knows")
    ways: q.Count = _key("associativity; entries: fully associative")
    miss_cycles: q.Cycles = _key("extra cycles when a miss here hits the next TLB or walks the page table")


class Pages(Table):
    """The pages of ordinary memory."""

    page_bytes: q.Size = _key("of ordinary memory")
    placement: q.PagePlacement | None = _optional(
        "identity (absent): a page lies where its address says; random: anywhere"
    )
    fault_ns: q.Ns = _key("the first touch of a page")
    huge_fault_ns: q.Ns | None = _optional("the first touch of a huge page of 2 MiB; absent: as fault_ns")
    walkers: q.Count | None = _optional(
        "TLB misses of a core that are resolved at a time, while it goes on; absent: it waits for each"
    )
    tlb: list[Tlb] = Field(default_factory=list, max_length=4, description="nearest first; absent: no misses")


class Prefetcher(Table):
    """A stream prefetcher, which fetches lines ahead of their use."""

    streams: q.Count = _key("followed at a time, per core")
    distance_lines: q.Count = _key("how far ahead of the access")
    level: q.Level = _key("into which cache, counted from 0")
    outstanding: q.Count | None = _optional(
        "requests of its own in flight at a time; absent: they are among core.outstanding_misses"
    )
    start: q.StreamStart | None = _optional(
        "what a found stream fetches: one line, at the distance (absent), or all up to it; then uses advance it, too"
    )


class Nic(Table):
    """The network adapter of a node."""

    gb_per_s: q.Rate = _key("between memory and network, each way")
    dma_ns: q.Ns = _key("from the decision to write until the line is there")
    post_ns: q.Ns = _key("of the core: to tell the NIC of a message")
    event_bytes: q.Size = _key("of an entry of the event queue")
    event_entries: q.Count = _key("of the event queue")
    read_of_modified: q.DmaRead = _key("what becomes of a modified line that is read: keep, clean or invalidate")
    polling: q.Polling | None = _optional(
        "queue (absent): cores read a queue that the NIC writes events into; command: they ask it, and it answers"
    )
    policy: q.Policy | None = _optional(
        "where it puts incoming bytes unless a run says otherwise; absent: memory", needed="with policy_ways"
    )
    policy_ways: q.Count | None = _optional("of a set of that cache, that they may take; absent: any")


class Network(Table):
    """The network between the nodes."""

    topology: q.Topology = _key("full, torus, hypercube, fat-tree or dragonfly")
    shape: q.Shape | None = _optional(
        "torus: routers per dimension; fat-tree: children per level; "
        "dragonfly: routers per group, nodes per router, groups",
        needed="with topology torus, fat-tree or dragonfly",
    )
    nodes_per_router: q.Count | None = _optional("absent: 1")
    max_nodes: q.Count = _key("that there are")
    latency_ns: q.Ns = _key("of the wire and the routers' fixed part, from NIC to NIC")
    hop_ns: q.Ns = _key("of every hop beyond the first")
    gap_ns: q.Ns = _key("between two messages of a NIC")
    link_gb_per_s: q.Rate = _key("each way")


class Messaging(Table):
    """The protocols of this machine's MPI and the sizes at which it changes them."""

    network: q.NetworkProtocol | None = _optional("protocol between nodes", needed="with [network]")
    node: q.NodeProtocol | None = _optional("protocol inside a node", needed="with several cores")
    eager_bytes: q.Limit | None = _optional(
        "the longest eager message between nodes", needed="with network eager-rendezvous, buffered or synchronous"
    )
    pieces: q.NodeProtocol | None = _optional(
        "protocol inside a node of long messages whose data are not contiguous; absent: as node"
    )
    min_pieces: q.Count | None = _optional("the least number of contiguous pieces of such a message; absent: 2")
    node_eager_bytes: q.Limit | None = _optional(
        "the same inside a node", needed="with node copy-in-copy-out or single-copy"
    )
    ring_bytes: q.Size | None = _optional(
        "of the ring that copy-in-copy-out goes through", needed="with node copy-in-copy-out"
    )
    send_ns: q.Ns = _key("of the core, per call, apart from memory")
    receive_ns: q.Ns = _key("the same of a receive")
    match_ns: q.Ns = _key("of an arrived header")
    register_ns: q.Ns | None = _optional(
        "of memory for a zero-copy transfer, per page", needed="with network eager-rendezvous"
    )
    system_call_ns: q.Ns | None = _optional("of a kernel's single copy", needed="with node single-copy")
    copy_page_ns: q.Ns | None = _optional("of a kernel's single copy, for each page; absent: none")
    inline_bytes: q.Limit | None = _optional(
        "the longest message inside a node that travels in the cache line that announces it; absent: 0"
    )
    unattended_bytes: q.Limit | None = _optional(
        "the longest eager message inside a node whose send does not wait for the receiver; absent: no limit"
    )
    headers: q.PacketHeader | None = _optional(
        "inside a node: a packet's header is in the line that announces it (inline; absent), or in a list (separate)"
    )
    collectives: q.CollectiveAlgorithms | None = _optional(
        "whose algorithms collectives follow: mpich (absent), of 1.2.7, or openmpi, of 4.1 and 5.0"
    )
    piece_ns: q.Ns | None = _optional("of the core, for each contiguous piece of a datatype; absent: none")


HARDWARE = ("cores", "core", "cache", "memory")  # a machine has all of these or none


class DescribedMachine(Table):
    """A machine as described by a file of machines/ or of the user."""

    schema_version: Literal[1] = _key("version of this format")
    name: str = _key("the file's name without .toml")
    title: str = _key("for people")
    study: str = _key("what the sources are sections of, if they name nothing else")
    references: dict[str, str] = Field(
        default_factory=dict, description="short name in sources -> what it is and where"
    )
    cores: q.Count | None = _optional("of one node", needed="unless only messages are described")
    coherence: q.Coherence | None = _optional("between caches: mesi (absent) or moesi")
    core: Core | None = _optional("what one core does", needed="unless only messages are described")
    cache: list[Cache] = Field(
        default_factory=list,
        max_length=memory.max_cache_levels,
        description="nearest first; data and unified ones",
        json_schema_extra={"needed": "unless only messages are described"},
    )
    transfers: Transfers | None = _optional(
        "from other cores' caches", needed="with several cores that do not share every cache"
    )
    memory: Memory | None = _optional("main memory", needed="unless only messages are described")
    socket: Socket | None = _optional("absent: what connects sockets limits nothing")
    links: Links | None = _optional("absent: between memories of a node nothing is limited but what [socket] says")
    pages: Pages | None = _optional("absent: pages cost nothing")
    prefetcher: Prefetcher | None = _optional("absent: there is none")
    nic: Nic | None = _optional("absent: one node only", needed="with [network]")
    network: Network | None = _optional("absent: one node only", needed="with [nic]")
    messaging: Messaging | None = _optional("its MPI", needed="with [nic] or [network]")
    communication: Communication | None = _optional(
        "what messages cost, for `nearfield plan`", needed="unless the rest can be simulated"
    )

    @property
    def simulable(self) -> bool:
        return self.core is not None

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yields only name and title, since the complete machine would be too long to print."""
        yield from (("name", self.name), ("title", self.title))

    @model_validator(mode="after")
    def _holds_together(self) -> DescribedMachine:
        from nearfield.machine.checks import find_contradictions  # checks imports the tables above

        if found := find_contradictions(self):
            raise ValidationErrors(found)
        return self
