"""Verifies a text with inlined functions, independently of the code that inlined them.

The caller is compared with its original node by node. In place of a call there must be the body of the callee, in which
each name has the same meaning: a parameter is the call's argument, a variable its counterpart, and everything else the
same declaration. That arguments keep their values during the call is proved elsewhere (`inlining.py`)."""

from __future__ import annotations

import re

from clang.cindex import LinkageKind

from nearfield.rewrite.codegen.inlining import CallSite, InlinedText
from nearfield.rewrite.frontend.clang import Kind, Node, TranslationUnit
from nearfield.rewrite.frontend.conversions import unqualified_type_name

_SILENT = (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR)
_LITERALS = (Kind.INTEGER_LITERAL, Kind.FLOATING_LITERAL, Kind.STRING_LITERAL, Kind.CHARACTER_LITERAL)
_VARIABLES = (Kind.VAR_DECL, Kind.PARM_DECL)


class InliningDiffers(Exception):
    """Raised if a text with inlined functions is not proved equivalent; the message describes the difference."""


class InliningComparison:
    """Compares a function that has calls with its version in another text in which the callees are inlined."""

    def __init__(self, made: InlinedText) -> None:
        self._made = made
        self._sites = list(made.sites)
        self._known: dict[int, int] = {}  # from variables of the old text to their counterparts, by declaration key
        self._arguments: dict[int, Node] = {}  # from parameters to the arguments of the call, by declaration key

    def check_equivalence(self, old: Node, unit: TranslationUnit) -> None:
        """Raises InliningDiffers unless the function in the parsed new text is equivalent to the old function."""
        if unit.first_error:
            raise InliningDiffers(f"the text with inlined functions does not compile: {unit.first_error}")
        new = next((one for one in unit.functions if one.cursor.get_usr() == old.cursor.get_usr()), None)
        if new is None:
            raise InliningDiffers(f"{old.name} is not found in the text with inlined functions")
        self._compare_trees(old, new)
        if self._sites:
            raise InliningDiffers("a call is not found that was to be inlined")

    def _compare_trees(self, old: Node, new: Node) -> None:
        """Compares two syntax trees. Raises InliningDiffers if they differ in more than inlined calls."""
        old, new = _without_parentheses(old), _without_parentheses(new)
        declared = old.declaration if old.kind == Kind.DECL_REF_EXPR else None
        if declared is not None and declared.key in self._arguments:
            self._compare_trees(self._arguments[declared.key], new)
            return
        if old.kind != new.kind or old.operator != new.operator:
            raise InliningDiffers(f"{_shortened_source(old)} has become {_shortened_source(new)}")
        if old.kind == Kind.COMPOUND_STMT:
            self._compare_blocks(old, new)
            return
        self._compare_nodes(old, new)
        if old.kind in _VARIABLES:
            self._known[old.key] = new.key
        if len(old.children) != len(new.children):
            raise InliningDiffers(f"{_shortened_source(old)} has other parts")
        for pair in zip(old.children, new.children, strict=True):
            self._compare_trees(*pair)

    def _compare_nodes(self, old: Node, new: Node) -> None:
        """Compares two syntax nodes without their children. Raises InliningDiffers if they differ."""
        if old.kind in _LITERALS and _literal_text_and_value(old) != _literal_text_and_value(new):
            raise InliningDiffers(f"{_literal_text_and_value(old)} has become {_literal_text_and_value(new)}")
        if old.kind.is_expression() or old.kind.is_reference():
            self._compare_references(old, new)
        if old.kind in _VARIABLES or old.kind.is_expression() and not _type_follows_argument(old):
            mine, theirs = unqualified_type_name(old.type), unqualified_type_name(new.type)
            if mine != theirs and "[" not in mine:
                raise InliningDiffers(f"{_shortened_source(old)} has another type")

    def _compare_references(self, old: Node, new: Node) -> None:
        """Raises InliningDiffers unless two names refer to the same declaration, or to a variable and its
        counterpart."""
        old_declared, new_declared = old.declaration, new.declaration
        if old_declared is None or new_declared is None:
            if old_declared is not new_declared:
                raise InliningDiffers(f"{_shortened_source(old)} means something else")
        elif old_declared.key in self._known:
            if self._known[old_declared.key] != new_declared.key:
                raise InliningDiffers(f"the name {old_declared.name} clashes with another one")
        elif old_declared.cursor.get_usr() != new_declared.cursor.get_usr() or _is_local(new_declared):
            raise InliningDiffers(f"the name {old_declared.name} clashes with another one")

    # ---- blocks of statements

    def _compare_blocks(self, old: Node, new: Node) -> None:
        """Compares two blocks of statements. The new block may have bodies of callees in place of calls, with the
        callees' variables declared at its beginning."""
        rest = list(new.children)
        inside = {id(site.statement): site for site in self._sites if site.statement in old.children}
        self._sites = [site for site in self._sites if id(site.statement) not in inside]
        declarations = sum(
            one.kind == Kind.DECL_STMT for site in inside.values() for one in _statements_of_callee(site)
        )
        hoisted, rest = rest[:declarations], rest[declarations:]
        for statement in old.children:
            site = inside.get(id(statement))
            if site is None:
                self._compare_trees(statement, _take_next(rest))
            else:
                self._compare_body(site, hoisted, rest)
        if rest or hoisted:
            raise InliningDiffers("a block has more statements than it had")

    def _compare_body(self, site: CallSite, hoisted: list[Node], rest: list[Node]) -> None:
        """Compares the callee's body with the statements in place of the call, and removes these and the hoisted
        declarations from the lists `rest` and `hoisted`."""
        self._arguments |= {
            formal.key: argument for formal, argument in zip(site.formals, site.arguments, strict=True)
        }  # fmt: skip
        before = len(rest)
        for statement in _statements_of_callee(site):
            if statement.kind == Kind.DECL_STMT:
                self._compare_declarations(statement, _take_next(hoisted), rest)
            elif statement.kind == Kind.RETURN_STMT:
                if site.given is not None:
                    self._compare_assignment(_take_next(rest), self._counterpart_key(site.given), statement.children[0])
            else:
                self._compare_trees(statement, _take_next(rest))
        if len(rest) == before:
            self._require_empty(_take_next(rest))

    @staticmethod
    def _require_empty(statement: Node) -> None:
        """Raises InliningDiffers unless a statement is empty, which stands for a callee without statements."""
        if statement.kind != Kind.NULL_STMT:
            raise InliningDiffers("a block has more statements than it had")

    def _counterpart_key(self, given: Node) -> int:
        """Returns the declaration key, in the new text, of the variable that gets a call's return value."""
        declared = given.declaration
        if declared is None:
            raise InliningDiffers(f"{given.name} is not known")
        return self._known.get(declared.key, declared.key)

    def _compare_declarations(self, old: Node, new: Node, rest: list[Node]) -> None:
        """Compares the declarations of a callee's variables. An assignment may stand in place of an initial value."""
        if new.kind != Kind.DECL_STMT or len(old.children) != len(new.children):
            raise InliningDiffers(f"{_shortened_source(old)} is declared otherwise")
        for mine, theirs in zip(old.children, new.children, strict=True):
            if len(mine.children) == len(theirs.children):
                self._compare_trees(mine, theirs)
                continue
            if (
                mine.kind != theirs.kind
                or unqualified_type_name(mine.type) != unqualified_type_name(theirs.type)
                or theirs.children
            ):
                raise InliningDiffers(f"{mine.name} is declared otherwise")
            self._known[mine.key] = theirs.key
            self._compare_assignment(_take_next(rest), theirs.key, mine.children[-1])

    def _compare_assignment(self, statement: Node, key: int, value: Node) -> None:
        """Raises InliningDiffers unless a statement assigns the given value to the variable with this declaration
        key."""
        if statement.operator != "=" or statement.kind != Kind.BINARY_OPERATOR:
            raise InliningDiffers(f"{_shortened_source(value)} is not assigned")
        target, new = statement.children
        if target.declaration is None or target.declaration.key != key:
            raise InliningDiffers(f"{_shortened_source(value)} is assigned to another variable")
        self._compare_trees(value, new)


