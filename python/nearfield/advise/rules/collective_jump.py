"""Check for collectives at message sizes at which this MPI's time jumps."""

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
OPERATIONS = {1: "bcast", 2: "reduce", 3: "allreduce", 4: "gather", 6: "scatter", 8: "allgather", 10: "alltoall"}

RULE = NoteRule(
    "collective-jump",
    "A collective is called at a size at which its time jumps",
    "An MPI changes its algorithm with the size. Where the time grows much faster than the size, smaller calls for "
    "the same data, or another algorithm, are faster.",
    "The profile's collectives over as many ranks",
)


def find_collective_jumps(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line that calls a collective for which several smaller calls would be faster."""
    found: dict[tuple[MpiCallSite, str, int, int], LossSum] = defaultdict(LossSum)
    evidence: dict[tuple[MpiCallSite, str, int, int], tuple[Estimate, Estimate]] = {}
    for rank, observed in enumerate(run.ranks):
        for calls in observed.found.collectives:
            operation = OPERATIONS.get(calls.kind)
            times = run.inside.collective(operation, calls.ranks) if operation else {}
            better = _times_of_smaller_calls(times, calls.bytes)
            if not operation or not better:
                continue
            whole, pieces, piece = better
            key = run.sites[rank][calls.call], operation, calls.bytes, piece
            found[key].add_calls(rank, whole - pieces, whole.value, calls.calls)
            evidence[key] = whole, pieces
    for (site, operation, size, piece), lost in found.items():
        whole, pieces = evidence[site, operation, size, piece]
        yield Note(
            RULE, site.place,
            f"collective jump: {site.name} of {format_bytes(size)} lies behind a jump of this MPI's time; calls of "
            f"{format_bytes(piece)} would save {lost.per_call_text()}",
            f"Cut it into calls of {format_bytes(piece)}, or look for another algorithm: {own_command.line('tune')}.",
            lost.as_lost_time(run),
            evidence=(
                time_evidence(f"{operation} of {format_bytes(size)}", whole, run.inside),
                time_evidence(f"the same in calls of {format_bytes(piece)}", pieces, run.inside),
            ),
        )  # fmt: skip


def _times_of_smaller_calls(times: Curve, size_bytes: int) -> tuple[Estimate, Estimate, int] | None:
    """Returns the time of one collective call, the time of smaller calls for the same data, and their size, if these
    are significantly faster; None otherwise. Only sizes in the range of the profile count."""
    if not times or not min(times) < size_bytes <= max(times):
        return None
    whole = time_at_size(times, size_bytes)
    pieces = {size: time * -(-size_bytes // size) for size, time in times.items() if size < size_bytes}
    best = min(pieces, key=lambda size: pieces[size].value)
    if not whole or pieces[best].high >= whole.low:
        return None
    return whole, pieces[best], best


SPEC = RuleSpec(RULE, find_collective_jumps, scenarios=("collective",))
