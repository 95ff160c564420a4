"""Random programs with one to three exchanges and one to three loop nests, as `nearfield rewrite` takes them.

Each is one C file with a function `region`, which iterates on two arrays `a` and `b` of nx, nx * ny or nx * ny * nz
elements and two buffers of as many. It is correct for each of its sizes: no access is out of bounds, and no buffer of a
receive overlaps another buffer that is in use.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

MPI_TYPES = {"double": "MPI_DOUBLE", "float": "MPI_FLOAT", "int": "MPI_INT"}
ARRAYS = ("a", "b", "out", "in")
_INDICES, _EXTENTS = "ijk", ("nx", "ny", "nz")
_NX, _NY, _NZ = (3, 4, 5, 6, 7, 9, 13), (3, 8, 4, 5, 3, 6, 4), (4, 3, 6, 3, 5, 4, 3)


@dataclass(frozen=True)
class RandomProgram:
    """A program's text, its type of elements, and the sizes (nx, ny, nz) to run it with."""

    seed: int
    text: str
    element: str
    sizes: tuple[tuple[int, int, int], ...]


def random_program(seed: int) -> RandomProgram:
    """Returns the program of this seed."""
    chance = random.Random(seed)
    writer = _Writer(chance)
    exchanges = [writer.exchange(tag) for tag in range(chance.choice((1, 1, 2, 2, 3)))]
    nests = [writer.nest() for _ in range(chance.choice((1, 1, 2, 3)))]
    if chance.random() < 0.6:
        exchanges, nests[0] = writer.halo(), writer.sweep()
    order = chance.random()
    parts = exchanges + nests if order < 0.5 else nests + exchanges
    if random.Random(f"pipeline {seed}").random() < 0.2:  # of its own, so that other programs stay as they are
        parts = writer.pipeline()
    else:
        if order > 0.75:
            chance.shuffle(parts)
        if chance.random() < 0.1:
            parts.insert(chance.randrange(len(parts) + 1), ["MPI_Barrier(comm);"])
    other = random.Random(f"functions {seed}")
    text = writer.text(parts, other if other.random() < 0.3 else None)
    return RandomProgram(seed, text, writer.element, tuple(zip(_NX, _NY, _NZ, strict=True)))


