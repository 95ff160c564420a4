"""Decides from the pointer assignments of a function whether two arrays may overlap.

Two pointers do not overlap if all values assigned to them come from different allocations. Pointers that are only
swapped after their first assignment keep the same set of values, so they do not overlap either."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import combinations, product

from nearfield.rewrite.analysis.datatypes import element_size_of
from nearfield.rewrite.analysis.library_calls import is_defined_by_header
from nearfield.rewrite.analysis.program import BaseObject, NotMovable, Region
from nearfield.rewrite.analysis.swaps import find_pointer_swaps
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node, TypeKind
from nearfield.rewrite.frontend.conversions import INTEGERS, NUMBERS
from nearfield.rewrite.frontend.function import ASSIGNMENTS, INCREMENTS, FunctionFacts, initial_value
from nearfield.rewrite.frontend.language import is_plain_mpi_call
from nearfield.rewrite.frontend.text import skip_blank

ALLOCATE = frozenset(
    {"malloc", "calloc", "aligned_alloc", "valloc", "memalign", "fftw_malloc", "_mm_malloc", "operator new[]"}
)
# Functions of the C and C++ libraries that do not retain the addresses passed to them.
KEEP_NOTHING = frozenset({
    "free", "swap", "fwrite", "fread", "size", "resize", "assign", "fill", "scanf", "sscanf", "fscanf",
    "gettimeofday", "clock_gettime", "memcpy", "memmove", "memset", "memcmp", "printf",
    "fprintf", "sprintf", "snprintf", "puts", "fputs", "strcpy", "strncpy", "strcat", "strncat", "strlen",
    "strcmp", "strncmp", "atoi", "atof",
})  # fmt: skip
# The functions above that return their first argument.
_PASS_ON = frozenset({"memcpy", "memmove", "memset", "strcpy", "strncpy", "strcat", "strncat"})
ALLOCATE_INTO = {"posix_memalign": 0, "MPI_Alloc_mem": 2}
UNKNOWN = "?"
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=", "&&", "||", "!")
# Statements that only test or discard the value of an expression.
_DISCARD_VALUE = (
    Kind.COMPOUND_STMT, Kind.IF_STMT, Kind.FOR_STMT, Kind.WHILE_STMT, Kind.DO_STMT, Kind.SWITCH_STMT, Kind.CASE_STMT,
    Kind.DEFAULT_STMT, Kind.LABEL_STMT,
)  # fmt: skip
# Kinds of expressions whose value may be the address that is their operand.
_PASS_ADDRESS = (
    Kind.PAREN_EXPR, Kind.UNEXPOSED_EXPR, Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR, Kind.CSTYLE_CAST_EXPR,
    Kind.CALL_EXPR,
)  # fmt: skip
MAX_CALL_DEPTH = 3  # maximum depth of nested calls that are analysed


@dataclass(frozen=True)
class NoAliasAssumptions:
    """The assertions of the user by --assume-noalias: sentences on pointers to rows, and pairs of arrays that do not
    overlap."""

    rows: list[str]
    pairs: list[tuple[BaseObject, BaseObject]]

    @property
    def sentences(self) -> list[str]:
        """Returns all assumptions as sentences."""
        return self.rows + [f"{one.text} and {other.text} do not overlap" for one, other in self.pairs]


class AliasAnalysis:
    """Points-to analysis of the pointers in one function."""

    def __init__(self, functions: ProgramFunctions, function: FunctionFacts, assumed: Collection[str]) -> None:
        self._functions, self._function = functions, function
        self._assumed = {name.strip() for name in assumed}
        self._globals = {node.key: node for node in functions.unit.variables}
        self._swaps = list(find_pointer_swaps(function))
        self._swapped = frozenset().union(*(swap.nodes for swap in self._swaps)) if self._swaps else frozenset()

    def check_region(self, region: Region) -> NoAliasAssumptions:
        """Returns the no-alias assumptions that the region needs. Raises NotMovable if an array or variable that the
        region writes may overlap another one that it accesses, and the user did not assert otherwise."""
        written = {a.base.key for item in region.items for a in item.accesses if a.write}
        used = {a.base.key: a.base for item in region.items for a in item.accesses}
        bases = {key: base for key, base in used.items() if base.sizes or "->" in key}
        rows: dict[str, None] = {}
        pairs: list[tuple[BaseObject, BaseObject]] = []
        for base in bases.values():
            if base.kind == "rows":
                if base.text not in self._assumed:
                    reason = f"the rows of {base.text} may overlap, since each is a pointer of its own"
                    raise NotMovable(reason, _first_access_line(region, base), base.text)
                rows[f"the rows of {base.text} do not overlap, and no message is longer than its row"] = None
        missing: dict[str, None] = {}
        first: list[tuple[BaseObject, BaseObject]] = []
        variables = [base for base in (*used.values(), *self._symbol_variables(region)) if base.key not in bases]
        reached = [pair for pair in product(variables, bases.values()) if self._may_point_to(*pair)]
        overlapping = [pair for pair in combinations(bases.values(), 2) if self._may_overlap(*pair)]
        for one, other in dict.fromkeys([*overlapping, *reached]):
            if not {one.key, other.key} & written:
                continue
            if one.text in self._assumed and other.text in self._assumed:
                pairs.append((one, other))
            else:
                missing.update(dict.fromkeys((one.text, other.text)))
                first.append((one, other))
        if missing:
            one, other = first[0]
            raise NotMovable(
                f"{one.text} and {other.text} may overlap", _first_access_line(region, other), ",".join(missing)
            )
        return NoAliasAssumptions(list(rows), pairs)

    def _symbol_variables(self, region: Region) -> Iterator[BaseObject]:
        """Yields the integer variables in the region's loop bounds, indices and message lengths."""
        for key in sorted({key for symbol in region.symbols.values() for key in symbol.variables}):
            declared = self._function.declared.get(key) or self._globals.get(key)
            if declared is not None and declared.type.kind in INTEGERS:
                yield BaseObject(f"{declared.name}@{key}", declared.name, "scalar", declared.type.spelling, (), key)

    def _may_point_to(self, variable: BaseObject, other: BaseObject) -> bool:
        """Returns whether the pointer `other` may point to a scalar variable, or to a member of a structure
        variable."""
        member, other_member = _member_name(variable), _member_name(other)
        if other.kind not in ("pointer", "rows") and (not member or member != other_member):
            return False
        if variable.element in ("request", "stream", "pointer", "type") or not _may_alias_by_type(variable, other):
            return False
        origins = self._allocations_of(other)
        local = self._function.declared.get(variable.declaration)
        if local is not None and local.cursor.storage_class.name != "STATIC":
            return UNKNOWN in origins and self._has_stored_address(variable.declaration)
        return any(origin == UNKNOWN or origin.startswith("parameter") for origin in origins)

    def _has_stored_address(self, key: int) -> bool:
        """Returns whether a pointer or a reference to a local variable may be stored somewhere."""
        if key not in self._function.address_taken:
            return False
        escaping = self._function.escaping_uses(key)
        return any(not self._is_address_taken(use) or self._may_store_address(use, self._function) for use in escaping)

    def has_stored_address(self, key: int) -> bool:
        """Returns whether the function may store a pointer or a reference to a variable somewhere."""
        return self._has_stored_address(key)

    def address_escapes(self, key: int) -> bool:
        """Returns whether the address of an array or variable of the function may be stored somewhere."""
        return self._address_escapes(key)

    def _is_address_taken(self, use: Node) -> bool:
        """Returns whether a use of a variable is, directly or by a member, the operand of `&`."""
        for above in self._function.ancestors(use):
            if above.operator == "&" and above.kind == Kind.UNARY_OPERATOR:
                return True
            if above.kind not in (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR, Kind.MEMBER_REF_EXPR):
                return False
        return False

    def _may_overlap(self, one: BaseObject, other: BaseObject) -> bool:
        """Returns whether the memory of two arrays, or behind two pointers, may overlap."""
        if one.declaration == other.declaration and one.key != other.key:
            keys = [base.key.replace("->", ".") + "." for base in (one, other)]
            if keys[0].startswith(keys[1]) or keys[1].startswith(keys[0]):  # a structure and its member
                return True
            if "pointer" not in (one.kind, other.kind):
                return False
        if not one.sizes or not other.sizes:  # a member of a structure behind a pointer
            same = _member_name(one) == _member_name(other)
            return _may_alias_by_type(one, other) and (same or bool(one.sizes or other.sizes))
        if (
            {one.kind, other.kind} <= {"array", "vector"}
            and not self._is_pointer_variable(one)
            and not self._is_pointer_variable(other)
        ):
            return False
        mine, theirs = self._allocations_of(one), self._allocations_of(other)
        if UNKNOWN in mine or UNKNOWN in theirs:
            known, base = (theirs, other) if UNKNOWN in mine else (mine, one)
            own = all(origin.startswith(("new ", "array ")) for origin in known)
            return UNKNOWN in known or not own or self._address_escapes(base.declaration)
        if self._are_only_swapped(one.declaration, other.declaration):
            return False
        return _share_allocation(mine, theirs)

    def _is_pointer_variable(self, base: BaseObject) -> bool:
        """Returns whether a base is what a pointer variable or a reference denotes, and not an object of its own."""
        declared = self._declaration_of(base)
        references = (TypeKind.POINTER, TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE)
        if declared is None or declared.type.kind in references or "->" in base.key:
            return True
        return declared.kind == Kind.PARM_DECL and declared.type.kind in ARRAYS

    def _declaration_of(self, base: BaseObject) -> Node | None:
        return self._function.declared.get(base.declaration) or self._globals.get(base.declaration)

    def _address_escapes(self, key: int) -> bool:
        """Returns whether the address of a local variable escapes from the function."""
        return any(self._may_store_address(use, self._function) for use in self._function.uses.get(key, []))

    def _may_store_address(self, use: Node, function: FunctionFacts, depth: int = 0) -> bool:
        """Returns whether a function may retain an address that it uses. A function that only loads or changes an
        element, compares addresses, or passes them to functions that retain none does not; for all other uses the
        answer is True."""
        if any(outer.kind == Kind.LAMBDA_EXPR for outer in function.ancestors(use)):
            return True
        below, above = use, function.parent(use)
        while above is not None:
            if above.kind == Kind.CALL_EXPR and not _is_container_access(above, below):
                return self._callee_stores_argument(above, below, function, depth)
            if above.operator in (*ASSIGNMENTS, *INCREMENTS):
                if below is not above.children[0] or not _is_value_discarded(above, function):
                    return bool(above.type.kind == TypeKind.POINTER)
                return False
            if above.operator in _COMPARISONS or above.kind == Kind.CXX_UNARY_EXPR:
                return False
            if above.kind in _DISCARD_VALUE:
                return False
            if _is_element_load(above, below):
                return False
            keeps = above.kind in _PASS_ADDRESS or above.operator in ("*", "&", "+", "-", ",")
            if not keeps or above.kind == Kind.CSTYLE_CAST_EXPR and above.type.kind != TypeKind.POINTER:
                return True
            below, above = above, function.parent(above)
        return True

    def _is_library_call(self, call: Node) -> bool:
        """Returns whether a call is of a function that a system header declares and no file of the program defines. Of
        methods, only those of containers count."""
        callee = call.callee()
        if callee is None or not callee.cursor.location.is_in_system_header or is_defined_by_header(callee):
            return False
        return callee.kind != Kind.FUNCTION_DECL or self._functions.definition_of(call) is None

    def _callee_stores_argument(self, call: Node, argument: Node, function: FunctionFacts, depth: int) -> bool:
        """Returns whether a function that `function` calls may retain an address that is passed to it as an argument,
        or may pass it on by its result or by another argument."""
        if is_plain_mpi_call(call.name):
            return False
        if call.name == "swap" and argument.type.kind != TypeKind.POINTER:
            return True  # another container gets the memory
        if call.name in KEEP_NOTHING and self._is_library_call(call) and not _prints_address(call):
            return call.name in _PASS_ON and not _is_value_discarded(call, function)
        callee = self._functions.definition_of(call)
        if callee is None or depth >= MAX_CALL_DEPTH:
            return True
        given = call.arguments
        formals = [child for child in callee.node.children if child.kind == Kind.PARM_DECL]
        mine = [formal for one, formal in zip(given, formals, strict=False) if one.offset == argument.offset]
        uses = [use for formal in mine for use in callee.uses.get(formal.key, [])]
        return not mine or any(self._may_store_address(use, callee, depth + 1) for use in uses)

    # ---- allocations that a pointer may point into

    def _allocations_of(self, base: BaseObject, *, swaps: bool = True) -> frozenset[str]:
        """Returns names for the allocations that an array or pointer may belong to; UNKNOWN is one of them if it may be
        any. Two arrays may overlap only if they share a name or one has UNKNOWN."""
        if base.kind == "rows" or "->" in base.key or "." in base.key.split("@")[-1]:
            return frozenset({UNKNOWN})
        declared = self._declaration_of(base)
        if declared is None:
            return frozenset({UNKNOWN})
        if declared.type.kind in ARRAYS and declared.kind != Kind.PARM_DECL or base.kind == "vector":
            return frozenset({self._allocation_of_array(declared)})
        if declared.key in self._function.address_taken and not self._allocating_calls(declared.key):
            return frozenset({UNKNOWN})
        if declared.key in self._globals:
            return self._allocations_of_global(declared)
        return self._allocations_of_pointer(declared.key, swaps, frozenset())

    def _allocations_of_pointer(self, key: int, swaps: bool, seen: frozenset[int]) -> frozenset[str]:
        """Returns the names of the allocations that a pointer variable may point into, from all values that are
        assigned to it. `swaps`: whether pointer swaps count as assignments."""
        declared = self._function.declared.get(key)
        if declared is None or key in seen:
            return frozenset({UNKNOWN} if declared is None else ())
        found: set[str] = set()
        if declared.kind == Kind.PARM_DECL:
            restrict = declared.type.is_restrict_qualified()
            found.add(f"new restrict {key}" if restrict and not self._function.changes.get(key) else f"parameter {key}")
        found |= {f"new {call.offset}" for call in self._allocating_calls(key)}
        value = initial_value(declared) if declared.kind == Kind.VAR_DECL else None
        if value is not None:
            found |= self._allocations_of_value(value, swaps, seen | {key})
        for change in self._function.changes.get(key, []):
            if change.offset in self._swapped and not swaps:
                continue
            if change.operator == "=":
                found |= self._allocations_of_value(change.children[1], swaps, seen | {key})
            elif change.kind == Kind.CALL_EXPR:
                found.add(UNKNOWN) if change.offset not in self._swapped else None
        if key in self._function.address_taken and not self._allocating_calls(key):
            found.add(UNKNOWN)
        return frozenset(found)

    def _allocations_of_value(self, node: Node, swaps: bool, seen: frozenset[int]) -> frozenset[str]:
        """Returns the names of the allocations that the value of a pointer expression may point into."""
        node = node.bare
        if node.kind == Kind.INIT_LIST_EXPR and len(node.children) == 1:
            node = node.children[0].bare
        if node.kind == Kind.CALL_EXPR and node.name in ALLOCATE and self._is_library_call(node):
            return frozenset({f"new {node.offset}"})
        if node.kind == Kind.CXX_NEW_EXPR and _is_plain_new(node):
            return frozenset({f"new {node.offset}"})
        if node.kind in (Kind.GNU_NULL_EXPR, Kind.CXX_NULL_PTR_LITERAL_EXPR) or node.value == 0:
            return frozenset()
        if node.type.kind in INTEGERS:
            return frozenset({UNKNOWN})  # an address that arithmetic on numbers has made
        if node.kind == Kind.BINARY_OPERATOR and node.operator in ("+", "-"):
            left, right = node.children
            return self._allocations_of_value(right if left.bare.type.kind in INTEGERS else left, swaps, seen)
        if node.kind == Kind.UNARY_OPERATOR and node.operator == "&":
            return self._allocations_of_value(node.children[0], swaps, seen)
        if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR and node.type.kind != TypeKind.POINTER:
            array = node.children[0].bare
            return self._allocations_of_value(array, swaps, seen)
        if node.kind == Kind.DECL_REF_EXPR and node.declaration is not None:
            declared = node.declaration
            if declared.type.kind in ARRAYS and declared.kind == Kind.VAR_DECL:
                return frozenset({self._allocation_of_array(declared)})
            if declared.key in self._function.declared and declared.key not in self._function.address_taken:
                return self._allocations_of_pointer(declared.key, swaps, seen)
        return frozenset({UNKNOWN})

    def _allocation_of_array(self, declared: Node) -> str:
        local = declared.key in self._function.declared and declared.cursor.storage_class.name != "STATIC"
        return f"{'array' if local else 'global'} {declared.key}"

    def _allocations_of_global(self, declared: Node) -> frozenset[str]:
        """Returns UNKNOWN, since assignments to global pointers are not analysed."""
        return frozenset({UNKNOWN})

    def _allocating_calls(self, key: int) -> list[Node]:
        """Returns the calls, such as posix_memalign, that allocate memory into a pointer variable; none if anything
        else takes the variable's address."""
        allocations = [call for call in self._function.calls if call.name in ALLOCATE_INTO]
        taken = [
            call for call in allocations for argument in call.arguments[ALLOCATE_INTO[call.name] :][:1]
            if argument.mentions(key)
        ]  # fmt: skip
        return taken if len(taken) == len(self._function.escaping_uses(key)) else []

    # ---- pointer swaps

    def _are_only_swapped(self, one: int, other: int) -> bool:
        """Returns whether two pointers are of a group whose pointers are each assigned once outside of loops, with
        values of different allocations, and otherwise only swapped with each other, so that no two of the group ever
        hold the same address."""
        group = {one}
        while more := {key for swap in self._swaps if swap.permuted & group for key in swap.permuted} - group:
            group |= more
        if one == other or other not in group or not all(map(self._is_assigned_once, group)):
            return False
        first = [self._allocations_of_pointer(key, False, frozenset()) for key in group]
        return not any(UNKNOWN in a | b or _share_allocation(a, b) for a, b in combinations(first, 2))

    def _is_assigned_once(self, key: int) -> bool:
        """Returns whether a pointer variable gets a value exactly once, outside of loops, apart from swaps."""
        function = self._function
        declared = function.declared.get(key)
        if declared is None or key in function.address_taken and not self._allocating_calls(key):
            return False
        changes = [change for change in function.changes.get(key, []) if change.offset not in self._swapped]
        initial = declared.kind == Kind.PARM_DECL or initial_value(declared) is not None
        given = len(changes) + initial + len(self._allocating_calls(key))
        return given == 1 and not any(
            function.is_in_loop(change) for change in [*changes, *self._allocating_calls(key)]
        )


