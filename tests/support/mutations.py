"""Damages files: bytes, lines, values of TOML, JSON, XML and Parquet, words of C, and what stands in a file's place.

Every function takes a source of chance and the whole content, and returns the damaged content.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Mutation = Callable[[random.Random, bytes], bytes]
LONG = 5000

# ---- bytes and lines of any file


def flip_bits(chance: random.Random, content: bytes) -> bytes:
    made = bytearray(content or b"\0")
    for _ in range(chance.choice([1, 1, 3, 30])):
        made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
    return bytes(made)


def cut(chance: random.Random, content: bytes) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def without_a_part(chance: random.Random, content: bytes) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + content[at + chance.choice([1, 8, 100, 4096]) :]


def with_bytes(chance: random.Random, content: bytes) -> bytes:
    strange = [b"\0", b"\xed\xa0\x80", b"\xff\xfe", b"\x1b[2J", b"\r", b"\x0c", b"\xe2\x80\xa8", b"\xf4\x90\x80\x80"]
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.choice(strange) * chance.choice([1, 1, 100]) + content[at:]


def in_another_encoding(chance: random.Random, content: bytes) -> bytes:
    text = content.decode("latin-1")
    match chance.randrange(5):
        case 0:
            return content.replace(b"\n", b"\r\n")
        case 1:
            return b"\xef\xbb\xbf" + content
        case 2:
            return text.encode("utf-16")
        case 3:
            return content.replace(b"\n", b"\r")
        case _:
            return text.encode("utf-32-be")


def make_empty(chance: random.Random, content: bytes) -> bytes:
    return chance.choice([b"", b"\n", b" ", b"\0" * 4096])


def with_other_lines(chance: random.Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True) or [b"\n"]
    at = chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(chance.randrange(len(lines) + 1), lines[at])
        case 2:
            lines[at : at + 1] = [lines[at]] * 50
        case 3:
            lines[at] = lines[at].rstrip(b"\n") + b"x" * chance.choice([1, 70000]) + b"\n"
        case _:
            chance.shuffle(lines)
    return b"".join(lines)


ANY = [flip_bits, cut, without_a_part, with_bytes, in_another_encoding, make_empty, with_other_lines]

# ---- values

NUMBERS = [
    "0", "-1", "1", "0.5", "1e300", "-1e300", "1e-320", "1e400", "9223372036854775807", "9223372036854775808",
    "-9223372036854775809", "18446744073709551616", "100000000000000000", "4294967296", "9" * 400, "9" * LONG,
]  # fmt: skip


def with_another_number(chance: random.Random, content: bytes) -> bytes:
    """Replaces a number of a text, be it of any format."""
    found = list(re.finditer(rb"(?<![\w.])-?\d+(\.\d+)?\b", content))
    if not found:
        return flip_bits(chance, content)
    one = chance.choice(found)
    other = chance.choice([*NUMBERS, "nan", "0x10", "²", "٣", "", "1_000"])
    return content[: one.start()] + other.encode() + content[one.end() :]


def with_another_word(chance: random.Random, content: bytes) -> bytes:
    """Exchanges two words, or puts a strange one in a word's place."""
    found = list(re.finditer(rb"[^\s,=:\"]+", content))
    if not found:
        return flip_bits(chance, content)
    one = chance.choice(found)
    others = [b"", b"../../etc/passwd", b"%s%n", b"x" * LONG, "ß→".encode(), b"\xff", b"$(id)", chance.choice(found)[0]]
    return content[: one.start()] + chance.choice(others) + content[one.end() :]


def with_another_toml_value(chance: random.Random, content: bytes) -> bytes:
    values = [
        *NUMBERS, "nan", "inf", "-inf", "true", '""', '"x"', r'"\u001b[2J"', r'"\ud800"', r'"\u0000"', "[]", "{}",
        '[""]', "[[]]", "[1, 'x']", "1979-05-27", "1979-05-27T07:32:00", "07:32:00", '"0-99999999999"', "{ value = 1 }",
        "[" * LONG + "]" * LONG, "{a=" * 500 + "1" + "}" * 500, f'"{"x" * 70000}"', "'''\n'''", "x", '"ß→\U0001f600"',
        '"2026-13-99T00:00:00"', '"[bold]"', '"-"', '"/"',
    ]  # fmt: skip
    lines = content.decode("utf-8", errors="replace").splitlines()
    places = [number for number, line in enumerate(lines) if " = " in line or line.startswith("[")]
    if not places:
        return flip_bits(chance, content)
    at = chance.choice(places)
    inner = list(re.finditer(r"(?<== )(\"[^\"]*\"|[^,{}\[\]\"]+)", lines[at]))
    if lines[at].startswith("["):
        lines[at] = chance.choice(["[x]", "[[x]]", "[a.b.c]", "[]", lines[at] * 2, f"[{lines[at]}]", lines[at][1:-1]])
    elif inner and chance.random() < 0.5:  # one value of an inline table
        one = chance.choice(inner)
        lines[at] = lines[at][: one.start()] + chance.choice(values) + lines[at][one.end() :]
    else:
        key = chance.choice([lines[at].partition(" = ")[0]] * 5 + ["x", '"\\u0000"', "a.b", '""'])
        lines[at] = f"{key} = {chance.choice(values)}"
    return ("\n".join(lines) + "\n").encode("utf-8", errors="replace")


