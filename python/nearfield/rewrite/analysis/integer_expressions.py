"""Converts integer expressions of C and C++ to polynomials."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from nearfield.rewrite.analysis.pointers import Pointer
from nearfield.rewrite.analysis.polynomials import Polynomial, Symbol
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.conversions import (
    INTEGER_TYPES,
    UNSIGNED_TYPES,
    may_trap,
    may_truncate,
    may_wrap_around,
    unsigned_wrap_bits,
)
from nearfield.rewrite.frontend.function import ASSIGNMENT_OPERATORS, INCREMENT_OPERATORS, FunctionFacts

# Kinds of expressions that read no memory themselves; their operands may.
KINDS_WITHOUT_READS = (
    Kind.INTEGER_LITERAL, Kind.FLOATING_LITERAL, Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR, Kind.CSTYLE_CAST_EXPR,
    Kind.CXX_STATIC_CAST_EXPR, Kind.CXX_FUNCTIONAL_CAST_EXPR, Kind.CXX_BOOL_LITERAL_EXPR, Kind.CHARACTER_LITERAL,
)  # fmt: skip
# Kinds of nodes that an invariant expression may consist of, whose text may be copied to another place of the function.
_INVARIANT_KINDS = (
    Kind.INTEGER_LITERAL, Kind.CHARACTER_LITERAL, Kind.CXX_BOOL_LITERAL_EXPR, Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR,
    Kind.DECL_REF_EXPR, Kind.MEMBER_REF_EXPR, Kind.ARRAY_SUBSCRIPT_EXPR, Kind.BINARY_OPERATOR, Kind.UNARY_OPERATOR,
    Kind.CXX_THIS_EXPR,
)  # fmt: skip
# Types of the parts of an invariant expression: integers, and the arrays, pointers and structures that contain them. So
# a write to floating-point data does not change the value of such an expression.
_INVARIANT_TYPES = (*INTEGER_TYPES, *ARRAY_TYPES, TypeKind.POINTER, TypeKind.RECORD)
_MIN_WRAPPED_CONSTANT = (
    2**31
)  # an unsigned constant of at least this value may be a negative number that wrapped around


class NotAffine(Exception):
    """Raised for an expression that is not a polynomial in loop iterators and in values that are invariant in the
    region."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason, self.line = reason, line