def _is_container_access(call: Node, operand: Node) -> bool:
    """Returns whether a call is of a method of the C++ library that returns an element of the container `operand`, or
    the address of its elements."""
    callee = call.callee()
    if callee is None or call.name not in ("operator[]", "data", "begin") or operand is not call.children[0]:
        return False
    return bool(callee.cursor.location.is_in_system_header) and callee.kind != Kind.FUNCTION_DECL


def _is_element_load(cast: Node, operand: Node) -> bool:
    """Returns whether an implicit conversion is the load of a number from an lvalue."""
    is_number = cast.type.kind in NUMBERS or cast.type.kind == TypeKind.COMPLEX
    return bool(cast.kind == Kind.UNEXPOSED_EXPR and is_number and cast.type.kind == operand.type.kind)


def _is_value_discarded(node: Node, function: FunctionFacts) -> bool:
    """Returns whether nothing uses the value of an expression: it is a statement of its own, or the first part of an
    expression with a comma."""
    below, above = node, function.parent(node)
    while above is not None and above.kind in (Kind.PAREN_EXPR, Kind.UNEXPOSED_EXPR, Kind.CSTYLE_CAST_EXPR):
        if above.type.kind == TypeKind.VOID:
            return True
        below, above = above, function.parent(above)
    if above is not None and above.operator == ",":
        return below is above.children[0] or _is_value_discarded(above, function)
    return above is not None and above.kind in _DISCARD_VALUE


