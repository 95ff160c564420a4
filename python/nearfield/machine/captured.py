"""Turns the profile of a live machine into a described machine, so that the machine can be simulated.

Values that the profile measured are computed from its records; unstable ones carry their interval. Every other value is
a typical one, of kind "chosen", with the reason why it was not measured: no probe can measure it, the profile lacks it,
or the clock cannot resolve it. `nearfield machine show` lists the values, `nearfield machine new --from PROFILE` writes
a file in which they can be corrected, and `nearfield machine calibrate` measures most of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import ValidationError

from nearfield.base import own_command
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.frames import pl
from nearfield.base.validation_errors import error_messages, format_error_list
from nearfield.machine import quantity as q
from nearfield.machine import schema as s
from nearfield.machine.described import DescribedMachine
from nearfield.profile import Profile, records
from nearfield.profile import schema as profile_schema

if TYPE_CHECKING:
    from nearfield.profile.curves import Point
    from nearfield.profile.schema import Cache

Fact = TypeVar("Fact", bound=q.ValueFact)
NOT_MEASURABLE_REASON = "no probe can see it; usual value"
NOT_MEASURED_REASON = "not measured; usual value"  # of values that a probe can measure, but the profile lacks
MIN_CLOCK_STEPS = 5  # times of fewer clock steps may be wrong by more than a fifth and are not used


class PieceLimit(NamedTuple):
    """The number of contiguous pieces of a message from which an MPI no longer uses the kernel's single copy, and the
    source of that number."""

    min_pieces: int
    source: str


PIECE_LIMITS = {
    "openmpi": PieceLimit(2, "Open MPI's pml/ob1 lets the kernel copy only what is contiguous (pml_ob1_sendreq.h)"),
    "mpich": PieceLimit(1025, "MPICH lets the kernel copy at most IOV_MAX pieces (ch4/shm/ipc/cma/cma_post.h)"),
}
OPEN_MPI_HEADERS_SOURCE = (
    "Open MPI's FIFO of a rank has the address of a fragment, whose header follows (btl_sm_fifo.h)"
)
OPEN_MPI_COLLECTIVES_SOURCE = "Open MPI selects by coll/tuned (coll_tuned_decision_fixed.c)"
USUAL_LATENCY_CYCLES = (4, 14, 50, 80)  # usual latencies of L1, L2, ..., if calibration did not measure them
# Usual associativities. The first one that divides the cache size is used.
USUAL_WAY_COUNTS = (16, 12, 11, 10, 8, 4, 2, 1)
# Distances of pairs that share the last-level cache.
SHARED_CACHE_DISTANCES = ("same-core", "shared-l2", "shared-l3")


def machine_from_profile(profile: Profile, profile_name: str = "") -> DescribedMachine:
    """Returns the described machine. Raises UsageError if the profile lists no caches, without which nothing can be
    simulated, and ProfileError if its values do not form a valid machine. `profile_name` names the profile in error
    messages."""
    profile_name = profile_name or f"the profile {profile.path}"
    if not profile.machine.data_caches:
        raise UsageError(
            f"{profile_name} knows no caches, so it cannot be simulated",
            "Its machine.toml lacks [[cache]]: level, kind, size_bytes, shared_by and count.",
        )
    try:
        return _build_machine(profile)
    except ValidationError as error:
        errors = format_error_list(error_messages(error, DescribedMachine))
        raise ProfileError(
            f"{profile_name} is of no machine that can be simulated: {errors}",
            "Mend its machine.toml if it was edited by hand; otherwise measure anew with: "
            + own_command.command_line("probe"),
        ) from error


def unmeasured_profile(host: profile_schema.Machine) -> Profile:
    """Returns a profile without records, for a machine of which only the topology is known."""
    run = profile_schema.Run.model_construct(clock=profile_schema.RunClock(), calibration=None, switch=[])
    return Profile(Path(), host, run, records.from_rows([]), "")


def _build_machine(profile: Profile) -> DescribedMachine:
    machine = profile.machine
    source = "machine.toml: tsc_ghz; the time stamp counter's rate is near the cores'"
    clock = _derived_or_usual_fact(2.5, q.Ghz, machine.clock.tsc_ghz, source)
    caches = [_build_cache(profile, cache, place, clock.value) for place, cache in enumerate(machine.data_caches)]
    _raise_latencies_to_nearer_caches(caches)
    return DescribedMachine(
        schema_version=1,
        name=machine.name,
        title=f"{machine.cpu_model}, as measured",
        study=f"the profile {profile.path}",
        cores=_stated_fact(q.Count, machine.cores, "machine.toml: cores"),
        core=s.Core(
            clock_ghz=clock,
            cycles_per_access=_chosen_fact(q.Cycles, 1),
            outstanding_misses=_chosen_fact(q.Count, 12),
        ),
        cache=caches,
        transfers=_build_transfers(profile, caches, clock.value),
        memory=_build_memory(profile, caches, clock.value),
        pages=_build_pages(profile),
        messaging=_build_messaging(profile),
    )


def _stated_fact(fact_type: type[Fact], value: Any, source: str) -> Fact:
    return fact_type(value=value, source=source)


def _derived_fact(fact_type: type[Fact], value: Any, source: str) -> Fact:
    return fact_type(value=value, kind="derived", source=source)


def _chosen_fact(fact_type: type[Fact], value: Any, reason: str = NOT_MEASURABLE_REASON) -> Fact:
    return fact_type(value=value, kind="chosen", reason=reason, claims=[])


def _derived_or_usual_fact(
    usual_value: Any, fact_type: type[Fact], value: Any, source: str, reason: str = NOT_MEASURED_REASON
) -> Fact:
    """Returns the value as a derived fact if it is known (not None or 0); otherwise `usual_value` as a chosen fact with
    this reason."""
    return _derived_fact(fact_type, value, source) if value else _chosen_fact(fact_type, usual_value, reason)


def _measured_or_usual_fact(
    usual_value: Any, fact_type: type[Fact], point: Point | None, source: str, selector: str
) -> Fact:
    """Returns the point's value as a derived fact if the point is stable, otherwise as a fitted fact with its interval.
    Without a point, returns `usual_value` as a chosen fact. `selector` identifies the records to which the value was
    fitted."""
    if point is None or point.is_stable:
        return _derived_or_usual_fact(usual_value, fact_type, point and point.value, source)
    return fact_type(
        value=point.value,
        kind="fitted",
        interval=[point.low, point.high],
        probe=f"{source}; not stable",
        fitted_to=[selector],
    )


def _build_cache(profile: Profile, cache: Cache, index: int, clock_ghz: float) -> s.Cache:
    machine, where = profile.machine, f"machine.toml: level {cache.level}"
    line = cache.line_bytes or machine.line_bytes
    usual_ways = next(ways for ways in USUAL_WAY_COUNTS if cache.size_bytes % (ways * line) == 0 or ways == 1)
    latency_ns, reason = _cache_latency_ns(profile, index)
    usual = USUAL_LATENCY_CYCLES[min(index, len(USUAL_LATENCY_CYCLES) - 1)]
    return s.Cache(
        size_bytes=_stated_fact(q.Size, cache.size_bytes, where),
        ways=_stated_fact(q.Count, cache.ways, where) if cache.ways else _chosen_fact(q.Count, usual_ways),
        line_bytes=_stated_fact(q.Size, line, where),
        shared_by=_derived_fact(q.Count, max(1, cache.shared_by * machine.cores // machine.pus), f"{where}, in cores"),
        inclusion=_chosen_fact(q.Inclusion, "neither") if index else None,
        replacement=_chosen_fact(q.ReplacementPolicy, "lru"),
        latency_cycles=_derived_or_usual_fact(
            usual,
            q.Cycles,
            latency_ns and latency_ns * clock_ghz,
            "run.toml: level_latency_ns less the clock's overhead",
            reason,
        ),
    )


def _cache_latency_ns(profile: Profile, index: int) -> tuple[float | None, str]:
    """Returns (latency of a cache in ns, ''), or (None, reason) if calibration is missing or could not resolve the
    latency."""
    calibration, clock = profile.run.calibration, profile.run.clock
    if calibration is None or index >= len(calibration.level_latency_ns):
        return None, NOT_MEASURED_REASON
    latency_ns = calibration.level_latency_ns[index] - (clock.overhead_ns or 0.0)
    return (latency_ns, "") if _is_time_resolved(profile, latency_ns) else (None, _unresolved_reason(profile))


def _is_time_resolved(profile: Profile, time_ns: float) -> bool:
    """Returns whether the time exceeds MIN_CLOCK_STEPS steps of the profile's clock."""
    return time_ns > max(0.0, MIN_CLOCK_STEPS * (profile.run.clock.resolution_ns or 0.0))


