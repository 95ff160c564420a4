"""The schema of machine.toml and run.toml. Each attribute is a key of the file, with its unit in the name.
tests/support/doc_tables.py generates the tables in docs/reference/profile.md from this schema. A key whose value is
unknown is absent from the file, and None here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
)

from nearfield.base.toml import Table

# These bounds leave room for future machines. A value beyond them means that the file is damaged.
Bytes = Annotated[int, Field(ge=0, le=1 << 60)]
Size = Annotated[int, Field(ge=1, le=1 << 44)]
Count = Annotated[int, Field(ge=1, le=1 << 20)]
Ghz = Annotated[float, Field(ge=0, le=100)]
Ns = Annotated[float, Field(ge=0, le=1e9)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]


def _required_field(description: str, **constraints: Any) -> Any:
    return Field(description=description, **constraints)


def _optional_field(description: str) -> Any:
    """Returns the field of a key that is absent from the file if its value is unknown."""
    return Field(default=None, description=description)


def _list_field(description: str) -> Any:
    """Returns the field of a list or table that is absent from the file if it is empty."""
    return Field(default_factory=list, description=description)


# ---- tables of machine.toml


class Cache(Table):
    """All caches of one level, kind and size."""

    level: PositiveInt = _required_field("1 is nearest to the core", le=15)
    kind: Literal["data", "unified", "instruction"] = _required_field("what it holds")
    size_bytes: Size = _required_field("capacity of one of them")
    ways: Count | None = _optional_field("associativity")
    line_bytes: Size | None = _optional_field("line length")
    shared_by: Count = _required_field("PUs that share one of them")
    count: Count = _required_field("how many the machine has")


class Memory(Table):
    """The memory of the machine."""

    total_bytes: Bytes | None = _optional_field("of all NUMA nodes; not in descriptions of machines")
    numa_nodes: Count = _required_field("how many")


class Pages(Table):
    """Page sizes of the machine, and the kernel's settings for huge pages."""

    base_bytes: Size = _required_field("size of an ordinary page")
    huge_bytes: Size | None = _optional_field("size of the huge page that transparent huge pages use")
    transparent: str | None = _optional_field("transparent huge pages of private memory: always, madvise or never")
    shmem: str | None = _optional_field("the same for shared memory: always, within_size, advise, never, deny or force")
    hugetlb_free: NonNegativeInt | None = _optional_field("huge pages set aside and free")


class MachineClock(Table):
    """The processor's time stamp counter."""

    tsc_ghz: Ghz | None = _optional_field("rate of the time stamp counter")


class Machine(Table):
    """The hardware of a machine, without measurements."""

    schema_version: Literal[1] = _required_field("version of this format")
    name: str = _required_field("the usual name of this machine; by default the host name")
    cpu_model: str = _required_field("as the processor names itself")
    cores: Count = _required_field("physical cores that may be used")
    pus: Count = _required_field("hardware threads that may be used")
    line_bytes: Size = _required_field("cache line that cores exchange")
    cache: list[Cache] = _list_field("one table per kind of cache, nearest first")
    memory: Memory = _required_field("main memory")
    pages: Pages = _required_field("page sizes and what the kernel does with them")
    clock: MachineClock = Field(default_factory=MachineClock, description="the processor's own clock")

    @property
    def data_caches(self) -> list[Cache]:
        """Returns the data and unified caches, L1 first."""
        return sorted((c for c in self.cache if c.kind != "instruction"), key=lambda c: c.level)

    @property
    def llc_bytes(self) -> int | None:
        """Returns the capacity of one last-level cache; None if no cache is known."""
        return self.data_caches[-1].size_bytes if self.data_caches else None

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yields only name, CPU model and cores, since the complete machine would be too long to print."""
        yield from (("name", self.name), ("cpu_model", self.cpu_model), ("cores", self.cores))


# ---- tables of run.toml


class Mpi(Table):
    """The MPI that was measured."""

    name: str = _required_field("the installation, as `nearfield mpi` lists it")
    family: Literal["openmpi", "mpich", "intel", "simulated"] = _required_field("whose MPI")
    version: str = _required_field("its version")
    library: str = _required_field("MPI_Get_library_version")
    transport: str | None = _optional_field("what carries messages inside a node")
    transport_reason: str | None = _optional_field("why the transport is not known")
    launcher: str = _required_field("program that started the ranks")
    variables: dict[str, int] = Field(
        default_factory=dict, description="the MPI's own thresholds: control variables read through MPI_T"
    )


class Host(Table):
    """The host on which the run was started, and its state."""

    name: str = _required_field("host name")
    kernel: str = _required_field("operating system and its version")
    cpus: list[NonNegativeInt] = _list_field("PUs that the run was allowed to use")
    governor: str | None = _optional_field("frequency governor")
    load_1m: NonNegativeFloat | None = _optional_field("load average when the run began")
    virtual: str | None = _optional_field("the hypervisor or container it ran in; absent on bare metal")


class RunClock(Table):
    """The clock with which times were measured."""

    resolution_ns: Ns | None = _optional_field("smallest step of the clock")
    overhead_ns: Ns | None = _optional_field("cost of reading it once; contained in every time")
    ticks_per_ns: Ghz | None = _optional_field("its rate")


class Calibration(Table):
    """The latencies that the sender of the first launch measured before any scenario. The states of buffers are judged
    by these latencies."""

    level_latency_ns: list[Ns] = _list_field("one load from L1, L2, ... the last level, the clock's overhead included")
    memory_latency_ns: Ns = _required_field("the same from memory")
    cached_limit_ns: Ns | None = _optional_field("loads up to this came from a cache; absent: no such limit was found")
    dirty_limit_ns: Ns | None = _optional_field(
        "flushing a line took longer than this: it was dirty; absent: clean and dirty lines do not differ"
    )
    common_clock: bool = _required_field("the ranks' clocks agree, so that they can start together")
    flag_ns: Ns = _required_field("half the fastest round trip of a flag; bounds the error of starting together")


class Place(Table):
    """A place of a pair: a range of core-to-core latency. A virtual machine's CPUs migrate between cores of the host,
    which changes the latency."""

    pair: str | None = _optional_field("the pair")
    distance: str | None = _optional_field("its distance")
    c2c_latency_ns: Ns = _required_field("the core-to-core latency there: half the fastest round trip of a flag")
    share: Annotated[float, Field(ge=0, le=1)] = _required_field("share of the visits to cases that were made there")
    used: bool = _required_field("the records of the pair are of this place; others are in no record")


LaunchState = Literal["complete", "stopped", "failed", "pending"]


class Launch(Table):
    """One launch of the measuring engine."""

    ranks: Count = _required_field("MPI processes")
    cpus: list[int] = _list_field("PU of each rank; -1: not bound")
    hosts: list[str] = _list_field("host of each rank; absent if all ran here")
    scenarios: list[str] = _list_field("what it was to measure")
    distance: str | None = _optional_field("distance of its pair")
    seconds: Seconds = _required_field("how long it took")
    state: LaunchState = _required_field(
        "complete, stopped (by Ctrl-C or the time budget), failed, or pending (not begun)"
    )
    reason: str | None = _optional_field("why it failed or was stopped")


SwitchKind = Literal["eager-limit", "unattended-limit", "single-copy", "step"]


class ProtocolSwitch(Table):
    """A message size at which the MPI's protocol or the trend of its times changes."""

    pair: str | None = _optional_field("the pair that showed it")
    distance: str | None = _optional_field("its distance")
    bytes: Bytes = _required_field("the largest message before the change")
    kind: SwitchKind = _required_field(
        "what changes beyond it: Send waits for the receive; Send waits until the receiver is inside MPI; "
        "the kernel copies; step: only the time changes"
    )
    name: str | None = _optional_field("the control variable that sets it")
    value: int | None = _optional_field("that variable's value")
    evidence: str | None = _optional_field("how it was found")