def _statements_of_callee(site: CallSite) -> list[Node]:
    """Returns the statements of the callee's body at a call site."""
    return site.callee.body.children if site.callee.body is not None else []


def _take_next(rest: list[Node]) -> Node:
    """Removes and returns the first statement of a list. Raises InliningDiffers if the list is empty."""
    if not rest:
        raise InliningDiffers("a block has fewer statements than it had")
    return rest.pop(0)


def _without_parentheses(node: Node) -> Node:
    """Returns an expression without parentheses and implicit conversions."""
    while node.kind in _SILENT and len(node.children) == 1:
        node = node.children[0]
    return node


def _type_follows_argument(node: Node) -> bool:
    """Returns whether a node's type follows from an argument, whose type is compared where it is passed."""
    return node.kind in (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR)


def _is_local(declared: Node) -> bool:
    """Returns whether a declaration is that of a local variable or a parameter."""
    return declared.kind in _VARIABLES and declared.cursor.linkage in (LinkageKind.INVALID, LinkageKind.NO_LINKAGE)


def _literal_text_and_value(node: Node) -> tuple[str, int | None]:
    """Returns the source text and the value of a literal."""
    text = node.unit.text
    match = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[\w.]+').match(text, node.location)
    return (match[0] if match else "", node.value)


def _shortened_source(node: Node) -> str:
    """Returns the source text of a node on one line, at most 60 characters."""
    return " ".join(node.unit.text[node.offset : node.end].split())[:60] or node.name
