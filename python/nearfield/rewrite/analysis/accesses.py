"""Collects the memory accesses of a statement, each with the loops and conditions around it inside the statement. An
access whose index is unknown is widened to the whole array. A statement with unknown side effects raises NotMovable."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nearfield.rewrite.analysis.conditions import branch_conditions, is_branch_never_taken
from nearfield.rewrite.analysis.expressions import NotAffine, Pointer, source_text_of
from nearfield.rewrite.analysis.library_calls import (
    PRINT_FUNCTIONS,
    TERMINATING_FUNCTIONS,
    ArgumentUse,
    is_library_call,
    is_pure_call,
    library_argument_uses,
    unknown_call_reason,
)
from nearfield.rewrite.analysis.loop_bounds import (
    canonical_loop,
    has_entry_by_case,
    induction_variable_key,
    is_within,
    secondary_induction_variables,
)
from nearfield.rewrite.analysis.lvalue_accesses import LvalueAccessCollector
from nearfield.rewrite.analysis.parameters import is_lvalue, is_supported_parameter
from nearfield.rewrite.analysis.polynomials import Polynomial
from nearfield.rewrite.analysis.program import BaseObject, Loop, NotMovable
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.conversions import INTEGER_TYPES
from nearfield.rewrite.frontend.function import ASSIGNMENT_OPERATORS, INCREMENT_OPERATORS, FunctionFacts
from nearfield.rewrite.frontend.language import (
    KINDS_EVALUATING_CHILDREN,
    declares_no_object,
    describe_node_kind,
    find_refused_pragma,
    has_if_initialization,
    variable_refusal_reason,
)

OUTPUT_STREAM = BaseObject("output", "what is printed", "scalar", "stream")
_MAX_CALL_DEPTH = 4  # maximum depth of nested calls


@dataclass
class AccessCollector(LvalueAccessCollector):
    """Walks the syntax tree of one statement in textual order and records its memory accesses."""

    functions: ProgramFunctions
    outer_iterators: set[int] = field(default_factory=set, init=False)  # loop iterators declared outside the statement

    def collect_accesses(self, node: SyntaxNode) -> None:
        """Adds the memory accesses of a statement or an expression. Raises NotMovable for jumps out of it and for
        unknown side effects."""
        jumps = (Kind.BREAK_STMT, Kind.CONTINUE_STMT) if self.context.is_breakable else ()
        jumps = (*jumps, Kind.RETURN_STMT) if self.context.entered_callees else jumps
        if node.kind in _JUMP_NAME_BY_KIND and node.kind not in jumps:
            raise NotMovable(f"it contains {_JUMP_NAME_BY_KIND[node.kind]}", node.line)
        handler = _HANDLER_BY_KIND.get(node.kind)
        if handler is None and node.kind not in KINDS_EVALUATING_CHILDREN:
            raise NotMovable(
                f"it contains {_UNSUPPORTED_NAME_BY_KIND.get(node.kind) or describe_node_kind(node)}", node.line
            )
        (handler or AccessCollector._collect_children)(self, node)

    def _collect_implicit_conversion(self, node: SyntaxNode) -> None:
        """Adds the accesses of an implicit conversion, which libclang shows as an unexposed node with one child."""
        if len([child for child in node.children if child.kind != Kind.TYPE_REF]) != 1:
            raise NotMovable(f"it is not known what {source_text_of(node)} does", node.line)
        self._collect_children(node)

    def _collect_children(self, node: SyntaxNode) -> None:
        for child in node.children:
            if child.kind != Kind.TYPE_REF:
                self.collect_accesses(child)

    def _collect_binary_operator(self, node: SyntaxNode) -> None:
        (self._collect_assignment if node.operator in ASSIGNMENT_OPERATORS else self._collect_children)(node)

    def _collect_unary_operator(self, node: SyntaxNode) -> None:
        if node.operator in INCREMENT_OPERATORS:
            self._add_lvalue_access(node.children[0], is_write=False)
            self._add_lvalue_access(node.children[0], is_write=True)
        elif node.operator == "*":
            self._add_read(node)
        elif node.operator in ("-", "+", "!", "~"):
            self._collect_children(node)
        else:
            raise NotMovable(f"it is not known what {source_text_of(node)} is used for", node.line)

    def _add_read(self, node: SyntaxNode) -> None:
        self._add_lvalue_access(node, is_write=False)

    def _add_variable_read(self, node: SyntaxNode) -> None:
        kind = node.declaration.kind if node.declaration else None
        if kind in (Kind.VAR_DECL, Kind.PARM_DECL):
            self._add_read(node)
        elif kind != Kind.ENUM_CONSTANT_DECL:
            raise NotMovable(f"it is not known what {source_text_of(node)} is", node.line)

    def _collect_sizeof(self, node: SyntaxNode) -> None:
        if node.constant_value is None:  # sizeof does not evaluate its operand
            self._collect_children(node)

    def _collect_declarations(self, node: SyntaxNode) -> None:
        for child in node.children:
            self.declare_variable(child)

    # ---- declarations and assignments

    def declare_variable(self, node: SyntaxNode) -> None:
        """Registers a variable that the statement declares. If the variable never changes, uses of it stand for its
        initial value."""
        if declares_no_object(node):
            return
        if (
            reason := variable_refusal_reason(node)
            if node.kind == Kind.VAR_DECL
            else f"it declares {describe_node_kind(node)}"
        ):
            raise NotMovable(reason, node.line)
        values = [child for child in node.children if child.kind.is_expression() or child.kind == Kind.INIT_LIST_EXPR]
        for value in values:
            self.collect_accesses(value)
        self.private_variables.add(node.key)
        known_value: Polynomial | Pointer | None = None
        initial_value = self.reader.function.constant_initial_value(node.key)
        assigned_value = (
            self.reader.function.single_assigned_value(node) if initial_value is None and not values else None
        )
        if assigned_value is not None:
            with contextlib.suppress(NotMovable, NotAffine):
                is_pointer = node.type.kind == TypeKind.POINTER
                known_value = (
                    self.reader.pointer_value(assigned_value)
                    if is_pointer
                    else self.reader.to_polynomial(assigned_value)
                )
        if initial_value is not None:
            try:
                if node.type.kind in INTEGER_TYPES:
                    known_value = self.reader.to_polynomial(initial_value)
                elif node.type.kind == TypeKind.POINTER:
                    known_value = self.reader.pointer_value(initial_value)
                elif node.type.kind == TypeKind.LVALUEREFERENCE:
                    known_value = self.reader.address_of_lvalue(initial_value)
            except NotAffine:
                pass
        if node.type.kind in (*INTEGER_TYPES, TypeKind.POINTER, TypeKind.LVALUEREFERENCE):
            self.reader.value_by_declaration[node.key] = known_value
        if assigned_value is not None and isinstance(known_value, Polynomial):
            self._record_wrap_bits(node, assigned_value)

    def _collect_assignment(self, node: SyntaxNode) -> None:
        target, value = node.children
        self.collect_accesses(value)
        if node.operator != "=":
            self._add_lvalue_access(target, is_write=False)
        self._add_lvalue_access(target, is_write=True)

    # ---- function calls

    def _collect_call(self, node: SyntaxNode) -> None:
        """Adds the accesses of a function call. Raises NotMovable if the callee's side effects are unknown."""
        if node.name == "operator[]":
            self._add_lvalue_access(node, is_write=False)
            return
        if self.collect_special_call(node):
            return
        definition = self.functions.definition_of(node)
        if definition is not None:
            self._collect_callee(node, definition)
            return
        if is_library_call(node) and node.name in TERMINATING_FUNCTIONS:
            return
        if (uses := library_argument_uses(node)) is not None:
            self._collect_library_call(node, uses)
            return
        if not is_pure_call(node):
            raise NotMovable(unknown_call_reason(node), node.line)
        for argument in node.arguments:
            self.collect_accesses(argument.without_casts)

    def _collect_library_call(self, node: SyntaxNode, uses: Sequence[tuple[SyntaxNode, ArgumentUse]]) -> None:
        """Adds the accesses of a C library function that prints or copies. Printing counts as a write to OUTPUT_STREAM,
        so that output keeps its order, also relative to messages."""
        for argument, use in uses:
            if use is ArgumentUse.VALUE:
                self.collect_accesses(argument.without_casts)
            else:
                self._add_whole_array_access(argument, is_write=use is ArgumentUse.WRITTEN_MEMORY)
        if node.name in PRINT_FUNCTIONS:
            self.add_access(Pointer(OUTPUT_STREAM, ()), is_write=True, line=node.line)

    def _add_whole_array_access(self, node: SyntaxNode, *, is_write: bool) -> None:
        """Adds an access to all elements of the array that a pointer points into."""
        if node.without_casts.kind == Kind.DECL_REF_EXPR and node.without_casts.name in ("stdout", "stderr"):
            return
        self._add_index_reads(node.without_casts)
        pointer = self.reader.pointer_value(node)
        if self._is_in_declared_variable(pointer, node):
            return
        if not pointer.base.dimension_sizes and is_structure_member(pointer):
            raise NotMovable(
                f"what is copied at {source_text_of(node)} may be several members of a structure", node.line
            )
        indices = (None,) * max(len(pointer.base.dimension_sizes), 1)
        reason = f"how much of {pointer.base.text} is copied or printed is not known"
        self.add_access(
            replace(pointer, indices=indices, unknown_index_reason=reason), is_write=is_write, line=node.line
        )

    def collect_special_call(self, node: SyntaxNode) -> bool:
        """Adds the accesses of a call with special semantics, such as an MPI call. Returns whether the call is of such
        a kind."""
        if node.name.startswith(("MPI_", "PMPI_")):
            raise NotMovable(f"it calls {node.name}", node.line)
        return False

    def _collect_callee(self, node: SyntaxNode, callee: FunctionFacts) -> None:
        """Adds the accesses of a callee whose definition is known, with the arguments of this call in place of its
        parameters."""
        if len(self.context.entered_callees) >= _MAX_CALL_DEPTH or callee in self.context.entered_callees:
            raise NotMovable(f"it calls {callee.name}, whose calls are too deep", node.line)
        arguments = node.arguments
        parameters = [child for child in callee.node.children if child.kind == Kind.PARM_DECL]
        if len(arguments) != len(parameters):
            raise NotMovable(f"it calls {callee.name} with other arguments than it has", node.line)
        unsupported = next((one for one in parameters if not is_supported_parameter(one)), None)
        if unsupported is not None:
            reason = f"it calls {callee.name}, whose parameter {unsupported.name} is not understood"
            raise NotMovable(reason, node.line)
        body = callee.body
        assert body is not None
        if pragma := find_refused_pragma(body.unit.text[body.offset : body.end]):
            raise NotMovable(
                f"it calls {callee.name}, and the pragma there is not known to allow it: {pragma}", node.line
            )
        argument_values = [self._argument_value(*pair) for pair in zip(arguments, parameters, strict=True)]
        first_access = len(self.accesses)
        try:
            with self._inside_callee(callee):
                for parameter, value in zip(parameters, argument_values, strict=True):
                    self._bind_parameter(parameter, value, callee)
                self.collect_accesses(body)
        except NotMovable as refusal:
            reason = f"it calls {callee.name}, and there, at line {refusal.line}: {refusal.reason}"
            raise NotMovable(reason, node.line, refusal.assumption) from refusal
        for access_number in range(first_access, len(self.accesses)):
            self.accesses[access_number] = replace(self.accesses[access_number], line=node.line)

    @contextlib.contextmanager
    def _inside_callee(self, callee: FunctionFacts) -> Iterator[None]:
        """Makes the body of a callee the code that is analysed for the duration of a `with` block."""
        reader = self.reader
        outer = reader.function, reader.is_in_callee, reader.value_by_declaration, self.private_variables
        has_return = any(one.kind == Kind.RETURN_STMT for one in callee.body.walk()) if callee.body else False
        reader.function, reader.is_in_callee = callee, True
        reader.value_by_declaration, self.private_variables = dict(outer[2]), set(outer[3])
        try:
            with self.nested_context(
                entered_callees=(*self.context.entered_callees, callee),
                is_breakable=False,
                is_unconditional=self.context.is_unconditional and not has_return,
            ):
                yield
        finally:
            reader.function, reader.is_in_callee, reader.value_by_declaration, self.private_variables = outer

    def _bind_parameter(self, parameter: SyntaxNode, value: Polynomial | Pointer | None, callee: FunctionFacts) -> None:
        """Lets a parameter of a callee stand for the value or address of its argument; unless the parameter is a
        reference or a pointer that never changes, accesses to it are private to the callee."""
        reader = self.reader
        if parameter.type.kind == TypeKind.LVALUEREFERENCE:
            reader.value_by_declaration[parameter.key] = value
            return
        is_changed = bool(callee.changes.get(parameter.key)) or parameter.key in callee.address_taken
        reader.value_by_declaration[parameter.key] = None if is_changed else value
        if not isinstance(value, Pointer) or is_changed:
            self.private_variables.add(parameter.key)

    def _record_wrap_bits(self, declaration: SyntaxNode, value: SyntaxNode) -> None:
        """Records whether the value of a variable or a parameter may be an unsigned number that has wrapped."""
        if bits := min(self.reader.wrap_bits_of(value), default=0):
            self.reader.wrap_bits_by_declaration[declaration.key] = bits

    def _argument_value(self, argument: SyntaxNode, parameter: SyntaxNode) -> Polynomial | Pointer | None:
        """Returns the value or address that a parameter has in a callee; None if it is unknown."""
        kind = parameter.type.kind
        try:
            if kind in (TypeKind.POINTER, *ARRAY_TYPES):
                self._add_index_reads(argument.without_casts)
                if parameter.type.get_pointee().get_canonical().kind == TypeKind.RECORD:
                    return (
                        None
                        if argument.without_casts.type.kind != TypeKind.POINTER
                        else self.reader.pointer_value(argument)
                    )
                return self.reader.pointer_value(argument)
            if kind == TypeKind.LVALUEREFERENCE:
                if not is_lvalue(argument):
                    raise NotMovable(f"a reference to a temporary is made of {source_text_of(argument)}", argument.line)
                self._add_index_reads(argument.without_casts)
                return self.reader.address_of_lvalue(argument)
            self.collect_accesses(argument.without_casts)
            if kind not in INTEGER_TYPES:
                return None
            self._record_wrap_bits(parameter, argument)
            return self.reader.to_polynomial(argument)
        except NotAffine:
            return None

    # ---- loops and branches

    def _collect_for_loop(self, node: SyntaxNode) -> None:
        if has_entry_by_case(node):
            raise NotMovable("a switch may enter its loop in the middle", node.line)
        loop = canonical_loop(node, self.reader)
        body = node.children[-1]
        if isinstance(loop, str):
            self._collect_irregular_loop(node)
            return
        for variable in secondary_induction_variables(node):
            self.declare_variable(variable)
        self.add_header_reads(node)
        key = induction_variable_key(node)
        self.reader.value_by_declaration[key] = Polynomial.from_symbol(loop.iterator.key)
        self.make_iterator_private(node, key, loop)
        with self.nested_context(loops=(*self.context.loops, loop), is_breakable=True, is_unconditional=False):
            self.collect_accesses(body)
        del self.reader.value_by_declaration[key]

    def make_iterator_private(self, node: SyntaxNode, declaration_key: int, loop: Loop) -> None:
        """Makes a loop iterator private to the statement. An iterator that is declared outside of the loop is also
        recorded in `outer_iterators`."""
        if not loop.declared_type and declaration_key not in self.private_variables:
            declaration = self.reader.function.declarations.get(declaration_key)
            if (
                declaration is None
                or declaration.cursor.storage_class.name == "STATIC"
                or declaration_key in self.reader.function.address_taken
            ):
                raise NotMovable(f"its loop counts {loop.iterator.text}, which is no local variable", node.line)
            if not self.context.entered_callees:
                self.outer_iterators.add(declaration_key)
        self.private_variables.add(declaration_key)

    def add_header_reads(self, node: SyntaxNode) -> None:
        """Adds the reads in a loop header: of variables in the bounds and of array elements."""
        key = induction_variable_key(node)
        for part in node.children[:-1]:
            for inner in part.walk():
                declaration = inner.declaration if inner.kind == Kind.DECL_REF_EXPR else None
                if inner.kind in (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR):
                    self._add_lvalue_access(inner, is_write=False)
                elif declaration is not None and declaration.type.kind in INTEGER_TYPES and declaration.key != key:
                    self.collect_accesses(inner)

    def _collect_irregular_loop(self, node: SyntaxNode) -> None:
        """Adds the accesses of a loop that is not canonical. Variables that the loop modifies have unknown values in
        its body."""
        changed_keys = {
            key for key, nodes in self.reader.function.changes.items() if any(is_within(one, node) for one in nodes)
        }
        saved_values = {
            key: self.reader.value_by_declaration[key]
            for key in changed_keys
            if key in self.reader.value_by_declaration
        }
        for key in changed_keys:
            declaration = self.reader.function.declarations.get(key)
            if declaration is None or key not in self.private_variables and not self._are_all_uses_inside(key, node):
                raise NotMovable("its bounds are not affine", node.line)
            self.reader.value_by_declaration[key] = None
            self.private_variables.add(key)
        with self.nested_context(is_breakable=True, is_unconditional=False):
            for part in node.children:
                self.collect_accesses(part)
        for key in changed_keys:
            self.reader.value_by_declaration.pop(key, None)
        self.reader.value_by_declaration.update(saved_values)

    def _are_all_uses_inside(self, declaration_key: int, node: SyntaxNode) -> bool:
        """Returns whether all uses of a variable in the function lie inside the given loop."""
        return all(is_within(use, node) for use in self.reader.function.uses.get(declaration_key, []))

    def _collect_if(self, node: SyntaxNode) -> None:
        """Adds the accesses of an `if`, those of each branch under the condition that it is taken."""
        if has_if_initialization(node):
            raise NotMovable("an `if` has an initialisation", node.line)
        test, *branches = node.children
        self.collect_accesses(test.without_casts)
        for branch, is_true in zip(branches, (True, False), strict=False):
            if is_branch_never_taken(test, is_true, self.reader.function) and not self.reader.function.contains_label(
                branch
            ):
                continue
            test_conditions = branch_conditions(test, self.reader, is_true)
            with self.nested_context(conditions=(*self.context.conditions, *test_conditions), is_unconditional=False):
                self.collect_accesses(branch)


