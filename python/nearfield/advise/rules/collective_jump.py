"""Check for collectives at message sizes at which the time of this MPI jumps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from nearfield.advise.rule import LossSum, RuleSpec, time_evidence
from nearfield.advise.run import MpiCallSite, ObservedRun
from nearfield.base import own_command
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.notes import Note, NoteRule
from nearfield.profile.costs import time_at_size
from nearfield.profile.curves import Curve

# Collective operations that a profile may have, by their number in CollectiveKind (src/trace/stream/events.hpp).
OPERATION_BY_KIND = {1: "bcast", 2: "reduce", 3: "allreduce", 4: "gather", 6: "scatter", 8: "allgather", 10: "alltoall"}

RULE = NoteRule(
    "collective-jump",
    "A collective is called at a size at which its time jumps",
    "An MPI changes its algorithm with the size. Where the time grows much faster than the size, smaller calls for "
    "the same data, or another algorithm, are faster.",
    "The profile's collectives over as many ranks",
)


def find_collective_jumps(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line that calls a collective for which several smaller calls would be faster."""
    losses: dict[tuple[MpiCallSite, str, int, int], LossSum] = defaultdict(LossSum)
    times_by_key: dict[tuple[MpiCallSite, str, int, int], tuple[Estimate, Estimate]] = {}
    for rank, observed in enumerate(run.ranks):
        for calls in observed.result.collectives:
            operation = OPERATION_BY_KIND.get(calls.kind)
            times = run.node_costs.collective_times(operation, calls.ranks) if operation else {}
            better = _times_of_smaller_calls(times, calls.bytes)
            if not operation or not better:
                continue
            one_call, smaller_calls, call_bytes = better
            key = run.call_sites[rank][calls.call], operation, calls.bytes, call_bytes
            losses[key].add_calls(rank, one_call - smaller_calls, one_call.value, calls.calls)
            times_by_key[key] = one_call, smaller_calls
    for (site, operation, size, call_bytes), lost in losses.items():
        one_call, smaller_calls = times_by_key[site, operation, size, call_bytes]
        yield Note(
            RULE, site.place,
            f"collective jump: {site.name} of {format_bytes(size)} lies behind a jump of this MPI's time; calls of "
            f"{format_bytes(call_bytes)} would save {lost.format_loss_per_call()}",
            f"Cut it into calls of {format_bytes(call_bytes)}, or look for another algorithm: "
            f"{own_command.command_line('tune')}.",
            lost.as_lost_time(run),
            evidence=(
                time_evidence(f"{operation} of {format_bytes(size)}", one_call, run.node_costs),
                time_evidence(f"the same in calls of {format_bytes(call_bytes)}", smaller_calls, run.node_costs),
            ),
        )  # fmt: skip


def _times_of_smaller_calls(times: Curve, size_bytes: int) -> tuple[Estimate, Estimate, int] | None:
    """Returns the time of one collective call, the total time of several smaller calls for the same data, and the size
    of these in bytes; None unless the smaller calls are significantly faster, or if the size is outside the range of
    the profile."""
    if not times or not min(times) < size_bytes <= max(times):
        return None
    whole = time_at_size(times, size_bytes)
    time_by_call_size = {size: time * -(-size_bytes // size) for size, time in times.items() if size < size_bytes}
    best = min(time_by_call_size, key=lambda size: time_by_call_size[size].value)
    if not whole or time_by_call_size[best].high >= whole.low:
        return None
    return whole, time_by_call_size[best], best


SPEC = RuleSpec(RULE, find_collective_jumps, scenarios=("collective",))
