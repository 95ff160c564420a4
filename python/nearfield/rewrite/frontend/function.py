"""Collects facts on the variables of a function: which ones change, whose address is taken, and where each is used."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator

from nearfield.rewrite.frontend.clang import Kind, Node, TypeKind
from nearfield.rewrite.frontend.conversions import ARRAYS

ASSIGNMENTS = ("=", "*=", "/=", "%=", "+=", "-=", "<<=", ">>=", "&=", "^=", "|=")
INCREMENTS = ("++", "--", "post++", "post--")


class Function:
    """Facts on the body of one function, by the key of a variable's declaration. `changes` are the assignments to it,
    and the calls that may assign to it by a reference. `address_taken` has the variables that may be accessed without
    being named: all that occur in a context which is not known to read the value, or to assign to the variable."""

    def __init__(self, node: Node, without: Node | None = None, callers: tuple[int, ...] = ()) -> None:
        self.node = node
        self._callers = (*callers, node.key)  # functions that are being read, which may call each other in a circle
        self._without = without  # a part whose effects duplicate another part's, and which is skipped
        self.name = node.name
        self.body = next((child for child in node.children if child.kind == Kind.COMPOUND_STMT), None)
        self.parents: dict[int, Node] = {}  # by identity of the node
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
            self._read(self.body)
            self._classify_uses()

    def _read(self, node: Node) -> None:
        for child in node.children:
            if child is not self._without:
                self.parents[id(child)] = node
                self._read(child)
        if node.kind == Kind.DECL_REF_EXPR and node.declaration:
            self.uses[node.declaration.key].append(node)
        elif node.kind == Kind.VAR_DECL and node.cursor.storage_class.name != "EXTERN":
            self.declared[node.key] = node
        elif node.kind == Kind.LABEL_STMT:
            self._labels.append(node.offset)
        elif node.kind == Kind.CALL_EXPR:
            self.calls.append(node)

    def _classify_uses(self) -> None:
        """Fills `changes` and `address_taken` from the context of every use of a variable. Whatever context is not
        known to read the value or to assign to the variable makes the variable one that anything may access."""
        for key, uses in self.uses.items():
            for use in uses:
                declared = use.declaration
                if declared is None or declared.kind not in (Kind.VAR_DECL, Kind.PARM_DECL):
                    continue
                change = self._change_by(use)
                if isinstance(change, Node):
                    self.changes[key].append(change)
                elif change:
                    self.address_taken.add(key)

    def declared_as(self, name: str) -> list[Node]:
        """Returns the parameters and local variables of a name."""
        return self._by_name.get(name, [])

    @functools.cached_property
    def _by_name(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = defaultdict(list)
        for declared in self.declared.values():
            found[declared.name].append(declared)
        return found

    def escaping_uses(self, key: int) -> list[Node]:
        """Returns the uses of a variable after which anything may access it."""
        return [use for use in self.uses.get(key, []) if self._change_by(use) is True]

    def _change_by(self, use: Node) -> Node | bool:
        """Returns the assignment, or the call, that a use of a variable is the target of; False if the use only reads
        the value, or names an array or an object whose elements or members are accessed; True for everything else,
        such as an operand of `&`, a reference that is bound to it, or an operand of an assembly statement."""
        below, above = use, self.parent(use)
        if above is not None and any(outer.kind in (Kind.LAMBDA_EXPR, Kind.ASM_STMT) for outer in self.ancestors(use)):
            return True
        while above is not None:
            if above.kind == Kind.UNEXPOSED_EXPR:
                if len(above.children) != 1:
                    return True
                if below.type.kind in ARRAYS or _reads_value(above, below):
                    return False
            elif above.operator in ASSIGNMENTS:
                return self._change_in(above) if below is above.children[0] else True
            elif above.operator in INCREMENTS:
                return self._change_in(above)
            elif above.operator == ",":
                if below is above.children[0]:
                    return False
            elif above.kind == Kind.CALL_EXPR:
                return self._change_by_call(above, below)
            elif above.kind == Kind.CXX_UNARY_EXPR:
                return False
            elif above.kind.is_statement():
                return bool(above.kind == Kind.RETURN_STMT)  # without a load, it returns a reference
            elif above.kind not in (Kind.PAREN_EXPR, Kind.MEMBER_REF_EXPR):
                return True
            elif above.kind == Kind.MEMBER_REF_EXPR:
                if above.declaration is None or above.declaration.kind != Kind.FIELD_DECL:
                    return not is_container(below)
                if above.type.kind in ARRAYS:
                    return False
            below, above = above, self.parent(above)
        return True

    def _change_in(self, assignment: Node) -> Node | bool:
        """Returns the assignment; True if its result is used as an lvalue, as C++ allows."""
        above = self.parent(assignment)
        while above is not None and above.kind == Kind.PAREN_EXPR:
            above = self.parent(above)
        is_value = assignment.operator.startswith("post") or assignment.unit.path.endswith(".c")
        if is_value or above is None or above.kind.is_statement() or above.kind == Kind.UNEXPOSED_EXPR:
            return assignment
        return assignment if above.operator == "," else True

    def _change_by_call(self, call: Node, argument: Node) -> Node | bool:
        """Returns what a call does to a variable that it takes by a reference."""
        if argument.type.kind == TypeKind.RECORD:
            return not is_container(argument)
        callee = call.callee()
        for number, given in enumerate(call.arguments if callee is not None else ()):
            if given.offset == argument.offset and callee is not None:
                if callee.cursor.location.is_in_system_header:
                    return call if call.name == "swap" else call.name not in ("min", "max")
                return True if self._keeps_reference(callee, number) else call
        return True

    def _keeps_reference(self, callee: Node, number: int) -> bool:
        """Returns whether a function may keep the address of what it takes by its parameter of this number."""
        found = callee.cursor.get_definition()
        if found is None or found.hash in self._callers:
            return True
        definition = Node(found, callee.unit)
        formals = [child for child in definition.children if child.kind == Kind.PARM_DECL]
        inner = Function(definition, callers=self._callers)
        return number >= len(formals) or formals[number].key in inner.address_taken

    def parent(self, node: Node) -> Node | None:
        return self.parents.get(id(node))

    def ancestors(self, node: Node) -> Iterator[Node]:
        above = self.parent(node)
        while above:
            yield above
            above = self.parent(above)

    def has_label(self, node: Node) -> bool:
        """Returns whether a jump into a statement is possible."""
        return any(node.offset <= label < node.end for label in self._labels)

    def in_loop(self, node: Node) -> bool:
        return any(above.kind in LOOPS for above in self.ancestors(node))

    def unchanged(self, key: int) -> bool:
        """Returns whether the key is that of a local variable or parameter that keeps its initial value."""
        return key in self.declared and not self.changes.get(key) and key not in self.address_taken

    def fixed(self, key: int) -> Node | None:
        """Returns the initial value of a local variable that never changes; None for others."""
        declared = self.declared.get(key)
        if not declared or declared.kind != Kind.VAR_DECL or not self.unchanged(key):
            return None
        if declared.cursor.storage_class.name == "STATIC":
            return None  # it keeps the value of the first call, when what it was made of may have been another one
        return initial_value(declared)

    def given_once(self, declared: Node) -> Node | None:
        """Returns the value assigned to a variable by exactly one statement, in the function's outermost block and
        before every use."""
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


def _reads_value(cast: Node, operand: Node) -> bool:
    """Returns whether an implicit conversion loads the value of an lvalue: it keeps the type but its qualifiers. A
    conversion that binds a reference to const adds one."""
    return cast.type.kind == operand.type.kind != TypeKind.RECORD and not cast.type.is_const_qualified()


def is_container(node: Node) -> bool:
    """Returns whether a node is an object of the C++ library whose methods keep no address of it."""
    type_ = node.type.get_pointee() if node.type.kind == TypeKind.LVALUEREFERENCE else node.type
    return bool(re.match(r"(?:const )?std::(?:__\w+::)?(?:vector|array|complex)<", type_.get_canonical().spelling))


def initial_value(declared: Node) -> Node | None:
    """Returns the initial value of a variable; None if it has none. The sizes of an array are no initial value."""
    extent = declared.cursor.extent
    values = [child for child in declared.children if child.kind.is_expression()]
    words = declared.unit.text[declared.location : extent.end.offset]
    return values[-1] if values and any(sign in words for sign in "={(") else None
