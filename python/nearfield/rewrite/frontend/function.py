"""Collects facts on the variables of a C or C++ function: which variables change, whose address is taken, and where
each is used."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator

from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node, TypeKind

ASSIGNMENTS = ("=", "*=", "/=", "%=", "+=", "-=", "<<=", ">>=", "&=", "^=", "|=")
INCREMENTS = ("++", "--", "post++", "post--")


class FunctionFacts:
    """Facts on the body of one function, by the declaration key of a variable. `changes` are the assignments to a
    variable, and the calls that may assign to it through a reference. `address_taken` has the variables that may be
    accessed without being named: all variables with a use that is not known to be a read or an assignment."""

    def __init__(self, node: Node, without: Node | None = None, callers: tuple[int, ...] = ()) -> None:
        self.node = node
        self._callers = (*callers, node.key)  # keys of the functions being analysed, to detect recursion
        self._without = without  # a subtree to skip, since it repeats the effects of another one
        self.name = node.name
        self.body = next((child for child in node.children if child.kind == Kind.COMPOUND_STMT), None)
        self.parents: dict[int, Node] = {}  # by id() of the child node
        self.changes: dict[int, list[Node]] = defaultdict(list)
        self.address_taken: set[int] = set()
        self.uses: dict[int, list[Node]] = defaultdict(list)
        self.declared: dict[int, Node] = {}
        self.calls: list[Node] = []
        self._labels: list[int] = []  # offsets of labels
        for child in node.children:
            if child.kind == Kind.PARM_DECL:
                self.declared[child.key] = child
        if self.body:
            self._collect_facts(self.body)
            self._classify_uses()

    def _collect_facts(self, node: Node) -> None:
        """Records the variables, their uses, the labels and the calls in a part of the body."""
        for child in node.children:
            if child is not self._without:
                self.parents[id(child)] = node
                self._collect_facts(child)
        if node.kind == Kind.DECL_REF_EXPR and node.declaration:
            self.uses[node.declaration.key].append(node)
        elif node.kind == Kind.VAR_DECL and node.cursor.storage_class.name != "EXTERN":
            self.declared[node.key] = node
        elif node.kind == Kind.LABEL_STMT:
            self._labels.append(node.offset)
        elif node.kind == Kind.CALL_EXPR:
            self.calls.append(node)

    def _classify_uses(self) -> None:
        """Fills `changes` and `address_taken` from the context of every use of a variable. If a context is not known to
        read or assign, the variable goes into `address_taken`."""
        for key, uses in self.uses.items():
            for use in uses:
                declared = use.declaration
                if declared is None or declared.kind not in (Kind.VAR_DECL, Kind.PARM_DECL):
                    continue
                change = self._effect_of_use(use)
                if isinstance(change, Node):
                    self.changes[key].append(change)
                elif change:
                    self.address_taken.add(key)

    def variables_named(self, name: str) -> list[Node]:
        """Returns the parameters and local variables that have this name."""
        return self._variables_by_name.get(name, [])

    @functools.cached_property
    def _variables_by_name(self) -> dict[str, list[Node]]:
        """Returns the parameters and local variables by name."""
        found: dict[str, list[Node]] = defaultdict(list)
        for declared in self.declared.values():
            found[declared.name].append(declared)
        return found

    def escaping_uses(self, key: int) -> list[Node]:
        """Returns the uses of a variable after which any code may access it, such as &x."""
        return [use for use in self.uses.get(key, []) if self._effect_of_use(use) is True]

    def _effect_of_use(self, use: Node) -> Node | bool:
        """Returns the assignment or call that a use of a variable is the target of. Returns False if the use only reads
        the value, or accesses an element or member. Returns True for everything else, such as an operand of `&`, the
        binding of a reference, or an operand of an assembly statement."""
        below, above = use, self.parent(use)
        if above is not None and any(outer.kind in (Kind.LAMBDA_EXPR, Kind.ASM_STMT) for outer in self.ancestors(use)):
            return True
        while above is not None:
            if above.kind == Kind.UNEXPOSED_EXPR:
                if len(above.children) != 1:
                    return True
                if below.type.kind in ARRAYS or _is_load(above, below):
                    return False
            elif above.operator in ASSIGNMENTS:
                return self._effect_of_assignment(above) if below is above.children[0] else True
            elif above.operator in INCREMENTS:
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
                if above.type.kind in ARRAYS:
                    return False
            below, above = above, self.parent(above)
        return True

    def _effect_of_assignment(self, assignment: Node) -> Node | bool:
        """Returns an assignment; True instead if its result is used as an lvalue, as C++ allows."""
        above = self.parent(assignment)
        while above is not None and above.kind == Kind.PAREN_EXPR:
            above = self.parent(above)
        is_value = assignment.operator.startswith("post") or assignment.unit.path.endswith(".c")
        if is_value or above is None or above.kind.is_statement() or above.kind == Kind.UNEXPOSED_EXPR:
            return assignment
        return assignment if above.operator == "," else True

    def _effect_of_call(self, call: Node, argument: Node) -> Node | bool:
        """Returns a call if it may assign to the variable that is passed to it by reference; False if it only reads the
        variable, True if it may retain the reference."""
        if argument.type.kind == TypeKind.RECORD:
            return not is_container(argument)
        callee = call.callee()
        for number, given in enumerate(call.arguments if callee is not None else ()):
            if given.offset == argument.offset and callee is not None:
                if callee.cursor.location.is_in_system_header:
                    return call if call.name == "swap" else call.name not in ("min", "max")
                return True if self._may_retain_reference(callee, number) else call
        return True

    def _may_retain_reference(self, callee: Node, number: int) -> bool:
        """Returns whether a callee may retain the address of the object that is passed to its parameter `number` by
        reference."""
        found = callee.cursor.get_definition()
        if found is None or found.hash in self._callers:
            return True
        definition = Node(found, callee.unit)
        formals = [child for child in definition.children if child.kind == Kind.PARM_DECL]
        inner = FunctionFacts(definition, callers=self._callers)
        return number >= len(formals) or formals[number].key in inner.address_taken

    def parent(self, node: Node) -> Node | None:
        """Returns the parent of a syntax node."""
        return self.parents.get(id(node))

    def ancestors(self, node: Node) -> Iterator[Node]:
        """Yields the syntax nodes around a node, from the innermost to the outermost."""
        above = self.parent(node)
        while above:
            yield above
            above = self.parent(above)

    def has_label(self, node: Node) -> bool:
        """Returns whether a statement contains a label, so that a jump into it is possible."""
        return any(node.offset <= label < node.end for label in self._labels)

    def is_in_loop(self, node: Node) -> bool:
        """Returns whether a syntax node is inside a loop of the function."""
        return any(above.kind in LOOPS for above in self.ancestors(node))

    def is_never_changed(self, key: int) -> bool:
        """Returns whether a declaration key belongs to a local variable or parameter that never changes after its
        initialisation."""
        return key in self.declared and not self.changes.get(key) and key not in self.address_taken

    def constant_initial_value(self, key: int) -> Node | None:
        """Returns the initial value of a local variable that never changes; None for other variables."""
        declared = self.declared.get(key)
        if not declared or declared.kind != Kind.VAR_DECL or not self.is_never_changed(key):
            return None
        if declared.cursor.storage_class.name == "STATIC":
            return None  # initialised at the first call, when the operands may have had other values
        return initial_value(declared)

    def single_assignment(self, declared: Node) -> Node | None:
        """Returns the value of a variable that is assigned by exactly one statement, in the function's outermost block
        and before every use; None for other variables."""
        changes = self.changes.get(declared.key, [])
        if len(changes) != 1 or changes[0].operator != "=" or declared.key in self.address_taken or self._labels:
            return None
        target, value = changes[0].children
        plain = self.parent(changes[0]) is self.body and declared.cursor.storage_class.name != "STATIC"
        others = [use for use in self.uses.get(declared.key, []) if use.offset != target.bare.offset]
        known = all(
            one.declaration is None or one.declaration.kind != Kind.VAR_DECL or one.declaration.offset < declared.offset
            for one in value.walk() if one.kind == Kind.DECL_REF_EXPR
        )  # fmt: skip
        return value if plain and known and all(use.offset > changes[0].end for use in others) else None


LOOPS = (Kind.FOR_STMT, Kind.WHILE_STMT, Kind.DO_STMT, Kind.CXX_FOR_RANGE_STMT)


def _is_load(cast: Node, operand: Node) -> bool:
    """Returns whether an implicit conversion loads the value of an lvalue: the type stays the same but for qualifiers.
    (The binding of a reference to const adds a qualifier.)"""
    return cast.type.kind == operand.type.kind != TypeKind.RECORD and not cast.type.is_const_qualified()


def is_container(node: Node) -> bool:
    """Returns whether an expression is a std::vector, std::array or std::complex, whose methods retain no address of
    the object."""
    type_ = node.type.get_pointee() if node.type.kind == TypeKind.LVALUEREFERENCE else node.type
    return bool(re.match(r"(?:const )?std::(?:__\w+::)?(?:vector|array|complex)<", type_.get_canonical().spelling))


def initial_value(declared: Node) -> Node | None:
    """Returns the initial value in a variable's declaration; None if there is none. The sizes of an array are no
    initial value."""
    extent = declared.cursor.extent
    values = [child for child in declared.children if child.kind.is_expression()]
    words = declared.unit.text[declared.location : extent.end.offset]
    return values[-1] if values and any(sign in words for sign in "={(") else None
