"""Inlines calls to functions of the same file, so that the loops of the callees can be split.

Parameters become the call's arguments. Variables of the body's outermost block are declared at the beginning of the
caller's block, and renamed if their names are in use. The result is not trusted: `check/inlined.py` verifies it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from nearfield.rewrite.analysis.expressions import VALUES
from nearfield.rewrite.analysis.library_calls import is_library_call, is_pure_call
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.frontend.call_arguments import split_arguments
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node, TranslationUnit, TypeKind
from nearfield.rewrite.frontend.conversions import NUMBERS, may_modify_part_of, unqualified_type_name
from nearfield.rewrite.frontend.function import ASSIGNMENTS, INCREMENTS, FunctionFacts
from nearfield.rewrite.frontend.text import (
    Line,
    extend_to_whole_lines,
    identifiers_in,
    indent_at,
    line_number_of,
    replace_names,
    split_into_lines,
)

_LEAVES = {Kind.GOTO_STMT: "goto", Kind.LABEL_STMT: "a label", Kind.LAMBDA_EXPR: "a lambda", Kind.ASM_STMT: "assembly",
           Kind.INDIRECT_GOTO_STMT: "goto"}  # fmt: skip
_OF_PLACE = ("__func__", "__FUNCTION__", "__PRETTY_FUNCTION__", "alloca")


@dataclass(frozen=True)
class CallSite:
    """A call site that can be inlined: a statement `f(x);` or `y = f(x);` that calls a function of the file."""

    statement: Node
    call: Node
    callee: FunctionFacts
    given: Node | None = None  # the variable that the return value is assigned to

    @property
    def formals(self) -> list[Node]:
        """Returns the declarations of the callee's parameters."""
        return [child for child in self.callee.node.children if child.kind == Kind.PARM_DECL]

    @property
    def arguments(self) -> list[Node]:
        """Returns the argument expressions of the call."""
        return self.call.arguments


@dataclass(frozen=True)
class _TextEdit:
    """Lines that replace the text between two offsets of a file: the body of an inlined function, or declarations."""

    start: int
    end: int
    lines: list[Line]
    is_body: bool = True


@dataclass
class InlinedText:
    """The text of a file with inlined calls. `calls` maps each line to its line in the original file, which for an
    inlined body is that of the call; `sources` maps the lines of an inlined body to the lines of the callee."""

    text: str
    block: Node
    sites: list[CallSite]
    spans: list[tuple[int, int]] = field(default_factory=list)  # first and last line of each inlined body
    calls: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    declares: int = 0  # the line after which variables of inlined bodies are declared; 0 if there are none


def call_site_of(statement: Node, functions: ProgramFunctions) -> CallSite | None:
    """Returns the call site if a statement is a call, or an assignment from a call, of a function whose definition is
    known; None otherwise."""
    node, given = statement.bare, None
    if node.operator == "=" and node.kind == Kind.BINARY_OPERATOR and node.children[0].kind == Kind.DECL_REF_EXPR:
        given, node = node.children[0], node.children[1].bare
    if node.kind != Kind.CALL_EXPR:
        return None
    callee = functions.definition_of(node)
    return CallSite(statement, node, callee, given) if callee is not None and callee.body is not None else None


