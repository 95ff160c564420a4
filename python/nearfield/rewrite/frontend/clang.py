"""Reads C and C++: the syntax tree of a source file, and the file's macros.

Source extents inside macros are not reliable, so constants are named from macro definitions, and the ends of statements
come from the text (`text.py`). Other peculiarities of libclang's Python interface are handled in `libclang.py`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import clang.cindex as cindex
from clang.cindex import CursorKind as Kind
from clang.cindex import TypeKind

from nearfield.base.errors import UsageError
from nearfield.rewrite.frontend.libclang import (
    ARRAY_TYPES,
    FUNCTION_KINDS,
    adjusted_type,
    children_of,
    cursor_kind,
    evaluate_integer,
    file_pointer_of,
    gcc_include_option,
    operator_of,
)
from nearfield.rewrite.frontend.text import statement_end

__all__ = ["ARRAY_TYPES", "Kind", "SyntaxNode", "TranslationUnit", "TypeKind", "parse_file"]

_PARSE_OPTIONS = 0x1 | 0x4 | 0x100  # libclang: record macros, and cache the preamble at the first parse
_PARENTHESIS_AND_CAST_KINDS = (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR, Kind.CSTYLE_CAST_EXPR, Kind.CXX_STATIC_CAST_EXPR,
                Kind.CXX_FUNCTIONAL_CAST_EXPR)  # fmt: skip
_MIN_ERROR_SEVERITY = 3


class _CachedProperty:
    """A property that is computed once per object. Unlike functools.cached_property it takes no lock, which would
    dominate the cost of a property of a syntax node."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


if TYPE_CHECKING:
    cached_property = functools.cached_property
else:
    cached_property = _CachedProperty


