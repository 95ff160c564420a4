"""Checks that code in front of a loop and code behind it is executed exactly once per execution of the loop."""

from __future__ import annotations

import re

from nearfield.rewrite.analysis.library_calls import is_library_call, is_pure_call
from nearfield.rewrite.analysis.loop_bounds import is_within
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TranslationUnit
from nearfield.rewrite.frontend.function import LOOP_KINDS, FunctionFacts, is_container
from nearfield.rewrite.frontend.language import describe_node_kind, is_mpi_name

_FUNCTION_EXIT_BY_KIND = {
    Kind.RETURN_STMT: "return", Kind.CXX_THROW_EXPR: "throw", Kind.CXX_TRY_STMT: "try",
    Kind.LAMBDA_EXPR: "a lambda", Kind.ASM_STMT: "assembly",
}  # fmt: skip
_JUMP_KINDS = (Kind.GOTO_STMT, Kind.INDIRECT_GOTO_STMT, Kind.LABEL_STMT)
_THROWING_KINDS = (
    Kind.CXX_THROW_EXPR, Kind.CXX_NEW_EXPR, Kind.CXX_DYNAMIC_CAST_EXPR, Kind.CXX_TYPEID_EXPR, Kind.CXX_TRY_STMT,
)  # fmt: skip
_CONTAINER_ACCESSORS = ("operator[]", "data", "size", "begin", "end", "front", "back", "empty")
_LOOP_EXIT_KINDS = (Kind.BREAK_STMT, Kind.CONTINUE_STMT)
_CALLS_ALLOWED_WITHOUT_MPI = (
    "MPI_Initialized",
    "MPI_Finalized",
    "MPI_Get_version",
    "MPI_Get_library_version",
    "MPI_Wtime",
    "MPI_Wtick",
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)", re.MULTILINE)
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma\b(?:[^\n]*\\\r?\n)*[^\n]*", re.MULTILINE)
_COMMENT_OR_DIRECTIVE = re.compile(r"//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\r?\n)*[^\n]*", re.DOTALL | re.MULTILINE)
_ENCLOSING_KINDS = (Kind.COMPOUND_STMT, Kind.IF_STMT, *LOOP_KINDS)


def check_loop_exits(
    loop: SyntaxNode, function: FunctionFacts, functions: ProgramFunctions, unit: TranslationUnit
) -> None:
    """Raises NotMovable unless statements may be added in front of a loop and behind it that are executed exactly once
    for each execution of the loop, before its first and after its last iteration."""
    block = function.parent_of(loop)
    if block is None or block.kind != Kind.COMPOUND_STMT:
        raise NotMovable("the loop does not stand in a block", loop.line)
    for above in function.ancestors_of(loop):
        if above is not function.body and above.kind not in _ENCLOSING_KINDS:
            raise NotMovable(f"the loop stands in a statement of the kind {describe_node_kind(above)}", loop.line)
    if unit.is_macro_use(loop.offset):
        raise NotMovable("a macro hides the loop", loop.line)
    for node in function.body.walk() if function.body is not None else ():
        if node.kind in _JUMP_KINDS:
            raise NotMovable("the function has a goto or a label", node.line)
        if node.kind in _FUNCTION_EXIT_BY_KIND and loop.offset <= node.offset < unit.statement_end(loop):
            raise NotMovable(f"the loop contains {_FUNCTION_EXIT_BY_KIND[node.kind]}", node.line)
    check_pragmas(loop, function, unit)
    _check_calls(loop, function, functions)
    inside = unit.text[loop.offset : unit.statement_end(loop)]
    for match in _DIRECTIVE.finditer(inside):
        if match[1] in ("define", "undef", "include"):
            raise NotMovable(f"#{match[1]} stands in the loop", loop.line)
    if directives_around(unit.text, loop.offset) != directives_around(unit.text, unit.statement_end(loop)):
        raise NotMovable("a directive of the preprocessor decides where the loop ends", loop.line)


