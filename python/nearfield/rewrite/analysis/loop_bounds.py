"""Recognises canonical loops: ascending from a lower to an upper bound, or descending in one of the forms `i = b; i >=
a; --i` and `i = b; i-- > a;`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

from nearfield.rewrite.analysis.expressions import ExpressionReader, NotAffine
from nearfield.rewrite.analysis.polynomials import ONE, Polynomial, Symbol
from nearfield.rewrite.analysis.program import Loop
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.conversions import INTEGER_TYPES, UNSIGNED_TYPES, bits_of_integer

# Kinds of syntax nodes whose children are all executed, unconditionally.
_UNCONDITIONAL_KINDS = (
    Kind.COMPOUND_STMT, Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR, Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR,
    Kind.ARRAY_SUBSCRIPT_EXPR,
)  # fmt: skip
_JUMP_KINDS = (Kind.BREAK_STMT, Kind.RETURN_STMT, Kind.GOTO_STMT)
_INT_BITS = 32


def canonical_loop(node: SyntaxNode, reader: ExpressionReader) -> Loop | str:
    """Returns a `for` statement as a loop with affine bounds, or the reason why it is not canonical."""
    up = _ascending_loop(node, reader)
    if not isinstance(up, str):
        return up
    down = _descending_loop(node, reader)
    return up if isinstance(down, str) else down


def induction_variable_key(node: SyntaxNode) -> int:
    """Returns the declaration key of a loop's induction variable; 0 if the loop has none."""
    first = node.children[0]
    if first.kind == Kind.DECL_STMT:
        variable = _induction_variable(node)
        return variable.key if variable is not None else 0
    first = first.without_casts
    if first.operator == "=" and first.children[0].without_casts.kind == Kind.DECL_REF_EXPR:
        declaration = first.children[0].without_casts.declaration
        return declaration.key if declaration else 0
    return 0


def _induction_variable(node: SyntaxNode) -> SyntaxNode | None:
    """Returns the induction variable among the variables that a loop header declares: the only one, or the one that the
    loop's step changes."""
    declaration = node.children[0].children
    if len(declaration) == 1:
        return declaration[0]
    stepped = [one for one in declaration for part in node.children[2:-1] if part.without_casts.children
               and part.without_casts.children[0].is_variable(one.key)]  # fmt: skip
    return stepped[0] if len(stepped) == 1 else None


def secondary_induction_variables(node: SyntaxNode) -> list[SyntaxNode]:
    """Returns the variables that a loop header declares in addition to the induction variable."""
    if node.children[0].kind != Kind.DECL_STMT:
        return []
    return [one for one in node.children[0].children if one.key != induction_variable_key(node)]


@dataclass(frozen=True)
class _LoopStart:
    """The initialisation in a `for` header: the induction variable and its start value."""

    key: int
    name: str
    start: SyntaxNode
    declared_type: str
    is_unsigned: bool
    num_bits: int


def _loop_start(node: SyntaxNode, reader: ExpressionReader) -> _LoopStart | str:
    """Returns the initialisation in a `for` header, or the reason why the loop is not canonical."""
    key = induction_variable_key(node)
    if not key:
        return "the loop does not start with one assignment to its variable"
    first, body = node.children[0], node.children[-1]
    declares = ""
    if first.kind == Kind.DECL_STMT:
        variable = next(one for one in first.children if one.key == key)
        values = [child for child in variable.children if child.kind.is_expression()]
        if not values:
            return "the loop's variable has no initial value"
        start, name, type_, declares = values[-1], variable.name, variable.type, _type_as_written(variable)
    else:
        target = first.without_casts.children[0].without_casts
        start, name, type_ = first.without_casts.children[1], target.name, target.type
    if type_.kind not in INTEGER_TYPES:
        return "the loop's variable is no integer"
    if any(is_within(change, body) for change in reader.function.changes.get(key, [])):
        return "the loop's body changes the loop's variable"
    if key in reader.function.address_taken:
        return "what has the address of the loop's variable may change it"
    if bits_of_integer(type_) < _INT_BITS and any(one.kind in _JUMP_KINDS for one in body.walk()):
        return "the loop's variable may wrap around before a jump ends the loop"
    return _LoopStart(key, name, start, declares, type_.kind in UNSIGNED_TYPES, bits_of_integer(type_))


