"""Verifies a text with inlined functions, independently of the code that inlined them.

The caller is compared with its original node by node. In place of a call there must be the body of the callee, in which
each name has the same meaning: a parameter is the call's argument, a variable its counterpart, and everything else the
same declaration. `inlining.py` proves that arguments keep their values during the call."""

from __future__ import annotations

import re

from clang.cindex import LinkageKind

from nearfield.rewrite.codegen.call_sites import CallSite
from nearfield.rewrite.codegen.inlining import InlinedText
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TranslationUnit
from nearfield.rewrite.frontend.conversions import unqualified_type_name

_PARENTHESIS_KINDS = (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR)
_LITERAL_KINDS = (Kind.INTEGER_LITERAL, Kind.FLOATING_LITERAL, Kind.STRING_LITERAL, Kind.CHARACTER_LITERAL)
_VARIABLE_KINDS = (Kind.VAR_DECL, Kind.PARM_DECL)


class InliningDiffers(Exception):
    """Raised if a text with inlined functions is not proved equivalent; the message describes the difference."""


class InliningComparison:
    """Compares a function that has calls with its version in another text in which the callees are inlined."""

    def __init__(self, inlined_text: InlinedText) -> None:
        self._inlined_text = inlined_text
        self._sites = list(inlined_text.sites)
        # from variables of the old text to their counterparts, by declaration key
        self._counterpart_by_key: dict[int, int] = {}
        # from parameters to the arguments of the call, by declaration key
        self._argument_by_parameter: dict[int, SyntaxNode] = {}

    def check_equivalence(self, old_function: SyntaxNode, unit: TranslationUnit) -> None:
        """Raises InliningDiffers unless the function in the parsed new text is equivalent to the old function."""
        if unit.first_error:
            raise InliningDiffers(f"the text with inlined functions does not compile: {unit.first_error}")
        new_function = next(
            (one for one in unit.functions if one.cursor.get_usr() == old_function.cursor.get_usr()), None
        )
        if new_function is None:
            raise InliningDiffers(f"{old_function.name} is not found in the text with inlined functions")
        self._compare_trees(old_function, new_function)
        if self._sites:
            raise InliningDiffers("a call is not found that was to be inlined")

    def _compare_trees(self, old_node: SyntaxNode, new_node: SyntaxNode) -> None:
        """Compares two syntax trees. Raises InliningDiffers if they differ in more than inlined calls."""
        old_node, new_node = _without_parentheses(old_node), _without_parentheses(new_node)
        declaration = old_node.declaration if old_node.kind == Kind.DECL_REF_EXPR else None
        if declaration is not None and declaration.key in self._argument_by_parameter:
            self._compare_trees(self._argument_by_parameter[declaration.key], new_node)
            return
        if old_node.kind != new_node.kind or old_node.operator != new_node.operator:
            raise InliningDiffers(f"{_shortened_source(old_node)} has become {_shortened_source(new_node)}")
        if old_node.kind == Kind.COMPOUND_STMT:
            self._compare_blocks(old_node, new_node)
            return
        self._compare_nodes(old_node, new_node)
        if old_node.kind in _VARIABLE_KINDS:
            self._counterpart_by_key[old_node.key] = new_node.key
        if len(old_node.children) != len(new_node.children):
            raise InliningDiffers(f"{_shortened_source(old_node)} has other parts")
        for pair in zip(old_node.children, new_node.children, strict=True):
            self._compare_trees(*pair)

    def _compare_nodes(self, old_node: SyntaxNode, new_node: SyntaxNode) -> None:
        """Compares two syntax nodes without their children. Raises InliningDiffers if they differ."""
        if old_node.kind in _LITERAL_KINDS and _literal_text_and_value(old_node) != _literal_text_and_value(new_node):
            raise InliningDiffers(f"{_literal_text_and_value(old_node)} has become {_literal_text_and_value(new_node)}")
        if old_node.kind.is_expression() or old_node.kind.is_reference():
            self._compare_references(old_node, new_node)
        if old_node.kind in _VARIABLE_KINDS or old_node.kind.is_expression() and not _type_follows_argument(old_node):
            old_type, new_type = unqualified_type_name(old_node.type), unqualified_type_name(new_node.type)
            if old_type != new_type and "[" not in old_type:
                raise InliningDiffers(f"{_shortened_source(old_node)} has another type")

    def _compare_references(self, old_node: SyntaxNode, new_node: SyntaxNode) -> None:
        """Raises InliningDiffers unless two names refer to the same declaration, or to a variable and its
        counterpart."""
        old_declaration, new_declaration = old_node.declaration, new_node.declaration
        if old_declaration is None or new_declaration is None:
            if old_declaration is not new_declaration:
                raise InliningDiffers(f"{_shortened_source(old_node)} means something else")
        elif old_declaration.key in self._counterpart_by_key:
            if self._counterpart_by_key[old_declaration.key] != new_declaration.key:
                raise InliningDiffers(f"the name {old_declaration.name} clashes with another one")
        elif old_declaration.cursor.get_usr() != new_declaration.cursor.get_usr() or _is_local(new_declaration):
            raise InliningDiffers(f"the name {old_declaration.name} clashes with another one")

    # ---- blocks of statements

    def _compare_blocks(self, old_block: SyntaxNode, new_block: SyntaxNode) -> None:
        """Compares two blocks of statements. The new block may have bodies of callees in place of calls, with the
        callees' variables declared at its beginning."""
        remaining = list(new_block.children)
        site_by_statement = {id(site.statement): site for site in self._sites if site.statement in old_block.children}
        self._sites = [site for site in self._sites if id(site.statement) not in site_by_statement]
        num_declarations = sum(
            one.kind == Kind.DECL_STMT for site in site_by_statement.values() for one in _statements_of_callee(site)
        )
        hoisted, remaining = remaining[:num_declarations], remaining[num_declarations:]
        for statement in old_block.children:
            site = site_by_statement.get(id(statement))
            if site is None:
                self._compare_trees(statement, _pop_statement(remaining))
            else:
                self._compare_body(site, hoisted, remaining)
        if remaining or hoisted:
            raise InliningDiffers("a block has more statements than it had")

    def _compare_body(self, site: CallSite, hoisted: list[SyntaxNode], remaining: list[SyntaxNode]) -> None:
        """Compares the callee's body with the statements in place of the call, and removes these and the hoisted
        declarations from the lists `remaining` and `hoisted`."""
        self._argument_by_parameter |= {
            parameter.key: argument for parameter, argument in zip(site.parameters, site.arguments, strict=True)
        }  # fmt: skip
        num_before = len(remaining)
        for statement in _statements_of_callee(site):
            if statement.kind == Kind.DECL_STMT:
                self._compare_declarations(statement, _pop_statement(hoisted), remaining)
            elif statement.kind == Kind.RETURN_STMT:
                if site.result_variable is not None:
                    self._compare_assignment(
                        _pop_statement(remaining), self._counterpart_key(site.result_variable), statement.children[0]
                    )
            else:
                self._compare_trees(statement, _pop_statement(remaining))
        if len(remaining) == num_before:
            self._require_empty(_pop_statement(remaining))

    @staticmethod
    def _require_empty(statement: SyntaxNode) -> None:
        """Raises InliningDiffers unless a statement is empty, which stands for a callee without statements."""
        if statement.kind != Kind.NULL_STMT:
            raise InliningDiffers("a block has more statements than it had")

    def _counterpart_key(self, result_variable: SyntaxNode) -> int:
        """Returns the declaration key, in the new text, of the variable that gets a call's return value."""
        declaration = result_variable.declaration
        if declaration is None:
            raise InliningDiffers(f"{result_variable.name} is not known")
        return self._counterpart_by_key.get(declaration.key, declaration.key)

    def _compare_declarations(
        self, old_statement: SyntaxNode, new_statement: SyntaxNode, remaining: list[SyntaxNode]
    ) -> None:
        """Compares the declarations of a callee's variables. An assignment may stand in place of an initial value."""
        if new_statement.kind != Kind.DECL_STMT or len(old_statement.children) != len(new_statement.children):
            raise InliningDiffers(f"{_shortened_source(old_statement)} is declared otherwise")
        for old_variable, new_variable in zip(old_statement.children, new_statement.children, strict=True):
            if len(old_variable.children) == len(new_variable.children):
                self._compare_trees(old_variable, new_variable)
                continue
            if (
                old_variable.kind != new_variable.kind
                or unqualified_type_name(old_variable.type) != unqualified_type_name(new_variable.type)
                or new_variable.children
            ):
                raise InliningDiffers(f"{old_variable.name} is declared otherwise")
            self._counterpart_by_key[old_variable.key] = new_variable.key
            self._compare_assignment(_pop_statement(remaining), new_variable.key, old_variable.children[-1])

    def _compare_assignment(self, statement: SyntaxNode, declaration_key: int, value: SyntaxNode) -> None:
        """Raises InliningDiffers unless a statement assigns the given value to the variable with this declaration
        key."""
        if statement.operator != "=" or statement.kind != Kind.BINARY_OPERATOR:
            raise InliningDiffers(f"{_shortened_source(value)} is not assigned")
        target, new = statement.children
        if target.declaration is None or target.declaration.key != declaration_key:
            raise InliningDiffers(f"{_shortened_source(value)} is assigned to another variable")
        self._compare_trees(value, new)