class _Writer:
    """Makes the choices that hold for a whole program: how arrays are written, what their elements are."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._dimensions = chance.choice((1, 2, 2, 2, 3))
        self._form = chance.choice(("flat", "macro", "rows")) if self._dimensions > 1 else "flat"
        self._extents = _EXTENTS[: self._dimensions]
        self._swaps = self._form != "rows" and chance.random() < 0.25
        self._restrict = "" if self._swaps or chance.random() < 0.3 else "restrict "
        self._before: list[str] = []
        self._after: list[str] = []
        self.element = chance.choice((*MPI_TYPES, "double"))
        self._type = MPI_TYPES[self.element]

    # ---- expressions

    def _at(self, array: str, *subscripts: str) -> str:
        """Returns an element of a or b."""
        if self._form == "rows":
            return array + "".join(f"[{subscript}]" for subscript in subscripts)
        if self._form == "macro":
            return f"{array}[AT({', '.join(subscripts)})]"
        flat = subscripts[0]
        for subscript, extent in zip(subscripts[1:], self._extents[1:], strict=True):
            flat = f"{f'({flat})' if ' ' in flat else flat} * {extent} + {subscript}"
        return f"{array}[{flat}]"

    def _row(self, array: str, row: str) -> str:
        """Returns the address of a row, or of a plane."""
        return "&" + self._at(array, row, *["0"] * (self._dimensions - 1))

    def _sum(self, terms: list[str]) -> str:
        if self.element == "int":
            return f"({' + '.join(f'{number + 2} * {term}' for number, term in enumerate(terms))}) % 1009"
        suffix = "f" if self.element == "float" else ""
        return " + ".join(f"{0.31 + 0.17 * number:.2f}{suffix} * {term}" for number, term in enumerate(terms))

    # ---- exchanges

    def exchange(self, tag: int) -> list[str]:
        """Returns the lines of an exchange with both neighbours."""
        kinds = [self._blocking, self._blocking, self._nonblocking, self._both_ways, self._guarded]
        if self._dimensions == 2:
            kinds += [self._packed, self._columns]
        return self._chance.choice(kinds)(tag)

    def halo(self) -> list[list[str]]:
        """Returns an exchange of a in both directions, as most programs have it."""
        kind = self._chance.random()
        if kind < 0.4:
            return [self._both_ways(0, "a")]
        if kind < 0.5:
            return [self._guarded(0, "a")]
        up = ("a", "nx - 2", "0", "up")
        down = ("a", "1", "nx - 1", "down")
        return (
            [self._blocking(0, up), self._blocking(1, down)]
            if kind < 0.85
            else [self._nonblocking(0, up), self._nonblocking(1, down)]
        )

    def _ends(self) -> tuple[str, str, str, str]:
        """Returns the array, the row to send, the row to receive, and whom to send to."""
        array = self._chance.choice("aab")
        send, receive, to = self._chance.choice((("nx - 2", "0", "up"), ("1", "nx - 1", "down"), ("1", "0", "up")))
        return array, send, receive, to

    def _blocking(self, tag: int, ends: tuple[str, str, str, str] | None = None) -> list[str]:
        array, send, receive, to = ends or self._ends()
        other = "b" if array == "a" and self._chance.random() < 0.15 else array
        count, source = self._plane(), {"up": "down", "down": "up"}[to]
        sent = f"{self._row(array, send)}, {count}, {self._type}, {to}, {tag}"
        received = f"{self._row(other, receive)}, {count}, {self._type}, {source}, {tag}"
        return [f"MPI_Sendrecv({sent}, {received}, comm, MPI_STATUS_IGNORE);"]

    def _nonblocking(self, tag: int, ends: tuple[str, str, str, str] | None = None) -> list[str]:
        array, send, receive, to = ends or self._ends()
        source = {"up": "down", "down": "up"}[to]
        wait = ["MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);"]
        if self._chance.random() < 0.3:
            wait = [f"MPI_Wait(&requests[{number}], MPI_STATUS_IGNORE);" for number in (0, 1)]
        return [*self._posts(array, receive, send, source, to, tag, 0), *wait]

    def _both_ways(self, tag: int, array: str = "") -> list[str]:
        array = array or self._chance.choice("aab")
        first = self._posts(array, "0", "nx - 2", "down", "up", 10 + tag, 0)
        second = self._posts(array, "nx - 1", "1", "up", "down", 20 + tag, 2)
        return [*first, *second, "MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);"]

    def _posts(self, array: str, receive: str, send: str, source: str, to: str, tag: int, slot: int) -> list[str]:
        count = self._plane()
        rest = f"{count}, {self._type}"
        return [
            f"MPI_Irecv({self._row(array, receive)}, {rest}, {source}, {tag}, comm, &requests[{slot}]);",
            f"MPI_Isend({self._row(array, send)}, {rest}, {to}, {tag}, comm, &requests[{slot + 1}]);",
        ]

    def _guarded(self, tag: int, array: str = "") -> list[str]:
        array = array or self._chance.choice("aab")
        rest = f"{self._plane()}, {self._type}"
        send = f"MPI_Send({self._row(array, '1')}, {rest}, rank - 1, {tag}, comm);"
        receive = f"MPI_Recv({self._row(array, 'nx - 1')}, {rest}, rank + 1, {tag}, comm, MPI_STATUS_IGNORE);"
        return [f"if (rank > 0) {send}", "if (rank < size - 1) {", f"  {receive}", "}"]

    def _packed(self, tag: int) -> list[str]:
        array = self._chance.choice("aab")
        rest = f"nx, {self._type}"
        return [
            f"for (int i = 0; i < nx; i++) out[i] = {self._at(array, 'i', '1')};",
            f"MPI_Sendrecv(out, {rest}, up, {tag}, in, {rest}, down, {tag}, comm, MPI_STATUS_IGNORE);",
            f"for (int i = 0; i < nx; i++) {self._at(array, 'i', 'ny - 1')} = in[i];",
        ]

    def _columns(self, tag: int) -> list[str]:
        if not self._before:
            vector = f"MPI_Type_vector(nx, 1, ny, {self._type}, &column);"
            self._before += ["MPI_Datatype column;", vector, "MPI_Type_commit(&column);"]
            self._after += ["MPI_Type_free(&column);"]
        array = self._chance.choice("aab")
        sent = f"&{self._at(array, '0', 'ny - 2')}, 1, column, up, {tag}"
        received = f"&{self._at(array, '0', '0')}, 1, column, down, {tag}"
        return [f"MPI_Sendrecv({sent}, {received}, comm, MPI_STATUS_IGNORE);"]

    def _plane(self) -> str:
        return " * ".join(self._extents[1:]) or "1"

    # ---- nests

    def nest(self) -> list[str]:
        """Returns the lines of a loop nest."""
        kinds = [self._stencil, self._stencil, self._in_place, self._copy, self._one_row, self._reduction, self._twice]
        return self._chance.choice(kinds)()

    def _loops(self, statements: list[str], margin: int, first: str | None = None) -> list[str]:
        """Returns loops around statements, which stay `margin` away from each end. `first` replaces the outer loop."""
        lines, depth = [], 0
        for index, extent in zip(_INDICES, self._extents, strict=False):
            loop = f"for (int {index} = {margin}; {index} < {extent}{f' - {margin}' if margin else ''}; {index}++)"
            if depth == 0 and first is not None:
                loop = first
            elif depth == 0 and self._chance.random() < 0.15:
                loop = f"for (int {index} = {extent} - {margin + 1}; {index} >= {margin}; {index}--)"
            elif self._chance.random() < 0.05:
                loop = loop.replace(f"{index}++", f"{index} += 2")
            lines.append("  " * depth + loop + " {")
            depth += 1
        lines += ["  " * depth + statement for statement in statements]
        return lines + ["  " * level + "}" for level in reversed(range(depth))]

    def _near(self, array: str, reach: int, count: int) -> list[str]:
        """Returns elements of an array around the current one."""
        found = []
        for _ in range(count):
            offsets = [self._chance.choice((-reach, 0, 0, reach)) for _ in self._extents]
            offsets[0] = self._chance.choice((-reach, 0, reach))
            words = [_INDICES[n] + (f" {'+' if o > 0 else '-'} {abs(o)}" if o else "") for n, o in enumerate(offsets)]
            found.append(self._at(array, *words))
        return found

    def _at_loops(self, array: str) -> str:
        return self._at(array, *_INDICES[: self._dimensions])

    def _stencil(self) -> list[str]:
        source, target = self._chance.choice((("a", "b"), ("a", "b"), ("b", "a")))
        reach = self._chance.choice((1, 1, 1, 2)) if self._dimensions == 1 else 1
        value = self._sum(self._near(source, reach, self._chance.randint(2, 4)))
        if self._chance.random() < 0.2:
            return self._loops([f"{self.element} value = {value};", f"{self._at_loops(target)} = value;"], reach)
        return self._loops([f"{self._at_loops(target)} = {value};"], reach)

    def sweep(self) -> list[str]:
        """Returns a nest that needs what is received from both sides."""
        others = [_INDICES[n] for n in range(1, self._dimensions)]
        ends = [self._at("a", f"i {sign} 1", *others) for sign in "-+"]
        value = self._sum([self._at_loops("a"), *ends, *self._near("a", 1, self._chance.randint(0, 2))])
        return self._loops([f"{self._at_loops(self._chance.choice('bbba'))} = {value};"], 1)

    def _in_place(self) -> list[str]:
        array = self._chance.choice("aab")
        near = self._near(array, 1, self._chance.randint(0, 2))
        return self._loops([f"{self._at_loops(array)} = {self._sum([self._at_loops(array), *near])};"], 1)

    def _copy(self) -> list[str]:
        source, target = self._chance.choice((("b", "a"), ("a", "b")))
        return self._loops([f"{self._at_loops(target)} = {self._at_loops(source)};"], self._chance.choice((0, 1)))

    def _one_row(self) -> list[str]:
        row, inner = self._chance.choice((("0", "1"), ("nx - 1", "nx - 2"), ("1", "0"))), _INDICES[1 : self._dimensions]
        array = self._chance.choice("ab")
        lines = [f"{self._at(array, row[0], *inner)} = {self._sum([self._at('a', row[1], *inner)])};"]
        for depth, (index, extent) in enumerate(zip(inner, self._extents[1:], strict=True)):
            lines.insert(depth, f"for (int {index} = 0; {index} < {extent}; {index}++)")
        return lines

    def _reduction(self) -> list[str]:
        array = self._chance.choice("ab")
        if self._chance.random() < 0.5:
            return self._loops([f"if ({self._at_loops(array)} > total) total = {self._at_loops(array)};"], 1)
        return self._loops([f"total = {self._sum(['total', self._at_loops(array)])};"], 1)

    def _twice(self) -> list[str]:
        """Returns a nest of two statements, of which the second one reads what the first one has written."""
        first = f"{self._at_loops('b')} = {self._sum(self._near('a', 1, 2))};"
        back = [_INDICES[0] + " - 1", *_INDICES[1 : self._dimensions]]
        second = f"{self._at_loops('a')} = {self._sum([self._at_loops('b'), self._at('b', *back)])};"
        return self._loops([first, second], 1)

    # ---- messages that can be cut

    def pipeline(self) -> list[list[str]]:
        """Returns what makes a message, its exchange, and what uses it, each of one row or one buffer; more nests at
        times."""
        rows = self._dimensions == 2 and self._chance.random() < 0.5
        parts = self._row_pipeline() if rows else self._buffer_pipeline()
        retained = [part for part in parts if self._chance.random() < 0.8 or "MPI_" in part[0]]
        more = [self.nest() for _ in range(self._chance.choice((0, 1, 1)))]
        return retained + more if self._chance.random() < 0.7 else more + retained

    def _line(self, index: str, extent: str, target: str, terms: list[str]) -> list[str]:
        margin = int(any(f"{index} - 1" in term or f"{index} + 1" in term for term in terms))
        loop = f"for (int {index} = {margin}; {index} < {extent}{f' - {margin}' if margin else ''}; {index}++)"
        if self._chance.random() < 0.2:
            loop = f"for (int {index} = {extent} - {margin + 1}; {index} >= {margin}; {index}--)"
        return [loop, f"  {target} = {self._sum(terms)};"]

    def _row_pipeline(self) -> list[list[str]]:
        send, receive, to = self._chance.choice((("nx - 2", "0", "up"), ("1", "nx - 1", "down")))
        near = self._chance.choice((["j"], ["j", "j - 1"], ["j", "j + 1"]))
        make = self._line("j", "ny", self._at("a", send, "j"), [self._at("b", send, one) for one in near])
        near = self._chance.choice((["j"], ["j", "j - 1"], ["j + 1"]))
        use = self._line("j", "ny", self._at("b", receive, "j"), [self._at("a", receive, one) for one in near])
        both = [self._blocking(0, ("a", send, receive, to))]
        if self._chance.random() < 0.3:
            send, receive, to = ("1", "nx - 1", "down") if to == "up" else ("nx - 2", "0", "up")
            both.append(self._blocking(self._chance.choice((0, 1)), ("a", send, receive, to)))
        return [make, *both, use]

    def _buffer_pipeline(self) -> list[list[str]]:
        rest = ["0"] * (self._dimensions - 1)
        near = self._chance.choice((["i"], ["i"], ["i", "i - 1"]))
        make = self._line("i", "nx", "out[i]", [self._at("a", one, *rest) for one in near])
        near = self._chance.choice((["in[i]"], ["in[i]", "in[i - 1]"], ["in[i]", "out[i]"]))
        use = self._line("i", "nx", self._at("a", "i", *rest), near)
        exchange = (
            f"MPI_Sendrecv(out, nx, {self._type}, up, 0, in, nx, {self._type}, down, 0, comm, MPI_STATUS_IGNORE);"
        )
        return [make, [exchange], use]

    # ---- the file

    def text(self, parts: list[list[str]], chance: random.Random | None = None) -> str:
        """Returns the file with these parts in the loop over time; with a chance, some in functions of their own."""
        functions: list[str] = []
        for number, part in enumerate(parts if chance else ()):
            if chance and chance.random() < 0.7 and not re.search(r"requests|column|total", "\n".join(part)):
                written, parts[number] = self._function(f"part{number}", part, chance)
                functions += written
        swap = [f"{self.element} *other = a;", "a = b;", "b = other;"] if self._swaps else []
        body = [line for part in (*parts, swap) for line in part]
        uses = "\n".join(body)
        inside = [
            *(["MPI_Request requests[4];"] if "requests" in uses else []),
            *([f"{self.element} total = 0;"] if "total" in uses else []),
            *self._before,
            "for (int step = 0; step < 3; step++) {",
            *(f"  {line}" for line in body),
            "}",
            *self._after,
            *(["out[0] = total;"] if "total" in uses else []),
        ]
        head = list(self._head())
        region = next(number for number, line in enumerate(head) if line.startswith("void region"))
        return "\n".join([*head[:region], *functions, *head[region:], *(f"  {line}" for line in inside), "}", ""])

    def _function(self, name: str, lines: list[str], chance: random.Random) -> tuple[list[str], list[str]]:
        """Returns a function with these lines, and its call. Its names mean other things than in `region`: `a` is `b`,
        and a loop may count what is a rank there."""
        text = "\n".join(lines)
        given = {one: one for one in ("rank", "size", "nx", "ny", "nz", "up", "down", "comm")}
        if "MPI_" not in text and chance.random() < 0.5:
            counter = chance.choice(("up", "rank"))
            text = re.sub(r"\bi\b", counter, text).replace(f"for (int {counter} =", f"for ({counter} =")
            if f"for ({counter} =" in text:
                text = f"int {counter};\n{text}"
                del given[counter]
        if chance.random() < 0.5 and self._form == "flat":
            text = re.sub(r"\bnx\b", "(rows + 1)", text)
            given["rows"] = "nx - 1"
        text = re.sub(r"\b[ab](?=\[)", lambda match: "ba"["ab".index(match[0])], text)
        used = set(re.findall(r"\w+", text)) | ({"ny", "nz"} if self._form != "flat" else set())
        formals = [f"{'MPI_Comm' if one == 'comm' else 'int'} {one}" for one in given if one in used]
        actuals = [word for one, word in given.items() if one in used]
        inner = "".join(f"[{extent}]" for extent in self._extents[1:])
        for formal, actual in (("b", "a"), ("a", "b"), ("out", "out"), ("in", "in")):
            if formal in used:
                rows = self._form == "rows" and formal in "ab"
                formals.append(f"{self.element} (*{formal}){inner}" if rows else f"{self.element} *{formal}")
                actuals.append(actual)
        body = [f"  {line}" for line in text.split("\n")]
        return [f"static void {name}({', '.join(formals)}) {{", *body, "}"], [f"{name}({', '.join(actuals)});"]

    def _head(self) -> Iterator[str]:
        yield "#include <mpi.h>"
        yield ""
        if self._form == "macro":
            names = _INDICES[: self._dimensions]
            flat = "(i)"
            for name, extent in zip(names[1:], self._extents[1:], strict=True):
                flat = f"({flat} * {extent} + ({name}))"
            yield f"#define AT({', '.join(names)}) {flat}"
        yield "void region(int rank, int size, int up, int down, int nx, int ny, int nz, MPI_Comm comm,"
        inner = "".join(f"[{extent}]" for extent in self._extents[1:])
        arrays = [
            f"(*{self._restrict}{name}){inner}" if self._form == "rows" else f"*{self._restrict}{name}" for name in "ab"
        ]
        buffers = [f"*{self._restrict}{name}" for name in ("out", "in")]
        yield "            " + ", ".join(f"{self.element} {one}" for one in arrays + buffers) + ") {"
