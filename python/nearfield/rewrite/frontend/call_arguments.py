"""Returns the source texts of the arguments of a call."""

from __future__ import annotations

from nearfield.rewrite.frontend.clang import SyntaxNode
from nearfield.rewrite.frontend.text import end_of_bracketed_text

_SENDRECV_PARAMETERS = (
    "sendbuf", "sendcount", "sendtype", "dest", "sendtag", "recvbuf", "recvcount", "recvtype", "source", "recvtag",
    "comm", "status",
)  # fmt: skip


def sendrecv_arguments(call: SyntaxNode) -> dict[str, str]:
    """Returns the source texts of the arguments of an MPI_Sendrecv, by the parameter names of the MPI standard."""
    return dict(zip(_SENDRECV_PARAMETERS, split_arguments(call), strict=False))


def split_arguments(call: SyntaxNode) -> list[str]:
    """Returns the source text of each argument of a call."""
    text = call.unit.text
    start = text.index("(", call.offset)
    end = end_of_bracketed_text(text, start) - 1
    arguments, depth, argument_start = [], 0, start + 1
    for place in range(start + 1, end):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if text[place] == "," and depth == 0:
            arguments.append(text[argument_start:place])
            argument_start = place + 1
    return [" ".join(one.split()) for one in [*arguments, text[argument_start:end]]]