def check_pragmas(statement: SyntaxNode, function: FunctionFacts, unit: TranslationUnit) -> None:
    """Raises NotMovable if a pragma, such as that of a parallel region, belongs to a statement or to one around it:
    only blanks, comments and directives stand between the two."""
    pragmas = list(_PRAGMA.finditer(unit.text, 0, statement.offset))
    for node in (statement, *function.ancestors_of(statement)):
        last = next((match.end() for match in reversed(pragmas) if match.end() <= node.offset), None)
        if last is not None and not _COMMENT_OR_DIRECTIVE.sub("", unit.text[last : node.offset]).strip():
            raise NotMovable("a pragma stands above it, or above a statement around it", node.line)


def _check_calls(loop: SyntaxNode, function: FunctionFacts, functions: ProgramFunctions) -> None:
    """Raises NotMovable if MPI may be finalized in the loop, after which no request could be freed, or if an exception
    may leave the loop: the loop calls MPI_Finalize; it calls an unknown function, and no MPI call behind the loop shows
    that MPI is still in use; or it is C++, and throws or calls a function that may throw."""
    is_c = functions.unit.path.endswith(".c")
    is_used_behind = _is_followed_by_mpi_call(loop, function)
    waiting, seen = [call for call in function.calls if is_within(call, loop)], set()
    _check_throws(loop)
    while waiting:
        call = waiting.pop()
        if call.name.removeprefix("P") == "MPI_Finalize":
            raise NotMovable("the loop calls MPI_Finalize", call.line)
        inner = functions.definition_of(call)
        if inner is not None and inner.node.key not in seen:
            seen.add(inner.node.key)
            waiting += inner.calls
            _check_throws(inner.node)
        if inner is not None or is_mpi_name(call.name):
            continue
        if not is_c and not _throws_nothing(call):
            raise NotMovable(f"the loop calls {call.name or 'a function'}, which may throw an exception", call.line)
        if not is_used_behind and not is_library_call(call) and not _is_container_method(call):
            raise NotMovable(f"the loop calls {call.name or 'a function'}, which may end the use of MPI", call.line)


def _check_throws(node: SyntaxNode) -> None:
    """Raises NotMovable if a loop or function throws an exception itself."""
    for one in node.walk():
        if one.kind in _THROWING_KINDS:
            raise NotMovable("the loop contains or calls what may throw an exception", one.line)


def _throws_nothing(call: SyntaxNode) -> bool:
    """Returns whether an unknown function of a C++ program is known not to throw: it is a C function, or a method of a
    container that only gives access to its elements."""
    callee = call.callee()
    if callee is None:
        return False
    is_c = callee.kind == Kind.FUNCTION_DECL and callee.cursor.mangled_name == callee.name
    return is_c and is_library_call(call) or is_pure_call(call) or _is_container_method(call)


def _is_container_method(call: SyntaxNode) -> bool:
    """Returns whether a call is of a method of a std::vector or std::array that only gives access to its elements."""
    callee = call.callee()
    if callee is None or callee.kind != Kind.CXX_METHOD or call.name not in _CONTAINER_ACCESSORS or not call.children:
        return False
    return bool(callee.cursor.location.is_in_system_header) and any(map(is_container, call.children[0].walk()))


def _is_followed_by_mpi_call(loop: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether an MPI call of the function follows each execution of a loop that terminates."""
    below = loop
    for above in function.ancestors_of(loop):
        for statement in above.children if above.kind == Kind.COMPOUND_STMT else ():
            if statement.offset <= below.offset:
                continue
            if (
                statement.kind == Kind.CALL_EXPR
                and is_mpi_name(statement.name)
                and statement.name not in _CALLS_ALLOWED_WITHOUT_MPI
            ):
                return True
            if any(one.kind in (*_FUNCTION_EXIT_BY_KIND, *_JUMP_KINDS, *_LOOP_EXIT_KINDS) for one in statement.walk()):
                return False
        if above.kind in LOOP_KINDS:
            return False
        below = above
    return False


def directives_around(text: str, offset: int) -> tuple[int, ...]:
    """Returns the offsets of the conditional directives of the preprocessor that decide whether the text at an offset
    is compiled."""
    stack: list[int] = []
    for match in _DIRECTIVE.finditer(text, 0, offset):
        if match[1] in ("if", "ifdef", "ifndef"):
            stack.append(match.start())
        elif match[1] in ("else", "elif", "elifdef", "elifndef") and stack:
            stack[-1] = match.start()
        elif match[1] == "endif" and stack:
            stack.pop()
    return tuple(stack)
