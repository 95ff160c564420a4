"""Decides from the pointer assignments of a function whether two arrays may overlap.

Two pointers do not overlap if all values assigned to them come from different allocations. Pointers that are only
swapped after their first assignment keep the same set of values, so they do not overlap either."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import combinations, product

from nearfield.rewrite.analysis.alias_rules import (
    _VALUE_DISCARDING_KINDS,
    are_different_members,
    are_members_of_one_variable,
    first_access_line,
    is_container_access,
    is_element_load,
    is_member_behind_pointer,
    is_plain_new,
    is_structure_and_member,
    is_value_discarded,
    may_alias_by_type,
    member_name,
    prints_address,
    share_allocation,
)
from nearfield.rewrite.analysis.library_calls import is_defined_by_header
from nearfield.rewrite.analysis.program import BaseObject, NotMovable, Region
from nearfield.rewrite.analysis.swaps import find_pointer_swaps
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.conversions import INTEGER_TYPES
from nearfield.rewrite.frontend.function import ASSIGNMENT_OPERATORS, INCREMENT_OPERATORS, FunctionFacts, initial_value
from nearfield.rewrite.frontend.language import is_plain_mpi_call

ALLOCATION_FUNCTIONS = frozenset(
    {"malloc", "calloc", "aligned_alloc", "valloc", "memalign", "fftw_malloc", "_mm_malloc", "operator new[]"}
)
# Functions of the C and C++ libraries that do not retain the addresses passed to them.
NON_RETAINING_FUNCTIONS = frozenset({
    "free", "swap", "fwrite", "fread", "size", "resize", "assign", "fill", "scanf", "sscanf", "fscanf",
    "gettimeofday", "clock_gettime", "memcpy", "memmove", "memset", "memcmp", "printf",
    "fprintf", "sprintf", "snprintf", "puts", "fputs", "strcpy", "strncpy", "strcat", "strncat", "strlen",
    "strcmp", "strncmp", "atoi", "atof",
})  # fmt: skip
# Functions of NON_RETAINING_FUNCTIONS that return their first argument.
_ARGUMENT_RETURNING_FUNCTIONS = frozenset({"memcpy", "memmove", "memset", "strcpy", "strncpy", "strcat", "strncat"})
ALLOCATED_ARGUMENT_BY_FUNCTION = {"posix_memalign": 0, "MPI_Alloc_mem": 2}
UNKNOWN_ALLOCATION = "?"
_COMPARISON_OPERATORS = ("<", "<=", ">", ">=", "==", "!=", "&&", "||", "!")
# Kinds of expressions whose value may be the address that is their operand.
_ADDRESS_PASSING_KINDS = (
    Kind.PAREN_EXPR, Kind.UNEXPOSED_EXPR, Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR, Kind.CSTYLE_CAST_EXPR,
    Kind.CALL_EXPR,
)  # fmt: skip
MAX_CALL_DEPTH = 3  # maximum depth of nested calls that are analysed


@dataclass(frozen=True)
class NoAliasAssumptions:
    """The assumptions that --assume-noalias asserts: `row_assumptions` are sentences on pointers to rows, and
    `disjoint_pairs` are pairs of arrays that do not overlap."""

    row_assumptions: list[str]
    disjoint_pairs: list[tuple[BaseObject, BaseObject]]

    @property
    def sentences(self) -> list[str]:
        """Returns all assumptions as sentences."""
        return self.row_assumptions + [
            f"{one.text} and {other.text} do not overlap" for one, other in self.disjoint_pairs
        ]


class AliasAnalysis:
    """Points-to analysis of the pointers in one function."""

    def __init__(self, functions: ProgramFunctions, function: FunctionFacts, assumed_disjoint: Collection[str]) -> None:
        self._functions, self._function = functions, function
        self._assumed_disjoint = {name.strip() for name in assumed_disjoint}
        self._global_by_key = {node.key: node for node in functions.unit.variables}
        self._swaps = list(find_pointer_swaps(function))
        self._swap_offsets = (
            frozenset().union(*(swap.assignment_offsets for swap in self._swaps)) if self._swaps else frozenset()
        )

    def check_region(self, region: Region) -> NoAliasAssumptions:
        """Returns the no-alias assumptions that the region needs. Raises NotMovable if an array or variable that the
        region writes may overlap another one that it accesses, and the user did not assert otherwise."""
        written_keys = {a.base.key for item in region.items for a in item.accesses if a.is_write}
        base_by_key = {a.base.key: a.base for item in region.items for a in item.accesses}
        bases = {key: base for key, base in base_by_key.items() if base.dimension_sizes or "->" in key}
        row_assumptions: dict[str, None] = {}
        disjoint_pairs: list[tuple[BaseObject, BaseObject]] = []
        for base in bases.values():
            if base.object_kind == "rows":
                if base.text not in self._assumed_disjoint:
                    reason = f"the rows of {base.text} may overlap, since each is a pointer of its own"
                    raise NotMovable(reason, first_access_line(region, base), base.text)
                row_assumptions[f"the rows of {base.text} do not overlap, and no message is longer than its row"] = None
        names_to_assume: dict[str, None] = {}
        possible_overlaps: list[tuple[BaseObject, BaseObject]] = []
        variables = [base for base in (*base_by_key.values(), *self._symbol_variables(region)) if base.key not in bases]
        may_be_pointed_to = [pair for pair in product(variables, bases.values()) if self._may_point_to(*pair)]
        overlapping = [pair for pair in combinations(bases.values(), 2) if self._may_overlap(*pair)]
        for one, other in dict.fromkeys([*overlapping, *may_be_pointed_to]):
            if not {one.key, other.key} & written_keys:
                continue
            if one.text in self._assumed_disjoint and other.text in self._assumed_disjoint:
                disjoint_pairs.append((one, other))
            else:
                names_to_assume.update(dict.fromkeys((one.text, other.text)))
                possible_overlaps.append((one, other))
        if names_to_assume:
            one, other = possible_overlaps[0]
            raise NotMovable(
                f"{one.text} and {other.text} may overlap", first_access_line(region, other), ",".join(names_to_assume)
            )
        return NoAliasAssumptions(list(row_assumptions), disjoint_pairs)

    def _symbol_variables(self, region: Region) -> Iterator[BaseObject]:
        """Yields the integer variables in the region's loop bounds, indices and message lengths."""
        for key in sorted({key for symbol in region.symbols.values() for key in symbol.variable_keys}):
            declaration = self._function.declarations.get(key) or self._global_by_key.get(key)
            if declaration is not None and declaration.type.kind in INTEGER_TYPES:
                yield BaseObject(
                    f"{declaration.name}@{key}", declaration.name, "scalar", declaration.type.spelling, (), key
                )

    def _may_point_to(self, variable: BaseObject, pointer: BaseObject) -> bool:
        """Returns whether `pointer` may point to a scalar variable, or to a member of a structure variable."""
        member, other_member = member_name(variable), member_name(pointer)
        if pointer.object_kind not in ("pointer", "rows") and (not member or member != other_member):
            return False
        if variable.element_type in ("request", "stream", "pointer", "type") or not may_alias_by_type(
            variable, pointer
        ):
            return False
        origins = self._allocations_of(pointer)
        local_declaration = self._function.declarations.get(variable.declaration_key)
        if local_declaration is not None and local_declaration.cursor.storage_class.name != "STATIC":
            return UNKNOWN_ALLOCATION in origins and self._has_stored_address(variable.declaration_key)
        return any(origin == UNKNOWN_ALLOCATION or origin.startswith("parameter") for origin in origins)

    def _has_stored_address(self, declaration_key: int) -> bool:
        """Returns whether a pointer or a reference to a local variable may be stored somewhere."""
        if declaration_key not in self._function.address_taken:
            return False
        escaping = self._function.escaping_uses(declaration_key)
        return any(not self._is_address_taken(use) or self._may_store_address(use, self._function) for use in escaping)

    def _is_address_taken(self, use: SyntaxNode) -> bool:
        """Returns whether a use of a variable is, directly or by a member, the operand of `&`."""
        for above in self._function.ancestors_of(use):
            if above.operator == "&" and above.kind == Kind.UNARY_OPERATOR:
                return True
            if above.kind not in (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR, Kind.MEMBER_REF_EXPR):
                return False
        return False

    def _may_overlap(self, first: BaseObject, second: BaseObject) -> bool:
        """Returns whether the memory of two arrays, or behind two pointers, may overlap. The first rule whose predicate
        holds for them decides."""
        rules: tuple[tuple[Callable[[BaseObject, BaseObject], bool], bool], ...] = (
            (is_structure_and_member, True),
            (are_members_of_one_variable, False),
            (are_different_members, False),
            (is_member_behind_pointer, True),
            (self._are_declared_arrays, False),
            (self._may_point_into_any_allocation, True),
            (self._is_allocation_unknown, False),
            (self._are_only_swapped, False),
            (self._may_share_allocation, True),
        )
        return next((may_overlap for is_case, may_overlap in rules if is_case(first, second)), False)

    def _are_declared_arrays(self, first: BaseObject, second: BaseObject) -> bool:
        """Returns whether both are arrays or containers that are themselves declared."""
        are_arrays = {first.object_kind, second.object_kind} <= {"array", "vector"}
        return are_arrays and not self._is_pointer_variable(first) and not self._is_pointer_variable(second)

    def _may_point_into_any_allocation(self, first: BaseObject, second: BaseObject) -> bool:
        """Returns whether one may point into any allocation, also into that of the other: this is no allocation of the
        function, or its address may be stored."""
        if not self._is_allocation_unknown(first, second):
            return False
        is_first_unknown = UNKNOWN_ALLOCATION in self._allocations_of(first)
        base = second if is_first_unknown else first
        known = self._allocations_of(base)
        are_own = all(origin.startswith(("new ", "array ")) for origin in known)
        return not are_own or self._address_escapes(base.declaration_key)

    def _is_allocation_unknown(self, first: BaseObject, second: BaseObject) -> bool:
        """Returns whether it is unknown into which allocation one of both points."""
        return UNKNOWN_ALLOCATION in self._allocations_of(first) | self._allocations_of(second)

    def _may_share_allocation(self, first: BaseObject, second: BaseObject) -> bool:
        """Returns whether both may point into the same allocation."""
        return share_allocation(self._allocations_of(first), self._allocations_of(second))

    def _is_pointer_variable(self, base: BaseObject) -> bool:
        """Returns whether a base object is the memory behind a pointer variable or a reference, not an object that is
        itself declared."""
        declaration = self._declaration_of(base)
        references = (TypeKind.POINTER, TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE)
        if declaration is None or declaration.type.kind in references or "->" in base.key:
            return True
        return declaration.kind == Kind.PARM_DECL and declaration.type.kind in ARRAY_TYPES

    def _declaration_of(self, base: BaseObject) -> SyntaxNode | None:
        return self._function.declarations.get(base.declaration_key) or self._global_by_key.get(base.declaration_key)

    def _address_escapes(self, declaration_key: int) -> bool:
        """Returns whether the address of a local variable escapes from the function."""
        return any(self._may_store_address(use, self._function) for use in self._function.uses.get(declaration_key, []))

    def _may_store_address(self, use: SyntaxNode, function: FunctionFacts, depth: int = 0) -> bool:
        """Returns whether a use of an address in a function may store the address. Returns False if the use only loads
        or changes an element, compares addresses, or passes the address to a function that does not retain it; True for
        all other uses."""
        if any(outer.kind == Kind.LAMBDA_EXPR for outer in function.ancestors_of(use)):
            return True
        below, above = use, function.parent_of(use)
        while above is not None:
            if above.kind == Kind.CALL_EXPR and not is_container_access(above, below):
                return self._callee_stores_argument(above, below, function, depth)
            if above.operator in (*ASSIGNMENT_OPERATORS, *INCREMENT_OPERATORS):
                if below is not above.children[0] or not is_value_discarded(above, function):
                    return bool(above.type.kind == TypeKind.POINTER)
                return False
            if above.operator in _COMPARISON_OPERATORS or above.kind == Kind.CXX_UNARY_EXPR:
                return False
            if above.kind in _VALUE_DISCARDING_KINDS:
                return False
            if is_element_load(above, below):
                return False
            passes_address = above.kind in _ADDRESS_PASSING_KINDS or above.operator in ("*", "&", "+", "-", ",")
            if not passes_address or above.kind == Kind.CSTYLE_CAST_EXPR and above.type.kind != TypeKind.POINTER:
                return True
            below, above = above, function.parent_of(above)
        return True

    def _is_library_call(self, call: SyntaxNode) -> bool:
        """Returns whether a call is of a function that a system header declares and no file of the program defines. Of
        methods, only those of containers count."""
        callee = call.callee()
        if callee is None or not callee.cursor.location.is_in_system_header or is_defined_by_header(callee):
            return False
        return callee.kind != Kind.FUNCTION_DECL or self._functions.definition_of(call) is None

    def _callee_stores_argument(
        self, call: SyntaxNode, argument: SyntaxNode, function: FunctionFacts, depth: int
    ) -> bool:
        """Returns whether a function that `function` calls may retain an address that is passed to it as an argument,
        or may pass it on by its result or by another argument."""
        if is_plain_mpi_call(call.name):
            return False
        if call.name == "swap" and argument.type.kind != TypeKind.POINTER:
            return True  # another container gets the memory
        if call.name in NON_RETAINING_FUNCTIONS and self._is_library_call(call) and not prints_address(call):
            return call.name in _ARGUMENT_RETURNING_FUNCTIONS and not is_value_discarded(call, function)
        callee = self._functions.definition_of(call)
        if callee is None or depth >= MAX_CALL_DEPTH:
            return True
        passed_arguments = call.arguments
        parameters = [child for child in callee.node.children if child.kind == Kind.PARM_DECL]
        matching_parameters = [
            parameter
            for one, parameter in zip(passed_arguments, parameters, strict=False)
            if one.offset == argument.offset
        ]
        uses = [use for parameter in matching_parameters for use in callee.uses.get(parameter.key, [])]
        return not matching_parameters or any(self._may_store_address(use, callee, depth + 1) for use in uses)

    # ---- allocations that a pointer may point into

    def _allocations_of(self, base: BaseObject) -> frozenset[str]:
        """Returns names for the allocations that an array or pointer may belong to; UNKNOWN_ALLOCATION is one of them
        if they may belong to any. Two arrays may overlap only if they share a name or one has UNKNOWN_ALLOCATION."""
        if base.object_kind == "rows" or "->" in base.key or "." in base.key.split("@")[-1]:
            return frozenset({UNKNOWN_ALLOCATION})
        declaration = self._declaration_of(base)
        if declaration is None:
            return frozenset({UNKNOWN_ALLOCATION})
        if declaration.type.kind in ARRAY_TYPES and declaration.kind != Kind.PARM_DECL or base.object_kind == "vector":
            return frozenset({self._allocation_of_array(declaration)})
        if declaration.key in self._function.address_taken and not self._allocating_calls(declaration.key):
            return frozenset({UNKNOWN_ALLOCATION})
        if declaration.key in self._global_by_key:
            return frozenset({UNKNOWN_ALLOCATION})  # assignments to global pointers are not analysed
        return self._allocations_of_pointer(declaration.key, True, frozenset())

    def _allocations_of_pointer(
        self, declaration_key: int, counts_swaps: bool, visited_keys: frozenset[int]
    ) -> frozenset[str]:
        """Returns the names of the allocations that a pointer variable may point into, from all values that are
        assigned to it. `counts_swaps`: whether pointer swaps count as assignments."""
        declaration = self._function.declarations.get(declaration_key)
        if declaration is None or declaration_key in visited_keys:
            return frozenset({UNKNOWN_ALLOCATION} if declaration is None else ())
        allocations: set[str] = set()
        if declaration.kind == Kind.PARM_DECL:
            is_restrict = declaration.type.is_restrict_qualified()
            allocations.add(
                f"new restrict {declaration_key}"
                if is_restrict and not self._function.changes.get(declaration_key)
                else f"parameter {declaration_key}"
            )
        allocations |= {f"new {call.offset}" for call in self._allocating_calls(declaration_key)}
        value = initial_value(declaration) if declaration.kind == Kind.VAR_DECL else None
        if value is not None:
            allocations |= self._allocations_of_value(value, counts_swaps, visited_keys | {declaration_key})
        for change in self._function.changes.get(declaration_key, []):
            if change.offset in self._swap_offsets and not counts_swaps:
                continue
            if change.operator == "=":
                allocations |= self._allocations_of_value(
                    change.children[1], counts_swaps, visited_keys | {declaration_key}
                )
            elif change.kind == Kind.CALL_EXPR:
                allocations.add(UNKNOWN_ALLOCATION) if change.offset not in self._swap_offsets else None
        if declaration_key in self._function.address_taken and not self._allocating_calls(declaration_key):
            allocations.add(UNKNOWN_ALLOCATION)
        return frozenset(allocations)

    def _allocations_of_value(
        self, node: SyntaxNode, counts_swaps: bool, visited_keys: frozenset[int]
    ) -> frozenset[str]:
        """Returns the names of the allocations that the value of a pointer expression may point into."""
        node = node.without_casts
        if node.kind == Kind.INIT_LIST_EXPR and len(node.children) == 1:
            node = node.children[0].without_casts
        if node.kind == Kind.CALL_EXPR and node.name in ALLOCATION_FUNCTIONS and self._is_library_call(node):
            return frozenset({f"new {node.offset}"})
        if node.kind == Kind.CXX_NEW_EXPR and is_plain_new(node):
            return frozenset({f"new {node.offset}"})
        if node.kind in (Kind.GNU_NULL_EXPR, Kind.CXX_NULL_PTR_LITERAL_EXPR) or node.constant_value == 0:
            return frozenset()
        if node.type.kind in INTEGER_TYPES:
            return frozenset({UNKNOWN_ALLOCATION})  # an address that integer arithmetic has computed
        if node.kind == Kind.BINARY_OPERATOR and node.operator in ("+", "-"):
            left, right = node.children
            return self._allocations_of_value(
                right if left.without_casts.type.kind in INTEGER_TYPES else left, counts_swaps, visited_keys
            )
        if node.kind == Kind.UNARY_OPERATOR and node.operator == "&":
            return self._allocations_of_value(node.children[0], counts_swaps, visited_keys)
        if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR and node.type.kind != TypeKind.POINTER:
            array = node.children[0].without_casts
            return self._allocations_of_value(array, counts_swaps, visited_keys)
        if node.kind == Kind.DECL_REF_EXPR and node.declaration is not None:
            declaration = node.declaration
            if declaration.type.kind in ARRAY_TYPES and declaration.kind == Kind.VAR_DECL:
                return frozenset({self._allocation_of_array(declaration)})
            if declaration.key in self._function.declarations and declaration.key not in self._function.address_taken:
                return self._allocations_of_pointer(declaration.key, counts_swaps, visited_keys)
        return frozenset({UNKNOWN_ALLOCATION})

    def _allocation_of_array(self, declaration: SyntaxNode) -> str:
        is_local = declaration.key in self._function.declarations and declaration.cursor.storage_class.name != "STATIC"
        return f"{'array' if is_local else 'global'} {declaration.key}"

    def _allocating_calls(self, declaration_key: int) -> list[SyntaxNode]:
        """Returns the calls, such as posix_memalign, that store the address of allocated memory in a pointer variable;
        none if anything else takes the variable's address."""
        allocations = [call for call in self._function.calls if call.name in ALLOCATED_ARGUMENT_BY_FUNCTION]
        matching_calls = [
            call for call in allocations for argument in call.arguments[ALLOCATED_ARGUMENT_BY_FUNCTION[call.name] :][:1]
            if argument.mentions_variable(declaration_key)
        ]  # fmt: skip
        return matching_calls if len(matching_calls) == len(self._function.escaping_uses(declaration_key)) else []

    # ---- pointer swaps

    def _are_only_swapped(self, first: BaseObject, second: BaseObject) -> bool:
        """Returns whether two pointers never hold the same address because they belong to one group of pointers: each
        is assigned once, outside of loops, with an allocation of its own, and otherwise only swapped with others of the
        group."""
        first_key, second_key = first.declaration_key, second.declaration_key
        group = {first_key}
        while (
            new_keys := {key for swap in self._swaps if swap.permuted_keys & group for key in swap.permuted_keys}
            - group
        ):
            group |= new_keys
        if first_key == second_key or second_key not in group or not all(map(self._is_assigned_exactly_once, group)):
            return False
        initial_allocations = [self._allocations_of_pointer(key, False, frozenset()) for key in group]
        return not any(
            UNKNOWN_ALLOCATION in a | b or share_allocation(a, b) for a, b in combinations(initial_allocations, 2)
        )

    def _is_assigned_exactly_once(self, declaration_key: int) -> bool:
        """Returns whether a pointer variable gets a value exactly once, outside of loops, apart from swaps."""
        function = self._function
        declaration = function.declarations.get(declaration_key)
        if (
            declaration is None
            or declaration_key in function.address_taken
            and not self._allocating_calls(declaration_key)
        ):
            return False
        changes = [
            change for change in function.changes.get(declaration_key, []) if change.offset not in self._swap_offsets
        ]
        has_initial_value = declaration.kind == Kind.PARM_DECL or initial_value(declaration) is not None
        num_assignments = len(changes) + has_initial_value + len(self._allocating_calls(declaration_key))
        return num_assignments == 1 and not any(
            function.is_in_loop(change) for change in [*changes, *self._allocating_calls(declaration_key)]
        )
