"""Collects facts on the variables of a C or C++ function: which variables change, whose address is taken, and where
each is used."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator

from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TypeKind

ASSIGNMENT_OPERATORS = ("=", "*=", "/=", "%=", "+=", "-=", "<<=", ">>=", "&=", "^=", "|=")
INCREMENT_OPERATORS = ("++", "--", "post++", "post--")


class FunctionFacts:
    """Facts on the body of one function. The maps have the declaration keys of variables as keys. `changes` are the
    assignments to a variable, and the calls that may assign to it through a reference. `address_taken` has the
    variables that may be accessed by other means than their names: those with a use that is not known to be a read or
    an assignment."""

    def __init__(
        self, node: SyntaxNode, skipped_subtree: SyntaxNode | None = None, caller_keys: tuple[int, ...] = ()
    ) -> None:
        self.node = node
        self._caller_keys = (*caller_keys, node.key)  # keys of the functions being analysed, to detect recursion
        self._skipped_subtree = skipped_subtree  # a subtree to skip, since it repeats the effects of another one
        self.name = node.name
        self.body = next((child for child in node.children if child.kind == Kind.COMPOUND_STMT), None)
        self._parent_by_child_id: dict[int, SyntaxNode] = {}  # by id() of the child node
        self.changes: dict[int, list[SyntaxNode]] = defaultdict(list)
        self.address_taken: set[int] = set()
        self.uses: dict[int, list[SyntaxNode]] = defaultdict(list)
        self.declarations: dict[int, SyntaxNode] = {}
        self.calls: list[SyntaxNode] = []
        self._label_offsets: list[int] = []
        for child in node.children:
            if child.kind == Kind.PARM_DECL:
                self.declarations[child.key] = child
        if self.body:
            self._collect_facts(self.body)
            self._classify_uses()

    def _collect_facts(self, node: SyntaxNode) -> None:
        """Records the variables, their uses, the labels and the calls in a part of the body."""
        for child in node.children:
            if child is not self._skipped_subtree:
                self._parent_by_child_id[id(child)] = node
                self._collect_facts(child)
        if node.kind == Kind.DECL_REF_EXPR and node.declaration:
            self.uses[node.declaration.key].append(node)
        elif node.kind == Kind.VAR_DECL and node.cursor.storage_class.name != "EXTERN":
            self.declarations[node.key] = node
        elif node.kind == Kind.LABEL_STMT:
            self._label_offsets.append(node.offset)
        elif node.kind == Kind.CALL_EXPR:
            self.calls.append(node)

    def _classify_uses(self) -> None:
        """Fills `changes` and `address_taken` from the context of every use of a variable. If a context is not known to
        read or assign, the variable goes into `address_taken`."""
        for key, uses in self.uses.items():
            for use in uses:
                declaration = use.declaration
                if declaration is None or declaration.kind not in (Kind.VAR_DECL, Kind.PARM_DECL):
                    continue
                change = self._effect_of_use(use)
                if isinstance(change, SyntaxNode):
                    self.changes[key].append(change)
                elif change:
                    self.address_taken.add(key)

    def variables_named(self, name: str) -> list[SyntaxNode]:
        """Returns the parameters and local variables that have this name."""
        return self._variables_by_name.get(name, [])

    @functools.cached_property
    def _variables_by_name(self) -> dict[str, list[SyntaxNode]]:
        """Returns the parameters and local variables by name."""
        variables_by_name: dict[str, list[SyntaxNode]] = defaultdict(list)
        for declaration in self.declarations.values():
            variables_by_name[declaration.name].append(declaration)
        return variables_by_name

    def escaping_uses(self, declaration_key: int) -> list[SyntaxNode]:
        """Returns the uses of a variable after which any code may access it, such as &x."""
        return [use for use in self.uses.get(declaration_key, []) if self._effect_of_use(use) is True]

    def _effect_of_use(self, use: SyntaxNode) -> SyntaxNode | bool:
        """Returns the assignment or call that a use of a variable is the target of. Returns False if the use only reads
        the value, or accesses an element or member. Returns True for everything else, such as an operand of `&`, the
        binding of a reference, or an operand of an assembly statement."""
        below, above = use, self.parent_of(use)
        if above is not None and any(
            outer.kind in (Kind.LAMBDA_EXPR, Kind.ASM_STMT) for outer in self.ancestors_of(use)
        ):
            return True
        while above is not None:
            if above.kind == Kind.UNEXPOSED_EXPR:
                if len(above.children) != 1:
                    return True
                if below.type.kind in ARRAY_TYPES or _is_load(above, below):
                    return False
            elif above.operator in ASSIGNMENT_OPERATORS:
                return self._effect_of_assignment(above) if below is above.children[0] else True
            elif above.operator in INCREMENT_OPERATORS:
                return self._effect_of_assignment(above)
            elif above.operator == ",":
                if below is above.children[0]:
                    return False
            elif above.kind == Kind.CALL_EXPR:
                return self._effect_of_call(above, below)
            elif above.kind == Kind.CXX_UNARY_EXPR:
                return False
            elif above.kind.is_statement():
                return bool(above.kind == Kind.RETURN_STMT)  # a return without a load returns a reference
            elif above.kind not in (Kind.PAREN_EXPR, Kind.MEMBER_REF_EXPR):
                return True
            elif above.kind == Kind.MEMBER_REF_EXPR:
                if above.declaration is None or above.declaration.kind != Kind.FIELD_DECL:
                    return not is_container(below)
                if above.type.kind in ARRAY_TYPES:
                    return False
            below, above = above, self.parent_of(above)
        return True

    def _effect_of_assignment(self, assignment: SyntaxNode) -> SyntaxNode | bool:
        """Returns an assignment; True instead if its result is used as an lvalue, as C++ allows."""
        above = self.parent_of(assignment)
        while above is not None and above.kind == Kind.PAREN_EXPR:
            above = self.parent_of(above)
        is_value = assignment.operator.startswith("post") or assignment.unit.path.endswith(".c")
        if is_value or above is None or above.kind.is_statement() or above.kind == Kind.UNEXPOSED_EXPR:
            return assignment
        return assignment if above.operator == "," else True

    def _effect_of_call(self, call: SyntaxNode, argument: SyntaxNode) -> SyntaxNode | bool:
        """Returns a call if it may assign to the variable that is passed to it by reference; False if it only reads the
        variable, True if it may retain the reference."""
        if argument.type.kind == TypeKind.RECORD:
            return not is_container(argument)
        callee = call.callee()
        for parameter_index, passed_argument in enumerate(call.arguments if callee is not None else ()):
            if passed_argument.offset == argument.offset and callee is not None:
                if callee.cursor.location.is_in_system_header:
                    return call if call.name == "swap" else call.name not in ("min", "max")
                return True if self._may_retain_reference(callee, parameter_index) else call
        return True

    def _may_retain_reference(self, callee: SyntaxNode, parameter_index: int) -> bool:
        """Returns whether a callee may retain the address of the object that is passed to its parameter
        `parameter_index` by reference."""
        definition_cursor = callee.cursor.get_definition()
        if definition_cursor is None or definition_cursor.hash in self._caller_keys:
            return True
        definition = SyntaxNode(definition_cursor, callee.unit)
        parameters = [child for child in definition.children if child.kind == Kind.PARM_DECL]
        callee_facts = FunctionFacts(definition, caller_keys=self._caller_keys)
        return parameter_index >= len(parameters) or parameters[parameter_index].key in callee_facts.address_taken

    def parent_of(self, node: SyntaxNode) -> SyntaxNode | None:
        """Returns the parent of a syntax node."""
        return self._parent_by_child_id.get(id(node))

    def ancestors_of(self, node: SyntaxNode) -> Iterator[SyntaxNode]:
        """Yields the syntax nodes around a node, from the innermost to the outermost."""
        above = self.parent_of(node)
        while above:
            yield above
            above = self.parent_of(above)

    def contains_label(self, node: SyntaxNode) -> bool:
        """Returns whether a statement contains a label, so that a jump into it is possible."""
        return any(node.offset <= label < node.end for label in self._label_offsets)

    def is_in_loop(self, node: SyntaxNode) -> bool:
        """Returns whether a syntax node is inside a loop of the function."""
        return any(above.kind in LOOP_KINDS for above in self.ancestors_of(node))

    def is_never_changed(self, declaration_key: int) -> bool:
        """Returns whether a declaration key belongs to a local variable or parameter that never changes after its
        initialisation."""
        return (
            declaration_key in self.declarations
            and not self.changes.get(declaration_key)
            and declaration_key not in self.address_taken
        )

    def constant_initial_value(self, declaration_key: int) -> SyntaxNode | None:
        """Returns the initial value of a local variable that never changes; None for other variables."""
        declaration = self.declarations.get(declaration_key)
        if not declaration or declaration.kind != Kind.VAR_DECL or not self.is_never_changed(declaration_key):
            return None
        if declaration.cursor.storage_class.name == "STATIC":
            return None  # initialised at the first call, when the operands may have had other values
        return initial_value(declaration)

    def single_assigned_value(self, declaration: SyntaxNode) -> SyntaxNode | None:
        """Returns the value of a variable that is assigned by exactly one statement, in the function's outermost block
        and before every use; None for other variables."""
        changes = self.changes.get(declaration.key, [])
        if (
            len(changes) != 1
            or changes[0].operator != "="
            or declaration.key in self.address_taken
            or self._label_offsets
        ):
            return None
        target, value = changes[0].children
        is_in_outermost_block = (
            self.parent_of(changes[0]) is self.body and declaration.cursor.storage_class.name != "STATIC"
        )
        other_uses = [use for use in self.uses.get(declaration.key, []) if use.offset != target.without_casts.offset]
        has_only_known_operands = all(
            one.declaration is None or one.declaration.kind != Kind.VAR_DECL
            or one.declaration.offset < declaration.offset
            for one in value.walk() if one.kind == Kind.DECL_REF_EXPR
        )  # fmt: skip
        return (
            value
            if is_in_outermost_block
            and has_only_known_operands
            and all(use.offset > changes[0].end for use in other_uses)
            else None
        )


LOOP_KINDS = (Kind.FOR_STMT, Kind.WHILE_STMT, Kind.DO_STMT, Kind.CXX_FOR_RANGE_STMT)


def _is_load(cast: SyntaxNode, operand: SyntaxNode) -> bool:
    """Returns whether an implicit conversion loads the value of an lvalue: the type stays the same but for qualifiers.
    (The binding of a reference to const adds a qualifier.)"""
    return cast.type.kind == operand.type.kind != TypeKind.RECORD and not cast.type.is_const_qualified()


def is_container(node: SyntaxNode) -> bool:
    """Returns whether an expression is a std::vector, std::array or std::complex, whose methods retain no address of
    the object."""
    type_ = node.type.get_pointee() if node.type.kind == TypeKind.LVALUEREFERENCE else node.type
    return bool(re.match(r"(?:const )?std::(?:__\w+::)?(?:vector|array|complex)<", type_.get_canonical().spelling))


def initial_value(declaration: SyntaxNode) -> SyntaxNode | None:
    """Returns the initial value in a variable's declaration; None if there is none. The sizes of an array do not count
    as one."""
    extent = declaration.cursor.extent
    values = [child for child in declaration.children if child.kind.is_expression()]
    text = declaration.unit.text[declaration.name_offset : extent.end.offset]
    return values[-1] if values and any(sign in text for sign in "={(") else None
