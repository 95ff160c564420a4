"""The subset of C and C++ that `nearfield rewrite` supports, as lists of what is allowed.

A construct that is not listed is refused where it occurs. So a language feature that nobody thought of leads to no
patch instead of a wrong one. docs/explanation/rewrite.md has the same table with the meaning that the proof gives to
each entry."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.conversions import NUMBER_TYPES
from nearfield.rewrite.frontend.text import end_of_bracketed_text, line_number_of

# Kinds of statements and expressions that only evaluate their children. All other kinds need a handler of their own.
KINDS_EVALUATING_CHILDREN = frozenset({
    Kind.COMPOUND_STMT, Kind.NULL_STMT, Kind.SWITCH_STMT, Kind.CASE_STMT, Kind.DEFAULT_STMT,
    Kind.BREAK_STMT, Kind.CONTINUE_STMT, Kind.RETURN_STMT,
    Kind.INTEGER_LITERAL, Kind.FLOATING_LITERAL, Kind.IMAGINARY_LITERAL, Kind.CHARACTER_LITERAL, Kind.STRING_LITERAL,
    Kind.CXX_BOOL_LITERAL_EXPR, Kind.CXX_NULL_PTR_LITERAL_EXPR, Kind.GNU_NULL_EXPR,
    Kind.PAREN_EXPR, Kind.CSTYLE_CAST_EXPR, Kind.CXX_STATIC_CAST_EXPR, Kind.CXX_FUNCTIONAL_CAST_EXPR,
    Kind.CONDITIONAL_OPERATOR, Kind.INIT_LIST_EXPR,
})  # fmt: skip
# Kinds of declarations that create no object.
_KINDS_WITHOUT_OBJECT = frozenset({
    Kind.STRUCT_DECL, Kind.ENUM_DECL, Kind.TYPEDEF_DECL, Kind.TYPE_ALIAS_DECL, Kind.STATIC_ASSERT,
    Kind.USING_DIRECTIVE, Kind.USING_DECLARATION,
})  # fmt: skip
_PLAIN_MEMBER_KINDS = (
    Kind.STRUCT_DECL, Kind.UNION_DECL, Kind.ENUM_DECL, Kind.TYPEDEF_DECL, Kind.ALIGNED_ATTR, Kind.PACKED_ATTR,
)  # fmt: skip
# Attributes that change neither the behaviour of code nor which object or function a name denotes.
_HARMLESS_ATTRIBUTES = frozenset({
    "aligned", "always_inline", "cold", "const", "flatten", "hot", "leaf", "maybe_unused", "malloc",
    "nodiscard", "noinline", "nonnull", "noreturn", "nothrow", "optimize", "pure", "unused",
    "warn_unused_result",
})  # fmt: skip
_ATTRIBUTE_SPECIFIER = re.compile(r"__attribute__\s*\(\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)\)|\[\[([^\]]*)\]\]")
# OpenMP clauses with which a loop may be executed in several parts, and those with which it may at least be moved.
_SPLITTABLE_LOOP_CLAUSES = frozenset(
    {"parallel", "for", "simd", "schedule", "num_threads", "shared", "private", "default", "safelen", "simdlen"}
)
_MOVABLE_LOOP_CLAUSES = _SPLITTABLE_LOOP_CLAUSES | {"firstprivate", "lastprivate", "reduction", "collapse"}
_PLAIN_PRAGMA = re.compile(r"#\s*pragma\s+(?:GCC\s+(?:ivdep|unroll\s+\d+)|ivdep)\s*")
_OPENMP_LOOP = re.compile(r"#\s*pragma\s+omp\s+(?:parallel\s+for|simd)\b")
_COMPLEX_TYPE = re.compile(r"(?:const )?std::(?:__\w+::)?complex<(?:float|double|long double)>")
# Identifiers by which a program shares memory with other threads or processes. A file that uses one of them gets no
# patch, since the model has no concurrent accesses.
_MEMORY_SHARING_NAMES = frozenset({
    "mmap", "mremap", "shmat", "shm_open", "memfd_create", "process_vm_writev", "MAP_SHARED", "pthread_create",
    "thrd_create", "jthread", "async", "MPI_THREAD_MULTIPLE", "MPI_Win_create", "MPI_Win_allocate",
    "MPI_Win_allocate_shared", "MPI_Win_create_dynamic", "MPI_Win_shared_query", "fork", "vfork", "clone",
    "signal", "sigaction", "userfaultfd",
})  # fmt: skip
_THREAD_HEADER = re.compile(r"#\s*include\s*(<(?:thread|future|threads\.h|execution)>)")
# C library functions after which the program's printed output may be stored in its own variables.
_MEMORY_PRINTING_FUNCTIONS = frozenset(
    {"fmemopen", "open_memstream", "open_wmemstream", "setvbuf", "setbuf", "fopencookie"}
)
_NONLOCAL_JUMPS = frozenset({
    "setjmp", "_setjmp", "sigsetjmp", "longjmp", "siglongjmp", "getcontext", "makecontext", "swapcontext",
})  # fmt: skip
# Macros and functions whose value depends on the source line, or on the number of uses.
_PLACE_DEPENDENT_NAMES = frozenset({
    "__LINE__", "__COUNTER__", "__INCLUDE_LEVEL__", "source_location", "_Pragma", "__pragma",
})  # fmt: skip
_COMPILER_MACRO = re.compile(
    r"__clang\w*|__GNUC\w*|__GNUG__|__VERSION__|__OPTIMIZE\w*|__FAST_MATH__|__NO_INLINE__|__has_\w+|__INTEL\w*|__ICC|"
    r"__NVCOMPILER|__PGI|_CRAYC|__SANITIZE_\w+|__cpp_\w+|__TIMESTAMP__|__DATE__|__TIME__"
)
# Attributes that allow accesses to a variable by other types. They are refused anywhere in a file.
_ALIASING_ATTRIBUTES = frozenset({"may_alias", "__may_alias__"})
# Comments, raw strings, strings, numbers (which may contain apostrophes) and characters.
_COMMENT_OR_LITERAL = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"([^()\\\s]*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|(?<![\w.])\d(?:'?[\w.])*|'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[^\S\n]*(?:#|%:|\?\?=)", re.MULTILINE)
_PLAIN_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:\w+|\r?$)", re.MULTILINE)
# Pragmas that change neither which function or object a name denotes nor how memory is laid out, except `pack`, which
# libclang applies as well.
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+(\w*)[ \t]*(\w*)", re.MULTILINE)
_PRAGMA_LINE = re.compile(r"^[ \t]*#[ \t]*pragma\b(?:[^\n]*\\\r?\n)*[^\n]*", re.MULTILINE)
_HARMLESS_PRAGMAS = frozenset({
    "omp", "acc", "once", "pack", "ivdep", "simd", "unroll", "nounroll", "vector", "message", "region", "endregion",
    "mark", "STDC", "push_macro", "pop_macro", "warning",
})  # fmt: skip
_HARMLESS_COMPILER_PRAGMAS = frozenset({
    "ivdep", "unroll", "diagnostic", "visibility", "push_options", "pop_options", "optimize", "target", "poison",
    "loop", "warning", "error", "dependency", "system_header",
})  # fmt: skip
_MACRO_DEFINITION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n]*\\\r?\n)*[^\n]*)", re.MULTILINE)
# MPI functions that return an error code, and retain no address after the call, or its request, has completed.
_PLAIN_MPI_CALL = re.compile(
    r"P?MPI_(?:I?[bsr]?send|I?recv|Sendrecv|Sendrecv_replace|Wait|Waitall|Test|Testall|Waitany|Waitsome|I?m?probe|"
    r"I?(?:barrier|bcast|reduce|allreduce|scan|exscan|gatherv?|allgatherv?|scatterv?|alltoall[vw]?|reduce_scatter\w*)|"
    r"Comm_(?:rank|size|split|dup|free)|Cart_(?:create|coords|rank|shift|get|sub|map)|Dims_create|Get_count|"
    r"Type_(?:vector|contiguous|commit|free|create_subarray|indexed|size|get_extent)|Get_processor_name|Init|"
    r"Init_thread|Finalize|Abort|Pack|Unpack|Free_mem)",
    re.I,
)
_MPI_FUNCTION_NAME = re.compile(r"P?MPI_[A-Z]\w*")


def describe_node_kind(node: SyntaxNode) -> str:
    """Returns the name of a syntax node's kind in plain words, for messages on unsupported code."""
    return str(node.kind.name).removesuffix("_EXPR").removesuffix("_STMT").replace("_", " ").lower()


