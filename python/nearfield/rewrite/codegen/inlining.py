"""Inlines calls to functions of the same file, so that the loops of the callees can be split.

Parameters become the call's arguments. Variables of the body's outermost block are declared at the beginning of the
caller's block, and renamed if their names are in use. The result is not trusted: `check/inlined.py` verifies it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from nearfield.rewrite.analysis.expressions import KINDS_WITHOUT_READS
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.codegen.call_sites import CallSite
from nearfield.rewrite.codegen.callee_stores import leaves_unchanged
from nearfield.rewrite.frontend.call_arguments import split_arguments
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TranslationUnit, TypeKind
from nearfield.rewrite.frontend.conversions import NUMBER_TYPES, unqualified_type_name
from nearfield.rewrite.frontend.function import ASSIGNMENT_OPERATORS, INCREMENT_OPERATORS, FunctionFacts
from nearfield.rewrite.frontend.text import (
    NumberedLine,
    extend_to_whole_lines,
    identifiers_in,
    indent_at,
    line_number_of,
    replace_identifiers,
    split_into_lines,
)

_UNSUPPORTED_NAME_BY_KIND = {
    Kind.GOTO_STMT: "goto", Kind.LABEL_STMT: "a label", Kind.LAMBDA_EXPR: "a lambda", Kind.ASM_STMT: "assembly",
    Kind.INDIRECT_GOTO_STMT: "goto",
}  # fmt: skip
_FUNCTION_DEPENDENT_NAMES = ("__func__", "__FUNCTION__", "__PRETTY_FUNCTION__", "alloca")


@dataclass(frozen=True)
class _TextEdit:
    """Lines that replace the text between two offsets of a file: the body of an inlined function, or declarations."""

    start: int
    end: int
    lines: list[NumberedLine]
    is_body: bool = True


@dataclass
class InlinedText:
    """The text of a file with inlined calls. `original_line_numbers` has for each line its line in the original file,
    or the line of the call if it is in an inlined body. `callee_line_numbers` has the same lines, but those of the
    callee for an inlined body."""

    text: str
    block: SyntaxNode
    sites: list[CallSite]
    body_line_spans: list[tuple[int, int]] = field(default_factory=list)  # first and last line of each inlined body
    original_line_numbers: list[int] = field(default_factory=list)
    callee_line_numbers: list[int] = field(default_factory=list)
    declaration_line: int = 0  # the line after which variables of inlined bodies are declared; 0 if there are none


class Inliner:
    """Inlines function calls in one block of a function."""

    def __init__(
        self, unit: TranslationUnit, functions: ProgramFunctions, function: FunctionFacts, block: SyntaxNode
    ) -> None:
        self._unit, self._functions, self._function, self._block = unit, functions, function, block

    def inline_calls(self, sites: Sequence[CallSite]) -> InlinedText:
        """Returns the file with each given call replaced by the body of the called function. Raises NotMovable, with
        the line of the call, if a call cannot be inlined."""
        block, file_text = self._block, self._unit.text
        used_names = identifiers_in(file_text[block.offset : block.end])
        declarations: list[str] = []
        edits: list[_TextEdit] = []
        for site in sites:
            body = _InlinedBody(self._unit, self._functions, self._function, block, site, used_names)
            body_declarations, lines = body.write_lines()
            declarations += body_declarations
            edits.append(_TextEdit(site.statement.offset, self._unit.statement_end(site.statement), lines))
        if declarations:
            start = block.offset + 1
            indent = indent_at(file_text, block.children[0].offset)
            first_line = line_number_of(file_text, start)
            edits.insert(
                0,
                _TextEdit(
                    start, start, [("", first_line), *((indent + one, first_line) for one in declarations)], False
                ),
            )
        inlined_text = self._apply_edits(edits, list(sites))
        inlined_text.declaration_line = line_number_of(file_text, block.offset) if declarations else 0
        return inlined_text

    def _apply_edits(self, edits: Sequence[_TextEdit], sites: list[CallSite]) -> InlinedText:
        """Returns the file with all edits applied, and the map from its lines to those of the original file."""
        file_text, previous_end = self._unit.text, 0
        inlined_text = InlinedText("", self._block, sites)
        for edit in [
            *edits,
            _TextEdit(len(file_text), len(file_text), [("", line_number_of(file_text, len(file_text)))], False),
        ]:
            inlined_text.text += file_text[previous_end : edit.start]
            numbers = range(
                line_number_of(file_text, previous_end) + (previous_end > 0), line_number_of(file_text, edit.start) + 1
            )
            inlined_text.original_line_numbers += numbers
            inlined_text.callee_line_numbers += numbers
            indent = indent_at(file_text, edit.start) if edit.is_body else ""
            inlined_text.text += "\n".join(
                line if number == 0 or not line or line.startswith("#") else indent + line
                for number, (line, _) in enumerate(edit.lines)
            )
            if edit.is_body:
                inlined_text.body_line_spans.append(
                    (
                        len(inlined_text.original_line_numbers),
                        len(inlined_text.original_line_numbers) + len(edit.lines) - 1,
                    )
                )
                inlined_text.callee_line_numbers[-1] = edit.lines[0][1]
            inlined_text.original_line_numbers += [line_number_of(file_text, edit.start)] * (len(edit.lines) - 1)
            inlined_text.callee_line_numbers += [callee_line for _, callee_line in edit.lines[1:]]
            previous_end = edit.end
        return inlined_text


class _InlinedBody:
    """The body of one callee, as it is inlined at one call site."""

    def __init__(
        self,
        unit: TranslationUnit,
        functions: ProgramFunctions,
        function: FunctionFacts,
        block: SyntaxNode,
        site: CallSite,
        used_names: set[str],
    ) -> None:
        self._unit, self._functions, self._function, self._block = unit, functions, function, block
        self._site, self._callee, self._used_names = site, site.callee, used_names
        self._replacement_by_name: dict[str, str] = {}  # from names in the callee to their replacements
        self._invariant_keys: set[int] = set()  # variables that have the same value already at the start of the block

    def write_lines(self) -> tuple[list[str], list[NumberedLine]]:
        """Returns the declarations for the caller's block, and the lines that replace the call. Raises NotMovable, with
        the line of the call, if the body cannot be inlined."""
        assert self._callee.body is not None
        if self._callee.node.unit is not self._unit:
            raise self._make_refusal("the function is defined in another file", self._site.call.line)
        self._check_body(self._callee.body)
        self._map_arguments()
        declarations_and_lines = self._split_body(self._callee.body)
        self._check_pragmas(self._callee.body)
        return declarations_and_lines

    def _make_refusal(self, reason: str, line: int) -> NotMovable:
        """Returns the exception to raise if a callee cannot be inlined, with the reason and its line."""
        line_note = f" (line {line})" if line != self._site.call.line else ""
        return NotMovable(
            f"the loops of {self._callee.name} could be split only if its body stood in place of this call, which is "
            f"not possible: {reason}{line_note}",
            self._site.call.line,
        )

    # ---- conditions on the body of a callee

    def _check_body(self, body: SyntaxNode) -> None:
        """Raises NotMovable if the callee's body would have another meaning in the caller, or has a control flow that
        cannot be inlined."""
        last = body.children[-1] if body.children else None
        for node in body.walk():
            if node.kind == Kind.RETURN_STMT and node is not last:
                raise self._make_refusal("the function returns before its end", node.line)
            if node.kind in _UNSUPPORTED_NAME_BY_KIND:
                raise self._make_refusal(f"the function contains {_UNSUPPORTED_NAME_BY_KIND[node.kind]}", node.line)
            if node.kind == Kind.VAR_DECL and node.cursor.storage_class.name in ("STATIC", "EXTERN"):
                raise self._make_refusal(f"its variable {node.name} outlives the call (static or extern)", node.line)
        text = self._unit.text[body.offset : body.end]
        body_names = identifiers_in(text)
        if not text.endswith("}") or self._unit.is_macro_use(self._site.statement.offset):
            raise self._make_refusal("a macro hides where the function ends", body.line)
        if "\\\n" in text:
            raise self._make_refusal("the function has a line that a backslash continues", body.line)
        if name := next((name for name in _FUNCTION_DEPENDENT_NAMES if name in body_names), ""):
            raise self._make_refusal(f"the function uses {name}", body.line)
        text_between = (
            self._unit.text[body.end : self._site.call.offset] or self._unit.text[self._block.end : body.offset]
        )
        if re.search(r"^[ \t]*#[ \t]*include", text_between, re.MULTILINE):
            raise self._make_refusal("a header is included between the function and this call", body.line)
        macro_directives = re.findall(r"^[ \t]*#[ \t]*(define|undef)[ \t]+(\w+)", self._unit.text, re.MULTILINE)
        macro_names = [name for _, name in macro_directives]
        for directive, name in macro_directives:
            if name in body_names and (directive == "undef" or macro_names.count(name) > 1):
                raise self._make_refusal(f"the macro {name} is defined more than once", body.line)

    def _check_pragmas(self, body: SyntaxNode) -> None:
        """Raises NotMovable if a pragma in the callee's body names a variable that would be renamed."""
        for pragma in re.finditer(r"^[ \t]*#[ \t]*pragma[^\n]*", self._unit.text[body.offset : body.end], re.MULTILINE):
            if name := next(
                (name for name in identifiers_in(pragma[0]) if self._replacement_by_name.get(name, name) != name), ""
            ):
                raise self._make_refusal(f"a pragma names {name}, which would get another name", body.line)

    # ---- arguments in place of parameters

    def _map_arguments(self) -> None:
        """Maps the callee's parameters to the call's arguments. Raises NotMovable if an argument cannot replace its
        parameter."""
        site = self._site
        parameters, arguments, argument_texts = site.parameters, site.arguments, split_arguments(site.call)
        if not len(parameters) == len(arguments) == (len(argument_texts) if argument_texts != [""] else 0):
            raise self._make_refusal(
                "this call passes other arguments than the function has parameters", site.call.line
            )
        for parameter, argument_text in zip(parameters, argument_texts, strict=True):
            self._replacement_by_name[parameter.name] = (
                argument_text if re.fullmatch(r"[\w.]+", argument_text) else f"({argument_text})"
            )
        for parameter, argument in zip(parameters, arguments, strict=True):
            self._check_argument(parameter, argument)
        self._check_macros()

    def _check_macros(self) -> None:
        """Raises NotMovable if a macro used in the callee's body contains the name of a parameter that is replaced."""
        assert self._callee.body is not None
        body_names = identifiers_in(self._unit.text[self._callee.body.offset : self._callee.body.end])
        for macro in sorted(body_names & self._unit.macros.keys()):
            macro_body_names = identifiers_in(self._unit.macros[macro].partition(")")[2])
            if name := next(
                (one for one in sorted(macro_body_names) if self._replacement_by_name.get(one, one) != one), ""
            ):
                raise self._make_refusal(
                    f"the macro {macro} uses the name of the parameter {name}", self._callee.body.line
                )

    def _check_argument(self, parameter: SyntaxNode, argument: SyntaxNode) -> None:
        """Raises NotMovable unless an argument of the call can replace every use of its parameter."""
        name = parameter.name
        is_reference = parameter.type.kind == TypeKind.LVALUEREFERENCE
        parameter_type = parameter.type.get_pointee().get_canonical() if is_reference else parameter.type
        if not is_reference and parameter_type.kind not in (*NUMBER_TYPES, TypeKind.POINTER, *ARRAY_TYPES):
            raise self._make_refusal(f"the parameter {name} is neither a number nor a pointer", parameter.line)
        if is_reference and argument.without_casts.kind != Kind.DECL_REF_EXPR:
            raise self._make_refusal(f"the argument for the parameter {name} is no variable", argument.line)
        if not is_reference and self._callee.changes.get(parameter.key):
            raise self._make_refusal(
                f"the function changes its parameter {name}", self._callee.changes[parameter.key][0].line
            )
        if not is_reference and parameter.key in self._callee.address_taken:
            raise self._make_refusal(f"the function takes the address of its parameter {name}", parameter.line)
        if replace_identifiers(
            unqualified_type_name(parameter_type), self._replacement_by_name
        ) != unqualified_type_name(argument.without_casts.type):
            conversion = f"{argument.without_casts.type.spelling} becomes {parameter_type.spelling}"
            raise self._make_refusal(f"the argument for the parameter {name} is converted: {conversion}", argument.line)
        self._check_row_lengths(name, argument)
        if is_reference:
            return
        for node in argument.walk():
            self._check_invariant_argument(name, node)
        assert self._callee.body is not None
        for node in self._callee.body.walk():
            if node.kind == Kind.CXX_UNARY_EXPR and any(child.is_variable(parameter.key) for child in node.children):
                raise self._make_refusal(f"the function takes the size of its parameter {name}", node.line)

    def _check_invariant_argument(self, name: str, node: SyntaxNode) -> None:
        """Raises NotMovable if part of an argument may change its value while the callee runs."""
        if node.kind == Kind.DECL_REF_EXPR and node.declaration is not None:
            if node.type.is_volatile_qualified() or not leaves_unchanged(
                self._site, node.declaration, self._function, self._functions
            ):
                raise self._make_refusal(
                    f"{node.name}, the argument for the parameter {name}, may change during the call", node.line
                )
        elif node.kind not in KINDS_WITHOUT_READS and node.operator not in ("+", "-", "*"):
            raise self._make_refusal(
                f"the argument for the parameter {name} is no variable, no number, and no sum or product of these",
                node.line,
            )

    def _check_row_lengths(self, name: str, argument: SyntaxNode) -> None:
        """Raises NotMovable if the row length of an array argument may have changed in the caller since the array's
        declaration."""
        for length_name in identifiers_in(
            "".join(re.findall(r"\[.*?\]", unqualified_type_name(argument.without_casts.type)))
        ):
            declarations = [one for one in self._function.declarations.values() if one.name == length_name]
            if len(declarations) != 1 or not self._function.is_never_changed(declarations[0].key):
                raise self._make_refusal(f"the length of the rows of the parameter {name} may change", argument.line)

    # ---- statements of the body

    def _split_body(self, body: SyntaxNode) -> tuple[list[str], list[NumberedLine]]:
        """Returns the declarations to hoist out of the callee's body, and the remaining lines of the body."""
        text, position = self._unit.text, body.offset + 1
        hoisted: list[str] = []
        pieces: list[NumberedLine] = []
        for statement in body.children:
            start, end = statement.offset, self._unit.statement_end(statement)
            if statement.kind == Kind.DECL_STMT:
                declaration, remaining_text = self._hoist_declaration(statement)
                hoisted.append(declaration)
            elif statement.kind == Kind.RETURN_STMT:
                remaining_text = self._result_assignment(statement)
            else:
                continue
            if not remaining_text:
                start, end = extend_to_whole_lines(text, start, end)
            pieces.append(
                (replace_identifiers(text[position:start], self._replacement_by_name), line_number_of(text, position))
            )
            pieces.append((remaining_text, statement.line))
            position = end
        pieces.append(
            (
                replace_identifiers(text[position : body.end - 1], self._replacement_by_name),
                line_number_of(text, position),
            )
        )
        return hoisted, split_into_lines(pieces)

    def _result_assignment(self, statement: SyntaxNode) -> str:
        """Returns the assignment that replaces a `return` statement; '' if the call does not use the result."""
        result_variable = self._site.result_variable
        if not statement.children:
            return ""
        value = statement.children[0]
        if result_variable is None:
            if any(node.kind == Kind.CALL_EXPR or node.operator in (*ASSIGNMENT_OPERATORS, *INCREMENT_OPERATORS)
                   or node.type.is_volatile_qualified() for node in value.walk()):  # fmt: skip
                raise self._make_refusal(
                    "this call does not use the result, and computing it may have side effects", statement.line
                )
            return ""
        if (
            not unqualified_type_name(value.without_casts.type)
            == unqualified_type_name(result_variable.type)
            == unqualified_type_name(self._site.call.type)
        ):
            raise self._make_refusal("the result is converted to another type", statement.line)
        value_text = self._unit.text[value.offset : self._unit.statement_end(statement)]
        return f"{result_variable.name} = {replace_identifiers(value_text, self._replacement_by_name)}"

    def _hoist_declaration(self, statement: SyntaxNode) -> tuple[str, str]:
        """Returns the declaration to hoist to the caller's block, and the assignment that remains in its place ('' if
        the initial value is invariant)."""
        variables = [child for child in statement.children if child.kind == Kind.VAR_DECL]
        if len(variables) != len(statement.children):
            raise self._make_refusal("the function declares something that is no variable", statement.line)
        is_invariant = all(
            self._is_invariant_expression(node) for one in variables for child in one.children for node in child.walk()
        )
        text = self._unit.text[statement.offset : self._unit.statement_end(statement)]
        for one in variables:
            self._choose_unused_name(one.name)
        if is_invariant:
            self._invariant_keys |= {one.key for one in variables}
            return " ".join(replace_identifiers(text, self._replacement_by_name).split()), ""
        is_plain = len(variables) == 1 and variables[0].type.kind in (*NUMBER_TYPES, TypeKind.POINTER)
        if not is_plain or "=" not in text or variables[0].cursor.type.spelling.startswith("auto"):
            name = variables[0].name
            raise self._make_refusal(
                f"its variable {name} is initialised with a value that may change before the call", statement.line
            )
        declaration_text, _, value = text.partition("=")
        if variables[0].type.is_const_qualified():
            declaration_text = re.sub(r"\bconst\b", " ", declaration_text)
        new_name = self._replacement_by_name.get(variables[0].name, variables[0].name)
        hoisted = " ".join(replace_identifiers(declaration_text, self._replacement_by_name).split()) + ";"
        return hoisted, f"{new_name} = {' '.join(replace_identifiers(value, self._replacement_by_name).split())}"

    def _choose_unused_name(self, name: str) -> None:
        """Chooses a name for a variable of the callee that is not in use in the caller."""
        new_name = name
        while new_name in self._used_names or (new_name != name and new_name in identifiers_in(self._unit.text)):
            new_name = f"{new_name}_{self._callee.name}" if new_name == name else f"{new_name}_"
        self._used_names.add(new_name)
        self._replacement_by_name[name] = new_name

    def _is_invariant_expression(self, node: SyntaxNode) -> bool:
        """Returns whether an expression of the callee has the same value at the beginning of the caller's block."""
        if node.kind != Kind.DECL_REF_EXPR:
            return node.kind in (*KINDS_WITHOUT_READS, Kind.TYPE_REF, Kind.INIT_LIST_EXPR) or node.operator in (
                "+",
                "-",
                "*",
            )
        declaration = node.declaration
        if declaration is None or declaration.type.kind in ARRAY_TYPES:
            return False
        if declaration.kind == Kind.ENUM_CONSTANT_DECL or node.constant_value is not None:
            return True
        for parameter, argument in zip(self._site.parameters, self._site.arguments, strict=True):
            if parameter.key == declaration.key:
                return all(self._is_fixed_before_block(one) for one in argument.walk())
        return self._callee.is_never_changed(declaration.key) and declaration.key in self._invariant_keys

    def _is_fixed_before_block(self, node: SyntaxNode) -> bool:
        """Returns whether a variable in an argument has a fixed value from the beginning of the caller's block on."""
        if node.kind != Kind.DECL_REF_EXPR or node.declaration is None:
            return True
        declaration = node.declaration
        is_declared_outside = not self._block.offset <= declaration.offset < self._block.end
        return is_declared_outside and (
            node.constant_value is not None or self._function.is_never_changed(declaration.key)
        )
