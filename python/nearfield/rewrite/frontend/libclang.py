"""Workarounds for libclang's Python interface:

- operator kinds and constant values come through ctypes;
- children and files of cursors are read in less time;
- parameters that are declared as arrays get their pointer types;
- the wheel has no compiler headers, so those of the machine's gcc are used."""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import clang.cindex as cindex
from clang.cindex import CursorKind as Kind
from clang.cindex import TypeKind

_BINARY_OPERATORS = (
    "", ".*", "->*", "*", "/", "%", "+", "-", "<<", ">>", "<=>", "<", ">", "<=", ">=", "==", "!=", "&", "^", "|", "&&",
    "||", "=", "*=", "/=", "%=", "+=", "-=", "<<=", ">>=", "&=", "^=", "|=", ",",
)  # fmt: skip
_UNARY_OPERATORS = (
    "",
    "post++",
    "post--",
    "++",
    "--",
    "&",
    "*",
    "+",
    "-",
    "~",
    "!",
    "real",
    "imag",
    "extension",
    "await",
)
ARRAY_TYPES = (TypeKind.CONSTANTARRAY, TypeKind.VARIABLEARRAY, TypeKind.INCOMPLETEARRAY)
FUNCTION_KINDS = (Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.CONSTRUCTOR)
_INTEGER_EVAL_RESULT = 1


@functools.cache
def _libclang() -> Any:
    """Returns libclang with the C functions declared that its Python interface lacks."""
    library = cindex.conf.lib
    for name in ("clang_getCursorBinaryOperatorKind", "clang_getCursorUnaryOperatorKind"):
        function = getattr(library, name)
        function.argtypes, function.restype = [cindex.Cursor], ctypes.c_int
    library.clang_Cursor_Evaluate.argtypes = [cindex.Cursor]
    library.clang_Cursor_Evaluate.restype = ctypes.c_void_p  # the default, int, would truncate the pointer
    for name, result in (
        ("clang_EvalResult_getKind", ctypes.c_int),
        ("clang_EvalResult_getAsLongLong", ctypes.c_longlong),
        ("clang_EvalResult_dispose", None),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = [ctypes.c_void_p], result
    return library


@functools.cache
def cursor_kind(kind_number: int) -> Any:
    """Returns the cursor kind for a number of libclang's enum, from a cache."""
    return Kind.from_id(kind_number)


class _ArrayParameterType:
    """The pointer type of a parameter that is declared as an array. `adjusted_type` is the pointer in the function's
    type, in which libclang loses variable row lengths; `written_type` is the declared array type, which has them."""

    def __init__(self, adjusted_type: Any, written_type: Any) -> None:
        self._adjusted_type, self._written_type = adjusted_type, written_type
        element = written_type.element_type.get_canonical().spelling
        self.spelling = re.sub(r"(?=\[)", "(*)", element, count=1) if "[" in element else f"{element} *"

    def get_pointee(self) -> Any:
        return self._written_type.element_type

    def get_canonical(self) -> _ArrayParameterType:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adjusted_type, name)


def adjusted_type(parameter: Any) -> Any:
    """Returns the canonical pointer type of a parameter that is declared as an array; None if its function is
    unknown."""
    function = parameter.semantic_parent
    if function is None or function.kind not in FUNCTION_KINDS:
        return None
    parameters = [one for one in children_of(function) if one.kind == Kind.PARM_DECL]
    types = function.type.get_canonical()
    if types.kind != TypeKind.FUNCTIONPROTO or parameter not in parameters:
        return None
    adjusted_parameter = list(types.argument_types())[parameters.index(parameter)].get_canonical()
    return _ArrayParameterType(adjusted_parameter, parameter.type.get_canonical())


@cindex.callbacks["cursor_visit"]  # type: ignore[untyped-decorator]
def _append_child(child: Any, parent: Any, children: list[Any]) -> int:
    """Appends a child cursor to `children`, as callback of clang_visitChildren."""
    children.append(child)
    return 1  # continue with the next child


def children_of(cursor: Any) -> list[Any]:
    """Returns the children of a cursor, in half the time of libclang's cursor.get_children()."""
    children: list[Any] = []
    _libclang().clang_visitChildren(cursor, _append_child, children)
    for child in children:
        child._tu = cursor._tu  # keeps the translation unit alive as long as the child
    return children


def file_pointer_of(cursor: Any) -> int:
    """Returns libclang's pointer to the file of a cursor, which is cheaper than the file's name; 0 if the cursor is in
    no file."""
    file = ctypes.c_void_p()
    place = ctypes.cast(ctypes.byref(file), ctypes.POINTER(cindex.c_object_p))
    _libclang().clang_getInstantiationLocation(cursor.location, place, None, None, None)
    return file.value or 0


def operator_of(cursor: Any, kind: Any) -> str:
    """Returns the operator of an expression of the given kind as in the source; a postfix increment is 'post++'.
    Returns '' if the cursor is no operator expression."""
    if kind in (Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR):
        return _BINARY_OPERATORS[_libclang().clang_getCursorBinaryOperatorKind(cursor)]
    if kind == Kind.UNARY_OPERATOR:
        return _UNARY_OPERATORS[_libclang().clang_getCursorUnaryOperatorKind(cursor)]
    return ""


def evaluate_integer(cursor: Any) -> int | None:
    """Returns the value of an integer constant expression; None for other expressions."""
    library = _libclang()
    result = library.clang_Cursor_Evaluate(cursor)
    if not result:
        return None
    integer = library.clang_EvalResult_getKind(result) == _INTEGER_EVAL_RESULT
    value = library.clang_EvalResult_getAsLongLong(result) if integer else None
    library.clang_EvalResult_dispose(result)
    return value


@functools.cache
def gcc_include_option() -> tuple[str, ...]:
    """Returns the compiler option for the headers of the machine's gcc, such as stddef.h; empty if there is no gcc."""
    gcc = shutil.which("gcc")
    if not gcc:
        return ()
    result = subprocess.run([gcc, "-print-file-name=include"], capture_output=True, text=True, check=False)
    folder = result.stdout.strip()
    return ("-isystem", folder) if folder and Path(folder).is_dir() else ()