class Inliner:
    """Inlines function calls in one block of a function."""

    def __init__(
        self, unit: TranslationUnit, functions: ProgramFunctions, function: FunctionFacts, block: Node
    ) -> None:
        self._unit, self._functions, self._function, self._block = unit, functions, function, block

    def inline_calls(self, sites: Sequence[CallSite]) -> InlinedText:
        """Returns the file with each given call replaced by the body of the called function. Raises NotMovable, with
        the line of the call, if a call cannot be inlined."""
        block, whole = self._block, self._unit.text
        taken = identifiers_in(whole[block.offset : block.end])
        declarations: list[str] = []
        edits: list[_TextEdit] = []
        for site in sites:
            body = _InlinedBody(self._unit, self._functions, self._function, block, site, taken)
            hoisted, lines = body.write_lines()
            declarations += hoisted
            edits.append(_TextEdit(site.statement.offset, self._unit.statement_end(site.statement), lines))
        if declarations:
            start = block.offset + 1
            indent = indent_at(whole, block.children[0].offset)
            at = line_number_of(whole, start)
            edits.insert(0, _TextEdit(start, start, [("", at), *((indent + one, at) for one in declarations)], False))
        made = self._apply_edits(edits, list(sites))
        made.declares = line_number_of(whole, block.offset) if declarations else 0
        return made

    def _apply_edits(self, edits: Sequence[_TextEdit], sites: list[CallSite]) -> InlinedText:
        """Returns the file with all edits applied, and the map from its lines to those of the original file."""
        whole, last = self._unit.text, 0
        made = InlinedText("", self._block, sites)
        for edit in [*edits, _TextEdit(len(whole), len(whole), [("", line_number_of(whole, len(whole)))], False)]:
            made.text += whole[last : edit.start]
            numbers = range(line_number_of(whole, last) + (last > 0), line_number_of(whole, edit.start) + 1)
            made.calls += numbers
            made.sources += numbers
            indent = indent_at(whole, edit.start) if edit.is_body else ""
            made.text += "\n".join(
                line if number == 0 or not line or line.startswith("#") else indent + line
                for number, (line, _) in enumerate(edit.lines)
            )
            if edit.is_body:
                made.spans.append((len(made.calls), len(made.calls) + len(edit.lines) - 1))
                made.sources[-1] = edit.lines[0][1]
            made.calls += [line_number_of(whole, edit.start)] * (len(edit.lines) - 1)
            made.sources += [source for _, source in edit.lines[1:]]
            last = edit.end
        return made