JSON_VALUES: list[Any] = [
    None, True, 0, -1, 1, 0.5, 1e300, -1e-320, float("nan"), float("inf"), 1 << 63, 1 << 64, 10**400, "", "x", "\ud800",
    "\0", "\x1b[2J", [], {}, [[]], [""], {"": ""}, ["x"] * 3, {"x": None}, "x" * 70000, "²", "[bold]", "/",
]  # fmt: skip


def with_another_json_value(chance: random.Random, content: bytes) -> bytes:
    """Changes one node of a JSON text; of several lines of JSON, one line."""
    try:
        lines = [content] if content.lstrip()[:1] == b"[" or b"\n " in content else content.splitlines()
        at = chance.randrange(len(lines))
        lines[at] = json.dumps(_with_another_node(chance, json.loads(lines[at]))).encode()
    except (ValueError, IndexError, RecursionError):
        return flip_bits(chance, content)
    deep = [b"[" * 100_000, b'{"a":' * LONG]
    if chance.random() < 0.05:
        lines[at] = chance.choice(deep)
    return b"\n".join(lines) + b"\n"


def _with_another_node(chance: random.Random, tree: Any) -> Any:
    places: list[tuple[Any, Any]] = []

    def collect(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []:
            places.append((node, key))
            collect(node[key])

    collect(tree)
    if not places or chance.random() < 0.03:
        return chance.choice(JSON_VALUES)
    node, key = chance.choice(places)
    match chance.randrange(8):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[chance.choice(["x", "", "\0", "type"])] = node.pop(key)
        case 2 if isinstance(node, list):
            node += node[:3] * chance.choice([1, 100])
        case 3:
            node[key] = [node[key]]
        case _:
            node[key] = chance.choice(JSON_VALUES)
    return tree


def with_another_xml_part(chance: random.Random, content: bytes) -> bytes:
    attributes = list(re.finditer(rb'[\w:]+="([^"]*)"', content))
    tags = list(re.finditer(rb"<[^>]*>", content))
    values = [*(n.encode() for n in NUMBERS), b"", b"x", b"&amp;", b"&#0;", b"&lt;", b"\xff", b"Misc"]
    if attributes and chance.random() < 0.6:
        one = chance.choice(attributes)
        other = chance.choice(values)
        return content[: one.start(1)] + other + content[one.end(1) :]
    if not tags:
        return flip_bits(chance, content)
    one, other = chance.choice(tags), chance.choice([b"", b"<object>", b"</object>", chance.choice(tags)[0]])
    return content[: one.start()] + other + content[one.end() :]


def with_other_columns(chance: random.Random, content: bytes) -> bytes:
    """Changes a table in Parquet: its columns, their types, its rows."""
    import polars as pl

    try:
        table = pl.read_parquet(io.BytesIO(content))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):  # it is damaged already
        return flip_bits(chance, content)
    name = chance.choice(table.columns)
    types = [pl.Int64, pl.Float64, pl.String, pl.Boolean, pl.Binary, pl.Int8, pl.List(pl.Int64), pl.Categorical]
    try:
        match chance.randrange(8):
            case 0:
                table = table.drop(name)
            case 1:
                table = table.with_columns(pl.lit(None, chance.choice(types)).alias(name))
            case 2:
                table = table.with_columns(pl.col(name).cast(chance.choice(types), strict=False))
            case 3:
                table = table.rename({name: chance.choice(["x", "", "\0", "A b", "value_bytes"])})
            case 4:
                table = pl.concat([table, table.head(chance.choice([1, table.height]))])
            case 5:
                table = table.clear() if chance.random() < 0.3 else table.head(chance.randrange(1, 99))
            case 6:
                table = table.with_columns(pl.lit(chance.choice([0, -1, 1e300, "x", True, 1 << 62])).alias(name))
            case _:
                rows = pl.int_range(pl.len()) == chance.randrange(max(1, table.height))
                odd = chance.choice([None, "", "\x1b[2J", "x" * LONG, "\0"]) if table[name].dtype == pl.String else \
                    chance.choice([None, 0, -1, 1 << 62, 2])  # fmt: skip
                odd_values = pl.lit(odd).cast(table[name].dtype, strict=False)
                table = table.with_columns(pl.when(rows).then(odd_values).otherwise(pl.col(name)).alias(name))
        out = io.BytesIO()
        table.write_parquet(out)
    except (pl.exceptions.PolarsError, TypeError):  # such a table cannot be made
        return flip_bits(chance, content)
    return out.getvalue()


