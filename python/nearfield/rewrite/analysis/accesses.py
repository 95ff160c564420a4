"""Collects the memory accesses of a statement, each with the loops and conditions around it inside the statement. An
access whose index is unknown is widened to the whole array. A statement with unknown side effects raises NotMovable.

The file is long because it is one walk over the syntax tree, all handlers of which share the state of the walk."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from nearfield.rewrite.analysis.conditions import branch_conditions, is_branch_never_taken
from nearfield.rewrite.analysis.expressions import ExpressionReader, NotAffine, Pointer, source_text_of
from nearfield.rewrite.analysis.library_calls import is_library_call, is_pure_call, unknown_call_reason
from nearfield.rewrite.analysis.loop_bounds import (
    canonical_loop,
    has_entry_by_case,
    induction_variable_key,
    is_within,
    secondary_induction_variables,
)
from nearfield.rewrite.analysis.polynomials import Poly
from nearfield.rewrite.analysis.program import Access, BaseObject, Condition, Loop, NotMovable
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node, TypeKind
from nearfield.rewrite.frontend.conversions import INTEGERS
from nearfield.rewrite.frontend.function import ASSIGNMENTS, INCREMENTS, FunctionFacts, is_container
from nearfield.rewrite.frontend.language import (
    EVALUATE_PARTS,
    declares_no_object,
    has_if_initialisation,
    is_trivial_type,
    kind_in_words,
    refused_pragma_inside,
    variable_refusal_reason,
)

_PRINTS = ("printf", "fprintf", "puts", "fputs", "putchar", "fflush")
_COPIES = ("memcpy", "memmove", "memset")
# C library functions that write to the memory behind their first argument.
_FILLS = ("sprintf", "snprintf", "strcpy", "strncpy", "strcat", "strncat")
_FORMATS = {"printf": 0, "fprintf": 1, "sprintf": 1, "snprintf": 2}  # position of the format string among the arguments
_COUNTS_OUTPUT = re.compile(r"%[-+ #0-9.*']*(?:hh|h|ll|l|j|z|t|q|L)?n")  # a conversion that writes to an argument
_ENDS = ("__assert_fail", "abort")  # functions that end the program; correct programs do not call them
OUTPUT = BaseObject("output", "what is printed", "scalar", "stream")
_MAX_CALL_DEPTH = 4  # maximum depth of nested calls


@dataclass
class ControlContext:
    """The loops and conditions around the code that is being analysed, up to the statement whose accesses are
    collected."""

    loops: tuple[Loop, ...] = ()
    conditions: tuple[Condition, ...] = ()
    breakable: bool = False  # inside a loop of the statement, so that break and continue do not leave the statement
    callees: tuple[FunctionFacts, ...] = ()  # callees that are being analysed, in which `return` is allowed
    certain: bool = True  # executed exactly once per execution of the statement, under no condition


@dataclass
class AccessCollector:
    """Walks the syntax tree of one statement in textual order and records its memory accesses."""

    reader: ExpressionReader
    functions: ProgramFunctions
    accesses: list[Access] = field(default_factory=list)
    private: set[int] = field(default_factory=set)  # declarations of variables that the statement itself declares
    inside: ControlContext = field(default_factory=ControlContext)
    counters: set[int] = field(default_factory=set)  # loop iterators that are declared outside of the statement

    def collect_accesses(self, node: Node) -> None:
        """Adds the memory accesses of a statement or an expression. Raises NotMovable for jumps out of it and for
        unknown side effects."""
        jumps = (Kind.BREAK_STMT, Kind.CONTINUE_STMT) if self.inside.breakable else ()
        jumps = (*jumps, Kind.RETURN_STMT) if self.inside.callees else jumps
        if node.kind in _JUMPS and node.kind not in jumps:
            raise NotMovable(f"it contains {_JUMPS[node.kind]}", node.line)
        handler = _HANDLERS.get(node.kind)
        if handler is None and node.kind not in EVALUATE_PARTS:
            raise NotMovable(f"it contains {_NAMES.get(node.kind) or kind_in_words(node)}", node.line)
        (handler or AccessCollector._collect_children)(self, node)

    def _collect_implicit_conversion(self, node: Node) -> None:
        """Adds the accesses of an implicit conversion, which libclang shows as an unexposed node with one child."""
        if len([child for child in node.children if child.kind != Kind.TYPE_REF]) != 1:
            raise NotMovable(f"it is not known what {source_text_of(node)} does", node.line)
        self._collect_children(node)

    def _collect_children(self, node: Node) -> None:
        for child in node.children:
            if child.kind != Kind.TYPE_REF:
                self.collect_accesses(child)

    def _collect_binary(self, node: Node) -> None:
        (self._collect_assignment if node.operator in ASSIGNMENTS else self._collect_children)(node)

    def _collect_unary(self, node: Node) -> None:
        if node.operator in INCREMENTS:
            self._add_lvalue_access(node.children[0], write=False)
            self._add_lvalue_access(node.children[0], write=True)
        elif node.operator == "*":
            self._add_read(node)
        elif node.operator in ("-", "+", "!", "~"):
            self._collect_children(node)
        else:
            raise NotMovable(f"it is not known what {source_text_of(node)} is used for", node.line)

    def _add_read(self, node: Node) -> None:
        self._add_lvalue_access(node, write=False)

    def _add_variable_read(self, node: Node) -> None:
        kind = node.declaration.kind if node.declaration else None
        if kind in (Kind.VAR_DECL, Kind.PARM_DECL):
            self._add_read(node)
        elif kind != Kind.ENUM_CONSTANT_DECL:
            raise NotMovable(f"it is not known what {source_text_of(node)} is", node.line)

    def _collect_sizeof(self, node: Node) -> None:
        if node.value is None:  # sizeof does not evaluate its operand
            self._collect_children(node)

    def _collect_declarations(self, node: Node) -> None:
        for child in node.children:
            self.declare_variable(child)

    @contextlib.contextmanager
    def nested_context(self, **changes: Any) -> Iterator[None]:
        """Replaces attributes of `inside` for the duration of a `with` block."""
        before = self.inside
        self.inside = replace(before, **changes)
        try:
            yield
        finally:
            self.inside = before

    # ---- declarations and assignments

    def declare_variable(self, node: Node) -> None:
        """Registers a variable that the statement declares. If the variable never changes, uses of it stand for its
        initial value."""
        if declares_no_object(node):
            return
        if (
            reason := variable_refusal_reason(node)
            if node.kind == Kind.VAR_DECL
            else f"it declares {kind_in_words(node)}"
        ):
            raise NotMovable(reason, node.line)
        values = [child for child in node.children if child.kind.is_expression() or child.kind == Kind.INIT_LIST_EXPR]
        for value in values:
            self.collect_accesses(value)
        self.private.add(node.key)
        meaning: Poly | Pointer | None = None
        initial = self.reader.function.constant_initial_value(node.key)
        later = self.reader.function.single_assignment(node) if initial is None and not values else None
        if later is not None:
            with contextlib.suppress(NotMovable, NotAffine):
                is_pointer = node.type.kind == TypeKind.POINTER
                meaning = self.reader.pointer_value(later) if is_pointer else self.reader.to_polynomial(later)
        if initial is not None:
            try:
                if node.type.kind in INTEGERS:
                    meaning = self.reader.to_polynomial(initial)
                elif node.type.kind == TypeKind.POINTER:
                    meaning = self.reader.pointer_value(initial)
                elif node.type.kind == TypeKind.LVALUEREFERENCE:
                    meaning = self.reader.address_of_lvalue(initial)
            except NotAffine:
                pass
        if node.type.kind in (*INTEGERS, TypeKind.POINTER, TypeKind.LVALUEREFERENCE):
            self.reader.bound[node.key] = meaning
        if later is not None and isinstance(meaning, Poly):
            self._record_wraps(node, later)

    def _collect_assignment(self, node: Node) -> None:
        target, value = node.children
        self.collect_accesses(value)
        if node.operator != "=":
            self._add_lvalue_access(target, write=False)
        self._add_lvalue_access(target, write=True)

    def _add_lvalue_access(self, node: Node, *, write: bool) -> None:
        """Adds the access to an lvalue, and the reads of its indices. Variables that the statement declares are
        omitted."""
        node = node.bare
        if node.kind == Kind.UNARY_OPERATOR and node.operator in ("++", "--"):
            raise NotMovable("it uses the result of an increment", node.line)
        if node.kind == Kind.DECL_REF_EXPR and node.declaration and node.declaration.key in self.private:
            return
        if node.kind == Kind.DECL_REF_EXPR and node.declaration and node.declaration.key in self.reader.bound:
            known = isinstance(self.reader.bound[node.declaration.key], Pointer)
            if write and not (known and node.declaration.type.kind == TypeKind.LVALUEREFERENCE):
                raise NotMovable(f"it changes {node.name}", node.line)
            if not known:
                return
        if node.type.is_volatile_qualified() or node.type.kind == TypeKind.ATOMIC:
            raise NotMovable(f"{source_text_of(node)} is volatile or atomic", node.line)
        if write and node.type.kind == TypeKind.POINTER:
            raise NotMovable(f"it changes the pointer {source_text_of(node)}", node.line)
        pointer = self.reader.address_of_lvalue(node)
        self._add_index_reads(node)
        if not self._is_in_declared_variable(pointer, node):
            self.add_access(pointer, write=write, line=node.line)

    def _is_in_declared_variable(self, pointer: Pointer, node: Node) -> bool:
        """Returns whether an address lies in a variable that the analysed statement itself declares. Raises NotMovable
        if it lies behind a pointer that is such a variable."""
        base = pointer.base
        if base.declaration not in self.private:
            return False
        if "->" in base.key or pointer.index and base.kind in ("pointer", "rows"):
            raise NotMovable(f"it is not known where {base.text} points", node.line)
        return True

    def add_access(self, pointer: Pointer, *, write: bool, line: int, message: bool = False) -> None:
        """Adds an access to an address, under the current loops and conditions."""
        base, index, inside = pointer.base, pointer.index, self.inside
        self.accesses.append(Access(base, index, write, line, inside.loops, inside.conditions, message, pointer.note))

    def _add_index_reads(self, node: Node) -> None:
        """Adds the reads of the array indices and pointers from which an lvalue's address is computed."""
        node = node.bare
        if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            array, index = node.children
            self.collect_accesses(index.bare)
            self._add_index_reads(array)
        elif node.kind == Kind.CALL_EXPR and node.name == "operator[]":
            self.collect_accesses(node.children[-1].bare)
            self._add_index_reads(node.children[0])
        elif (
            node.kind == Kind.MEMBER_REF_EXPR
            and node.children
            or node.kind == Kind.UNARY_OPERATOR
            and node.operator in ("*", "&")
        ):
            self._add_index_reads(node.children[0])
        elif node.kind == Kind.BINARY_OPERATOR:
            for child in node.children:
                if child.type.kind in (TypeKind.POINTER, *ARRAYS):
                    self._add_index_reads(child)
                else:
                    self.collect_accesses(child.bare)
        elif node.kind == Kind.DECL_REF_EXPR and node.declaration and node.declaration.type.kind == TypeKind.POINTER:
            self._add_pointer_read(node, node.declaration.key)

    def _add_pointer_read(self, node: Node, key: int) -> None:
        """Adds the read of a pointer variable, as opposed to the memory that it points to."""
        if key not in self.private and key not in self.reader.bound:
            base = replace(self.reader.pointer_value(node).base, kind="scalar", element="pointer", sizes=())
            self.accesses.append(Access(replace(base, key=f"&{base.key}"), (), False, node.line))

    # ---- function calls

    def _collect_call(self, node: Node) -> None:
        """Adds the accesses of a function call. Raises NotMovable if the callee's side effects are unknown."""
        if node.name == "operator[]":
            self._add_lvalue_access(node, write=False)
            return
        if self.collect_special_call(node):
            return
        definition = self.functions.definition_of(node)
        if definition is not None:
            self._collect_callee(node, definition)
            return
        known = is_library_call(node)
        if known and node.name in (*_PRINTS, *_COPIES, *_FILLS):
            self._collect_library_call(node)
        elif not known or node.name not in _ENDS:
            if not is_pure_call(node):
                raise NotMovable(unknown_call_reason(node), node.line)
            for argument in node.arguments:
                self.collect_accesses(argument.bare)

    def _collect_library_call(self, node: Node) -> None:
        """Adds the accesses of a C library function that prints or copies. Printing counts as a write to OUTPUT, so
        that output keeps its order, also relative to messages."""
        arguments = node.arguments
        if (format_ := _FORMATS.get(node.name)) is not None:
            literal = arguments[format_].bare
            if literal.kind != Kind.STRING_LITERAL or _COUNTS_OUTPUT.search(literal.name):
                raise NotMovable(f"what {node.name} writes is known only when it runs", node.line)
        if node.name in _PRINTS:
            for argument in arguments:
                if argument.bare.type.kind in (TypeKind.POINTER, *ARRAYS) and argument.bare.kind != Kind.STRING_LITERAL:
                    self._add_whole_array_access(argument, write=False)
                else:
                    self.collect_accesses(argument.bare)
            self.add_access(Pointer(OUTPUT, ()), write=True, line=node.line)
            return
        for place, argument in enumerate(arguments):
            if place == 0:
                self._add_whole_array_access(argument, write=True)
            elif argument.bare.kind == Kind.STRING_LITERAL:
                continue
            elif argument.bare.type.kind in (TypeKind.POINTER, *ARRAYS):
                self._add_whole_array_access(argument, write=False)
            else:
                self.collect_accesses(argument.bare)

    def _add_whole_array_access(self, node: Node, *, write: bool) -> None:
        """Adds an access to all elements of the array that a pointer points into."""
        if node.bare.kind == Kind.DECL_REF_EXPR and node.bare.name in ("stdout", "stderr"):
            return
        self._add_index_reads(node.bare)
        pointer = self.reader.pointer_value(node)
        if self._is_in_declared_variable(pointer, node):
            return
        if not pointer.base.sizes and is_structure_member(pointer):
            raise NotMovable(
                f"what is copied at {source_text_of(node)} may be several members of a structure", node.line
            )
        index = (None,) * max(len(pointer.base.sizes), 1)
        note = f"how much of {pointer.base.text} is copied or printed is not known"
        self.add_access(replace(pointer, index=index, note=note), write=write, line=node.line)

    def collect_special_call(self, node: Node) -> bool:
        """Adds the accesses of a call with special semantics, such as an MPI call. Returns whether the call is of such
        a kind."""
        if node.name.startswith(("MPI_", "PMPI_")):
            raise NotMovable(f"it calls {node.name}", node.line)
        return False

    def _collect_callee(self, node: Node, callee: FunctionFacts) -> None:
        """Adds the accesses of a callee whose definition is known, with the arguments of this call in place of its
        parameters."""
        if len(self.inside.callees) >= _MAX_CALL_DEPTH or callee in self.inside.callees:
            raise NotMovable(f"it calls {callee.name}, whose calls are too deep", node.line)
        arguments = node.arguments
        formals = [child for child in callee.node.children if child.kind == Kind.PARM_DECL]
        if len(arguments) != len(formals):
            raise NotMovable(f"it calls {callee.name} with other arguments than it has", node.line)
        unknown = next((one for one in formals if not _is_supported_parameter(one)), None)
        if unknown is not None:
            reason = f"it calls {callee.name}, whose parameter {unknown.name} is not understood"
            raise NotMovable(reason, node.line)
        body = callee.body
        assert body is not None
        if pragma := refused_pragma_inside(body.unit.text[body.offset : body.end]):
            raise NotMovable(
                f"it calls {callee.name}, and the pragma there is not known to allow it: {pragma}", node.line
            )
        meanings = [self._argument_value(*pair) for pair in zip(arguments, formals, strict=True)]
        reader, bound, private = self.reader, dict(self.reader.bound), set(self.private)
        outer, foreign, number = reader.function, reader.foreign, len(self.accesses)
        for formal, meaning in zip(formals, meanings, strict=True):
            if formal.type.kind == TypeKind.LVALUEREFERENCE:
                reader.bound[formal.key] = meaning
                continue
            changed = bool(callee.changes.get(formal.key)) or formal.key in callee.address_taken
            reader.bound[formal.key] = None if changed else meaning
            if not isinstance(meaning, Pointer) or changed:
                self.private.add(formal.key)
        reader.function, reader.foreign = callee, True
        returns = any(one.kind == Kind.RETURN_STMT for one in body.walk())
        certain, callees = self.inside.certain and not returns, (*self.inside.callees, callee)
        try:
            with self.nested_context(callees=callees, breakable=False, certain=certain):
                self.collect_accesses(body)
        except NotMovable as why:
            reason = f"it calls {callee.name}, and there, at line {why.line}: {why.reason}"
            raise NotMovable(reason, node.line, why.assumption) from why
        finally:
            reader.function, reader.foreign = outer, foreign
            reader.bound, self.private = bound, private
        for place in range(number, len(self.accesses)):
            self.accesses[place] = replace(self.accesses[place], line=node.line)

    def _record_wraps(self, declared: Node, value: Node) -> None:
        """Records whether the value of a variable or a parameter may be an unsigned number that has wrapped."""
        if bits := min(self.reader.bits_of_wraps(value), default=0):
            self.reader.wrap_bits[declared.key] = bits

    def _argument_value(self, argument: Node, formal: Node) -> Poly | Pointer | None:
        """Returns the value or address that a parameter has in a callee; None if it is unknown."""
        kind = formal.type.kind
        try:
            if kind in (TypeKind.POINTER, *ARRAYS):
                self._add_index_reads(argument.bare)
                if formal.type.get_pointee().get_canonical().kind == TypeKind.RECORD:
                    return None if argument.bare.type.kind != TypeKind.POINTER else self.reader.pointer_value(argument)
                return self.reader.pointer_value(argument)
            if kind == TypeKind.LVALUEREFERENCE:
                if not _is_lvalue(argument):
                    raise NotMovable(f"a reference to a temporary is made of {source_text_of(argument)}", argument.line)
                self._add_index_reads(argument.bare)
                return self.reader.address_of_lvalue(argument)
            self.collect_accesses(argument.bare)
            if kind not in INTEGERS:
                return None
            self._record_wraps(formal, argument)
            return self.reader.to_polynomial(argument)
        except NotAffine:
            return None

    # ---- loops and branches

    def _collect_for_loop(self, node: Node) -> None:
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
        self.reader.bound[key] = Poly.from_symbol(loop.iterator.key)
        self.make_iterator_private(node, key, loop)
        with self.nested_context(loops=(*self.inside.loops, loop), breakable=True, certain=False):
            self.collect_accesses(body)
        del self.reader.bound[key]

    def make_iterator_private(self, node: Node, key: int, loop: Loop) -> None:
        """Makes a loop iterator private to the statement. An iterator that is declared outside of the loop is also
        recorded in `counters`."""
        if not loop.declares and key not in self.private:
            declared = self.reader.function.declared.get(key)
            if (
                declared is None
                or declared.cursor.storage_class.name == "STATIC"
                or key in self.reader.function.address_taken
            ):
                raise NotMovable(f"its loop counts {loop.iterator.text}, which is no local variable", node.line)
            if not self.inside.callees:
                self.counters.add(key)
        self.private.add(key)

    def add_header_reads(self, node: Node) -> None:
        """Adds the reads in a loop header: of variables in the bounds and of array elements."""
        key = induction_variable_key(node)
        for part in node.children[:-1]:
            for inner in part.walk():
                declared = inner.declaration if inner.kind == Kind.DECL_REF_EXPR else None
                if inner.kind in (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR):
                    self._add_lvalue_access(inner, write=False)
                elif declared is not None and declared.type.kind in INTEGERS and declared.key != key:
                    self.collect_accesses(inner)

    def _collect_irregular_loop(self, node: Node) -> None:
        """Adds the accesses of a loop that is not canonical. Variables that the loop modifies have unknown values in
        its body."""
        changed = {
            key for key, nodes in self.reader.function.changes.items() if any(is_within(one, node) for one in nodes)
        }
        saved = {key: self.reader.bound[key] for key in changed if key in self.reader.bound}
        for key in changed:
            declared = self.reader.function.declared.get(key)
            if declared is None or key not in self.private and not self._has_all_uses_in(key, node):
                raise NotMovable("its bounds are not affine", node.line)
            self.reader.bound[key] = None
            self.private.add(key)
        with self.nested_context(breakable=True, certain=False):
            for part in node.children:
                self.collect_accesses(part)
        for key in changed:
            self.reader.bound.pop(key, None)
        self.reader.bound.update(saved)

    def _has_all_uses_in(self, key: int, node: Node) -> bool:
        """Returns whether all uses of a variable in the function lie inside the given loop."""
        return all(is_within(use, node) for use in self.reader.function.uses.get(key, []))

    def _collect_if(self, node: Node) -> None:
        """Adds the accesses of an `if`, those of each branch under the condition that it is taken."""
        if has_if_initialisation(node):
            raise NotMovable("an `if` has an initialisation", node.line)
        test, *branches = node.children
        self.collect_accesses(test.bare)
        for branch, holds in zip(branches, (True, False), strict=False):
            if is_branch_never_taken(test, holds, self.reader.function) and not self.reader.function.has_label(branch):
                continue
            known = branch_conditions(test, self.reader, holds)
            with self.nested_context(conditions=(*self.inside.conditions, *known), certain=False):
                self.collect_accesses(branch)