class SkippedMeasurement(Table):
    """A scenario that could not be measured."""

    scenario: str = _required_field("what was not measured")
    reason: str = _required_field("why")
    distance: str | None = _optional_field("where, if only there")


class ParameterInfo(Table):
    """A parameter of a scenario."""

    name: str = _required_field("a column of the records")
    summary: str = Field(default="", description="what it says")


class MetricInfo(Table):
    """A metric of a scenario."""

    name: str = _required_field("a value of the records' column metric")
    unit: str = _required_field("of its values")
    summary: str = Field(default="", description="what it says")


class Scenario(Table):
    """A scenario as the engine described it."""

    name: str = _required_field("a value of the records' column scenario")
    summary: str = _required_field("what it measures")
    parameters: list[ParameterInfo] = _list_field("what its cases differ in")
    metrics: list[MetricInfo] = _list_field(
        "what it measures in each case; other metrics of its records are diagnostics"
    )


class Run(Table):
    """The provenance of the records."""

    schema_version: Literal[1] = _required_field("version of this format")
    nearfield: str = _required_field("version of nearfield that measured")
    backend: Literal["live", "sim"] = Field(default="live", description="live: measured; sim: simulated")
    simulated: str | None = _optional_field("the described machine that was simulated")
    simulator: str | None = _optional_field("its version: the same one gives the same numbers")
    created: Annotated[AwareDatetime, Field(strict=False)] = _required_field("when the run began, with its time zone")
    tier: Literal["quick", "default", "full"] = _required_field("how thorough")
    command: str = _required_field("the command line")
    seconds: Seconds = _required_field("how long it took, all sittings together")
    complete: bool = _required_field("false: unfinished; `nearfield probe --resume` completes it")
    records_sha256: str | None = _optional_field("checksum of records.parquet; written by `save`")
    mpi: Mpi = _required_field("the MPI measured")
    host: Host = _required_field("where the run was started")
    clock: RunClock = Field(default_factory=RunClock, description="the clock that took the times")
    calibration: Calibration | None = Field(default=None, description="latencies by which buffer states are judged")
    disturbed_share: Annotated[float, Field(ge=0, le=1)] | None = _optional_field(
        "share of the repetitions during which something else used a core; set apart, in no record"
    )
    place: list[Place] = _list_field("one table per place of a pair's cores, the most frequent first")
    launch: list[Launch] = _list_field("one table per start of the engine")
    switch: list[ProtocolSwitch] = _list_field("one table per protocol switch found")
    skipped: list[SkippedMeasurement] = _list_field("one table per scenario that could not be measured")
    counters: dict[str, str] = Field(default_factory=dict, description='counter -> "available", or why it is not')
    scenario: list[Scenario] = _list_field("one table per scenario")