def _ascending_loop(node: SyntaxNode, reader: ExpressionReader) -> Loop | str:
    """Returns a `for` statement as an ascending loop, or the reason why it is not canonical."""
    begin = _loop_start(node, reader)
    if isinstance(begin, str):
        return begin
    if len(node.children) != 4:
        return "the loop lacks a start, a test or a step"
    stride = _constant_step(node.children[2].without_casts, begin.key)
    if not 1 <= stride < 2 ** (begin.num_bits - 1):
        return "the loop does not count by a constant that fits its variable"
    try:
        lower = min_max_operands(begin.start, reader, ">")
        upper = _upper_bounds(node.children[1].without_casts, begin.key, reader)
    except NotAffine as why:
        return f"a bound is not affine: {why.reason}"
    if not upper:
        return "the loop's test does not compare its variable with an upper bound"
    if _may_have_huge_bound(node, begin.key, reader, has_one_bound=len(lower) == len(upper) == 1):
        return "the loop may count to a huge number without sign, and end before"
    natural = begin.is_unsigned or any(one.constant is not None and one.constant >= 0 for one in lower)
    if not natural and _compares_unsigned(node.children[1]):
        return "the loop's variable may be negative where it is compared with a number without sign"
    symbol = _new_iterator(node, begin, reader)
    if len(lower) == 1 and lower[0].constant is not None and lower[0].constant >= 0:
        reader.lower_bound_by_iterator[symbol.key] = lower[0].constant
        test = node.children[1].without_casts
        if test.operator == "<" and test.children[1].without_casts.type.kind == TypeKind.INT:
            reader.int_iterators.add(symbol.key)
    return Loop(symbol, tuple(lower), tuple(upper), stride, begin.declared_type, begin.is_unsigned, line=node.line)


def _may_have_huge_bound(
    node: SyntaxNode, declaration_key: int, reader: ExpressionReader, *, has_one_bound: bool
) -> bool:
    """Returns whether an unsigned loop bound may be a negative number that wrapped around to a huge one. Such a loop
    would leave its arrays, unless a second bound or a jump ends it, or the bound has 32 bits."""
    bits = [bits for part in node.children[:2] for bits in reader.wrap_bits_of(part)]
    if not bits or not has_one_bound or any(one.kind in _JUMP_KINDS for one in node.children[-1].walk()):
        return bool(bits)
    return min(bits) < 64 and not any(map(partial(_always_subscripts_by, declaration_key), node.children[-1:]))


def _always_subscripts_by(declaration_key: int, node: SyntaxNode) -> bool:
    """Returns whether every execution of a statement accesses an array at an index that contains the given variable."""
    if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR and node.children[1].mentions_variable(declaration_key):
        return True
    always = node.kind in _UNCONDITIONAL_KINDS and node.operator not in ("&&", "||")
    return always and any(map(partial(_always_subscripts_by, declaration_key), node.children))


def _new_iterator(node: SyntaxNode, loop_start: _LoopStart, reader: ExpressionReader) -> Symbol:
    """Returns a new symbol for the iterator of a loop."""
    symbol = Symbol(f"{loop_start.name}#{node.offset}.{node.line}", loop_start.name, is_iterator=True)
    reader.symbols[symbol.key] = symbol
    return symbol


def _type_as_written(variable: SyntaxNode) -> str:
    """Returns a variable's type as the source file writes it."""
    words = variable.unit.text[variable.offset : variable.name_offset].strip()
    if "auto" in words.split():
        return str(variable.type.spelling).removeprefix("const ")
    return words if re.fullmatch(r"[\w:\s]+", words) else str(variable.cursor.type.spelling)


def _constant_step(node: SyntaxNode, declaration_key: int) -> int:
    """Returns the constant by which a loop's step increments the induction variable; 0 if it does not."""
    if node.operator in ("++", "post++") and node.children[0].is_variable(declaration_key):
        return 1
    if node.operator == "+=" and node.children[0].is_variable(declaration_key):
        return node.children[1].constant_value or 0
    if node.operator == "=" and node.children[0].is_variable(declaration_key):
        added = node.children[1].without_casts
        if added.operator == "+" and added.children[0].is_variable(declaration_key):
            return added.children[1].constant_value or 0
    return 0