def declares_no_object(node: SyntaxNode) -> bool:
    """Returns whether a declaration in a block creates no object, such as that of a type."""
    return node.kind in _KINDS_WITHOUT_OBJECT


def variable_refusal_reason(node: SyntaxNode) -> str:
    """Returns the reason why the declaration of a local variable is not supported; '' if it is."""
    if (storage := node.cursor.storage_class.name) in ("STATIC", "EXTERN"):
        return f"{node.name} is {storage.lower()}"
    if reason := attributes_refusal_reason(node):
        return reason
    if node.type.kind == TypeKind.LVALUEREFERENCE or is_trivial_type(node.type):
        return ""
    return f"the type of {node.name} is not understood, or making or destroying it runs code"


def is_trivial_type(type_: Any) -> bool:
    """Returns whether creating, copying and destroying an object of a type runs no code and creates no other object."""
    type_ = type_.get_canonical()
    if type_.is_volatile_qualified():
        return True  # each volatile access is refused where it occurs
    if type_.kind in ARRAY_TYPES:
        return is_trivial_type(type_.element_type)
    if type_.kind in (*NUMBER_TYPES, TypeKind.POINTER, TypeKind.COMPLEX, TypeKind.NULLPTR):
        return True
    if type_.kind != TypeKind.RECORD:
        return False
    return bool(_COMPLEX_TYPE.fullmatch(type_.spelling)) or _is_plain_record(type_.get_declaration())


