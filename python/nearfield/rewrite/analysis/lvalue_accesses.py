"""Records accesses to lvalues, such as variables and array elements, and the reads that computing their addresses
needs."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from nearfield.rewrite.analysis.expressions import ExpressionReader, Pointer, source_text_of
from nearfield.rewrite.analysis.program import Access, Condition, Loop, NotMovable
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.function import FunctionFacts


@dataclass
class ControlContext:
    """The loops and conditions around the code that is being analysed, up to the statement whose accesses are
    collected."""

    loops: tuple[Loop, ...] = ()
    conditions: tuple[Condition, ...] = ()
    is_breakable: bool = False  # inside a loop of the statement, so that break and continue stay in the statement
    entered_callees: tuple[FunctionFacts, ...] = ()  # callees that are being analysed, in which `return` is allowed
    is_unconditional: bool = True  # executed exactly once per execution of the statement, under no condition


@dataclass
class LvalueAccessCollector(abc.ABC):
    """Records the accesses to the lvalues of one statement, each under the loops and conditions of the current
    `context`."""

    reader: ExpressionReader
    accesses: list[Access] = field(default_factory=list, init=False)
    private_variables: set[int] = field(default_factory=set, init=False)  # variables that the statement itself declares
    context: ControlContext = field(default_factory=ControlContext, init=False)

    @abc.abstractmethod
    def collect_accesses(self, node: SyntaxNode) -> None:
        """Adds the memory accesses of a statement or an expression."""

    @contextlib.contextmanager
    def nested_context(self, **changes: Any) -> Iterator[None]:
        """Replaces attributes of `context` for the duration of a `with` block."""
        outer_context = self.context
        self.context = replace(outer_context, **changes)
        try:
            yield
        finally:
            self.context = outer_context

    def _add_lvalue_access(self, node: SyntaxNode, *, is_write: bool) -> None:
        """Adds the access to an lvalue, and the reads of its indices. Variables that the statement declares are
        omitted."""
        node = node.without_casts
        if node.kind == Kind.UNARY_OPERATOR and node.operator in ("++", "--"):
            raise NotMovable("it uses the result of an increment", node.line)
        if node.kind == Kind.DECL_REF_EXPR and node.declaration and node.declaration.key in self.private_variables:
            return
        if (
            node.kind == Kind.DECL_REF_EXPR
            and node.declaration
            and node.declaration.key in self.reader.value_by_declaration
        ):
            has_known_address = isinstance(self.reader.value_by_declaration[node.declaration.key], Pointer)
            if is_write and not (has_known_address and node.declaration.type.kind == TypeKind.LVALUEREFERENCE):
                raise NotMovable(f"it changes {node.name}", node.line)
            if not has_known_address:
                return
        if node.type.is_volatile_qualified() or node.type.kind == TypeKind.ATOMIC:
            raise NotMovable(f"{source_text_of(node)} is volatile or atomic", node.line)
        if is_write and node.type.kind == TypeKind.POINTER:
            raise NotMovable(f"it changes the pointer {source_text_of(node)}", node.line)
        pointer = self.reader.address_of_lvalue(node)
        self._add_index_reads(node)
        if not self._is_in_declared_variable(pointer, node):
            self.add_access(pointer, is_write=is_write, line=node.line)

    def _is_in_declared_variable(self, pointer: Pointer, node: SyntaxNode) -> bool:
        """Returns whether an address lies in a variable that the analysed statement itself declares. Raises NotMovable
        if it lies behind a pointer that is such a variable."""
        base = pointer.base
        if base.declaration_key not in self.private_variables:
            return False
        if "->" in base.key or pointer.indices and base.object_kind in ("pointer", "rows"):
            raise NotMovable(f"it is not known where {base.text} points", node.line)
        return True

    def add_access(self, pointer: Pointer, *, is_write: bool, line: int, is_message: bool = False) -> None:
        """Adds an access to an address, under the current loops and conditions."""
        base, indices, context = pointer.base, pointer.indices, self.context
        self.accesses.append(
            Access(
                base,
                indices,
                is_write,
                line,
                context.loops,
                context.conditions,
                is_message,
                pointer.unknown_index_reason,
            )
        )

    def _add_index_reads(self, node: SyntaxNode) -> None:
        """Adds the reads of the array indices and pointers from which an lvalue's address is computed."""
        node = node.without_casts
        if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            array, index = node.children
            self.collect_accesses(index.without_casts)
            self._add_index_reads(array)
        elif node.kind == Kind.CALL_EXPR and node.name == "operator[]":
            self.collect_accesses(node.children[-1].without_casts)
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
                if child.type.kind in (TypeKind.POINTER, *ARRAY_TYPES):
                    self._add_index_reads(child)
                else:
                    self.collect_accesses(child.without_casts)
        elif node.kind == Kind.DECL_REF_EXPR and node.declaration and node.declaration.type.kind == TypeKind.POINTER:
            self._add_pointer_read(node, node.declaration.key)

    def _add_pointer_read(self, node: SyntaxNode, declaration_key: int) -> None:
        """Adds the read of a pointer variable, as opposed to the memory that it points to."""
        if declaration_key not in self.private_variables and declaration_key not in self.reader.value_by_declaration:
            base = replace(
                self.reader.pointer_value(node).base, object_kind="scalar", element_type="pointer", dimension_sizes=()
            )
            self.accesses.append(Access(replace(base, key=f"&{base.key}"), (), False, node.line))
