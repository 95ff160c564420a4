"""Decides whether an expression is loop-invariant: it has the same value whenever the loop evaluates it.

Only these expressions count as invariant: numbers, arithmetic, addresses of variables, and local variables whose uses
in the whole function are all known. Everything else is refused with its reason."""

from __future__ import annotations

import re

from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.analysis.library_calls import is_library_call, is_pure_call
from nearfield.rewrite.analysis.loop_bounds import is_within
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.conversions import NUMBER_TYPES, is_mpi_handle_variable
from nearfield.rewrite.frontend.function import ASSIGNMENT_OPERATORS, INCREMENT_OPERATORS, FunctionFacts, initial_value
from nearfield.rewrite.frontend.language import attributes_refusal_reason, is_plain_mpi_call

_LITERAL_KINDS = (
    Kind.INTEGER_LITERAL, Kind.FLOATING_LITERAL, Kind.CHARACTER_LITERAL, Kind.CXX_BOOL_LITERAL_EXPR,
    Kind.CXX_NULL_PTR_LITERAL_EXPR, Kind.GNU_NULL_EXPR, Kind.TYPE_REF,
)  # fmt: skip
_WRAPPER_KINDS = (
    Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR, Kind.CSTYLE_CAST_EXPR, Kind.CXX_STATIC_CAST_EXPR,
    Kind.CXX_FUNCTIONAL_CAST_EXPR, Kind.CONDITIONAL_OPERATOR,
)  # fmt: skip
_ARITHMETIC_OPERATORS_BY_KIND = {
    Kind.UNARY_OPERATOR: ("+", "-", "~", "!"),
    Kind.BINARY_OPERATOR: (
        "+", "-", "*", "/", "%", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "&&", "||",
    ),
}  # fmt: skip
_ELEMENT_KINDS = (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR)
_SCAN_FUNCTIONS = ("scanf", "sscanf", "fscanf")
_NONBLOCKING_CALL = re.compile(r"P?MPI_I(?!nit)", re.I)


