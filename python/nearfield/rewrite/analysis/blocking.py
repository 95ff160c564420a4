"""Finds blocking calls that can be replaced by a nonblocking call and a later completion: an MPI_Send, MPI_Recv or
MPI_Sendrecv that is a statement, or several of them in the branches of an `if`.

After the replacement, the test of an `if` and the other statements in it are executed while messages are in flight. So
they must not read what an earlier call of the statement receives, nor write what it sends.
`BlockingCall.access_numbers` identifies the accesses of each call, and the polyhedral model checks them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.analysis.program import NONBLOCKING_EQUIVALENTS
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode
from nearfield.rewrite.frontend.function import FunctionFacts

_SOURCE_ARGUMENT_BY_CALL = {"MPI_Recv": 3, "MPI_Sendrecv": 8}
_SOURCE_ARGUMENT_OF_ALL_CALLS = {
    **_SOURCE_ARGUMENT_BY_CALL,
    "MPI_Irecv": 3,
    "MPI_Recv_init": 3,
    "MPI_Sendrecv_replace": 5,
}
_WILDCARD_OR_PROBE = re.compile(r"\bMPI_ANY_SOURCE\b|\bP?MPI_I?m?probe\b", re.I)
NO_WILDCARD_ASSUMPTION = "no other file of the program receives from MPI_ANY_SOURCE or probes"
STATUS_ARGUMENT_BY_CALL = {"MPI_Recv": 6, "MPI_Sendrecv": 11}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MPI_CALL = re.compile(r"\bP?MPI_\w+\s*\((?:[^();]|\([^();]*\))*\)")
_STATUS_FILLING_CALLS = (*STATUS_ARGUMENT_BY_CALL, "MPI_Wait", "MPI_Waitall", "MPI_Sendrecv_replace")


def find_blocking_calls(
    statement: SyntaxNode, communicates: Callable[[SyntaxNode], bool]
) -> list[tuple[SyntaxNode, bool]] | None:
    """Returns the blocking MPI calls of a statement, each with whether it stands in a block. Returns None if the
    statement has other communication, or if a call is part of an expression or in a loop. `communicates` returns
    whether a function call communicates."""
    if statement.without_casts.kind == Kind.CALL_EXPR and statement.without_casts.name in NONBLOCKING_EQUIVALENTS:
        return [(statement, True)]
    blocking_calls: list[tuple[SyntaxNode, bool]] = []
    for part, is_in_block in _statements_of_branches(statement, is_in_block=True):
        if part.without_casts.kind == Kind.CALL_EXPR and part.without_casts.name in NONBLOCKING_EQUIVALENTS:
            blocking_calls.append((part, is_in_block))
        elif any(node.kind == Kind.CALL_EXPR and (node.name.startswith(("MPI_", "PMPI_")) or communicates(node))
                 for node in part.walk()):  # fmt: skip
            return None
    return blocking_calls


def _statements_of_branches(statement: SyntaxNode, *, is_in_block: bool) -> Iterator[tuple[SyntaxNode, bool]]:
    """Yields the statements in the blocks and branches of an `if`, each with whether it stands in a block."""
    if statement.kind == Kind.COMPOUND_STMT:
        for child in statement.children:
            yield from _statements_of_branches(child, is_in_block=True)
    elif statement.kind == Kind.IF_STMT:
        test, *branches = statement.children
        yield test, False
        for branch in branches:
            yield from _statements_of_branches(branch, is_in_block=False)
    else:
        yield statement, is_in_block


def is_status_unread(status: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether nothing reads the MPI_Status that a call fills: the argument is MPI_STATUS_IGNORE, or a local
    variable or array that is only passed to calls that fill it."""
    node = status.without_casts
    if source_text_of(status) in ("MPI_STATUS_IGNORE", "MPI_STATUSES_IGNORE"):
        return True
    variable = (
        node.children[0].without_casts if node.operator == "&" else node if node.type.kind in ARRAY_TYPES else None
    )
    declaration = variable.declaration if variable is not None else None
    if (
        declaration is None
        or declaration.key not in function.declarations
        or declaration.cursor.storage_class.name == "STATIC"
    ):
        return False
    return all(_is_passed_to_be_filled(use, function) for use in function.uses.get(declaration.key, []))


def _is_passed_to_be_filled(use: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether a use of an MPI_Status variable only passes its address to a call that fills it."""
    for above in function.ancestors_of(use):
        if above.kind == Kind.CALL_EXPR:
            return above.name in _STATUS_FILLING_CALLS
        if above.operator != "&" and above.without_casts is above:
            return False
    return False


def unsplittable_reason(call: SyntaxNode, function: FunctionFacts) -> str:
    """Returns the reason why a blocking MPI call cannot be completed later than it begins; '' if it can."""
    arguments = call.arguments
    if call.name in STATUS_ARGUMENT_BY_CALL and not is_status_unread(
        arguments[STATUS_ARGUMENT_BY_CALL[call.name]], function
    ):
        return "the status of a message is kept, which a split exchange would not have"
    if call.name in _SOURCE_ARGUMENT_BY_CALL and _may_match_any_sender(
        arguments[_SOURCE_ARGUMENT_BY_CALL[call.name]], function
    ):
        return "a message from any rank (MPI_ANY_SOURCE) could become another one if it is begun with others"
    return ""


@functools.lru_cache(maxsize=4)
def has_wildcard_receives(functions: ProgramFunctions) -> bool:
    """Returns whether the program receives from MPI_ANY_SOURCE or probes, so that the matching of messages may depend
    on their order of arrival. A send must then not begin before the receives in front of it have completed, since these
    may order it behind the message of a third rank. Files of the program that are not known are assumed to do neither
    (NO_WILDCARD_ASSUMPTION)."""
    if any(_WILDCARD_OR_PROBE.search(_COMMENT.sub(" ", text)) for text in functions.source_texts()):
        return True
    return any(_has_negative_source(call) for function in functions.functions_of_file for call in function.calls)


def _has_negative_source(call: SyntaxNode) -> bool:
    """Returns whether a receive has a negative number as its source that is not MPI_PROC_NULL. MPI_ANY_SOURCE is such a
    number, whatever macro expands to it."""
    source_position = _SOURCE_ARGUMENT_OF_ALL_CALLS.get(call.name.removeprefix("P"))
    if source_position is None:
        return False
    source = call.arguments[source_position]
    minus_nodes = [node for node in source.walk() if node.operator == "-" and len(node.children) == 1]
    return len(minus_nodes) > source_text_of(source, shorten=False).count("MPI_PROC_NULL")


def _may_match_any_sender(source: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether a receive may match any sender: its source is MPI_ANY_SOURCE, or a variable in a file that uses
    MPI_ANY_SOURCE outside of MPI calls."""
    if "MPI_ANY_SOURCE" in source_text_of(source):
        return True
    declarations = [node.declaration for node in source.walk() if node.kind == Kind.DECL_REF_EXPR and node.declaration]
    values = [function.constant_initial_value(declaration.key) for declaration in declarations]
    are_all_known = all(one is not None and "MPI_ANY_SOURCE" not in source_text_of(one) for one in values)
    return not are_all_known and _stores_any_source(source.unit.text)


@functools.lru_cache(maxsize=4)
def _stores_any_source(text: str) -> bool:
    """Returns whether a source file uses MPI_ANY_SOURCE other than as an argument of an MPI call."""
    return re.search(r"\bMPI_ANY_SOURCE\b", _MPI_CALL.sub("", _COMMENT.sub(" ", text))) is not None
