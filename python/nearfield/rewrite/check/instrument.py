"""Inserts calls into a source file by which the contents of all arrays can be compared bit by bit
(src/preload/verify/verify.h).

Each array on the stack is registered at its declaration. Memory is checked at the end of the innermost block that
contains all changes, so after each execution of a rewritten region. Lines keep their numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from clang import cindex

DECLARATIONS = """\
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
struct nf_array { void* data; size_t bytes; const char* name; };
struct nf_array nf_register_array(void* data, size_t bytes, const char* name, int is_uninitialised);
void nf_unregister_array(struct nf_array* array);
void nf_check_memory(const char* where);
#ifdef __cplusplus
}
#endif
"""
CHECK_PLACE = "after the region"
_CURSOR_KIND = cindex.CursorKind
_ARRAY_TYPES = (cindex.TypeKind.CONSTANTARRAY, cindex.TypeKind.VARIABLEARRAY, cindex.TypeKind.INCOMPLETEARRAY)
_EXIT_KINDS = (_CURSOR_KIND.RETURN_STMT, _CURSOR_KIND.BREAK_STMT, _CURSOR_KIND.CONTINUE_STMT, _CURSOR_KIND.GOTO_STMT)


def insert_memory_checks(
    path: Path, texts: Sequence[str], arguments: Sequence[str], similar_texts: Sequence[str] = ()
) -> list[str]:
    """Returns instrumented versions of one source file. The memory check is inserted after the last difference of all
    texts and those in `similar_texts`, in the part that they have in common."""
    num_common_end_bytes = _common_end_bytes([*texts, *similar_texts])
    difference_start = len(os.path.commonprefix([*texts, *similar_texts]).encode("utf-8", "surrogateescape"))
    instrumented = []
    for text in texts:
        data = text.encode("utf-8", "surrogateescape")
        insertions = list(_find_insertions(path, data, (difference_start, len(data) - num_common_end_bytes), arguments))
        for offset, inserted_code in sorted(insertions, reverse=True):
            data = data[:offset] + inserted_code + data[offset:]
        instrumented.append(data.decode("utf-8", "surrogateescape"))
    return instrumented


def _common_end_bytes(texts: Sequence[str]) -> int:
    """Returns the number of bytes in the whole lines that all texts have in common at their ends."""
    common_suffix = os.path.commonprefix([text[::-1] for text in texts])[::-1]
    return len(common_suffix.partition("\n")[2].encode("utf-8", "surrogateescape"))


def _find_insertions(
    path: Path, data: bytes, difference_span: tuple[int, int], arguments: Sequence[str]
) -> Iterator[tuple[int, bytes]]:
    """Yields the code to insert with its offsets. `difference_span` are the offsets between which the texts differ."""
    text = data.decode("utf-8", "replace")
    if text.encode("utf-8") != data:
        return  # not UTF-8: libclang's offsets would differ from those of the bytes
    unit = cindex.Index.create().parse(str(path), args=list(arguments), unsaved_files=[(str(path), text)])
    blocks = list(_compound_statements(unit.cursor, str(path)))
    for block in blocks:
        for child in block.get_children():
            if child.kind == _CURSOR_KIND.DECL_STMT:
                yield from _array_registrations(child, data)
    difference_start, difference_end = difference_span
    enclosing_blocks = [
        b for b in blocks if b.extent.start.offset < difference_start and difference_end <= b.extent.end.offset - 1
    ]
    if enclosing_blocks:
        check_offset = _last_reached_offset(
            min(enclosing_blocks, key=lambda b: b.extent.end.offset - b.extent.start.offset), data
        )
        if check_offset is not None and check_offset >= difference_end:
            yield check_offset, f'nf_check_memory("{CHECK_PLACE}"); '.encode()


def _compound_statements(cursor: cindex.Cursor, path: str) -> Iterator[cindex.Cursor]:
    """Yields the compound statements of the file itself, without headers, each before the blocks inside it."""
    for child in cursor.get_children():
        if child.location.file and child.location.file.name != path:
            continue
        if child.kind == _CURSOR_KIND.COMPOUND_STMT:
            yield child
        yield from _compound_statements(child, path)


def _array_registrations(statement: cindex.Cursor, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the code that registers each array on the stack, with its offset after the declaration."""
    end = statement.extent.end.offset
    if data[end - 1 : end] != b";":
        return  # the declaration comes from a macro
    for variable in statement.get_children():
        element_type = variable.type.get_canonical()
        is_array = element_type.kind in _ARRAY_TYPES
        while element_type.kind in _ARRAY_TYPES:
            element_type = element_type.element_type.get_canonical()
        is_plain = cindex.TypeKind.BOOL.value <= element_type.kind.value <= cindex.TypeKind.LONGDOUBLE.value
        if variable.kind != _CURSOR_KIND.VAR_DECL or not is_array or not is_plain or element_type.is_const_qualified():
            continue
        if variable.type.spelling.startswith("MPI_"):
            continue  # MPI handles, which are integers in some MPIs
        if variable.storage_class in (cindex.StorageClass.STATIC, cindex.StorageClass.EXTERN):
            continue
        name = variable.spelling
        declaration_text = data[variable.extent.start.offset : variable.extent.end.offset]
        is_uninitialized = int(b"=" not in declaration_text and b"{" not in declaration_text)
        registration = f'nf_register_array((void*){name}, sizeof({name}), "{name}", {is_uninitialized})'
        array_declaration = (
            f" struct nf_array nf_{name} __attribute__((cleanup(nf_unregister_array))) = {registration};"
        )
        yield end, array_declaration.encode()


def _last_reached_offset(block: cindex.Cursor, data: bytes) -> int | None:
    """Returns the offset after the last statement of a block that control reaches at the end of the block; None if
    there is none."""
    statements = list(block.get_children())
    if statements and statements[-1].kind in _EXIT_KINDS:
        start = int(statements[-1].extent.start.offset)
        return start if not data[:start].rstrip().endswith((b")", b"else")) else None
    end = int(block.extent.end.offset) - 1
    return end if data[end : end + 1] == b"}" else None
