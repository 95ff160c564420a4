"""Writes the C code for one chunk of an MPI_Sendrecv."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nearfield.rewrite.analysis.program import Chunking

_PLAIN_EXPRESSION = re.compile(r"[&*]?[\w\[\]().>*+\- ]+")  # expressions that need no parentheses in a sum


@dataclass(frozen=True)
class ChunkCode:
    """The C source text of a loop over message chunks, made from the arguments of the MPI_Sendrecv that is split."""

    chunking: Chunking
    sendrecv_arguments: Mapping[str, str]
    request_array_name: str

    @property
    def _count_text(self) -> str:
        """Returns the message's element count as in the original call, in parentheses if needed."""
        return parenthesize(self.sendrecv_arguments["sendcount"])

    @property
    def count_name(self) -> str:
        """Returns the name of the variable that holds the number of elements of the current chunk."""
        return self.chunking.iterator_name.replace("_at", "_count")

    @property
    def loop_header(self) -> str:
        """Returns the header of the C loop over the chunks."""
        iterator = self.chunking.iterator_name
        return (
            f"for (long {iterator} = 0; {iterator} < {self._count_text}; {iterator} += {self.chunking.chunk_elements})"
        )

    @property
    def count_declaration(self) -> str:
        """Returns the declaration of the variable that holds the number of elements of the current chunk."""
        remaining, chunk_elements = f"{self._count_text} - {self.chunking.iterator_name}", self.chunking.chunk_elements
        return f"const int {self.count_name} = {remaining} < {chunk_elements} ? {remaining} : {chunk_elements}"

    @property
    def requests_declaration(self) -> str:
        """Returns the declarator of the request array, with two requests per chunk."""
        return f"{self.request_array_name}[2 * (({self._count_text} - 1) / {self.chunking.chunk_elements} + 1)]"

    def request_address(self, request_index: int) -> str:
        """Returns the address of the current chunk's receive request (0) or send request (1)."""
        iterator, chunk_elements = self.chunking.iterator_name, self.chunking.chunk_elements
        return f"&{self.request_array_name}[{iterator} / {chunk_elements} * 2{' + 1' if request_index else ''}]"

    def side_arguments(self, buffer_key: str, count: str, *other_keys: str) -> str:
        """Returns the arguments for the send or the receive side of the current chunk's message."""
        argument_texts = self.sendrecv_arguments
        return ", ".join(
            [
                f"{parenthesize(argument_texts[buffer_key])} + {self.chunking.iterator_name}",
                count,
                *(argument_texts[one] for one in other_keys),
            ]
        )

    @property
    def send_side_arguments(self) -> str:
        """Returns the arguments for the send side of the current chunk's message."""
        return self.side_arguments("sendbuf", self.count_name, "sendtype", "dest", "sendtag")

    @property
    def receive_side_arguments(self) -> str:
        """Returns the arguments for the receive side of the current chunk's message."""
        return self.side_arguments("recvbuf", self.count_name, "recvtype", "source", "recvtag")

    def call_lines(self, *, begins: bool, completes: bool) -> list[str]:
        """Returns the lines with the MPI calls that begin the exchange of the current chunk, complete it, or both."""
        comm = self.sendrecv_arguments["comm"]
        if begins and completes:
            blanks = " " * len("MPI_Sendrecv(")
            return [
                f"MPI_Sendrecv({self.send_side_arguments},",
                f"{blanks}{self.receive_side_arguments},",
                f"{blanks}{comm}, MPI_STATUS_IGNORE);",
            ]
        if begins:
            blanks = " " * len("MPI_Irecv(")
            return [
                f"MPI_Irecv({self.receive_side_arguments},", f"{blanks}{comm}, {self.request_address(0)});",
                f"MPI_Isend({self.send_side_arguments},", f"{blanks}{comm}, {self.request_address(1)});",
            ]  # fmt: skip
        return [f"MPI_Waitall(2, {self.request_address(0)}, MPI_STATUSES_IGNORE);"]


def parenthesize(text: str) -> str:
    """Returns a C expression, in parentheses if it needs them as an operand of a sum."""
    return text if _PLAIN_EXPRESSION.fullmatch(text) else f"({text})"
