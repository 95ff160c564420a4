"""Check for MPI datatypes with noncontiguous elements (S3, sections 3 and 5)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.advise.rule import RuleSpec, find_losing_messages, size_text, time_evidence
from nearfield.advise.run import MessageGroup, ObservedRun, group_by_site
from nearfield.base import own_command
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.notes import Note, NoteRule

DOUBLE_BYTES = 8
MAX_BLOCK_BYTES = 16  # vector datatypes in a profile have blocks of one double, and do not represent longer blocks

RULE = NoteRule(
    "strided-datatype",
    "A message is made of elements that lie apart",
    "MPI packs such a message element by element, and each element costs a cache line. Packing by hand is faster with "
    "some MPIs and slower with others; a split of the grid whose faces are contiguous has nothing to pack.",
    "S3, sections 3 and 5",
)


def find_strided_messages(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line that sends noncontiguous elements."""
    for site, messages in group_by_site([m for m in run.messages if m.found.sends and _is_strided(m)]):
        losing = find_losing_messages(messages, _strided_and_contiguous_times)
        if not losing:
            continue
        lost, strided, one, (as_type, contiguous) = losing
        packed = one.costs.strided(one.found.bytes, _stride_in_doubles(one), "manual-pack")
        yield Note(
            RULE, site.place,
            f"strided datatype: {size_text(strided)} in pieces of {one.found.piece_bytes} B, "
            f"{format_bytes(one.found.stride_bytes)} apart; contiguous data would save {lost.per_call_text()}",
            _advice_on_stride(packed, as_type),
            lost.as_lost_time(run),
            evidence=(
                time_evidence(f"{format_bytes(one.found.bytes)} as a datatype", as_type, one.costs),
                time_evidence("the same in one piece", contiguous, one.costs),
                *([time_evidence("the same, packed by hand", packed, one.costs)] if packed else []),
            ),
        )  # fmt: skip


def _is_strided(one: MessageGroup) -> bool:
    """Returns whether messages consist of short noncontiguous blocks."""
    found = one.found
    return found.stride_bytes > found.piece_bytes and found.piece_bytes <= MAX_BLOCK_BYTES


def _stride_in_doubles(one: MessageGroup) -> int:
    """Returns the stride of messages as a number of doubles, at least 1."""
    return max(1, round(one.found.stride_bytes / DOUBLE_BYTES))


def _strided_and_contiguous_times(one: MessageGroup) -> tuple[Estimate, Estimate] | None:
    """Returns the times of a message as a datatype and of as many contiguous bytes; None if one is unknown."""
    as_type = one.costs.strided(one.found.bytes, _stride_in_doubles(one), "datatype")
    contiguous = one.costs.strided(one.found.bytes, 1, "contiguous")
    return (as_type, contiguous) if as_type and contiguous else None


def _advice_on_stride(packed: Estimate | None, as_type: Estimate) -> str:
    """Returns advice on a strided message: another decomposition, or packing by hand if that is faster."""
    split = f"Split the grid so that this face is contiguous ({own_command.line('plan', '--help')})"
    if packed and packed.high < as_type.low:
        return f"{split}, or pack by hand, which takes {packed.value / as_type.value:.0%} of the datatype's time."
    slower = ", which packing by hand would not improve" if packed else ""
    return f"{split}{slower}."


SPEC = RuleSpec(RULE, find_strided_messages, scenarios=("stride",))