def is_structure_member(pointer: Pointer) -> bool:
    """Returns whether a pointer points to a member of a structure."""
    return bool(re.search(r"\.|->", pointer.base.key.partition("@")[2] or pointer.base.key))


def _is_supported_parameter(formal: Node) -> bool:
    """Returns whether a function parameter is a plain object or a reference to an lvalue, and has no attributes and no
    default value."""
    type_ = formal.type
    if type_.kind == TypeKind.LVALUEREFERENCE:
        type_ = type_.get_pointee().get_canonical()
        known = is_trivial_type(type_) or is_container(formal)
    else:
        known = is_trivial_type(type_)
    return known and not any(child.kind.is_attribute() for child in formal.children) and not _has_default_value(formal)


def _has_default_value(formal: Node) -> bool:
    extent = formal.cursor.extent
    return "=" in formal.unit.text[formal.location : extent.end.offset]


def _is_lvalue(node: Node) -> bool:
    """Returns whether an expression denotes an object in memory, without a conversion to a temporary."""
    kinds = (Kind.DECL_REF_EXPR, Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR, Kind.UNARY_OPERATOR, Kind.CALL_EXPR)
    inner = node
    while inner.kind in (Kind.PAREN_EXPR, Kind.UNEXPOSED_EXPR) and len(inner.children) == 1:
        if inner.kind == Kind.UNEXPOSED_EXPR and inner.type.kind != inner.children[0].type.kind:
            return False
        inner = inner.children[0]
    if inner.kind == Kind.UNARY_OPERATOR:
        return inner.operator == "*"
    return inner.kind in kinds and (inner.kind != Kind.CALL_EXPR or inner.name == "operator[]")


