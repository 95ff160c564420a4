"""Recognises calls of library functions whose effects are known, and explains which other calls have unknown
effects."""

from __future__ import annotations

import enum
import re

from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.conversions import NUMBER_TYPES

# Functions of the C and C++ libraries that only read their arguments.
_MATH_FUNCTIONS = (
    "sqrt cbrt exp exp2 expm1 log log2 log10 log1p pow sin cos tan asin acos atan atan2 sinh cosh tanh fabs fmax fmin "
    "fmod fma floor ceil round trunc hypot copysign rint nearbyint erf erfc"
)
PURE_FUNCTIONS = frozenset(name + ending for name in _MATH_FUNCTIONS.split() for ending in ("", "f", "l"))
PURE_FUNCTIONS |= {"abs", "labs", "llabs", "max", "min", "isnan", "isinf", "signbit", "real", "imag", "conj", "norm"}

PRINT_FUNCTIONS = ("printf", "fprintf", "puts", "fputs", "putchar", "fflush")
TERMINATING_FUNCTIONS = ("__assert_fail", "abort")  # functions that end the program; correct programs do not call them
# Functions that write to the memory behind their first argument.
_COPY_FUNCTIONS = ("memcpy", "memmove", "memset")
_STRING_WRITE_FUNCTIONS = ("sprintf", "snprintf", "strcpy", "strncpy", "strcat", "strncat")
# Position of the format string among the arguments.
_FORMAT_POSITION_BY_FUNCTION = {"printf": 0, "fprintf": 1, "sprintf": 1, "snprintf": 2}
# A conversion in a format string that writes to an argument.
_PERCENT_N_CONVERSION = re.compile(r"%[-+ #0-9.*']*(?:hh|h|ll|l|j|z|t|q|L)?n")


class ArgumentUse(enum.Enum):
    """The use that a library function makes of an argument: of its value, or of the memory that it points to."""

    VALUE = enum.auto()
    READ_MEMORY = enum.auto()
    WRITTEN_MEMORY = enum.auto()


def is_library_call(call: SyntaxNode) -> bool:
    """Returns whether a system header or the compiler declares the called function, and the function is not a
    method."""
    callee = call.callee()
    if callee is None or callee.kind != Kind.FUNCTION_DECL or is_defined_by_header(callee):
        return False
    return callee.cursor.location.file is None or bool(callee.cursor.location.is_in_system_header)


def is_defined_by_header(callee: SyntaxNode) -> bool:
    """Returns whether a function at global scope has a body in a header. Such a function is not a C library function,
    even if it is in a system header; C library functions are declared `extern`."""
    definition = callee.cursor.get_definition()
    is_global = callee.cursor.semantic_parent is not None and callee.cursor.semantic_parent.kind.is_translation_unit()
    return bool(definition is not None and is_global and definition.storage_class.name != "EXTERN")


def is_pure_call(call: SyntaxNode) -> bool:
    """Returns whether a call is of a library function without side effects that only reads its numeric arguments."""
    arguments = [one.type for one in call.arguments]
    numbers = all(one.kind in (*NUMBER_TYPES, TypeKind.COMPLEX) or "complex<" in one.spelling for one in arguments)
    return call.name in PURE_FUNCTIONS and numbers and is_library_call(call)


def library_argument_uses(call: SyntaxNode) -> list[tuple[SyntaxNode, ArgumentUse]] | None:
    """Returns the arguments of a C library function that prints or copies, each with its use; None for other functions.
    Raises NotMovable if the format string may write to an argument."""
    is_print = call.name in PRINT_FUNCTIONS
    if not (is_print or call.name in (*_COPY_FUNCTIONS, *_STRING_WRITE_FUNCTIONS)) or not is_library_call(call):
        return None
    arguments = call.arguments
    if (format_position := _FORMAT_POSITION_BY_FUNCTION.get(call.name)) is not None:
        literal = arguments[format_position].without_casts
        if literal.kind != Kind.STRING_LITERAL or _PERCENT_N_CONVERSION.search(literal.name):
            raise NotMovable(f"what {call.name} writes is known only when it runs", call.line)
    uses = []
    for position, argument in enumerate(arguments):
        if position == 0 and not is_print:
            uses.append((argument, ArgumentUse.WRITTEN_MEMORY))
        elif argument.without_casts.kind == Kind.STRING_LITERAL:
            continue
        elif argument.without_casts.type.kind in (TypeKind.POINTER, *ARRAY_TYPES):
            uses.append((argument, ArgumentUse.READ_MEMORY))
        else:
            uses.append((argument, ArgumentUse.VALUE))
    return uses


def unknown_call_reason(node: SyntaxNode) -> str:
    """Returns the reason why the side effects of a function call are unknown."""
    callee = node.callee()
    if callee is None or callee.kind not in (Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.CONSTRUCTOR):
        called = source_text_of(node.children[0]) if node.children else source_text_of(node)
        return f"it calls a function through {called}, and only when it runs is known which one"
    return f"it calls {node.name}, whose effects are not known"
