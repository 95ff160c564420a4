"""Check for MPI datatypes with noncontiguous elements (paper S3, papers/S3/README.md, sections 3 and 5)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.advise.rule import RuleSpec, message_size_text, sum_message_losses, time_evidence
from nearfield.advise.run import MessageGroup, ObservedRun, group_by_site
from nearfield.base import own_command
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.notes import Note, NoteRule

DOUBLE_BYTES = 8
MAX_BLOCK_BYTES = 16  # profiles have times of vectors with blocks of one double only

RULE = NoteRule(
    "strided-datatype",
    "A message consists of separate elements",
    "MPI packs such a message element by element, and each element costs a cache line. Packing by hand is faster with "
    "some MPIs and slower with others; a split of the grid whose faces are contiguous has nothing to pack.",
    "S3, sections 3 and 5",
)


def find_strided_messages(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line that sends noncontiguous elements."""
    for site, messages in group_by_site([m for m in run.messages if m.counts.sends and _is_strided(m)]):
        losing = sum_message_losses(messages, _strided_and_contiguous_times)
        if not losing:
            continue
        lost, strided_messages, one, (datatype_time, contiguous_time) = losing
        packed_time = one.costs.strided_message_time(one.counts.bytes, _stride_in_doubles(one), "manual-pack")
        yield Note(
            RULE, site.place,
            f"strided datatype: {message_size_text(strided_messages)} in pieces of {one.counts.piece_bytes} B, "
            f"{format_bytes(one.counts.stride_bytes)} apart; contiguous data would save {lost.format_loss_per_call()}",
            _advice_on_stride(packed_time, datatype_time),
            lost.as_lost_time(run),
            evidence=(
                time_evidence(f"{format_bytes(one.counts.bytes)} as a datatype", datatype_time, one.costs),
                time_evidence("the same in one piece", contiguous_time, one.costs),
                *([time_evidence("the same, packed by hand", packed_time, one.costs)] if packed_time else []),
            ),
        )  # fmt: skip


def _is_strided(message: MessageGroup) -> bool:
    """Returns whether messages consist of short noncontiguous blocks."""
    found = message.counts
    return found.stride_bytes > found.piece_bytes and found.piece_bytes <= MAX_BLOCK_BYTES


def _stride_in_doubles(message: MessageGroup) -> int:
    """Returns the stride of messages as a number of doubles, at least 1."""
    return max(1, round(message.counts.stride_bytes / DOUBLE_BYTES))


def _strided_and_contiguous_times(message: MessageGroup) -> tuple[Estimate, Estimate] | None:
    """Returns the times of a message as a datatype and of as many contiguous bytes; None if one is unknown."""
    datatype_time = message.costs.strided_message_time(message.counts.bytes, _stride_in_doubles(message), "datatype")
    contiguous_time = message.costs.strided_message_time(message.counts.bytes, 1, "contiguous")
    return (datatype_time, contiguous_time) if datatype_time and contiguous_time else None


def _advice_on_stride(packed_time: Estimate | None, datatype_time: Estimate) -> str:
    """Returns advice on a strided message: another decomposition, or packing by hand if that is faster."""
    split = f"Split the grid so that this face is contiguous ({own_command.command_line('plan', '--help')})"
    if packed_time and packed_time.high < datatype_time.low:
        share = packed_time.value / datatype_time.value
        return f"{split}, or pack by hand, which takes {share:.0%} of the datatype's time."
    slower = ", which packing by hand would not improve" if packed_time else ""
    return f"{split}{slower}."


SPEC = RuleSpec(RULE, find_strided_messages, scenarios=("stride",))