# Jump statements, which are supported only if the loop or function that they leave is part of the analysed statement.
_JUMPS = {Kind.BREAK_STMT: "break", Kind.CONTINUE_STMT: "continue", Kind.RETURN_STMT: "return"}
# Names of unsupported language constructs, for messages.
_NAMES = {
    Kind.GOTO_STMT: "goto", Kind.INDIRECT_GOTO_STMT: "goto", Kind.LABEL_STMT: "a label",
    Kind.CXX_THROW_EXPR: "throw", Kind.CXX_TRY_STMT: "try", Kind.CXX_DELETE_EXPR: "delete", Kind.CXX_NEW_EXPR: "new",
    Kind.ASM_STMT: "assembly", Kind.MS_ASM_STMT: "assembly", Kind.LAMBDA_EXPR: "a lambda",
    Kind.CXX_FOR_RANGE_STMT: "a loop over a range",
}  # fmt: skip
# Methods of the collector by kind of syntax node.
_HANDLERS: dict[Any, Callable[[AccessCollector, Node], None]] = {
    Kind.FOR_STMT: AccessCollector._collect_for_loop,
    Kind.WHILE_STMT: AccessCollector._collect_irregular_loop,
    Kind.DO_STMT: AccessCollector._collect_irregular_loop,
    Kind.IF_STMT: AccessCollector._collect_if,
    Kind.DECL_STMT: AccessCollector._collect_declarations,
    Kind.CALL_EXPR: AccessCollector._collect_call,
    Kind.BINARY_OPERATOR: AccessCollector._collect_binary,
    Kind.COMPOUND_ASSIGNMENT_OPERATOR: AccessCollector._collect_binary,
    Kind.UNARY_OPERATOR: AccessCollector._collect_unary,
    Kind.CXX_UNARY_EXPR: AccessCollector._collect_sizeof,
    Kind.ARRAY_SUBSCRIPT_EXPR: AccessCollector._add_read,
    Kind.MEMBER_REF_EXPR: AccessCollector._add_read,
    Kind.DECL_REF_EXPR: AccessCollector._add_variable_read,
    Kind.UNEXPOSED_EXPR: AccessCollector._collect_implicit_conversion,
}