def is_structure_member(pointer: Pointer) -> bool:
    """Returns whether a pointer points to a member of a structure."""
    return bool(re.search(r"\.|->", pointer.base.key.partition("@")[2] or pointer.base.key))


# Jump statements, which are supported only if the loop or function that they leave is part of the analysed statement.
_JUMP_NAME_BY_KIND = {Kind.BREAK_STMT: "break", Kind.CONTINUE_STMT: "continue", Kind.RETURN_STMT: "return"}
# Names of unsupported language constructs, for messages.
_UNSUPPORTED_NAME_BY_KIND = {
    Kind.GOTO_STMT: "goto", Kind.INDIRECT_GOTO_STMT: "goto", Kind.LABEL_STMT: "a label",
    Kind.CXX_THROW_EXPR: "throw", Kind.CXX_TRY_STMT: "try", Kind.CXX_DELETE_EXPR: "delete", Kind.CXX_NEW_EXPR: "new",
    Kind.ASM_STMT: "assembly", Kind.MS_ASM_STMT: "assembly", Kind.LAMBDA_EXPR: "a lambda",
    Kind.CXX_FOR_RANGE_STMT: "a loop over a range",
}  # fmt: skip
# Methods of the collector by kind of syntax node.
_HANDLER_BY_KIND: dict[Any, Callable[[AccessCollector, SyntaxNode], None]] = {
    Kind.FOR_STMT: AccessCollector._collect_for_loop,
    Kind.WHILE_STMT: AccessCollector._collect_irregular_loop,
    Kind.DO_STMT: AccessCollector._collect_irregular_loop,
    Kind.IF_STMT: AccessCollector._collect_if,
    Kind.DECL_STMT: AccessCollector._collect_declarations,
    Kind.CALL_EXPR: AccessCollector._collect_call,
    Kind.BINARY_OPERATOR: AccessCollector._collect_binary_operator,
    Kind.COMPOUND_ASSIGNMENT_OPERATOR: AccessCollector._collect_binary_operator,
    Kind.UNARY_OPERATOR: AccessCollector._collect_unary_operator,
    Kind.CXX_UNARY_EXPR: AccessCollector._collect_sizeof,
    Kind.ARRAY_SUBSCRIPT_EXPR: AccessCollector._add_read,
    Kind.MEMBER_REF_EXPR: AccessCollector._add_read,
    Kind.DECL_REF_EXPR: AccessCollector._add_variable_read,
    Kind.UNEXPOSED_EXPR: AccessCollector._collect_implicit_conversion,
}
