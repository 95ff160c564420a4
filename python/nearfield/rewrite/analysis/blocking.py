"""Finds blocking calls that can be replaced by a nonblocking call and a later completion: an MPI_Send, MPI_Recv or
MPI_Sendrecv that is a statement, or several of them in the branches of an `if`.

After the replacement, the test of an `if` and the other statements in it are executed while messages are in flight. So
they must not read what an earlier call of the statement receives, nor write what it sends. `BlockingCall.accesses`
identifies the accesses of each call, and the polyhedral model checks them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.analysis.program import NONBLOCKING
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node
from nearfield.rewrite.frontend.function import FunctionFacts

_SOURCES = {"MPI_Recv": 3, "MPI_Sendrecv": 8}
_ALL_SOURCES = {**_SOURCES, "MPI_Irecv": 3, "MPI_Recv_init": 3, "MPI_Sendrecv_replace": 5}
_ANY_MESSAGE = re.compile(r"\bMPI_ANY_SOURCE\b|\bP?MPI_I?m?probe\b", re.I)
NO_WILDCARD = "no other file of the program receives from MPI_ANY_SOURCE or probes"
STATUSES = {"MPI_Recv": 6, "MPI_Sendrecv": 11}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TO_MPI = re.compile(r"\bP?MPI_\w+\s*\((?:[^();]|\([^();]*\))*\)")
_TAKE_STATUS = (*STATUSES, "MPI_Wait", "MPI_Waitall", "MPI_Sendrecv_replace")


def find_blocking_calls(statement: Node, sends: Callable[[Node], bool]) -> list[tuple[Node, bool]] | None:
    """Returns the blocking MPI calls of a statement, each with whether it stands in a block. Returns None if the
    statement has other communication, or if a call is part of an expression or in a loop. `sends` returns whether a
    function call communicates."""
    if statement.bare.kind == Kind.CALL_EXPR and statement.bare.name in NONBLOCKING:
        return [(statement, True)]
    found: list[tuple[Node, bool]] = []
    for part, listed in _statements_of_branches(statement, listed=True):
        if part.bare.kind == Kind.CALL_EXPR and part.bare.name in NONBLOCKING:
            found.append((part, listed))
        elif any(node.kind == Kind.CALL_EXPR and (node.name.startswith(("MPI_", "PMPI_")) or sends(node))
                 for node in part.walk()):  # fmt: skip
            return None
    return found


def _statements_of_branches(statement: Node, *, listed: bool) -> Iterator[tuple[Node, bool]]:
    """Yields the statements in the blocks and branches of an `if`, each with whether it stands in a block."""
    if statement.kind == Kind.COMPOUND_STMT:
        for child in statement.children:
            yield from _statements_of_branches(child, listed=True)
    elif statement.kind == Kind.IF_STMT:
        test, *branches = statement.children
        yield test, False
        for branch in branches:
            yield from _statements_of_branches(branch, listed=False)
    else:
        yield statement, listed


def is_status_unread(status: Node, function: FunctionFacts) -> bool:
    """Returns whether nothing reads the MPI_Status that a call fills: the argument is MPI_STATUS_IGNORE, or a local
    variable or array that is only passed to calls that fill it."""
    node = status.bare
    if source_text_of(status) in ("MPI_STATUS_IGNORE", "MPI_STATUSES_IGNORE"):
        return True
    variable = node.children[0].bare if node.operator == "&" else node if node.type.kind in ARRAYS else None
    declared = variable.declaration if variable is not None else None
    if declared is None or declared.key not in function.declared or declared.cursor.storage_class.name == "STATIC":
        return False
    return all(_is_passed_to_be_filled(use, function) for use in function.uses.get(declared.key, []))


def _is_passed_to_be_filled(use: Node, function: FunctionFacts) -> bool:
    """Returns whether a use of an MPI_Status variable only passes its address to a call that fills it."""
    for above in function.ancestors(use):
        if above.kind == Kind.CALL_EXPR:
            return above.name in _TAKE_STATUS
        if above.operator != "&" and above.bare is above:
            return False
    return False


def unsplittable_reason(call: Node, function: FunctionFacts) -> str:
    """Returns the reason why a blocking MPI call cannot be completed later than it begins; '' if it can."""
    arguments = call.arguments
    if call.name in STATUSES and not is_status_unread(arguments[STATUSES[call.name]], function):
        return "the status of a message is kept, which a split exchange would not have"
    if call.name in _SOURCES and _may_match_any_sender(arguments[_SOURCES[call.name]], function):
        return "a message from any rank (MPI_ANY_SOURCE) could become another one if it is begun with others"
    return ""


@functools.lru_cache(maxsize=4)
def has_wildcard_receives(functions: ProgramFunctions) -> bool:
    """Returns whether the program receives from MPI_ANY_SOURCE or probes, so that the matching of messages may depend
    on their order of arrival. A send must then not begin before the receives in front of it have completed, since these
    may order it behind the message of a third rank. Files of the program that are not known are assumed to do neither
    (NO_WILDCARD)."""
    if any(_ANY_MESSAGE.search(_COMMENT.sub(" ", text)) for text in functions.source_texts()):
        return True
    return any(_has_negative_source(call) for function in functions.functions_of_file for call in function.calls)


def _has_negative_source(call: Node) -> bool:
    """Returns whether a receive has a negative number as its source that is not MPI_PROC_NULL. MPI_ANY_SOURCE is such a
    number, whatever macro expands to it."""
    place = _ALL_SOURCES.get(call.name.removeprefix("P"))
    if place is None:
        return False
    source = call.arguments[place]
    negative = [node for node in source.walk() if node.operator == "-" and len(node.children) == 1]
    return len(negative) > source_text_of(source, shorten=False).count("MPI_PROC_NULL")


def _may_match_any_sender(source: Node, function: FunctionFacts) -> bool:
    """Returns whether a receive may match any sender: its source is MPI_ANY_SOURCE, or a variable in a file that uses
    MPI_ANY_SOURCE outside of MPI calls."""
    if "MPI_ANY_SOURCE" in source_text_of(source):
        return True
    named = [node.declaration for node in source.walk() if node.kind == Kind.DECL_REF_EXPR and node.declaration]
    values = [function.constant_initial_value(declared.key) for declared in named]
    known = all(one is not None and "MPI_ANY_SOURCE" not in source_text_of(one) for one in values)
    return not known and _stores_any_source(source.unit.text)


@functools.lru_cache(maxsize=4)
def _stores_any_source(text: str) -> bool:
    """Returns whether a source file uses MPI_ANY_SOURCE other than as an argument of an MPI call."""
    return re.search(r"\bMPI_ANY_SOURCE\b", _TO_MPI.sub("", _COMMENT.sub(" ", text))) is not None
