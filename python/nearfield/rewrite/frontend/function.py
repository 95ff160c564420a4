"""Collects facts on the variables of a function: which ones change, whose address is taken, and where each is used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from nearfield.rewrite.frontend.clang import Kind, Node, TypeKind

ASSIGNMENTS = ("=", "*=", "/=", "%=", "+=", "-=", "<<=", ">>=", "&=", "^=", "|=")
_OPERATORS = (Kind.BINARY_OPERATOR, Kind.UNARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR)
INCREMENTS = ("++", "--", "post++", "post--")


class Function:
    """Facts on the body of one function. `changes` are the assignments to a variable, by the key of its declaration."""

    def __init__(self, node: Node, without: Node | None = None) -> None:
        self.node = node
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
        if self.body:
            self._read(self.body)
        for child in node.children:
            if child.kind == Kind.PARM_DECL:
                self.declared[child.key] = child

    def _read(self, node: Node) -> None:
        for child in node.children:
            if child is not self._without:
                self.parents[id(child)] = node
                self._read(child)
        if node.kind == Kind.DECL_REF_EXPR and node.declaration:
            self.uses[node.declaration.key].append(node)
        elif node.kind == Kind.VAR_DECL and node.cursor.storage_class.name != "EXTERN":
            self.declared[node.key] = node
            if node.type.kind == TypeKind.LVALUEREFERENCE:
                self._take_addresses(node)
        elif node.kind == Kind.LABEL_STMT:
            self._labels.append(node.offset)
        elif node.kind == Kind.CALL_EXPR:
            self.calls.append(node)
            self._changed_by_reference(node)
        elif node.kind == Kind.LAMBDA_EXPR:
            self._take_addresses(node)
        if node.kind not in _OPERATORS:
            return
        if node.operator in ASSIGNMENTS or node.operator in INCREMENTS:
            self._changed(node.children[0].bare, node)
        elif node.operator == "&" and node.kind == Kind.UNARY_OPERATOR:
            target = node.children[0].bare
            if target.kind == Kind.DECL_REF_EXPR and target.declaration:
                self.address_taken.add(target.declaration.key)

    def _changed(self, target: Node, by: Node) -> None:
        if target.kind == Kind.DECL_REF_EXPR and target.declaration:
            self.changes[target.declaration.key].append(by)

    def _changed_by_reference(self, call: Node) -> None:
        callee = call.callee()
        parameters = [argument.type for argument in callee.cursor.get_arguments()] if callee else []
        for type_, argument in zip(parameters, call.cursor.get_arguments(), strict=False):
            canonical = type_.get_canonical()
            if canonical.kind == TypeKind.LVALUEREFERENCE and not canonical.get_pointee().is_const_qualified():
                self._changed(Node(argument, call.unit).bare, call)

    def _take_addresses(self, node: Node) -> None:
        for inner in node.walk():
            if inner.kind == Kind.DECL_REF_EXPR and inner.declaration:
                self.address_taken.add(inner.declaration.key)

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
        values = [child for child in declared.children if child.kind.is_expression()]
        return values[-1] if values and _has_initial_value(declared) else None

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


def _has_initial_value(declared: Node) -> bool:
    """Returns whether a variable has an initializer; array sizes are children of the node, too."""
    extent = declared.cursor.extent
    words = declared.unit.text[declared.location : extent.end.offset]
    return "=" in words or ("{" in words or "(" in words)