def _unresolved_reason(profile: Profile) -> str:
    """Returns the reason why a usual value replaces a time that the clock's resolution is too coarse to measure."""
    clock = profile.run.clock
    steps = f"in steps of {clock.resolution_ns or 0:.3g} ns, {clock.overhead_ns or 0:.3g} ns a reading"
    return f"too short for this profile's clock ({steps}); usual value"


def _raise_latencies_to_nearer_caches(caches: list[s.Cache]) -> None:
    """Raises the latency of each cache to at least that of the next nearer cache. Timing of single loads can give a
    smaller latency."""
    for nearer, cache in zip(caches, caches[1:], strict=False):
        if cache.latency_cycles.value < nearer.latency_cycles.value:
            reason = (
                "measured as less than a nearer cache's"
                if cache.latency_cycles.kind == "derived"
                else NOT_MEASURED_REASON
            )
            cache.latency_cycles = _chosen_fact(
                q.Cycles, nearer.latency_cycles.value, f"{reason}; at least what that one takes"
            )


def _build_transfers(profile: Profile, caches: list[s.Cache], clock_ghz: float) -> s.Transfers | None:
    """Returns the costs of cache-to-cache transfers; the core-to-core latency is that of one line transfer. Returns
    None for a machine with one core."""
    last, cores = caches[-1].shared_by.value, profile.machine.cores
    usual = 2 * caches[-1].latency_cycles.value
    flags = _points_by_parameter(profile, "floor", "time", "distance", kind="flag")
    near_points = [point for distance, point in flags.items() if distance in SHARED_CACHE_DISTANCES]
    far_points = [
        point
        for distance, point in flags.items()
        if not (distance in SHARED_CACHE_DISTANCES or distance.startswith("network"))
    ]

    def cycles(points: list[Point]) -> q.Cycles:
        source = "floor: a flag's way, the farthest such distance"
        slowest = max(points, key=lambda point: point.value, default=None)
        slowest = slowest and slowest.scale_by(clock_ghz, "cycles")
        return _measured_or_usual_fact(usual, q.Cycles, slowest, source, "floor:time:kind=flag")

    if cores == 1:
        return None
    return s.Transfers(
        shared_cycles=cycles(near_points) if last > 1 else None,
        remote_cycles=cycles(far_points) if last < cores else None,
    )