def _statements_of_callee(site: CallSite) -> list[SyntaxNode]:
    """Returns the statements of the callee's body at a call site."""
    return site.callee.body.children if site.callee.body is not None else []


def _pop_statement(remaining: list[SyntaxNode]) -> SyntaxNode:
    """Removes and returns the first statement of a list. Raises InliningDiffers if the list is empty."""
    if not remaining:
        raise InliningDiffers("a block has fewer statements than it had")
    return remaining.pop(0)


def _without_parentheses(node: SyntaxNode) -> SyntaxNode:
    """Returns an expression without parentheses and implicit conversions."""
    while node.kind in _PARENTHESIS_KINDS and len(node.children) == 1:
        node = node.children[0]
    return node


def _type_follows_argument(node: SyntaxNode) -> bool:
    """Returns whether a node's type follows from an argument, whose type is compared where it is passed."""
    return node.kind in (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR)


def _is_local(declaration: SyntaxNode) -> bool:
    """Returns whether a declaration is that of a local variable or a parameter."""
    return declaration.kind in _VARIABLE_KINDS and declaration.cursor.linkage in (
        LinkageKind.INVALID,
        LinkageKind.NO_LINKAGE,
    )


def _literal_text_and_value(node: SyntaxNode) -> tuple[str, int | None]:
    """Returns the source text and the value of a literal."""
    text = node.unit.text
    match = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[\w.]+').match(text, node.name_offset)
    return (match[0] if match else "", node.constant_value)


def _shortened_source(node: SyntaxNode) -> str:
    """Returns the source text of a node on one line, at most 60 characters."""
    return " ".join(node.unit.text[node.offset : node.end].split())[:60] or node.name