def _is_plain_new(node: Node) -> bool:
    """Returns whether a new-expression allocates memory; a placement new does not."""
    match = re.compile(r"(?:::\s*)?new\b").match(node.unit.text, node.offset)
    return match is not None and node.unit.text[skip_blank(node.unit.text, match.end())] != "("


def _prints_address(call: Node) -> bool:
    """Returns whether a printf-like call may print an address, from which the program could make a pointer again."""
    if "print" not in call.name:
        return False
    literals = [one.bare for one in call.arguments if one.bare.kind == Kind.STRING_LITERAL]
    return not literals or any(re.search(r"%[-+ #0-9.*]*p", one.name) for one in literals)


def _member_name(base: BaseObject) -> str:
    """Returns the name of the structure member that a base denotes; '' if the base is no member."""
    return re.split(r"->|\.", base.key.partition("@")[2])[-1] if re.search(r"@.*(->|\.)", base.key) else ""


def _may_alias_by_type(one: BaseObject, other: BaseObject) -> bool:
    """Returns whether the same memory may be accessed as the types of both bases: the types differ at most in sign, one
    is a byte type, or one is a structure or complex type with a part of the other type."""
    names = [base.element.replace("unsigned ", "").replace("signed ", "") for base in (one, other)]
    parts = any("omplex" in name for name in names)  # a complex number consists of two others
    return names[0] == names[1] or "char" in names or parts or not all(map(element_size_of, names))


def _share_allocation(one: frozenset[str], other: frozenset[str]) -> bool:
    """Returns whether two sets of names of allocations may have the same memory."""
    return bool(one & other) or any(_parameters_overlap(a, b) for a in one for b in other)


def _parameters_overlap(one: str, other: str) -> bool:
    """Returns whether two names of allocations may be the same memory: two parameters, or a parameter and a global
    array."""
    kinds = {one.split()[0], other.split()[0]}
    return kinds == {"parameter"} and one != other or kinds == {"parameter", "global"}


def _first_access_line(region: Region, base: BaseObject) -> int:
    """Returns the line of the first access to a base in a region."""
    lines = (a.line for item in region.items for a in item.accesses if a.base.key == base.key)
    return next(lines, region.line)