# ---- C, so that much of it still compiles

_TOKENS = re.compile(rb'"[^"\n]*"|//[^\n]*|[A-Za-z_]\w*|\d+\.?\d*|<<=?|[-+*/%<>=!&|]=?|[()\[\]{};,?:.]')
_ALIKE = [
    [b"+", b"-", b"*", b"/", b"%"], [b"<", b"<=", b">", b">=", b"==", b"!="], [b"+=", b"-=", b"*=", b"="],
    [b"double", b"float", b"int", b"long", b"char", b"unsigned", b"short"], [b"&&", b"||", b"&", b"|"],
    [b"if", b"while"], [b"MPI_DOUBLE", b"MPI_INT", b"MPI_BYTE", b"MPI_FLOAT", b"MPI_DATATYPE_NULL", b"0"],
    [b"MPI_COMM_WORLD", b"MPI_COMM_SELF", b"MPI_COMM_NULL"], [b"const", b"volatile", b"static", b"register"],
]  # fmt: skip


def with_another_token(chance: random.Random, content: bytes) -> bytes:
    """Replaces some tokens by tokens of the same kind: another operator, type, number or variable."""
    for _ in range(chance.choice([1, 1, 2, 4])):
        found = [one for one in _TOKENS.finditer(content) if not one[0].startswith((b'"', b"//"))]
        if not found:
            return content
        one = chance.choice(found)
        alike = next((kind for kind in _ALIKE if one[0] in kind), None)
        if alike:
            other = chance.choice(alike)
        elif one[0][:1].isdigit():
            other = chance.choice([b"0", b"1", b"2", b"-1", b"2147483647", b"1LL << 40", b"0.5", b"'a'", b"(3 - 1)"])
        elif one[0][:1].isalpha():
            other = chance.choice([each[0] for each in found if each[0][:1].isalpha()])
        else:
            other = chance.choice([one[0] * 2, b"", one[0]])
        content = content[: one.start()] + other + content[one.end() :]
    return content


def with_another_statement(chance: random.Random, content: bytes) -> bytes:
    """Repeats, moves or wraps one line that ends in a semicolon."""
    lines = content.splitlines(keepends=True)
    places = [number for number, line in enumerate(lines) if line.rstrip().endswith(b";") and b"for" not in line]
    if not places:
        return content
    at = chance.choice(places)
    line = lines[at].strip()
    wraps = [b"{ %s }", b"if (1) { %s }", b"do { %s } while (0);", b"for (int zz = 0; zz < 2; zz++) { %s }",
             b"#pragma omp parallel\n{ %s }", b"again: ; %s", b"switch (1) { case 1: %s }", b"(void)0; %s"]  # fmt: skip
    match chance.randrange(3):
        case 0:
            lines.insert(chance.choice(places), lines[at])
        case 1:
            lines.insert(chance.choice(places), lines.pop(at))
        case _:
            lines[at] = chance.choice(wraps).replace(b"%s", line) + b"\n"
    return b"".join(lines)


FORMATS: dict[str, list[Mutation]] = {
    "toml": [*ANY, *[with_another_toml_value] * 12, with_another_number],
    "json": [*ANY, *[with_another_json_value] * 12, with_another_number],
    "xml": [*ANY, *[with_another_xml_part] * 12],
    "parquet": [flip_bits, cut, without_a_part, make_empty, *[with_other_columns] * 8],
    "text": [*ANY, *[with_another_number] * 4, *[with_another_word] * 4],
    "bytes": [flip_bits, flip_bits, flip_bits, cut, without_a_part, with_bytes, make_empty],
    "c": [flip_bits, cut, with_bytes, in_another_encoding, *[with_another_token] * 10, *[with_another_statement] * 6],
}


# ---- what stands in a file's place

PLACES = ("folder", "fifo", "missing", "dangling link", "link to itself", "device", "unreadable")


def put_in_place(kind: str, path: Path) -> None:
    """Puts something that is no file where a file should be."""
    path.unlink()
    match kind:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "dangling link":
            path.symlink_to("nowhere")
        case "link to itself":
            path.symlink_to(path.name)
        case "device":
            path.symlink_to("/dev/null")
        case "unreadable":  # to everybody but root, for whom it is an empty file
            path.touch(0o000)