def _build_memory(profile: Profile, caches: list[s.Cache], clock_ghz: float) -> s.Memory:
    machine, calibration = profile.machine, profile.run.calibration
    last_cache_ns = caches[-1].latency_cycles.value / clock_ghz
    latency_ns = calibration.memory_latency_ns - (profile.run.clock.overhead_ns or 0.0) if calibration else 0.0
    has_several_memories = machine.memory.numa_nodes > 1 and machine.cores % machine.memory.numa_nodes == 0
    is_latency_resolved = _is_time_resolved(profile, latency_ns)
    return s.Memory(
        latency_ns=_derived_fact(q.Ns, latency_ns, "run.toml: memory_latency_ns less the clock's overhead")
        if latency_ns > last_cache_ns and is_latency_resolved
        else _chosen_fact(
            q.Ns,
            max(100.0, last_cache_ns),
            NOT_MEASURED_REASON if is_latency_resolved or not calibration else _unresolved_reason(profile),
        ),
        gb_per_s=_measured_or_usual_fact(
            20,
            q.Rate,
            _memory_bandwidth(profile),
            "floor: read-local, the largest size; of one core",
            "floor:time:kind=read-local",
        ),
        shared_by=_derived_fact(
            q.Count, machine.cores // machine.memory.numa_nodes, "machine.toml: cores and numa_nodes"
        )
        if has_several_memories
        else None,
        remote_ns=_chosen_fact(q.Ns, 50) if has_several_memories else None,
    )