class LoopInvarianceChecker:
    """Decides which expressions are invariant in one loop of a function."""

    def __init__(self, function: FunctionFacts, loop: SyntaxNode) -> None:
        self._function, self._loop = function, loop

    def require_invariant(self, node: SyntaxNode) -> None:
        """Raises NotMovable with the reason unless an expression has the same value whenever the loop evaluates it."""
        if node.type.is_volatile_qualified():
            raise NotMovable(f"{source_text_of(node)} is volatile", node.line)
        if node.kind in _LITERAL_KINDS or node.kind == Kind.CXX_UNARY_EXPR and node.constant_value:
            return
        if node.kind == Kind.DECL_REF_EXPR:
            self._require_invariant_variable(node)
        elif node.kind == Kind.UNARY_OPERATOR and node.operator == "&":
            self._require_invariant_address(node.children[0])
        elif node.kind in _ELEMENT_KINDS:
            if node.type.kind in ARRAY_TYPES:
                self._require_invariant_address(node)
            else:
                self._require_invariant_element(node)
        elif node.kind == Kind.CALL_EXPR and is_pure_call(node):
            for argument in node.arguments:
                self.require_invariant(argument)
        elif node.kind in _WRAPPER_KINDS or node.operator in _ARITHMETIC_OPERATORS_BY_KIND.get(node.kind, ()):
            for child in node.children:
                self.require_invariant(child)
        else:
            raise NotMovable(f"{source_text_of(node)} may have another value in another iteration", node.line)

    def _require_invariant_address(self, node: SyntaxNode) -> None:
        """Raises NotMovable unless an lvalue denotes the same object whenever the loop evaluates it."""
        if node.kind in (Kind.PAREN_EXPR, Kind.UNEXPOSED_EXPR) and len(node.children) == 1:
            self._require_invariant_address(node.children[0])
        elif node.kind == Kind.DECL_REF_EXPR:
            self._require_object(node)
        elif node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            array, index = node.children
            self.require_invariant(index)
            if array.without_casts.type.kind in ARRAY_TYPES:
                self._require_invariant_address(array.without_casts)
            else:
                self.require_invariant(array)
        elif node.kind == Kind.MEMBER_REF_EXPR and node.children and node.children[0].type.kind == TypeKind.RECORD:
            self._require_invariant_address(node.children[0])
        elif node.kind == Kind.UNARY_OPERATOR and node.operator == "*":
            self.require_invariant(node.children[0])
        else:
            raise NotMovable(f"{source_text_of(node)} may be another object in another iteration", node.line)

    def _require_object(self, use: SyntaxNode) -> SyntaxNode:
        """Returns the variable that a name denotes. Raises NotMovable if it may be another object in another iteration:
        a reference, a variable that is declared in the loop, or no variable."""
        declaration = use.declaration
        if declaration is None or declaration.kind not in (Kind.VAR_DECL, Kind.PARM_DECL):
            raise NotMovable(f"{use.name} is no variable", use.line)
        if declaration.type.kind in (TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE):
            raise NotMovable(f"{use.name} is a reference", use.line)
        if declaration.key in self._function.declarations and is_within(declaration, self._loop):
            raise NotMovable(f"{use.name} is declared in the loop", use.line)
        return declaration

    # ---- values of variables

    def _require_invariant_variable(self, use: SyntaxNode) -> None:
        """Raises NotMovable unless a variable whose value is loaded, or an array whose address is taken by its name, is
        invariant in the loop."""
        if use.declaration is not None and use.declaration.kind == Kind.ENUM_CONSTANT_DECL:
            return
        declaration = self._require_object(use)
        if declaration.type.kind in ARRAY_TYPES and declaration.kind == Kind.VAR_DECL:
            return  # an array's name is its address
        if declaration.type.is_const_qualified() and initial_value(declaration) is not None:
            return
        is_plain = declaration.type.kind in (*NUMBER_TYPES, TypeKind.POINTER) or is_mpi_handle_variable(declaration)
        if not is_plain or not self._is_local(declaration):
            raise NotMovable(f"{use.name} is no local number, pointer or handle, so that it may change", use.line)
        for change in self._function.changes.get(declaration.key, []):
            if is_within(change, self._loop):
                raise NotMovable(f"{use.name} changes at line {change.line}", use.line)
        for escape in self._function.escaping_uses(declaration.key):
            if not self._is_set_by_call_outside_loop(escape):
                raise NotMovable(f"{use.name} may change after line {escape.line}", use.line)

    def _is_local(self, declaration: SyntaxNode) -> bool:
        """Returns whether a variable exists once for each call of the function, so that only the function's own names
        and addresses refer to it."""
        cursor = declaration.cursor
        is_automatic = cursor.storage_class.name in ("NONE", "AUTO") and cursor.tls_kind.name == "NONE"
        return (
            declaration.key in self._function.declarations
            and is_automatic
            and not attributes_refusal_reason(declaration)
        )

    def _is_set_by_call_outside_loop(self, use: SyntaxNode) -> bool:
        """Returns whether a use of a variable passes its address to a call outside the loop that retains it only until
        the call returns."""
        for above in self._function.ancestors_of(use):
            if above.kind == Kind.CALL_EXPR:
                is_plain = is_plain_mpi_call(above.name) and not _NONBLOCKING_CALL.match(above.name)
                is_known = is_plain or above.name in _SCAN_FUNCTIONS and is_library_call(above)
                return is_known and not is_within(above, self._loop) and not self._is_in_lambda(use)
            transparent_kinds = (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR, Kind.CSTYLE_CAST_EXPR, *_ELEMENT_KINDS)
            if above.operator != "&" and above.kind not in transparent_kinds or above.type.kind in NUMBER_TYPES:
                return False
        return False

    # ---- elements of arrays

    def _require_invariant_element(self, node: SyntaxNode) -> None:
        """Raises NotMovable unless an element of a local array, or a member of a local structure, is invariant in the
        loop: the function only loads elements, stores them outside the loop, or has calls outside the loop set them."""
        root = node
        while root.kind in (*_ELEMENT_KINDS, Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR) and root.children:
            if root.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
                self.require_invariant(root.children[1])
            root = root.children[0]
        declaration = root.declaration if root.kind == Kind.DECL_REF_EXPR else None
        if (
            declaration is None
            or declaration.type.kind not in (*ARRAY_TYPES, TypeKind.RECORD)
            or not self._is_local(declaration)
        ):
            raise NotMovable(f"{source_text_of(node)} is in memory that may change in the loop", node.line)
        self._require_object(root)
        for use in self._function.uses.get(declaration.key, []):
            if not self._is_known_element_use(use) and not self._is_set_by_call_outside_loop(use):
                raise NotMovable(f"{source_text_of(node)} may change after line {use.line}", node.line)

    def _is_known_element_use(self, use: SyntaxNode) -> bool:
        """Returns whether a use of an array or structure loads one of its numbers, pointers or handles, or stores one
        outside the loop."""
        below, aggregate_types = use, (*ARRAY_TYPES, TypeKind.RECORD)
        if self._is_in_lambda(use):
            return False
        for above in self._function.ancestors_of(use):
            if above.kind == Kind.UNEXPOSED_EXPR and above.type.kind == below.type.kind not in aggregate_types:
                return below.kind in _ELEMENT_KINDS and not above.type.is_const_qualified()
            if above.operator in (*ASSIGNMENT_OPERATORS, *INCREMENT_OPERATORS) and above.children[0] is below:
                outer = self._function.parent_of(above)
                is_own_statement = outer is not None and outer.kind.is_statement()
                is_element = below.kind in _ELEMENT_KINDS and below.type.kind not in aggregate_types
                return is_element and is_own_statement and not is_within(above, self._loop)
            is_element = above.kind in _ELEMENT_KINDS and above.children[0] is below
            if not is_element and above.kind not in (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR):
                return False
            below = above
        return False

    def _is_in_lambda(self, use: SyntaxNode) -> bool:
        return any(above.kind == Kind.LAMBDA_EXPR for above in self._function.ancestors_of(use))
