"""Decides whether a callee may modify a variable of its caller."""

from __future__ import annotations

from nearfield.rewrite.analysis.library_calls import is_library_call, is_pure_call
from nearfield.rewrite.codegen.call_sites import CallSite
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.conversions import may_modify_part_of, unqualified_type_name
from nearfield.rewrite.frontend.function import ASSIGNMENT_OPERATORS, INCREMENT_OPERATORS, FunctionFacts


def leaves_unchanged(
    site: CallSite, declaration: SyntaxNode, caller: FunctionFacts, functions: ProgramFunctions
) -> bool:
    """Returns whether the callee of a call site does not modify a given variable of its caller."""
    if declaration.kind not in (Kind.VAR_DECL, Kind.PARM_DECL) or declaration.type.kind in ARRAY_TYPES:
        return True
    is_local = declaration.key in caller.declarations and declaration.cursor.storage_class.name != "STATIC"
    is_passed_by_reference = declaration.type.kind == TypeKind.LVALUEREFERENCE or any(
        parameter.type.kind == TypeKind.LVALUEREFERENCE and argument.is_variable(declaration.key)
        for parameter, argument in zip(site.parameters, site.arguments, strict=True)
    )
    if is_local and declaration.key not in caller.address_taken and not is_passed_by_reference:
        return True
    if is_passed_by_reference:
        return False
    return not _may_store(site.callee, declaration, functions, set())


def _may_store(
    function: FunctionFacts, declaration: SyntaxNode, functions: ProgramFunctions, visited: set[str]
) -> bool:
    """Returns whether a function may modify a variable, by name or through a pointer to the variable's type. `visited`
    are the functions visited so far."""
    visited.add(function.name)
    if function.changes.get(declaration.key) or declaration.key in function.address_taken or function.body is None:
        return True
    type_name = unqualified_type_name(declaration.type)
    for node in function.body.walk():
        if node.operator in ASSIGNMENT_OPERATORS or node.operator in INCREMENT_OPERATORS:
            target = node.children[0].without_casts
            target_declaration = target.declaration if target.kind == Kind.DECL_REF_EXPR else None
            is_variable = target_declaration is not None and target_declaration.type.kind != TypeKind.LVALUEREFERENCE
            if not is_variable and may_modify_part_of(target.type, type_name):
                return True
    return any(_call_may_store(call, declaration, functions, visited) for call in function.calls)


def _call_may_store(call: SyntaxNode, declaration: SyntaxNode, functions: ProgramFunctions, visited: set[str]) -> bool:
    """Returns whether a call may modify a variable."""
    definition = functions.definition_of(call)
    if definition is not None:
        return definition.name not in visited and _may_store(definition, declaration, functions, visited)
    if call.name.startswith(("MPI_", "PMPI_")):
        type_name = unqualified_type_name(declaration.type)
        return any(
            one.without_casts.type.kind == TypeKind.POINTER
            and may_modify_part_of(one.without_casts.type.get_pointee().get_canonical(), type_name)
            for one in call.arguments
        )
    return not is_pure_call(call) and not (is_library_call(call) and call.name in ("printf", "puts", "fflush"))