class SyntaxNode:
    """A node of the syntax tree: a cursor of libclang with frequently used properties cached."""

    def __init__(self, cursor: Any, unit: TranslationUnit) -> None:
        self.cursor = cursor
        self.unit = unit
        self.kind = cursor_kind(cursor._kind_id)

    @cached_property
    def children(self) -> list[SyntaxNode]:
        return [SyntaxNode(child, self.unit) for child in children_of(self.cursor)]

    @cached_property
    def arguments(self) -> list[SyntaxNode]:
        """Returns the argument expressions of a call."""
        return [SyntaxNode(argument, self.unit) for argument in self.cursor.get_arguments()]

    @cached_property
    def without_casts(self) -> SyntaxNode:
        """Returns the expression inside all enclosing parentheses and casts, explicit or implicit."""
        node = self
        while node.kind in _PARENTHESIS_AND_CAST_KINDS:
            inner = [child for child in node.children if child.kind != Kind.TYPE_REF]
            if len(inner) != 1:
                break
            node = inner[0]
        return node

    @cached_property
    def operator(self) -> str:
        """Returns the operator of an expression as in the source; a postfix increment is 'post++'. Returns '' if the
        node is no operator expression."""
        return operator_of(self.cursor, self.kind)

    @cached_property
    def constant_value(self) -> int | None:
        """Returns the value of an integer constant expression; None for other expressions."""
        return evaluate_integer(self.cursor)

    def is_variable(self, declaration_key: int) -> bool:
        """Returns whether the expression is nothing but the variable with this declaration key."""
        bare = self.without_casts
        return (
            bare.kind == Kind.DECL_REF_EXPR and bare.declaration is not None and bare.declaration.key == declaration_key
        )

    def mentions_variable(self, declaration_key: int) -> bool:
        """Returns whether the variable with this declaration key occurs in the node or below it."""
        return any(node.kind == Kind.DECL_REF_EXPR and node.is_variable(declaration_key) for node in self.walk())

    @property
    def name(self) -> str:
        return str(self.cursor.spelling)

    @cached_property
    def type(self) -> Any:
        """Returns the canonical type. A parameter that is declared as an array has a pointer type, as in the language;
        libclang itself returns the array type."""
        written_type = self.cursor.type.get_canonical()
        if written_type.kind in ARRAY_TYPES:
            if self.kind == Kind.PARM_DECL:
                return adjusted_type(self.cursor) or written_type
            if self.kind == Kind.DECL_REF_EXPR and self.declaration and self.declaration.kind == Kind.PARM_DECL:
                return self.declaration.type
        return written_type

    @cached_property
    def declaration(self) -> SyntaxNode | None:
        """Returns the declaration that a name in the source refers to; None if there is none."""
        referenced = self.cursor.referenced
        return SyntaxNode(referenced, self.unit) if referenced is not None else None

    @cached_property
    def key(self) -> int:
        """Returns a number that identifies a declaration. A variable with external linkage has the same key in all
        files."""
        if self.kind != Kind.VAR_DECL:
            return int(self.cursor.hash)
        first = self.cursor.canonical  # a variable may be declared several times
        is_external = first.linkage == cindex.LinkageKind.EXTERNAL
        return hash(("variable", first.get_usr())) if is_external else int(first.hash)

    @cached_property
    def offset(self) -> int:
        """Returns the start offset of the node in the source file, or that of the macro use that the node comes
        from."""
        return int(self.cursor.extent.start.offset)

    @cached_property
    def end(self) -> int:
        """Returns the end offset of the node in the source file; it is not reliable after macros."""
        return int(self.cursor.extent.end.offset)

    @cached_property
    def name_offset(self) -> int:
        """Returns the source offset of a declaration's name."""
        return int(self.cursor.location.offset)

    @property
    def line(self) -> int:
        """Returns the source line at which the node starts, from 1."""
        return int(self.cursor.extent.start.line)

    def walk(self) -> Iterator[SyntaxNode]:
        """Yields the node and all nodes below it, in textual order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def callee(self) -> SyntaxNode | None:
        """Returns the declaration of the function that a call expression names; None if it is unknown."""
        return self.declaration if self.kind == Kind.CALL_EXPR else None


class TranslationUnit:
    """A parsed source file (translation unit). Offsets count bytes, so `text` has one character per byte. If
    `is_foreign` is set, the unit is not the file to be rewritten, and its names have no meaning in that file."""

    def __init__(
        self, clang_unit: Any, path: str, text: str, arguments: Sequence[str], macros: dict[str, str] | None = None,
        is_foreign: bool = False, should_collect_declarations: bool = True,
    ) -> None:  # fmt: skip
        self.is_foreign = is_foreign
        self._clang_unit = clang_unit
        self.path = path
        self.text = text
        self.arguments = tuple(arguments)
        self.macros = macros or dict(_command_line_macros(arguments))
        self._has_known_macros = macros is not None
        self._second_unit: TranslationUnit | None = None  # the same file parsed with another text
        self.functions: list[SyntaxNode] = []
        self.variables: list[SyntaxNode] = []
        if should_collect_declarations:
            self._collect_declarations()

    def _collect_declarations(self) -> None:
        """Collects the functions, variables and macros that the file itself defines, without those of headers."""
        is_this_file_by_pointer: dict[int, bool] = {}  # by libclang's pointer to a file: whether it is this file
        for cursor in children_of(self._clang_unit.cursor):
            kind = cursor_kind(cursor._kind_id)
            if kind == Kind.MACRO_INSTANTIATION or kind == Kind.INCLUSION_DIRECTIVE:
                continue
            if kind == Kind.MACRO_DEFINITION and self._has_known_macros:
                continue
            file = file_pointer_of(cursor)
            if file not in is_this_file_by_pointer:
                is_this_file_by_pointer[file] = bool(file) and cursor.location.file.name == self.path
            if not is_this_file_by_pointer[file]:
                continue
            if kind == Kind.MACRO_DEFINITION:
                extent = cursor.extent
                body = self.text[extent.start.offset : extent.end.offset]
                self.macros[cursor.spelling] = re.sub(r"\\\r?\n", " ", body[len(cursor.spelling) :])
            else:
                self._record_declaration(SyntaxNode(cursor, self))

    def _record_declaration(self, node: SyntaxNode) -> None:
        """Records a function definition or a variable declaration, also inside namespaces and classes."""
        if node.kind in (Kind.NAMESPACE, Kind.LINKAGE_SPEC, Kind.UNEXPOSED_DECL, Kind.CLASS_DECL, Kind.STRUCT_DECL):
            for child in node.children:
                self._record_declaration(child)
        elif node.kind in FUNCTION_KINDS and node.cursor.is_definition():
            self.functions.append(node)
        elif node.kind == Kind.VAR_DECL:
            self.variables.append(node)

    def macro_constant(self, offset: int, value: int) -> str:
        """Returns the name of the macro that expands to the number `value` at a source offset, or of a macro inside
        that macro's definition; '' if there is none or more than one."""
        word = _identifier_at(self.text, offset)
        if self.is_foreign or word not in self.macros:
            return ""
        if self._macro_value(word) == value:
            return word
        inner_macros = set(re.findall(r"[A-Za-z_]\w*", self.macros[word])) - {word}
        matching_macros = {name for name in inner_macros if self._macro_value(name) == value}
        has_literal = re.search(rf"(?<![\w.]){value}(?![\w.])", self.macros[word])
        return matching_macros.pop() if len(matching_macros) == 1 and not has_literal else ""

    def statement_end(self, statement: SyntaxNode) -> int:
        """Returns the end offset of a statement. For a statement that begins with a macro, such as DEBUG { ... }, that
        is the end of the block."""
        if self.is_macro_use(statement.offset) and self.text[statement.end - 1] == "}":
            return statement.end
        return statement_end(self.text, statement.offset)

    def is_macro_use(self, offset: int) -> bool:
        """Returns whether a macro is used at a source offset: one that the file defines, or any name in upper case."""
        word = _identifier_at(self.text, offset)
        return word in self.macros or word.isupper()

    def expand_macro(self, name: str) -> str:
        """Returns the name that a macro of the file finally expands to, or the word itself if it is no such macro."""
        for _ in range(len(self.macros)):
            body = self.macros.get(name, "").strip()
            if not re.fullmatch(r"[A-Za-z_]\w*", body):
                break
            name = body
        return name

    def _macro_value(self, macro: str) -> int | None:
        """Returns the integer that a macro of the file expands to; None if it expands to anything else."""
        body = self.macros.get(macro, "").split("/*")[0].split("//")[0].strip()
        while body.startswith("(") and body.endswith(")"):
            body = body[1:-1].strip()
        match = re.fullmatch(r"(\d+)[uUlL]*", body)
        return int(match[1]) if match else None

    @property
    def first_error(self) -> str:
        """Returns the file's first compiler error as text, or ''. Errors in gcc's own headers are ignored, since they
        are about attributes that clang does not know."""
        gcc_folder = gcc_include_option()[-1:]
        for diagnostic in self._clang_unit.diagnostics:
            if diagnostic.severity >= _MIN_ERROR_SEVERITY:
                location = diagnostic.location
                if location.file and gcc_folder and location.file.name.startswith(gcc_folder[0]):
                    continue
                name = location.file.name if location.file else self.path
                return f"{name}:{location.line}: {diagnostic.spelling}"
        return ""

    def program_headers(self) -> Iterator[tuple[str, str]]:
        """Yields name and text of each included header that belongs to the program, neither to the system nor to the
        MPI library. The compiler's arguments count as a header, since they may define macros."""
        yield "the command line", " ".join(self.arguments)
        files = {one.include.name: one.include for one in self._clang_unit.get_includes()}
        mpi_folders = tuple(str(Path(name).parent) + "/" for name in files if Path(name).name == "mpi.h")
        for name, file in files.items():
            start = cindex.SourceLocation.from_position(self._clang_unit, file, 1, 1)
            if not start.is_in_system_header and not name.startswith(mpi_folders):
                yield name, Path(name).read_bytes().decode("latin-1")

    def header_unit(self, name: str, text: str) -> TranslationUnit:
        """Returns the declarations of one included header as a unit of its own."""
        return TranslationUnit(self._clang_unit, name, text, self.arguments, self.macros, is_foreign=True)

    def reparse(self, text: str) -> TranslationUnit:
        """Parses the file again with another text, in memory only, and returns it as a new unit. The old unit must not
        be used any more."""
        self._clang_unit.reparse(unsaved_files=[(self.path, text.encode("latin-1").decode())], options=_PARSE_OPTIONS)
        return TranslationUnit(
            self._clang_unit, self.path, text, self.arguments, self.macros, should_collect_declarations=False
        )

    def parse_second_text(self, text: str) -> TranslationUnit:
        """Returns the file parsed with another text as a second unit; the previous second unit becomes invalid. Raises
        UsageError if the text does not compile."""
        if self._second_unit is None:
            self._second_unit = parse_file(Path(self.path), text, self.arguments)
            return self._second_unit
        clang_unit = self._second_unit._clang_unit
        clang_unit.reparse(unsaved_files=[(self.path, text.encode("latin-1").decode())], options=_PARSE_OPTIONS)
        second_unit = TranslationUnit(clang_unit, self.path, text, self.arguments, self._second_unit.macros)
        if problem := second_unit.first_error:
            raise UsageError(f"{self.path} does not compile: {problem}")
        return second_unit

    def function_at(self, name: str, start: int, end: int) -> SyntaxNode | None:
        """Returns the function of the given name that contains the text between two source offsets; None if there is
        none."""
        file = cindex.File.from_name(self._clang_unit, self.path)
        cursor = cindex.Cursor.from_location(
            self._clang_unit, cindex.SourceLocation.from_offset(self._clang_unit, file, start)
        )
        while cursor is not None and not cursor.kind.is_invalid() and not cursor.kind.is_translation_unit():
            node = SyntaxNode(cursor, self)
            if node.kind in FUNCTION_KINDS and node.name == name and node.offset <= start and end <= node.end:
                return node
            cursor = cursor.semantic_parent
        if not self.functions:
            self._collect_declarations()  # the cursor is in a macro
        return next(
            (one for one in self.functions if one.name == name and one.offset <= start and end <= one.end), None
        )