def _is_plain_record(record: Any) -> bool:
    """Returns whether creating, copying and destroying an object of a struct type runs no code."""
    for child in record.get_children():
        if child.kind == Kind.FIELD_DECL:
            is_initialized = any(one.kind.is_expression() for one in child.get_children()) and not child.is_bitfield()
            if not is_trivial_type(child.type) or is_initialized and child.type.get_canonical().kind not in ARRAY_TYPES:
                return False
        elif child.kind not in _PLAIN_MEMBER_KINDS:
            return False
    return True


def attributes_refusal_reason(node: SyntaxNode) -> str:
    """Returns the reason why the attributes of a declaration are not supported; '' if they are."""
    attributes = [child for child in node.children if child.kind.is_attribute()]
    if not attributes:
        return ""
    extent = node.cursor.extent
    text = node.unit.text[extent.start.offset : extent.end.offset].split("{")[0] if not node.unit.is_foreign else ""
    attribute_names = [
        name for match in _ATTRIBUTE_SPECIFIER.finditer(text) for name in _attribute_names(match[1] or match[2] or "")
    ]
    if len(attribute_names) >= len(attributes) and all(name in _HARMLESS_ATTRIBUTES for name in attribute_names):
        return ""
    kinds = (Kind.ALIGNED_ATTR, Kind.CONST_ATTR, Kind.PURE_ATTR, Kind.WARN_UNUSED_ATTR, Kind.WARN_UNUSED_RESULT_ATTR)
    return (
        "" if all(one.kind in kinds for one in attributes) else f"{node.name} has an attribute that is not understood"
    )


def _attribute_names(attributes: str) -> list[str]:
    """Returns the attribute names in the text of an __attribute__ or [[...]], without arguments and namespaces."""
    bare = re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)", "", attributes)
    return [one.strip().split("::")[-1].strip("_") for one in bare.split(",") if one.strip()]


def may_split_loop(pragma: str) -> bool:
    """Returns whether the pragma above a loop allows executing the loop's iterations in several parts."""
    return bool(_PLAIN_PRAGMA.fullmatch(pragma)) or _has_only_clauses(pragma, _SPLITTABLE_LOOP_CLAUSES)


def may_move_loop(pragma: str) -> bool:
    """Returns whether the pragma above a loop allows executing the whole loop at another place."""
    return may_split_loop(pragma) or _has_only_clauses(pragma, _MOVABLE_LOOP_CLAUSES)


def find_refused_pragma(text: str) -> str:
    """Returns the first pragma in the text of a statement that may give the statement another meaning than its syntax
    tree shows; '' if there is none. OpenMP's `task`, for example, copies the arrays that it does not share."""
    pragmas = (" ".join(match[0].split()) for match in _PRAGMA_LINE.finditer(text))
    return next((pragma for pragma in pragmas if not may_move_loop(pragma)), "")


def _has_only_clauses(pragma: str, clauses: frozenset[str]) -> bool:
    """Returns whether a pragma is an OpenMP loop directive that has only the given clauses, and constant arguments for
    num_threads and schedule."""
    match = _OPENMP_LOOP.match(pragma)
    if not match:
        return False
    clause_names = re.sub(r"\((?:[^()]|\([^()]*\))*\)", " ", pragma[match.end() :]).replace(",", " ").split()
    clause_arguments = re.findall(r"\b(?:num_threads|schedule)\s*\(([^()]*)\)", pragma)
    constant = re.compile(r"\s*(?:\w+\s*:\s*)?(?:static|dynamic|guided|auto|\d+)(?:\s*,\s*\d+)?\s*")
    has_constant_arguments = all(constant.fullmatch(one) for one in clause_arguments)
    return has_constant_arguments and all(word in clauses for word in clause_names)


def has_if_initialization(statement: SyntaxNode) -> bool:
    """Returns whether a C++ `if` has an initialization, declares a variable in its test, or is constexpr; also True if
    a macro hides the text of the `if`."""
    text, start = statement.unit.text, statement.offset
    if statement.unit.path.endswith(".c"):
        return False
    match = re.compile(r"if\s*(?=\()").match(text, start)
    if match is None or not statement.children[0].kind.is_expression():
        return True
    return ";" in text[match.end() : end_of_bracketed_text(text, match.end())]