def _upper_bounds(test: SyntaxNode, declaration_key: int, reader: ExpressionReader) -> list[Polynomial]:
    """Returns the exclusive upper bounds in the test of an ascending loop. Raises NotAffine if a bound is not
    affine."""
    if test.operator == "&&":
        both = [_upper_bounds(child.without_casts, declaration_key, reader) for child in test.children]
        return [one for some in both for one in some] if all(both) else []
    if test.operator not in ("<", "<=", ">", ">=", "!="):
        return []
    left, right = test.children
    operator = test.operator
    if right.mentions_variable(declaration_key):
        left, right = right, left
        operator = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
    if not (
        left.without_casts.kind == Kind.DECL_REF_EXPR and left.mentions_variable(declaration_key)
    ) or operator not in (
        "<",
        "<=",
    ):
        raise NotAffine("the test is no upper bound", test.line)
    if right.mentions_variable(declaration_key):
        raise NotAffine("the bound depends on the loop's own variable", test.line)
    return [bound if operator == "<" else bound + ONE for bound in min_max_operands(right, reader, "<")]


def min_max_operands(node: SyntaxNode, reader: ExpressionReader, comparison: str) -> list[Polynomial]:
    """Returns the operands of a minimum (if `comparison` is "<") or maximum (if ">"), written as a library call or as a
    < b ? a : b; for any other expression, the expression as the only bound. Raises NotAffine."""
    bare = node.without_casts
    if bare.kind == Kind.CONDITIONAL_OPERATOR:
        test, first, second = bare.children
        test = test.without_casts
        if test.operator in ("<", "<=", ">", ">="):
            left, right = (reader.to_polynomial(child) for child in test.children)
            takes_left = test.operator[0] == comparison
            branches = (left, right) if takes_left else (right, left)
            if (reader.to_polynomial(first), reader.to_polynomial(second)) == branches:
                return [left, right]
    if bare.kind == Kind.CALL_EXPR and bare.name == ("min" if comparison == "<" else "max"):
        arguments = bare.arguments
        callee = bare.callee()
        if len(arguments) == 2 and callee is not None and callee.cursor.location.is_in_system_header:
            return [bound for argument in arguments for bound in min_max_operands(argument, reader, comparison)]
    return [reader.to_polynomial(node)]


def _compares_unsigned(test: SyntaxNode) -> bool:
    """Returns whether a loop test compares unsigned numbers."""
    return any(
        child.type.kind in UNSIGNED_TYPES
        for one in test.walk() if one.operator in ("<", "<=", ">", ">=") for child in one.children
    )  # fmt: skip


def _descending_loop(node: SyntaxNode, reader: ExpressionReader) -> Loop | str:
    """Returns a `for` statement as a descending loop, or the reason why it is not canonical."""
    begin = _loop_start(node, reader)
    if isinstance(begin, str):
        return begin
    test = node.children[1].without_casts
    if len(node.children) not in (3, 4) or len(test.children) != 2:
        return "the loop has no test against a bound"
    left, right = test.children[0].without_casts, test.children[1]
    try:
        first, bound = reader.to_polynomial(begin.start), reader.to_polynomial(right)
    except NotAffine as why:
        return f"a bound is not affine: {why.reason}"
    if len(node.children) == 3:
        if test.operator != ">" or left.operator != "post--" or not left.children[0].is_variable(begin.key):
            return "the loop does not count down in a known form"
        upper, lower = first, bound
    else:
        step = node.children[2].without_casts
        counts = step.operator in ("--", "post--") and step.children[0].is_variable(begin.key)
        signed = not begin.is_unsigned and not _compares_unsigned(node.children[1])
        if not counts or not left.is_variable(begin.key) or test.operator not in (">", ">=") or not signed:
            return "the loop does not count down in a known form"
        upper, lower = first + ONE, bound if test.operator == ">=" else bound + ONE
    symbol = _new_iterator(node, begin, reader)
    return Loop(
        symbol, (lower,), (upper,), 1, begin.declared_type, begin.is_unsigned, is_descending=True, line=node.line
    )


def has_entry_by_case(node: SyntaxNode) -> bool:
    """Returns whether a `case` inside a statement belongs to a `switch` around the statement, which may enter it in the
    middle."""
    if node.kind in (Kind.CASE_STMT, Kind.DEFAULT_STMT):
        return True
    return node.kind != Kind.SWITCH_STMT and any(map(has_entry_by_case, node.children))


def is_within(node: SyntaxNode, outer: SyntaxNode) -> bool:
    """Returns whether a syntax node begins inside another node."""
    return outer.offset <= node.offset <= outer.end
