"""Decides whether an expression has the same value in all iterations of a loop, and in front of the loop.

Only what is listed here counts as fixed: numbers, arithmetic, addresses, and variables that nothing can change while
the loop is executed. Everything else is refused with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from nearfield.rewrite.analysis.aliases import AliasAnalysis
from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.analysis.library_calls import is_library_call, is_pure_call
from nearfield.rewrite.analysis.loop_bounds import is_within
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, Node, TypeKind
from nearfield.rewrite.frontend.conversions import ARRAYS, NUMBERS
from nearfield.rewrite.frontend.function import FunctionFacts, initial_value

_LITERALS = (
    Kind.INTEGER_LITERAL, Kind.FLOATING_LITERAL, Kind.CHARACTER_LITERAL, Kind.CXX_BOOL_LITERAL_EXPR,
    Kind.CXX_NULL_PTR_LITERAL_EXPR, Kind.GNU_NULL_EXPR,
)  # fmt: skip
_WRAPPERS = (
    Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR, Kind.CSTYLE_CAST_EXPR, Kind.CXX_STATIC_CAST_EXPR,
    Kind.CXX_FUNCTIONAL_CAST_EXPR, Kind.CONDITIONAL_OPERATOR,
)  # fmt: skip
_ARITHMETIC = (
    "+", "-", "*", "/", "%", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "&&", "||", "!", "~",
)  # fmt: skip
_FUNCTION_TYPES = (TypeKind.FUNCTIONPROTO, TypeKind.FUNCTIONNOPROTO)


class FixedValues:
    """Decides which expressions are fixed while one loop of a function is executed."""

    def __init__(self, functions: ProgramFunctions, function: FunctionFacts, loop: Node) -> None:
        self._functions, self._function, self._loop = functions, function, loop
        self._aliases = AliasAnalysis(functions, function, ())

    def require_fixed(self, node: Node) -> None:
        """Raises NotMovable with the reason unless an expression has the same value in all iterations of the loop, and
        in front of the loop."""
        if node.kind in _LITERALS or node.kind == Kind.TYPE_REF or node.kind == Kind.CXX_UNARY_EXPR and node.value:
            return
        if node.kind == Kind.DECL_REF_EXPR:
            self._require_fixed_variable(node)
        elif node.kind == Kind.UNARY_OPERATOR and node.operator == "&":
            self._require_fixed_address(node.children[0])
        elif node.kind == Kind.ARRAY_SUBSCRIPT_EXPR or node.kind == Kind.MEMBER_REF_EXPR:
            if node.type.kind in ARRAYS:
                self._require_fixed_address(node)
            else:
                self._require_fixed_element(node)
        elif node.kind == Kind.CALL_EXPR and (is_pure_call(node) or self._is_plain_expression(node)):
            for argument in node.arguments:
                self.require_fixed(argument)
        elif node.kind in _WRAPPERS or node.kind in (Kind.BINARY_OPERATOR, Kind.UNARY_OPERATOR):
            if node.kind not in _WRAPPERS and node.operator not in _ARITHMETIC:
                raise NotMovable(f"{source_text_of(node)} may have another value in another iteration", node.line)
            for child in node.children:
                self.require_fixed(child)
        else:
            raise NotMovable(f"{source_text_of(node)} may have another value in another iteration", node.line)

    def _is_plain_expression(self, call: Node) -> bool:
        """Returns whether a called function only returns an expression of its parameters, with no other effect."""
        callee = self._functions.definition_of(call)
        body = callee.body.children if callee is not None and callee.body is not None else []
        if callee is None or len(body) != 1 or body[0].kind != Kind.RETURN_STMT:
            return False
        return all(_is_of_parameters(node) for child in body[0].children for node in child.walk())

    def _require_fixed_address(self, node: Node) -> None:
        """Raises NotMovable unless an lvalue denotes the same object in all iterations, and in front of the loop."""
        node = node.children[0] if node.kind == Kind.PAREN_EXPR else node
        if node.kind == Kind.UNEXPOSED_EXPR and len(node.children) == 1:
            self._require_fixed_address(node.children[0])
        elif node.kind == Kind.DECL_REF_EXPR and node.declaration is not None:
            if node.declaration.type.kind in (TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE):
                raise NotMovable(f"{node.name} is a reference", node.line)
            self._require_visible(node)
        elif node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            array, index = node.children
            self.require_fixed(index)
            if array.bare.type.kind in ARRAYS:
                self._require_fixed_address(array.bare)
            else:
                self.require_fixed(array)
        elif node.kind == Kind.MEMBER_REF_EXPR and node.children and node.children[0].type.kind == TypeKind.RECORD:
            self._require_fixed_address(node.children[0])
        elif node.kind == Kind.UNARY_OPERATOR and node.operator == "*":
            self.require_fixed(node.children[0])
        else:
            raise NotMovable(f"{source_text_of(node)} may be another object in another iteration", node.line)

    def _require_visible(self, use: Node) -> None:
        """Raises NotMovable if a variable is declared inside the loop."""
        declared = use.declaration
        if declared is not None and declared.key in self._function.declared and is_within(declared, self._loop):
            raise NotMovable(f"{use.name} is declared in the loop", use.line)

    # ---- values of variables

    def _require_fixed_variable(self, use: Node) -> None:
        """Raises NotMovable unless a variable, whose value is loaded, or an array or function, which is named, is fixed
        in the loop."""
        declared = use.declaration
        if declared is None:
            raise NotMovable(f"{use.name} is not known", use.line)
        if declared.kind == Kind.ENUM_CONSTANT_DECL:
            return
        if declared.kind not in (Kind.VAR_DECL, Kind.PARM_DECL) or use.type.is_volatile_qualified():
            raise NotMovable(f"{use.name} is no variable with a fixed value", use.line)
        if declared.type.kind in (TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE):
            raise NotMovable(f"{use.name} is a reference", use.line)
        self._require_visible(use)
        if declared.type.kind in ARRAYS and declared.kind == Kind.VAR_DECL:
            return  # an array's name is its address
        if declared.type.is_const_qualified() and initial_value(declared) is not None:
            return
        for change in self._function.changes.get(declared.key, []):
            if is_within(change, self._loop):
                raise NotMovable(f"{use.name} changes at line {change.line}", use.line)
        for escape in self._function.escaping_uses(declared.key):
            if is_within(escape, self._loop):
                raise NotMovable(f"{use.name} may change at line {escape.line}", use.line)
        if self._is_global(declared):
            self._require_fixed_global(use, declared)
            return
        if self._aliases.has_stored_address(declared.key):
            raise NotMovable(f"the address of {use.name} is stored, so that it may change anywhere", use.line)
        if declared.kind == Kind.VAR_DECL and not self._has_value_before_loop(declared):
            raise NotMovable(f"{use.name} may have no value in front of the loop", use.line)

    def _is_global(self, declared: Node) -> bool:
        local = declared.key in self._function.declared
        return not local or bool(declared.cursor.storage_class.name == "STATIC")

    def _has_value_before_loop(self, declared: Node) -> bool:
        """Returns whether a local variable has a value whenever the loop begins: it is initialised, or a statement that
        is always executed before the loop gives it one."""
        if initial_value(declared) is not None:
            return True
        sets = {id(use) for use in self._function.uses.get(declared.key, []) if self._sets_value(use, declared.key)}
        for block in self._function.ancestors(self._loop):
            if block.kind == Kind.COMPOUND_STMT:
                *before, _ = (one for one in block.children if one.offset <= self._loop.offset)
                if any(_always_reaches(one, sets) for one in before):
                    return True
        return False

    def _sets_value(self, use: Node, key: int) -> bool:
        """Returns whether a use of a variable assigns to it, or passes its address to a function."""
        above = self._function.parent(use)
        if above is not None and above.operator == "=" and above.children[0] is use:
            return True
        return any(use is one for one in self._function.escaping_uses(key))

    # ---- elements of arrays

    def _require_fixed_element(self, node: Node) -> None:
        """Raises NotMovable unless an element of a local array, or a member of a local structure, is fixed in the
        loop: the loop only loads from the variable, and no pointer to it is stored."""
        root = node
        while root.kind in (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR, Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR):
            if root.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
                self.require_fixed(root.children[1])
                if root.children[0].bare.type.kind not in ARRAYS:
                    break  # the element lies behind a pointer
            if not root.children or root.kind == Kind.MEMBER_REF_EXPR and root.children[0].type.kind != TypeKind.RECORD:
                break
            root = root.children[0]
        declared = root.declaration if root.kind == Kind.DECL_REF_EXPR else None
        plain = declared is not None and declared.kind == Kind.VAR_DECL and not self._is_global(declared)
        if declared is None or not plain or declared.type.kind not in (*ARRAYS, TypeKind.RECORD):
            raise NotMovable(f"{source_text_of(node)} is in memory that may change in the loop", node.line)
        self._require_visible(root)
        for use in self._function.uses.get(declared.key, []):
            if is_within(use, self._loop) and not self._is_element_load(use):
                raise NotMovable(f"{source_text_of(node)} may change at line {use.line}", node.line)
        if self._aliases.address_escapes(declared.key):
            raise NotMovable(f"the address of {declared.name} is stored, so that it may change anywhere", node.line)

    def _is_element_load(self, use: Node) -> bool:
        """Returns whether a use of an array or structure only loads an element of it."""
        below = use
        for above in self._function.ancestors(use):
            if above.kind == Kind.UNEXPOSED_EXPR and above.type.kind == below.type.kind not in ARRAYS:
                return below.kind in (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR)
            inside = above.kind == Kind.ARRAY_SUBSCRIPT_EXPR and above.children[0] is below
            if not inside and above.kind not in (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR, Kind.MEMBER_REF_EXPR):
                return False
            below = above
        return False

    # ---- global variables

    def _require_fixed_global(self, use: Node, declared: Node) -> None:
        """Raises NotMovable unless no function that the loop calls can change a global variable."""
        internal = declared.cursor.linkage.name == "INTERNAL" or declared.cursor.storage_class.name == "STATIC"
        if not internal and not self._functions.is_whole_program:
            raise NotMovable(f"{use.name} is global, so that another file may change it", use.line)
        if isinstance(self._called, NotMovable):
            raise NotMovable(f"{use.name} is global, and {self._called.reason}", use.line)
        for function in self._called:
            if function.changes.get(declared.key) or declared.key in function.address_taken:
                raise NotMovable(f"{use.name} may change in {function.name}, which the loop calls", use.line)
        for function in self._functions.functions_of_file:
            if AliasAnalysis(self._functions, function, ()).has_stored_address(declared.key):
                raise NotMovable(f"the address of {use.name} is stored, so that it may change anywhere", use.line)

    @cached_property
    def _called(self) -> list[FunctionFacts] | NotMovable:
        """Returns the functions of the program that the loop may call, directly or not; a NotMovable if it may call one
        that is not known."""
        found: list[FunctionFacts] = []
        waiting = [call for call in self._function.calls if is_within(call, self._loop)]
        try:
            while waiting:
                callee = self._known_callee(waiting.pop())
                if callee is not None and callee not in found:
                    found.append(callee)
                    waiting += callee.calls
        except NotMovable as why:
            return why
        return found

    def _known_callee(self, call: Node) -> FunctionFacts | None:
        """Returns the function that a call runs; None if that is one of MPI or of a library, which changes no variable
        of the program that is not passed to it. Raises NotMovable for all other calls."""
        definition = self._functions.definition_of(call)
        if definition is not None:
            return definition
        library = call.name.startswith(("MPI_", "PMPI_")) or is_library_call(call)
        if not library or any(map(_passes_function, call.arguments)) or call.name == "MPI_Op_create":
            raise NotMovable(f"the loop calls {call.name or 'a function'}, which may change it", call.line)
        return None


def _is_of_parameters(node: Node) -> bool:
    """Returns whether a node of an expression is a number, a parameter that is no reference, or arithmetic."""
    if node.kind == Kind.DECL_REF_EXPR:
        declared = node.declaration
        return declared is not None and declared.kind == Kind.PARM_DECL and declared.type.kind in NUMBERS
    if node.kind in (Kind.BINARY_OPERATOR, Kind.UNARY_OPERATOR):
        return node.operator in _ARITHMETIC and (node.operator != "&" or node.kind == Kind.BINARY_OPERATOR)
    return node.kind in (*_LITERALS, *_WRAPPERS, Kind.TYPE_REF)


def _passes_function(argument: Node) -> bool:
    """Returns whether an argument is a pointer to a function."""
    type_ = argument.type
    return type_.kind == TypeKind.POINTER and type_.get_pointee().get_canonical().kind in _FUNCTION_TYPES


def _always_reaches(node: Node, wanted: set[int]) -> bool:
    """Returns whether every execution of a statement evaluates one of the wanted nodes."""
    if id(node) in wanted:
        return True
    if node.kind == Kind.IF_STMT:
        branches = node.children[1:]
        if len(branches) == 2 and all(_always_reaches(one, wanted) for one in branches):
            return True
        return _always_reaches(node.children[0], wanted)
    return any(_always_reaches(one, wanted) for one in _always_evaluated(node))


def _always_evaluated(node: Node) -> Iterator[Node]:
    """Yields the children of a node that are evaluated whenever the node is."""
    if node.operator in ("&&", "||") or node.kind == Kind.CONDITIONAL_OPERATOR:
        yield node.children[0]
    elif node.kind == Kind.COMPOUND_STMT or node.kind.is_expression() or node.kind in (Kind.DECL_STMT, Kind.VAR_DECL):
        yield from node.children