@functools.lru_cache(maxsize=16)
def file_refusal_reason(text: str, file_name: str = "the file", *, is_header: bool = False) -> tuple[str, int]:
    """Returns the reason why no statement of a source file may be moved, and the line; ('', 0) if there is no reason.
    In a header (`is_header`), identifiers whose value depends only on the compiler or on the place of use are
    ignored."""
    code = _blank_comments_and_literals(text)
    reason, line = _directive_refusal_reason(code, text, file_name)
    if reason:
        return reason, line
    if match := _THREAD_HEADER.search(code):
        return f"{file_name} includes {match[1]}: memory may be shared with another thread", _line_of_match(code, match)
    for match in re.finditer(r"[A-Za-z_]\w*", code):
        word = match[0]
        if word in _MEMORY_SHARING_NAMES:
            return f"{file_name} uses {word}: memory may be shared with another process or thread", _line_of_match(
                code, match
            )
        if word in _MEMORY_PRINTING_FUNCTIONS:
            return f"{file_name} uses {word}: what is printed may go into variables", _line_of_match(code, match)
        if word in _NONLOCAL_JUMPS:
            return f"{file_name} uses {word}, which may pass any statement", _line_of_match(code, match)
        if word in _ALIASING_ATTRIBUTES:
            return f"{file_name} uses {word}: variables of other types may be the same memory", _line_of_match(
                code, match
            )
        if is_header:
            continue
        if word in _PLACE_DEPENDENT_NAMES:
            return f"the file uses {word}, which means something else at another line or in a copy", _line_of_match(
                code, match
            )
        if _COMPILER_MACRO.fullmatch(word):
            return f"the file uses {word}, so that another compiler may read other code", _line_of_match(code, match)
    return "", 0


def _directive_refusal_reason(code: str, text: str, file_name: str) -> tuple[str, int]:
    """Returns the reason why a directive or a pragma of a file forbids moving statements, and the line; ('', 0) if none
    does. `code` is the text without comments."""
    for directive in _DIRECTIVE.finditer(code):
        if not _PLAIN_DIRECTIVE.match(text, directive.start()):
            return f"{file_name} has a directive that does not begin with a plain #", _line_of_match(code, directive)
    for pragma in _PRAGMA.finditer(code):
        family, word = pragma[1], pragma[2]
        if family not in _HARMLESS_PRAGMAS and not (family in ("GCC", "clang") and word in _HARMLESS_COMPILER_PRAGMAS):
            reason = f"{file_name} has a pragma whose effect is not known: {family} {word}".rstrip()
            return reason, _line_of_match(code, pragma)
    return "", 0


def _blank_comments_and_literals(text: str) -> str:
    """Returns a source text with blanks in place of comments, literals and numbers."""
    return _COMMENT_OR_LITERAL.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def is_refused_function(name: str) -> bool:
    """Returns whether a file that calls a function of this name gets no patch."""
    return name in _MEMORY_SHARING_NAMES | _MEMORY_PRINTING_FUNCTIONS | _NONLOCAL_JUMPS


def find_place_dependent_macro(text: str, headers: Iterable[str]) -> tuple[str, int]:
    """Returns a macro of the headers that the text uses and whose value depends on the place of the use, such as the
    line, and the line of its first use; ('', 0) if there is none."""
    words_by_macro: dict[str, set[str]] = {}
    for header in headers:
        for match in _MACRO_DEFINITION.finditer(_blank_comments_and_literals(header)):
            words_by_macro.setdefault(match[1], set()).update(re.findall(r"[A-Za-z_]\w*", match[2]))
    place_dependent_names: set[str] = set(_PLACE_DEPENDENT_NAMES)
    while new_names := {
        name
        for name, words in words_by_macro.items()
        if name not in place_dependent_names and words & place_dependent_names
    }:
        place_dependent_names |= new_names
    code = _blank_comments_and_literals(text)
    first_use = next(
        (one for one in re.finditer(r"[A-Za-z_]\w*", code) if one[0] in place_dependent_names - _PLACE_DEPENDENT_NAMES),
        None,
    )
    return (first_use[0], _line_of_match(code, first_use)) if first_use else ("", 0)


def _line_of_match(text: str, match: re.Match[str]) -> int:
    """Returns the line number of a match in a text."""
    return line_number_of(text, match.start())


def is_plain_mpi_call(name: str) -> bool:
    """Returns whether an MPI function is known to return an error code, and to retain no address after its message
    completes."""
    return bool(_PLAIN_MPI_CALL.fullmatch(name))


def is_mpi_name(name: str) -> bool:
    """Returns whether MPI reserves a name for its functions."""
    return bool(_MPI_FUNCTION_NAME.fullmatch(name))
