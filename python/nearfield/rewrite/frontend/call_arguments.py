"""Returns the source texts of the arguments of a call."""

from __future__ import annotations

from nearfield.rewrite.frontend.clang import Node
from nearfield.rewrite.frontend.text import end_of_brackets

_SENDRECV = (
    "sendbuf", "sendcount", "sendtype", "dest", "sendtag", "recvbuf", "recvcount", "recvtype", "source", "recvtag",
    "comm", "status",
)  # fmt: skip


def sendrecv_arguments(call: Node) -> dict[str, str]:
    """Returns the source texts of the arguments of an MPI_Sendrecv, by the parameter names of the MPI standard."""
    return dict(zip(_SENDRECV, split_arguments(call), strict=False))


def split_arguments(call: Node) -> list[str]:
    """Returns the source text of each argument of a call."""
    text = call.unit.text
    start = text.index("(", call.offset)
    end = end_of_brackets(text, start) - 1
    found, depth, last = [], 0, start + 1
    for place in range(start + 1, end):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if text[place] == "," and depth == 0:
            found.append(text[last:place])
            last = place + 1
    return [" ".join(one.split()) for one in [*found, text[last:end]]]
