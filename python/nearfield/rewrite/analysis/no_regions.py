"""Explains why a source file has no region that could be rewritten: it does not call MPI, has no loops next to its
messages, or calls functions whose effects are unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nearfield.rewrite.analysis.library_calls import unknown_call_reason
from nearfield.rewrite.analysis.program import MissedOptimization
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TypeKind


def explain_no_regions(functions: ProgramFunctions, nodes: Sequence[SyntaxNode]) -> MissedOptimization:
    """Returns the reason why there is nothing to move in a file without patches and without other reasons."""
    calls = [(node, call) for node in nodes for call in functions.function_of(node).calls]
    sent = [(node, call) for node, call in calls if functions.communicates(call)]
    if sent:
        return MissedOptimization(sent[0][1].line, "no loop stands in one block with its messages", sent[0][0].name)
    names = dict.fromkeys(call.name for _, call in calls if call.name.startswith(("MPI_", "PMPI_")))
    if not names:
        return MissedOptimization(1, "no function of this file calls MPI")
    node, call = next(one for one in calls if one[1].name in names)
    shown = ", ".join(list(names)[:4]) + (" and others" if len(names) > 4 else "")
    return MissedOptimization(
        call.line, f"of MPI it calls {shown}, but it has no messages between two ranks", node.name
    )


def find_unknown_callees(functions: ProgramFunctions, nodes: Sequence[SyntaxNode]) -> Iterator[MissedOptimization]:
    """Yields a missed optimization for each called function whose definition is unknown and that may communicate."""
    problem: set[str] = set()
    for node in nodes:
        for call in functions.function_of(node).calls:
            callee = call.callee()
            library = callee is None or callee.cursor.location.is_in_system_header or "MPI_" in call.name
            if library or call.name in problem or functions.definition_of(call) is not None:
                continue
            if not any(one.type.kind == TypeKind.POINTER for one in call.children[1:]):
                continue
            problem.add(call.name)
            reason = unknown_call_reason(call)
            definition = callee.cursor.get_definition() if callee is not None else None
            if definition is not None and definition.location.file and definition.location.file.name == call.unit.path:
                reason = f"{call.name} is a template, in which nothing is moved"
            elif callee is not None and callee.kind == Kind.FUNCTION_DECL:
                reason = (
                    f"{call.name} is defined in another file, so what it sends and receives is not known "
                    "(--extra-source FILE or --compile-commands FOLDER tells where it is)"
                )
            yield MissedOptimization(call.line, reason, node.name)
