"""Decides whether an expression has the same value whenever a loop evaluates it.

Only what is listed here counts as fixed: numbers, arithmetic, addresses of variables, and local variables of which each
use in the whole function is known. Everything else is refused with its reason."""

from __future__ import annotations

import re

from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.analysis.library_calls import is_library_call, is_pure_call
from nearfield.rewrite.analysis.loop_bounds import is_within
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node, TypeKind
from nearfield.rewrite.frontend.conversions import NUMBERS, is_mpi_handle_variable
from nearfield.rewrite.frontend.function import ASSIGNMENTS, INCREMENTS, FunctionFacts, initial_value
from nearfield.rewrite.frontend.language import attributes_refusal_reason, is_plain_mpi_call

_LITERALS = (
    Kind.INTEGER_LITERAL, Kind.FLOATING_LITERAL, Kind.CHARACTER_LITERAL, Kind.CXX_BOOL_LITERAL_EXPR,
    Kind.CXX_NULL_PTR_LITERAL_EXPR, Kind.GNU_NULL_EXPR, Kind.TYPE_REF,
)  # fmt: skip
_WRAPPERS = (
    Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR, Kind.CSTYLE_CAST_EXPR, Kind.CXX_STATIC_CAST_EXPR,
    Kind.CXX_FUNCTIONAL_CAST_EXPR, Kind.CONDITIONAL_OPERATOR,
)  # fmt: skip
_ARITHMETIC = {
    Kind.UNARY_OPERATOR: ("+", "-", "~", "!"),
    Kind.BINARY_OPERATOR: (
        "+", "-", "*", "/", "%", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "&&", "||",
    ),
}  # fmt: skip
_ELEMENTS = (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR)
_SCANS = ("scanf", "sscanf", "fscanf")
_BEGINS_MESSAGE = re.compile(r"P?MPI_I(?!nit)", re.I)