class _InlinedBody:
    """The body of one callee, as it is inlined at one call site."""

    def __init__(
        self,
        unit: TranslationUnit,
        functions: ProgramFunctions,
        function: FunctionFacts,
        block: Node,
        site: CallSite,
        taken: set[str],
    ) -> None:
        self._unit, self._functions, self._function, self._block = unit, functions, function, block
        self._site, self._callee, self._taken = site, site.callee, taken
        self._names: dict[str, str] = {}  # from names in the callee to their replacements
        self._invariant: set[int] = set()  # variables with the same value where the block begins

    def write_lines(self) -> tuple[list[str], list[Line]]:
        """Returns the declarations for the caller's block, and the lines that replace the call. Raises NotMovable, with
        the line of the call, if the body cannot be inlined."""
        assert self._callee.body is not None
        if self._callee.node.unit is not self._unit:
            raise self._refusal("the function is defined in another file", self._site.call.line)
        self._check_body(self._callee.body)
        self._map_arguments()
        found = self._split_body(self._callee.body)
        self._check_pragmas(self._callee.body)
        return found

    def _refusal(self, reason: str, line: int) -> NotMovable:
        """Returns the exception that a callee cannot be inlined, with the reason and its line."""
        at = f" (line {line})" if line != self._site.call.line else ""
        return NotMovable(
            f"the loops of {self._callee.name} could be split only if its body stood in place of this call, which is "
            f"not possible: {reason}{at}",
            self._site.call.line,
        )

    # ---- conditions on the body of a callee

    def _check_body(self, body: Node) -> None:
        """Raises NotMovable if the callee's body has another meaning in the caller, or a control flow that cannot be
        inlined."""
        last = body.children[-1] if body.children else None
        for node in body.walk():
            if node.kind == Kind.RETURN_STMT and node is not last:
                raise self._refusal("the function returns before its end", node.line)
            if node.kind in _LEAVES:
                raise self._refusal(f"the function contains {_LEAVES[node.kind]}", node.line)
            if node.kind == Kind.VAR_DECL and node.cursor.storage_class.name in ("STATIC", "EXTERN"):
                raise self._refusal(f"its variable {node.name} outlives the call (static or extern)", node.line)
        text = self._unit.text[body.offset : body.end]
        words = identifiers_in(text)
        if not text.endswith("}") or self._unit.is_macro_use(self._site.statement.offset):
            raise self._refusal("a macro hides where the function ends", body.line)
        if "\\\n" in text:
            raise self._refusal("the function has a line that a backslash continues", body.line)
        if name := next((name for name in _OF_PLACE if name in words), ""):
            raise self._refusal(f"the function uses {name}", body.line)
        between = self._unit.text[body.end : self._site.call.offset] or self._unit.text[self._block.end : body.offset]
        if re.search(r"^[ \t]*#[ \t]*include", between, re.MULTILINE):
            raise self._refusal("a header is included between the function and this call", body.line)
        changed = re.findall(r"^[ \t]*#[ \t]*(define|undef)[ \t]+(\w+)", self._unit.text, re.MULTILINE)
        defined = [name for _, name in changed]
        for how, name in changed:
            if name in words and (how == "undef" or defined.count(name) > 1):
                raise self._refusal(f"the macro {name} is defined more than once", body.line)

    def _check_pragmas(self, body: Node) -> None:
        """Raises NotMovable if a pragma in the callee's body names a variable that would be renamed."""
        for pragma in re.finditer(r"^[ \t]*#[ \t]*pragma[^\n]*", self._unit.text[body.offset : body.end], re.MULTILINE):
            if name := next((name for name in identifiers_in(pragma[0]) if self._names.get(name, name) != name), ""):
                raise self._refusal(f"a pragma names {name}, which would get another name", body.line)

    # ---- arguments in place of parameters

    def _map_arguments(self) -> None:
        """Maps the callee's parameters to the call's arguments. Raises NotMovable if an argument cannot replace its
        parameter."""
        site = self._site
        formals, arguments, words = site.formals, site.arguments, split_arguments(site.call)
        if not len(formals) == len(arguments) == (len(words) if words != [""] else 0):
            raise self._refusal("this call passes other arguments than the function has parameters", site.call.line)
        for formal, word in zip(formals, words, strict=True):
            self._names[formal.name] = word if re.fullmatch(r"[\w.]+", word) else f"({word})"
        for formal, argument in zip(formals, arguments, strict=True):
            self._check_argument(formal, argument)
        self._check_macros()

    def _check_macros(self) -> None:
        """Raises NotMovable if a macro used in the callee's body contains the name of a parameter that is replaced."""
        assert self._callee.body is not None
        words = identifiers_in(self._unit.text[self._callee.body.offset : self._callee.body.end])
        for macro in sorted(words & self._unit.macros.keys()):
            inside = identifiers_in(self._unit.macros[macro].partition(")")[2])
            if name := next((one for one in sorted(inside) if self._names.get(one, one) != one), ""):
                raise self._refusal(f"the macro {macro} uses the name of the parameter {name}", self._callee.body.line)

    def _check_argument(self, formal: Node, argument: Node) -> None:
        """Raises NotMovable unless an argument of the call can replace every use of its parameter."""
        name = formal.name
        by_reference = formal.type.kind == TypeKind.LVALUEREFERENCE
        wanted = formal.type.get_pointee().get_canonical() if by_reference else formal.type
        if not by_reference and wanted.kind not in (*NUMBERS, TypeKind.POINTER, *ARRAYS):
            raise self._refusal(f"the parameter {name} is neither a number nor a pointer", formal.line)
        if by_reference and argument.bare.kind != Kind.DECL_REF_EXPR:
            raise self._refusal(f"the argument for the parameter {name} is no variable", argument.line)
        if not by_reference and self._callee.changes.get(formal.key):
            raise self._refusal(f"the function changes its parameter {name}", self._callee.changes[formal.key][0].line)
        if not by_reference and formal.key in self._callee.address_taken:
            raise self._refusal(f"the function takes the address of its parameter {name}", formal.line)
        if replace_names(unqualified_type_name(wanted), self._names) != unqualified_type_name(argument.bare.type):
            conversion = f"{argument.bare.type.spelling} becomes {wanted.spelling}"
            raise self._refusal(f"the argument for the parameter {name} is converted: {conversion}", argument.line)
        self._check_row_lengths(name, argument)
        if by_reference:
            return
        for node in argument.walk():
            self._check_invariant_argument(name, node)
        assert self._callee.body is not None
        for node in self._callee.body.walk():
            if node.kind == Kind.CXX_UNARY_EXPR and any(child.is_variable(formal.key) for child in node.children):
                raise self._refusal(f"the function takes the size of its parameter {name}", node.line)

    def _check_invariant_argument(self, name: str, node: Node) -> None:
        """Raises NotMovable if part of an argument may change its value while the callee runs."""
        if node.kind == Kind.DECL_REF_EXPR and node.declaration is not None:
            if node.type.is_volatile_qualified() or not self._leaves_unchanged(node.declaration):
                raise self._refusal(
                    f"{node.name}, the argument for the parameter {name}, may change during the call", node.line
                )
        elif node.kind not in VALUES and node.operator not in ("+", "-", "*"):
            raise self._refusal(
                f"the argument for the parameter {name} is no variable, no number, and no sum or product of these",
                node.line,
            )

    def _check_row_lengths(self, name: str, argument: Node) -> None:
        """Raises NotMovable if the row length of an array argument may have changed in the caller since the array's
        declaration."""
        for word in identifiers_in("".join(re.findall(r"\[.*?\]", unqualified_type_name(argument.bare.type)))):
            known = [one for one in self._function.declared.values() if one.name == word]
            if len(known) != 1 or not self._function.is_never_changed(known[0].key):
                raise self._refusal(f"the length of the rows of the parameter {name} may change", argument.line)

    def _leaves_unchanged(self, declared: Node) -> bool:
        """Returns whether the callee does not modify a given variable of its caller."""
        if declared.kind not in (Kind.VAR_DECL, Kind.PARM_DECL) or declared.type.kind in ARRAYS:
            return True
        local = declared.key in self._function.declared and declared.cursor.storage_class.name != "STATIC"
        referred = declared.type.kind == TypeKind.LVALUEREFERENCE or any(
            formal.type.kind == TypeKind.LVALUEREFERENCE and argument.is_variable(declared.key)
            for formal, argument in zip(self._site.formals, self._site.arguments, strict=True)
        )
        if local and declared.key not in self._function.address_taken and not referred:
            return True
        if referred:
            return False
        return not self._may_store(self._callee, declared, set())

    def _may_store(self, callee: FunctionFacts, declared: Node, seen: set[str]) -> bool:
        """Returns whether a function may modify a variable, by name or through a pointer to the variable's type."""
        seen.add(callee.name)
        if callee.changes.get(declared.key) or declared.key in callee.address_taken or callee.body is None:
            return True
        kind = unqualified_type_name(declared.type)
        for node in callee.body.walk():
            if node.operator in ASSIGNMENTS or node.operator in INCREMENTS:
                target = node.children[0].bare
                declares = target.declaration if target.kind == Kind.DECL_REF_EXPR else None
                is_variable = declares is not None and declares.type.kind != TypeKind.LVALUEREFERENCE
                if not is_variable and may_modify_part_of(target.type, kind):
                    return True
        return any(self._call_may_store(call, declared, kind, seen) for call in callee.calls)

    def _call_may_store(self, call: Node, declared: Node, kind: str, seen: set[str]) -> bool:
        """Returns whether a call in the callee may modify a variable of a given type."""
        inner = self._functions.definition_of(call)
        if inner is not None:
            return inner.name not in seen and self._may_store(inner, declared, seen)
        if call.name.startswith(("MPI_", "PMPI_")):
            arguments = [one.bare for one in call.arguments]
            return any(
                one.type.kind == TypeKind.POINTER and may_modify_part_of(one.type.get_pointee().get_canonical(), kind)
                for one in arguments
            )
        return not is_pure_call(call) and not (is_library_call(call) and call.name in ("printf", "puts", "fflush"))

    # ---- statements of the body

    def _split_body(self, body: Node) -> tuple[list[str], list[Line]]:
        """Returns the declarations to hoist out of the callee's body, and the remaining lines of the body."""
        text, place = self._unit.text, body.offset + 1
        hoisted: list[str] = []
        pieces: list[Line] = []
        for statement in body.children:
            first, last = statement.offset, self._unit.statement_end(statement)
            if statement.kind == Kind.DECL_STMT:
                declaration, left = self._hoist_declaration(statement)
                hoisted.append(declaration)
            elif statement.kind == Kind.RETURN_STMT:
                left = self._result_assignment(statement)
            else:
                continue
            if not left:
                first, last = extend_to_whole_lines(text, first, last)
            pieces.append((replace_names(text[place:first], self._names), line_number_of(text, place)))
            pieces.append((left, statement.line))
            place = last
        pieces.append((replace_names(text[place : body.end - 1], self._names), line_number_of(text, place)))
        return hoisted, split_into_lines(pieces)

    def _result_assignment(self, statement: Node) -> str:
        """Returns the assignment that replaces a `return` statement; '' if the call does not use the result."""
        given = self._site.given
        if not statement.children:
            return ""
        value = statement.children[0]
        if given is None:
            if any(node.kind == Kind.CALL_EXPR or node.operator in (*ASSIGNMENTS, *INCREMENTS)
                   or node.type.is_volatile_qualified() for node in value.walk()):  # fmt: skip
                raise self._refusal(
                    "this call does not use the result, and computing it may have side effects", statement.line
                )
            return ""
        if (
            not unqualified_type_name(value.bare.type)
            == unqualified_type_name(given.type)
            == unqualified_type_name(self._site.call.type)
        ):
            raise self._refusal("the result is converted to another type", statement.line)
        words = self._unit.text[value.offset : self._unit.statement_end(statement)]
        return f"{given.name} = {replace_names(words, self._names)}"

    def _hoist_declaration(self, statement: Node) -> tuple[str, str]:
        """Returns the declaration to hoist to the caller's block, and the assignment that remains in its place ('' if
        the initial value is invariant)."""
        variables = [child for child in statement.children if child.kind == Kind.VAR_DECL]
        if len(variables) != len(statement.children):
            raise self._refusal("the function declares something that is no variable", statement.line)
        invariant = all(
            self._is_invariant(node) for one in variables for child in one.children for node in child.walk()
        )
        text = self._unit.text[statement.offset : self._unit.statement_end(statement)]
        for one in variables:
            self._choose_unused_name(one.name)
        if invariant:
            self._invariant |= {one.key for one in variables}
            return " ".join(replace_names(text, self._names).split()), ""
        plain = len(variables) == 1 and variables[0].type.kind in (*NUMBERS, TypeKind.POINTER)
        if not plain or "=" not in text or variables[0].cursor.type.spelling.startswith("auto"):
            name = variables[0].name
            raise self._refusal(
                f"its variable {name} is initialised with a value that may change before the call", statement.line
            )
        declared, _, value = text.partition("=")
        if variables[0].type.is_const_qualified():
            declared = re.sub(r"\bconst\b", " ", declared)
        new = self._names.get(variables[0].name, variables[0].name)
        hoisted = " ".join(replace_names(declared, self._names).split()) + ";"
        return hoisted, f"{new} = {' '.join(replace_names(value, self._names).split())}"

    def _choose_unused_name(self, name: str) -> None:
        """Chooses a name for a variable of the callee that is not in use in the caller."""
        new = name
        while new in self._taken or (new != name and new in identifiers_in(self._unit.text)):
            new = f"{new}_{self._callee.name}" if new == name else f"{new}_"
        self._taken.add(new)
        self._names[name] = new

    def _is_invariant(self, node: Node) -> bool:
        """Returns whether an expression of the callee has the same value at the beginning of the caller's block."""
        if node.kind != Kind.DECL_REF_EXPR:
            return node.kind in (*VALUES, Kind.TYPE_REF, Kind.INIT_LIST_EXPR) or node.operator in ("+", "-", "*")
        declared = node.declaration
        if declared is None or declared.type.kind in ARRAYS:
            return False
        if declared.kind == Kind.ENUM_CONSTANT_DECL or node.value is not None:
            return True
        for formal, argument in zip(self._site.formals, self._site.arguments, strict=True):
            if formal.key == declared.key:
                return all(self._is_fixed_before_block(one) for one in argument.walk())
        return self._callee.is_never_changed(declared.key) and declared.key in self._invariant

    def _is_fixed_before_block(self, node: Node) -> bool:
        """Returns whether a variable in an argument has a fixed value from the beginning of the caller's block on."""
        if node.kind != Kind.DECL_REF_EXPR or node.declaration is None:
            return True
        declared = node.declaration
        outside = not self._block.offset <= declared.offset < self._block.end
        return outside and (node.value is not None or self._function.is_never_changed(declared.key))
