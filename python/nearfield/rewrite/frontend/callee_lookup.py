"""Looks up the definitions of the functions that a file calls: in the file, in headers that it includes, and in other
files of the program.

A function with definitions in several files counts as unknown, since it is not known which definition is linked."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from nearfield.base.errors import UsageError
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TranslationUnit, parse_file
from nearfield.rewrite.frontend.function import FunctionFacts
from nearfield.rewrite.frontend.language import attributes_refusal_reason

OtherFiles = Sequence[tuple[Path, Sequence[str]]]  # other files of the program, with the compiler arguments of each
_MESSAGE_CALL = re.compile(
    r"P?MPI_(?:I?[bsr]?send(?:recv|_init)?\w*|I?m?recv\w*|Start(?:all)?|(?:Wait|Test)(?:all|any|some)?|I?m?probe)", re.I
)
_CONTAINER_ACCESSORS = ("operator[]", "data", "size", "begin")  # methods of C++ containers, which send no messages
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class ProgramFunctions:
    """The functions that a source file and the other files of its program define."""

    def __init__(self, unit: TranslationUnit, other_files: OtherFiles = ()) -> None:
        self.unit = unit
        self.other_files = [one for one in other_files if one[0].resolve() != Path(unit.path).resolve()]
        self._facts_by_key: dict[int, FunctionFacts] = {}
        self._definition_by_usr: dict[str, SyntaxNode | None] = {node.cursor.get_usr(): node for node in unit.functions}
        self._unit_by_header: dict[str, TranslationUnit | None] = {}
        self._unit_by_path: dict[Path, TranslationUnit | None] = {}
        self._text_by_path: dict[Path, str] = {}

    def function_of(self, node: SyntaxNode) -> FunctionFacts:
        """Returns the facts on the variables of a function definition, computed at the first call."""
        if node.key not in self._facts_by_key:
            self._facts_by_key[node.key] = FunctionFacts(node)
        return self._facts_by_key[node.key]

    @functools.cached_property
    def functions_of_file(self) -> list[FunctionFacts]:
        """Returns all functions that the file itself defines, which analyses each of them."""
        return [self.function_of(node) for node in self.unit.functions]

    @functools.cached_property
    def is_whole_program(self) -> bool:
        """Returns whether no code outside of the file can communicate: the file has main(), and all its calls are of
        its own functions, MPI or system headers."""
        if not any(node.name == "main" for node in self.unit.functions):
            return False
        return all(self._stays_inside_file(call) for function in self.functions_of_file for call in function.calls)

    def _stays_inside_file(self, call: SyntaxNode) -> bool:
        """Returns whether a call runs a function that the file defines, or one that is known to send no messages of its
        own."""
        callee = call.callee()
        if callee is None:
            return False
        if callee.cursor.location.is_in_system_header or "MPI_" in call.name or call.name in _CONTAINER_ACCESSORS:
            return True
        inner = self.definition_of(call)
        return inner is not None and not inner.node.unit.is_foreign

    def source_texts(self) -> Iterator[str]:
        """Yields the known source texts of the program: the file, the headers that it includes, and the program's other
        files."""
        yield self.unit.text
        yield from (text for _, text in self.unit.program_headers())
        yield from (_read_text(path) or "" for path, _ in self.other_files)

    def definition_of(self, call: SyntaxNode) -> FunctionFacts | None:
        """Returns the function definition that a call runs; None if it is unknown, a method, or may be replaced at link
        time."""
        callee = call.callee()
        if callee is None or callee.kind != Kind.FUNCTION_DECL or callee.name.startswith(("MPI_", "PMPI_")):
            return None
        usr = callee.cursor.get_usr()
        if usr not in self._definition_by_usr:
            self._definition_by_usr[usr] = self._definition_in_header(callee, usr) or self._definition_in_other_file(
                callee, usr
            )
        node = self._definition_by_usr[usr]
        if node is None or attributes_refusal_reason(node) or attributes_refusal_reason(callee):
            return None  # with an attribute such as `weak` or `alias`, another function may run
        return self.function_of(node)

    def communicates(self, call: SyntaxNode, visited: frozenset[str] = frozenset()) -> bool:
        """Returns whether a call sends, receives or completes a message, directly or in a callee."""
        if _MESSAGE_CALL.fullmatch(call.name):
            return True
        definition = self.definition_of(call)
        if definition is None or definition.name in visited:
            return False
        return any(self.communicates(one, visited | {definition.name}) for one in definition.calls)

    def _definition_in_header(self, callee: SyntaxNode, usr: str) -> SyntaxNode | None:
        """Returns the definition of a callee in an included header; None if there is none."""
        definition = callee.cursor.get_definition()
        if definition is None or definition.location.file is None or definition.location.is_in_system_header:
            return None
        name = definition.location.file.name
        if name not in self._unit_by_header:
            text = _read_text(Path(name))
            self._unit_by_header[name] = callee.unit.header_unit(name, text) if text is not None else None
        header = self._unit_by_header[name]
        return next((one for one in header.functions if one.cursor.get_usr() == usr), None) if header else None

    def _definition_in_other_file(self, callee: SyntaxNode, usr: str) -> SyntaxNode | None:
        """Returns the definition of a callee in another file of the program; None unless exactly one file has it."""
        if callee.cursor.location.is_in_system_header:
            return None
        definition_pattern = re.compile(rf"\b{re.escape(callee.name)}\s*\([^;{{}}]*\)\s*\{{")
        definitions: list[SyntaxNode] = []
        for path, arguments in self.other_files:
            if path not in self._text_by_path:
                self._text_by_path[path] = _COMMENT.sub(" ", _read_text(path) or "")
            if definition_pattern.search(self._text_by_path[path]):
                unit = self._parse_other_file(path, arguments)
                definitions += [one for one in unit.functions if one.cursor.get_usr() == usr] if unit else []
        return definitions[0] if len(definitions) == 1 else None

    def _parse_other_file(self, path: Path, arguments: Sequence[str]) -> TranslationUnit | None:
        """Returns another file of the program, parsed at the first call; None if it does not compile."""
        if path not in self._unit_by_path:
            try:
                self._unit_by_path[path] = parse_file(path, _read_text(path) or "", arguments, is_foreign=True)
            except UsageError:
                self._unit_by_path[path] = None  # the functions of a file that does not compile stay unknown
        return self._unit_by_path[path]


def _read_text(path: Path) -> str | None:
    """Returns the text of a file with one character per byte; None if the file cannot be read or is not UTF-8."""
    try:
        data = path.read_bytes()
        data.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return data.decode("latin-1")