def parse_file(path: Path, text: str, arguments: Sequence[str], *, is_foreign: bool = False) -> TranslationUnit:
    """Parses a source file. `arguments` are compiler options. Raises UsageError if the file does not compile, or if a
    name is not UTF-8."""
    clang_arguments = [
        *gcc_include_option(),
        *(argument for argument in arguments if not argument.startswith("-fopenmp")),
    ]
    if len(clang_arguments) < len(arguments) + len(gcc_include_option()):
        clang_arguments.append("-D_OPENMP=201511")  # OpenMP directives are read from the text instead
    for argument in (str(path), *clang_arguments):
        _check_utf8(argument)
    try:
        clang_unit = cindex.Index.create().parse(
            str(path),
            clang_arguments,
            unsaved_files=[(str(path), text.encode("latin-1").decode())],
            options=_PARSE_OPTIONS,
        )
    except cindex.TranslationUnitLoadError as error:
        raise UsageError(f"{path} cannot be parsed", "It must be a file in C or C++.") from error
    unit = TranslationUnit(clang_unit, str(path), text, arguments, is_foreign=is_foreign)
    if problem := unit.first_error:
        remedy = (
            "Give the compiler's arguments after --, or the folder of a compile_commands.json by --compile-commands."
        )
        raise UsageError(f"{path} does not compile: {problem}", remedy)
    return unit


def _check_utf8(name: str) -> None:
    """Raises UsageError if a file name or a compiler argument is not UTF-8, which libclang requires."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the name {ascii(name)} is not UTF-8, as libclang requires", "Rename it, or copy it."
        ) from error


def _command_line_macros(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields the name and the definition of each macro that -D options define."""
    remaining_arguments = iter(arguments)
    for argument in remaining_arguments:
        if argument.startswith("-D"):
            name, _, value = (argument[2:] or next(remaining_arguments, "")).partition("=")
            yield name, f" {value}"


def _identifier_at(text: str, offset: int) -> str:
    """Returns the identifier at an offset of a text; '' if there is none."""
    match = re.compile(r"[A-Za-z_]\w*").match(text, offset)
    return match[0] if match else ""
