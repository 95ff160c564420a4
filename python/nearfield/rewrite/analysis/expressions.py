"""Converts expressions of C and C++: lvalues and pointers to the array element that they denote, and integer
expressions, such as the index of an element, to polynomials (`integer_expressions.py`)."""

from __future__ import annotations

import re
from dataclasses import replace

from nearfield.rewrite.analysis.integer_expressions import (
    KINDS_WITHOUT_READS,
    IntegerExpressionReader,
    NotAffine,
    render_as_c,
    source_text_of,
)
from nearfield.rewrite.analysis.pointers import Pointer
from nearfield.rewrite.analysis.polynomials import Polynomial
from nearfield.rewrite.analysis.program import BaseObject, NotMovable
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.conversions import (
    INTEGER_TYPES,
    changes_pointee_type,
    is_mpi_handle_type,
    is_mpi_handle_variable,
    is_rvalue_reference,
    is_union_member,
)
from nearfield.rewrite.frontend.language import attributes_refusal_reason

__all__ = ["KINDS_WITHOUT_READS", "ExpressionReader", "NotAffine", "Pointer", "render_as_c", "source_text_of"]

_CONTAINER_TYPE = re.compile(r"std::(?:__\w+::)?(?:vector|array)<")


class ExpressionReader(IntegerExpressionReader):
    """Converts the integer expressions of one function to polynomials, and its lvalues and pointers to addresses."""

    def address_of_lvalue(self, node: SyntaxNode) -> Pointer:
        """Returns the address of the array element or variable that an lvalue denotes. Raises NotMovable if the array
        is unknown."""
        node = node.without_casts
        if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            array, index = node.children
            if array.without_casts.type.kind in INTEGER_TYPES:
                array, index = index, array
            return self._subscript_address(self._pointer_value_unless_cast(array), index)
        if node.kind == Kind.UNARY_OPERATOR and node.operator == "*":
            return self._pointer_value_unless_cast(node.children[0])
        if node.kind == Kind.CALL_EXPR and node.name == "operator[]":
            return self._vector_subscript_address(node)
        if node.kind == Kind.MEMBER_REF_EXPR:
            return self._member_address(node)
        if node.kind == Kind.DECL_REF_EXPR and node.declaration:
            if node.declaration.kind not in (Kind.VAR_DECL, Kind.PARM_DECL) or is_rvalue_reference(node.declaration):
                raise NotMovable(f"it is not known which memory {node.name} is", node.line)
            if node.declaration.type.kind == TypeKind.LVALUEREFERENCE:
                meaning = self.value_by_declaration.get(node.declaration.key)
                if isinstance(meaning, Pointer):
                    return meaning
                raise NotMovable(f"it is not known what the reference {node.name} refers to", node.line)
            return Pointer(self._base_of_variable(node), ())
        raise NotMovable(f"it is not known which memory {source_text_of(node)} is", node.line)

    def _pointer_value_unless_cast(self, node: SyntaxNode) -> Pointer:
        """Returns the address that a pointer expression holds. If a cast changed the element type, the indices are
        unknown."""
        pointer = self.pointer_value(node)
        return pointer.with_unknown_index() if changes_pointee_type(node) else pointer

    def pointer_value(self, node: SyntaxNode) -> Pointer:
        """Returns the address that a pointer expression holds. Raises NotMovable if the array that it points into is
        unknown."""
        node = node.without_casts
        if node.kind == Kind.UNARY_OPERATOR and node.operator == "&":
            return self.address_of_lvalue(node.children[0])
        if node.kind == Kind.BINARY_OPERATOR and node.operator in ("+", "-"):
            left, right = node.children
            if left.without_casts.type.kind in INTEGER_TYPES:
                left, right = right, left
            pointer = self._pointer_value_unless_cast(left)
            try:
                distance = self.to_polynomial(right)
            except NotAffine as why:
                return pointer.offset_by(None, why.reason)
            return pointer.offset_by(distance if node.operator == "+" else -distance)
        if node.kind == Kind.CALL_EXPR and node.name in ("data", "begin") and node.children:
            member = node.children[0].without_casts
            if member.kind == Kind.MEMBER_REF_EXPR and member.children:
                return self._vector_data_address(member.children[0])
        if node.kind == Kind.DECL_REF_EXPR and node.declaration:
            meaning = self.value_by_declaration.get(node.declaration.key)
            if isinstance(meaning, Pointer):
                return meaning
            if node.declaration.key in self.value_by_declaration:
                raise NotMovable(f"the pointer {node.name} changes", node.line)
            if node.type.kind not in (TypeKind.POINTER, *ARRAY_TYPES) and not is_mpi_handle_variable(node.declaration):
                raise NotMovable(f"it is not known where {source_text_of(node)} points", node.line)
            return Pointer(self._base_of_variable(node), (Polynomial(),))
        if node.kind in (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR):
            return self.address_of_lvalue(node).first_element_address()
        if node.kind == Kind.UNARY_OPERATOR and node.operator == "*":
            return self._pointer_value_unless_cast(node.children[0]).first_element_address()
        raise NotMovable(f"it is not known where {source_text_of(node)} points", node.line)

    def _subscript_address(self, pointer: Pointer, index: SyntaxNode) -> Pointer:
        try:
            return pointer.offset_by(self.to_polynomial(index))
        except NotAffine as why:
            return pointer.offset_by(None, f"the index {source_text_of(index)} is not affine ({why.reason})")

    def _vector_subscript_address(self, node: SyntaxNode) -> Pointer:
        container, index = node.children[0], node.children[-1]
        return self._subscript_address(self._vector_data_address(container), index)

    def _vector_data_address(self, node: SyntaxNode) -> Pointer:
        node = node.without_casts
        type_ = node.type.get_pointee() if node.type.kind == TypeKind.LVALUEREFERENCE else node.type
        if not _CONTAINER_TYPE.match(type_.spelling.removeprefix("const ")):
            raise NotMovable(f"it is not known what {source_text_of(node)} does when it is indexed", node.line)
        place = self.address_of_lvalue(node)
        element = type_.get_template_argument_type(0).get_canonical().spelling
        base = place.base
        if not place.indices:
            reference = bool(node.declaration and node.declaration.type.kind == TypeKind.LVALUEREFERENCE)
            base = replace(
                base, object_kind="pointer" if reference else "vector", element_type=element, dimension_sizes=(None,)
            )
        elif not base.key.endswith("[]"):
            raise NotMovable(f"{source_text_of(node)} is a vector of vectors", node.line)
        return Pointer(base, (*place.indices, Polynomial()))

    def _member_address(self, node: SyntaxNode) -> Pointer:
        if not node.children:  # a member of `this`
            return Pointer(self._make_base(node, f"this->{node.name}", node.name, node.key), ())
        owner = node.children[0].without_casts
        field = node.declaration
        if field is None or field.kind != Kind.FIELD_DECL or field.cursor.is_bitfield():
            raise NotMovable(f"it is not known which memory {source_text_of(node)} is", node.line)
        if is_union_member(field):
            raise NotMovable(f"{source_text_of(node)} is a member of a union", node.line)
        if field.type.kind == TypeKind.LVALUEREFERENCE:
            raise NotMovable(f"it is not known what the reference {source_text_of(node)} refers to", node.line)
        if owner.type.kind == TypeKind.POINTER:
            if owner.kind == Kind.CXX_THIS_EXPR:
                return Pointer(self._make_base(node, f"this->{node.name}", node.name, node.key), ())
            outer = self.pointer_value(owner)
            if outer.base.object_kind == "rows" or changes_pointee_type(node.children[0]):
                raise NotMovable(f"it is not known which memory {source_text_of(node)} is", node.line)
            first = all(one is not None and one.constant == 0 for one in outer.indices)
            arrow = "->" if outer.indices and first else "."
        else:
            outer, arrow = self.address_of_lvalue(owner), "."
        name = f"{arrow}{node.name}"
        at = () if arrow == "->" else outer.indices
        base = self._make_base(node, outer.base.key + name, outer.base.text + name, outer.base.declaration_key)
        return Pointer(
            replace(base, dimension_sizes=(*((None,) * len(at)), *base.dimension_sizes)), at, outer.unknown_index_reason
        )

    def _base_of_variable(self, node: SyntaxNode) -> BaseObject:
        declaration = node.declaration
        assert declaration is not None
        if reason := attributes_refusal_reason(declaration):
            raise NotMovable(reason, node.line)
        return self._make_base(declaration, f"{node.name}@{declaration.key}", node.name, declaration.key)

    def _make_base(self, node: SyntaxNode, key: str, text: str, declaration: int) -> BaseObject:
        type_ = node.type
        if type_.kind == TypeKind.LVALUEREFERENCE:
            type_ = type_.get_pointee().get_canonical()
        kind = "scalar"
        sizes: list[Polynomial | None] = []
        if type_.kind == TypeKind.POINTER:
            kind, sizes = "pointer", [None]
            type_ = type_.get_pointee().get_canonical()
        while type_.kind in ARRAY_TYPES or (
            type_.kind == TypeKind.POINTER and kind != "scalar" and not is_mpi_handle_type(type_)
        ):
            if type_.kind == TypeKind.POINTER:
                kind = "rows"
                sizes.append(None)
                type_ = type_.get_pointee().get_canonical()
                continue
            kind = "array" if kind == "scalar" else kind
            known = type_.kind == TypeKind.CONSTANTARRAY
            sizes.append(Polynomial.from_constant(type_.element_count) if known else None)
            type_ = type_.get_array_element_type().get_canonical()
        named = self._declared_dimension_sizes(node, sum(size is not None for size in sizes)) if kind != "rows" else []
        if named:
            sizes[-len(named) :] = named
        return BaseObject(key, text, kind, type_.spelling.removeprefix("const "), tuple(sizes), declaration)

    def _declared_dimension_sizes(self, declaration: SyntaxNode, num_known_dimensions: int) -> list[Polynomial]:
        """Returns the dimension sizes in an array's declaration as polynomials, outermost first (libclang lists them
        innermost first); an empty list if a size is not affine or may have changed since the declaration."""
        size_expressions = [child for child in declaration.children if child.kind.is_expression()]
        sizes: list[Polynomial] = []
        for child in size_expressions:
            try:
                size = self.to_polynomial(child)
            except NotAffine:
                break
            if not all(
                self.symbols[key].is_function_invariant or self.symbols[key].constant_value is not None
                for key in size.keys
            ):
                break  # the size may have changed since the declaration
            sizes.append(size)
            if len(sizes) == self._count_dimensions(declaration):
                break
        return list(reversed(sizes)) if len(sizes) == self._count_dimensions(declaration) else []

    @staticmethod
    def _count_dimensions(declaration: SyntaxNode) -> int:
        type_ = declaration.type
        if type_.kind == TypeKind.POINTER:
            type_ = type_.get_pointee().get_canonical()
        count = 0
        while type_.kind in ARRAY_TYPES:
            count += type_.kind != TypeKind.INCOMPLETEARRAY
            type_ = type_.get_array_element_type().get_canonical()
        return count