def _build_pages(profile: Profile) -> s.Pages:
    source = "pages: first_touch over first_touch_faults, private memory"
    return s.Pages(
        page_bytes=_stated_fact(q.Size, profile.machine.pages.base_bytes, "machine.toml: base_bytes"),
        fault_ns=_measured_or_usual_fact(
            500, q.Ns, _time_per_page_fault(profile), source, "pages:first_touch:memory=private"
        ),
    )


def _build_messaging(profile: Profile) -> s.Messaging:
    switches = {switch.kind: switch.bytes for switch in profile.run.switch}
    has_single_copy = "single-copy" in switches
    is_open_mpi = bool(switches) and profile.run.mpi.family == "openmpi"
    piece_limit = PIECE_LIMITS.get(profile.run.mpi.family) if has_single_copy else None
    eager_bytes = next((switches[kind] for kind in ("eager-limit", "single-copy") if kind in switches), None)
    return s.Messaging(
        node=_derived_fact(
            q.NodeProtocol, "single-copy" if has_single_copy else "copy-in-copy-out", "run.toml: [[switch]]"
        )
        if switches
        else _chosen_fact(q.NodeProtocol, "copy-in-copy-out", NOT_MEASURED_REASON),
        pieces=_derived_fact(q.NodeProtocol, "copy-in-copy-out", piece_limit.source) if piece_limit else None,
        min_pieces=_derived_fact(q.Count, piece_limit.min_pieces, piece_limit.source) if piece_limit else None,
        unattended_bytes=_derived_fact(q.ByteLimit, switches["unattended-limit"], "run.toml: [[switch]]")
        if "unattended-limit" in switches
        else None,
        node_eager_bytes=_derived_or_usual_fact(4096, q.ByteLimit, eager_bytes, "run.toml: [[switch]]"),
        ring_bytes=_chosen_fact(q.Size, 32768),
        send_ns=_chosen_fact(q.Ns, 100),
        receive_ns=_chosen_fact(q.Ns, 100),
        match_ns=_chosen_fact(q.Ns, 50),
        system_call_ns=_chosen_fact(q.Ns, 500) if has_single_copy else None,
        headers=_derived_fact(q.PacketHeader, "separate", OPEN_MPI_HEADERS_SOURCE) if is_open_mpi else None,
        collectives=_derived_fact(q.CollectiveAlgorithms, "openmpi", OPEN_MPI_COLLECTIVES_SOURCE)
        if is_open_mpi
        else None,
    )


# ---- values from records


def _points_by_parameter(
    profile: Profile, scenario: str, metric: str, x: str = "size_bytes", **fixed: Any
) -> dict[Any, Point]:
    """Returns x -> point, ascending in x, of the positive records on which a decision may be based. If there are none,
    returns the unstable ones."""
    from nearfield.profile.curves import curve
    from nearfield.profile.records import VERDICT_COLUMN, select_reliable_records

    positive = profile.records.filter((pl.col("value") > 0) & pl.col(VERDICT_COLUMN).ne_missing("refuted"))
    reliable = curve(select_reliable_records(positive), scenario, metric, x=x, **fixed)
    return reliable or curve(positive, scenario, metric, x=x, only_reliable=False, **fixed)


def _memory_bandwidth(profile: Profile) -> Point | None:
    """Returns the rate in GB/s at which one core reads a range larger than the last-level cache; None if no record has
    such a size."""
    times = _points_by_parameter(profile, "floor", "time", kind="read-local")
    size = max(times, default=0)
    if size <= (profile.machine.llc_bytes or 0):
        return None
    return _with_value_and_interval(
        times[size], size / times[size].value, size / times[size].high, size / times[size].low
    )


def _time_per_page_fault(profile: Profile) -> Point | None:
    """Returns the time of a first touch per page fault, of the largest measured size; None without records."""
    times, faults = (
        _points_by_parameter(profile, "pages", one, memory="private") for one in ("first_touch", "first_touch_faults")
    )
    size = max(times.keys() & faults.keys(), default=None)
    return None if size is None else times[size].scale_by(1 / faults[size].value, "ns")


def _with_value_and_interval(point: Point, value: float, low: float, high: float) -> Point:
    return replace(point, value=value, low=low, high=high)