class IntegerExpressionReader:
    """Converts the integer expressions of one function to polynomials. `value_by_declaration` maps the
    declaration keys of loop iterators, parameters of an analysed callee, and local variables of a loop body to their
    values; None if the value is unknown. If `replaces_constants` is set, named constants are replaced by their
    values."""

    def __init__(
        self,
        function: FunctionFacts,
        *,
        replaces_constants: bool = False,
        symbols: dict[str, Symbol] | None = None,
        find_definition: Callable[[SyntaxNode], FunctionFacts | None] = lambda call: None,
    ) -> None:
        self.function = function
        self._find_definition = find_definition
        # callees whose return expressions are being converted, to detect recursion
        self._callees_in_progress: list[FunctionFacts] = []
        self.replaces_constants = replaces_constants
        self.symbols: dict[str, Symbol] = symbols if symbols is not None else {}
        self.value_by_declaration: dict[int, Polynomial | Pointer | None] = {}
        self.int_iterators: set[str] = set()  # keys of iterators from a constant >= 0 to an int upper bound
        self.lower_bound_by_iterator: dict[str, int] = {}  # constant lower bounds of loops, by the key of the iterator
        # bits of unsigned numbers that may have wrapped, by the keys in `value_by_declaration`
        self.wrap_bits_by_declaration: dict[int, int] = {}
        self.is_in_callee = False

    def to_polynomial(self, node: SyntaxNode) -> Polynomial:
        """Returns an integer expression as a polynomial. Raises NotAffine with the reason if it is none."""
        if may_truncate(node) and not self._is_iterator_that_fits_int(node):
            if node.constant_value is None:
                raise NotAffine(f"{source_text_of(node)} is cut to a shorter number", node.line)
            return Polynomial.from_constant(node.constant_value)
        node = node.without_casts
        if node.kind == Kind.INTEGER_LITERAL:
            return self._literal_value(node)
        if node.kind == Kind.DECL_REF_EXPR:
            return self._value_of_variable(node)
        if node.kind == Kind.UNARY_OPERATOR and node.operator in ("-", "+"):
            inner = self.to_polynomial(node.children[0])
            return -inner if node.operator == "-" else inner
        if node.kind == Kind.BINARY_OPERATOR and node.operator in ("+", "-", "*"):
            left, right = (self.to_polynomial(child) for child in node.children)
            if node.constant_value is not None and node.type.kind in UNSIGNED_TYPES:
                return self._constant_polynomial(node, node.constant_value)
            if may_wrap_around(node) and not self._has_no_wraparound(node.operator, left, right):
                raise NotAffine(f"{source_text_of(node)} has no sign and may wrap around", node.line)
            if node.operator == "*":
                return self._multiply(left, right)
            return left + right if node.operator == "+" else left - right
        if node.constant_value is not None:
            return self._constant_polynomial(node, node.constant_value)
        if node.kind == Kind.CALL_EXPR:
            return self._value_of_call(node)
        return self._invariant_symbol(node)

    def _is_iterator_that_fits_int(self, node: SyntaxNode) -> bool:
        """Returns whether the operand of a conversion to int is the iterator of a loop whose upper bound is an int, so
        that the conversion truncates nothing."""
        declaration = node.without_casts.declaration if node.without_casts.kind == Kind.DECL_REF_EXPR else None
        meaning = (
            self.value_by_declaration.get(declaration.key)
            if declaration is not None and node.type.kind == TypeKind.INT
            else None
        )
        return isinstance(meaning, Polynomial) and any(
            meaning == Polynomial.from_symbol(key) for key in self.int_iterators
        )

    def _has_no_wraparound(self, operator: str, left: Polynomial, right: Polynomial) -> bool:
        """Returns whether an unsigned sum or difference of a loop iterator and a constant does not wrap around: either
        the constant is subtracted and is at most the iterator's constant lower bound; or it is added, and it is 1 (the
        iterator stays below its upper bound) or the iterator fits into an int."""
        counter, offset = (left, right) if right.constant is not None else (right, left)
        key = next(iter(counter.keys), "")
        lowest = self.lower_bound_by_iterator.get(key)
        if offset.constant is None or lowest is None or counter != Polynomial.from_symbol(key):
            return False
        if operator == "+":
            return 0 <= offset.constant <= (_MIN_WRAPPED_CONSTANT - 1 if key in self.int_iterators else 1)
        return operator == "-" and 0 <= offset.constant <= lowest

    def _value_of_call(self, node: SyntaxNode) -> Polynomial:
        """Returns the value of a call as a polynomial in the arguments, if the callee's body is a single return
        statement. Raises NotAffine otherwise."""
        callee = self._find_definition(node)
        body = callee.body.children if callee is not None and callee.body is not None else []
        if callee is None or len(body) != 1 or body[0].kind != Kind.RETURN_STMT or callee in self._callees_in_progress:
            raise NotAffine(f"it calls or changes something: {source_text_of(node)}", node.line)
        formals = [child for child in callee.node.children if child.kind == Kind.PARM_DECL]
        values = [self.to_polynomial(argument) for argument in node.arguments]
        if len(formals) != len(values) or any(one.type.kind not in INTEGER_TYPES for one in formals):
            raise NotAffine(f"{source_text_of(node)} is not affine", node.line)
        outer = self.function, self.is_in_callee, self.value_by_declaration
        self.function, self.is_in_callee = callee, True
        self.value_by_declaration = outer[2] | {one.key: value for one, value in zip(formals, values, strict=True)}
        self._callees_in_progress.append(callee)
        try:
            return self.to_polynomial(body[0].children[0])
        finally:
            self.function, self.is_in_callee, self.value_by_declaration = outer
            self._callees_in_progress.pop()

    def _literal_value(self, node: SyntaxNode) -> Polynomial:
        value = node.constant_value
        if value is None:
            raise NotAffine("a number cannot be read", node.line)
        name = "" if self.replaces_constants else node.unit.macro_constant(node.name_offset, value)
        return self._new_symbol(name, name, value, frozenset()) if name else self._constant_polynomial(node, value)

    @staticmethod
    def _constant_polynomial(node: SyntaxNode, value: int) -> Polynomial:
        if node.type.kind in UNSIGNED_TYPES and value >= _MIN_WRAPPED_CONSTANT:
            raise NotAffine(f"{source_text_of(node)} is a negative number without sign", node.line)
        return Polynomial.from_constant(value)

    def wrap_bits_of(self, node: SyntaxNode) -> Iterator[int]:
        """Yields the numbers of bits of the unsigned parts of an expression that wrap to a huge number if their
        mathematical value is negative, also in the values of the constants and parameters that it names."""
        for part in node.walk():
            if bits := unsigned_wrap_bits(part):
                yield bits
            declaration = part.declaration if part.kind == Kind.DECL_REF_EXPR else None
            if declaration is None:
                continue
            if declaration.key in self.wrap_bits_by_declaration:
                yield self.wrap_bits_by_declaration[declaration.key]
            initial = self.function.constant_initial_value(declaration.key)
            if initial is not None and initial.offset < node.offset:
                yield from self.wrap_bits_of(initial)

    def is_never_negative(self, node: SyntaxNode) -> bool:
        """Returns whether an integer expression is a sum or product of values that are never negative."""
        node = node.without_casts
        if node.kind == Kind.BINARY_OPERATOR and node.operator in ("+", "*"):
            return all(map(self.is_never_negative, node.children))
        if node.kind == Kind.DECL_REF_EXPR and node.type.kind in UNSIGNED_TYPES and node.declaration is not None:
            meaning = self.value_by_declaration.get(node.declaration.key, None)
            fixed = self.function.constant_initial_value(node.declaration.key) is not None
            counts = (
                isinstance(meaning, Polynomial)
                and len(meaning.keys) == 1
                and meaning == Polynomial.from_symbol(*meaning.keys)
            )
            return counts if node.declaration.key in self.value_by_declaration else not fixed
        return node.constant_value is not None and node.constant_value >= 0

    def _new_symbol(
        self, key: str, text: str, value: int | None, variable_keys: frozenset[int], *,
        is_function_invariant: bool = True, is_nonnegative: bool = False, may_trap: bool = False,
    ) -> Polynomial:  # fmt: skip
        """Creates a symbol for a value that is not a constant number, and returns the polynomial that consists of the
        symbol."""
        symbol = Symbol(
            key,
            text,
            value,
            False,
            variable_keys,
            None,
            is_function_invariant,
            self.is_in_callee,
            is_nonnegative,
            may_trap,
        )
        self.symbols.setdefault(key, symbol)
        return Polynomial.from_symbol(key)

    def _value_of_variable(self, node: SyntaxNode) -> Polynomial:
        declaration = node.declaration
        if declaration is None:
            raise NotAffine(f"{node.name} is not known", node.line)
        if declaration.key in self.value_by_declaration:
            meaning = self.value_by_declaration[declaration.key]
            if isinstance(meaning, Polynomial):
                return meaning
            raise NotAffine(f"{node.name} has no value that is known from the loops", node.line)
        if declaration.kind == Kind.ENUM_CONSTANT_DECL or (
            node.constant_value is not None and node.type.is_const_qualified()
        ):
            value = node.constant_value if node.constant_value is not None else declaration.cursor.enum_value
            if self.replaces_constants:
                return Polynomial.from_constant(value)
            return self._new_symbol(f"{node.name}@{declaration.key}", node.name, value, frozenset())
        if declaration.type.kind not in INTEGER_TYPES or declaration.type.is_volatile_qualified():
            raise NotAffine(f"{node.name} is no integer, or may change at any time", node.line)
        initial = self.function.constant_initial_value(declaration.key)
        if initial is not None:
            with contextlib.suppress(NotAffine):
                meaning = self.to_polynomial(initial)
                if all(self.symbols[key].is_function_invariant for key in meaning.keys):
                    return meaning
        is_function_invariant = self.function.is_never_changed(declaration.key)
        is_nonnegative = declaration.type.kind in UNSIGNED_TYPES
        variable_keys = frozenset({declaration.key})
        return self._new_symbol(
            f"{node.name}@{declaration.key}", node.name, None, variable_keys,
            is_function_invariant=is_function_invariant, is_nonnegative=is_nonnegative,
        )  # fmt: skip

    def _multiply(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """Returns the product of two polynomials. A factor that is a sum of invariants becomes one symbol, since it may
        be the stride of an array."""
        left, right = (self._as_single_symbol(left), self._as_single_symbol(right))
        return left * right

    def _as_single_symbol(self, polynomial: Polynomial) -> Polynomial:
        """Returns a polynomial as one symbol if it is a sum of invariants, otherwise the polynomial itself."""
        several = len(polynomial.terms) > 1
        if not several or any(self.symbols[key].is_iterator for key in polynomial.keys):
            return polynomial
        key = f"({polynomial!r})"
        text = f"({self.polynomial_text(polynomial)})"
        variable_keys = frozenset().union(*(self.symbols[one].variable_keys for one in polynomial.keys))
        has_callee_names = any(self.symbols[one].has_callee_names for one in polynomial.keys)
        is_function_invariant = all(self.symbols[one].is_function_invariant for one in polynomial.keys)
        symbol = Symbol(
            key,
            text,
            variable_keys=variable_keys,
            equivalent_polynomial=polynomial,
            is_function_invariant=is_function_invariant,
            has_callee_names=has_callee_names,
        )
        self.symbols.setdefault(key, symbol)
        return Polynomial.from_symbol(key)

    def polynomial_text(self, polynomial: Polynomial) -> str:
        """Returns a polynomial as a C expression."""
        terms_text = ""
        for monomial, factor in sorted(polynomial.terms.items(), key=lambda term: (term[0] == (), term[1] < 0)):
            names = [self.symbols[key].text for key in monomial]
            if abs(factor) != 1 or not names:
                names.insert(0, str(abs(factor)))
            sign = " - " if factor < 0 else " + "
            terms_text += (sign if terms_text else sign.strip().replace("+", "")) + " * ".join(names)
        return terms_text or "0"

    def _invariant_symbol(self, node: SyntaxNode) -> Polynomial:
        """Returns a new symbol for an expression that is invariant in the region but is not a polynomial, such as n /
        2. Raises NotAffine if the expression may have side effects, truncates a value or uses a loop iterator."""
        variables: set[int] = set()
        for inner in node.walk():
            if inner.kind not in _INVARIANT_KINDS or inner.operator in (
                *ASSIGNMENT_OPERATORS,
                *INCREMENT_OPERATORS,
                "&",
                ",",
            ):
                raise NotAffine(f"it calls, converts or changes something: {source_text_of(node)}", node.line)
            literal = inner.kind == Kind.INTEGER_LITERAL and inner.type.kind != TypeKind.INT
            if literal or inner is not inner.without_casts and may_truncate(inner) or may_wrap_around(inner):
                raise NotAffine(f"{source_text_of(inner)} may be another number than its operands say", node.line)
            if inner.type.kind not in _INVARIANT_TYPES:
                raise NotAffine(f"{source_text_of(inner)} is no integer", node.line)
            if inner.kind == Kind.DECL_REF_EXPR and inner.declaration:
                if inner.declaration.key in self.value_by_declaration or inner.type.is_volatile_qualified():
                    raise NotAffine(f"{source_text_of(node)} is not affine", node.line)
                variables.add(inner.declaration.key)
        if node.type.kind not in INTEGER_TYPES:
            raise NotAffine(f"{source_text_of(node)} is no integer", node.line)
        expression_text = render_as_c(node)
        key = f"{expression_text}@{'.'.join(map(str, sorted(variables)))}"
        natural, may_fail = node.type.kind in UNSIGNED_TYPES, any(map(may_trap, node.walk()))
        return self._new_symbol(
            key,
            expression_text,
            None,
            frozenset(variables),
            is_function_invariant=False,
            is_nonnegative=natural,
            may_trap=may_fail,
        )


def source_text_of(node: SyntaxNode, *, shorten: bool = True) -> str:
    """Returns the source text of an expression on one line, shortened to 40 characters for messages."""
    text = node.unit.text[node.offset : node.cursor.extent.end.offset]
    text = " ".join(text.split()) or node.name
    return text if len(text) <= 40 or not shorten else f"{text[:37]}..."


def render_as_c(node: SyntaxNode) -> str:
    """Returns an expression as C text with parentheses around every operation. Raises NotAffine if the expression
    contains a call, a cast or a side effect."""
    node = node.without_casts
    if node.kind == Kind.INTEGER_LITERAL:
        return str(node.constant_value)
    if node.kind == Kind.DECL_REF_EXPR:
        return node.name
    if node.kind == Kind.MEMBER_REF_EXPR:
        if not node.children:
            return node.name
        owner = node.children[0]
        arrow = "->" if owner.without_casts.type.kind == TypeKind.POINTER else "."
        return f"{render_as_c(owner)}{arrow}{node.name}"
    if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
        return f"{render_as_c(node.children[0])}[{render_as_c(node.children[1])}]"
    if node.kind == Kind.BINARY_OPERATOR:
        left, right = (render_as_c(child) for child in node.children)
        return f"({left} {node.operator} {right})"
    if node.kind == Kind.UNARY_OPERATOR and node.operator in ("-", "+", "!", "~", "*"):
        return f"({node.operator}{render_as_c(node.children[0])})"
    raise NotAffine(f"{source_text_of(node)} is not affine", node.line)