class FixedValues:
    """Decides which expressions are fixed while one loop of a function is executed."""

    def __init__(self, function: FunctionFacts, loop: Node) -> None:
        self._function, self._loop = function, loop

    def require_fixed(self, node: Node) -> None:
        """Raises NotMovable with the reason unless an expression has the same value whenever the loop evaluates it."""
        if node.type.is_volatile_qualified():
            raise NotMovable(f"{source_text_of(node)} is volatile", node.line)
        if node.kind in _LITERALS or node.kind == Kind.CXX_UNARY_EXPR and node.value:
            return
        if node.kind == Kind.DECL_REF_EXPR:
            self._require_fixed_variable(node)
        elif node.kind == Kind.UNARY_OPERATOR and node.operator == "&":
            self._require_fixed_address(node.children[0])
        elif node.kind in _ELEMENTS:
            if node.type.kind in ARRAYS:
                self._require_fixed_address(node)
            else:
                self._require_fixed_element(node)
        elif node.kind == Kind.CALL_EXPR and is_pure_call(node):
            for argument in node.arguments:
                self.require_fixed(argument)
        elif node.kind in _WRAPPERS or node.operator in _ARITHMETIC.get(node.kind, ()):
            for child in node.children:
                self.require_fixed(child)
        else:
            raise NotMovable(f"{source_text_of(node)} may have another value in another iteration", node.line)

    def _require_fixed_address(self, node: Node) -> None:
        """Raises NotMovable unless an lvalue denotes the same object whenever the loop evaluates it."""
        if node.kind in (Kind.PAREN_EXPR, Kind.UNEXPOSED_EXPR) and len(node.children) == 1:
            self._require_fixed_address(node.children[0])
        elif node.kind == Kind.DECL_REF_EXPR:
            self._require_object(node)
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

    def _require_object(self, use: Node) -> Node:
        """Returns the variable that a name denotes. Raises NotMovable if it may be another object in another iteration:
        a reference, a variable that is declared in the loop, or no variable."""
        declared = use.declaration
        if declared is None or declared.kind not in (Kind.VAR_DECL, Kind.PARM_DECL):
            raise NotMovable(f"{use.name} is no variable", use.line)
        if declared.type.kind in (TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE):
            raise NotMovable(f"{use.name} is a reference", use.line)
        if declared.key in self._function.declared and is_within(declared, self._loop):
            raise NotMovable(f"{use.name} is declared in the loop", use.line)
        return declared

    # ---- values of variables

    def _require_fixed_variable(self, use: Node) -> None:
        """Raises NotMovable unless a variable, whose value is loaded, or an array, which is named, is fixed in the
        loop."""
        if use.declaration is not None and use.declaration.kind == Kind.ENUM_CONSTANT_DECL:
            return
        declared = self._require_object(use)
        if declared.type.kind in ARRAYS and declared.kind == Kind.VAR_DECL:
            return  # an array's name is its address
        if declared.type.is_const_qualified() and initial_value(declared) is not None:
            return
        is_plain = declared.type.kind in (*NUMBERS, TypeKind.POINTER) or is_mpi_handle_variable(declared)
        if not is_plain or not self._is_local(declared):
            raise NotMovable(f"{use.name} is no local number, pointer or handle, so that it may change", use.line)
        for change in self._function.changes.get(declared.key, []):
            if is_within(change, self._loop):
                raise NotMovable(f"{use.name} changes at line {change.line}", use.line)
        for escape in self._function.escaping_uses(declared.key):
            if not self._is_set_at_once(escape):
                raise NotMovable(f"{use.name} may change after line {escape.line}", use.line)

    def _is_local(self, declared: Node) -> bool:
        """Returns whether a variable exists once for each call of the function, and nothing but names and addresses of
        the function reach it."""
        cursor = declared.cursor
        is_automatic = cursor.storage_class.name in ("NONE", "AUTO") and cursor.tls_kind.name == "NONE"
        return declared.key in self._function.declared and is_automatic and not attributes_refusal_reason(declared)

    def _is_set_at_once(self, use: Node) -> bool:
        """Returns whether a use of a variable passes its address to a call outside the loop that retains it only until
        the call returns."""
        for above in self._function.ancestors(use):
            if above.kind == Kind.CALL_EXPR:
                is_plain = is_plain_mpi_call(above.name) and not _BEGINS_MESSAGE.match(above.name)
                known = is_plain or above.name in _SCANS and is_library_call(above)
                return known and not is_within(above, self._loop) and not self._is_in_lambda(use)
            casts = (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR, Kind.CSTYLE_CAST_EXPR, *_ELEMENTS)
            if above.operator != "&" and above.kind not in casts or above.type.kind in NUMBERS:
                return False
        return False

    # ---- elements of arrays

    def _require_fixed_element(self, node: Node) -> None:
        """Raises NotMovable unless an element of a local array, or a member of a local structure, is fixed in the
        loop: the function only loads elements, stores them outside the loop, or has calls outside the loop set them."""
        root = node
        while root.kind in (*_ELEMENTS, Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR) and root.children:
            if root.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
                self.require_fixed(root.children[1])
            root = root.children[0]
        declared = root.declaration if root.kind == Kind.DECL_REF_EXPR else None
        if declared is None or declared.type.kind not in (*ARRAYS, TypeKind.RECORD) or not self._is_local(declared):
            raise NotMovable(f"{source_text_of(node)} is in memory that may change in the loop", node.line)
        self._require_object(root)
        for use in self._function.uses.get(declared.key, []):
            if not self._is_known_element_use(use) and not self._is_set_at_once(use):
                raise NotMovable(f"{source_text_of(node)} may change after line {use.line}", node.line)

    def _is_known_element_use(self, use: Node) -> bool:
        """Returns whether a use of an array or structure loads one of its numbers, pointers or handles, or stores one
        outside the loop."""
        below, values = use, (*ARRAYS, TypeKind.RECORD)
        if self._is_in_lambda(use):
            return False
        for above in self._function.ancestors(use):
            if above.kind == Kind.UNEXPOSED_EXPR and above.type.kind == below.type.kind not in values:
                return below.kind in _ELEMENTS and not above.type.is_const_qualified()
            if above.operator in (*ASSIGNMENTS, *INCREMENTS) and above.children[0] is below:
                outer = self._function.parent(above)
                alone = outer is not None and outer.kind.is_statement()
                is_element = below.kind in _ELEMENTS and below.type.kind not in values
                return is_element and alone and not is_within(above, self._loop)
            is_element = above.kind in _ELEMENTS and above.children[0] is below
            if not is_element and above.kind not in (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR):
                return False
            below = above
        return False

    def _is_in_lambda(self, use: Node) -> bool:
        return any(above.kind == Kind.LAMBDA_EXPR for above in self._function.ancestors(use))
