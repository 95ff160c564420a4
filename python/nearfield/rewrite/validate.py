"""Reads emitted code again and proves it again: nothing of what wrote it is trusted.

The new text is parsed; each copy of a nest's body must be word for word the old one; the loops and conditions around
the copies must together give each instance once; and the order in which they stand must keep every dependence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import islpy as isl

from nearfield.rewrite.clang import Kind, Node, Unit
from nearfield.rewrite.communication import split_arguments
from nearfield.rewrite.counting import _bounds as least_bounds
from nearfield.rewrite.counting import companions, counted_loop, iterator_key
from nearfield.rewrite.cutting import pointee
from nearfield.rewrite.emit import Emitted
from nearfield.rewrite.expressions import Expressions, NotAffine
from nearfield.rewrite.function import Function
from nearfield.rewrite.model import Model, maps_of
from nearfield.rewrite.parts import Event
from nearfield.rewrite.pieces import Written, added
from nearfield.rewrite.polynomials import Poly
from nearfield.rewrite.program import Call, Loop, Nest
from nearfield.rewrite.text import group_end, same_tokens

_SENT = ("sendbuf", "sendcount", "sendtype", "dest", "sendtag")
_RECEIVED = ("recvbuf", "recvcount", "recvtype", "source", "recvtag")


class Invalid(Exception):
    """The emitted code is not proved to do the same."""


@dataclass
class Copy:
    """A piece of the emitted code: where it stands, and under which loops."""

    time: tuple[str, ...]  # numbers of statements and variables of loops, from the outermost to the innermost
    piece: int | Event = -1
    loops: list[Loop] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)  # constraints of isl
    strips: Loop | None = None  # the loop over pieces of messages in which it stands


class Validator:
    """Validates what was emitted for one region of a function."""

    def __init__(self, model: Model, original: str, emitted: Emitted, guard: isl.Set, *, by_value: bool) -> None:
        self._by_value = by_value
        self._received = ""
        self._requests: list[str] = []  # of calls that are begun and completed apart
        self._array = self._declared = ""  # where they are, and its size and first values
        self._begun_here = 0  # calls of the statement that is read which have been begun
        self._conditional = False  # some of them may not be begun
        self._model = model
        self._original = original
        self._emitted = emitted
        self._guard = guard
        self._expected = list(emitted.pieces)
        self._copies: list[Copy] = []
        self._length = 0  # the variable that has the length of a piece
        self._of_strips = -1  # the call whose pieces are counted
        self._begun: dict[str, int] = {}  # calls whose pieces have been begun, by their array of requests

    def check(self, unit: Unit, function_name: str, start: int, end: int) -> None:
        """Raises Invalid unless the code between the offsets of the new text does what the region did."""
        if problem := unit.problem:
            raise Invalid(f"the new code does not compile: {problem}")
        node = unit.function_at(function_name, start, end)
        if node is None:
            raise Invalid("the function is not found in the new code")
        self._unit = unit
        block = _block(node, start, end)
        if block is None:
            raise Invalid("the block is not found in the new code")
        statements = self._after_declarations([one for one in block.children if start <= one.offset < end])
        original = statements[0].children[2:] if self._emitted.condition and statements else []
        self._reader = Expressions(Function(node, *original), by_value=self._by_value)
        if self._emitted.condition:
            statements = self._guarded(statements)
        if self._emitted.asserted:
            if not re.match(r"(_S|s)tatic_assert\b", unit.text[statements[0].offset :]):
                raise Invalid("the assertion is not found in the new code")
            statements = statements[1:]
        for number, statement in enumerate(statements):
            self._statement(statement, Copy((str(number),)))
        if self._expected:
            raise Invalid("a part of the region is missing in the new code")
        self._calls_are_kept()
        self._instances_are_kept()
        self._order_is_kept()

    def _after_declarations(self, statements: list[Node]) -> list[Node]:
        """Returns the statements behind the region's declarations, which must come first, as they were."""
        declared = [self._original[start:end] for start, end in self._model.region.declared]
        found = [self._text(one) for one in statements[: len(declared)]]
        if len(found) != len(declared) or not all(map(same_tokens, found, declared)):
            raise Invalid("a declaration is not found in the new code")
        return statements[len(declared) :]

    def _guarded(self, statements: list[Node]) -> list[Node]:
        """Returns the statements under the guard; the others must be the original ones."""
        if len(statements) != 1 or statements[0].kind != Kind.IF_STMT or len(statements[0].children) != 3:
            raise Invalid("the guard is not found in the new code")
        self._statement_offset = statements[0].offset
        test, new, old = statements[0].children
        text = self._text(old).strip()
        if not same_tokens(text[1:-1], self._model.region.text(self._original)):
            raise Invalid("the code under 'else' is not the original one")
        meant = self._guard.gist(self._model.context)
        said = isl.Set(f"{self._head()}{{ : {self._without_check(test)} }}")
        known = self._model.context
        if not said.intersect(known).is_subset(self._guard.union(known.complement())):
            raise Invalid(f"the guard in the new code allows more than {meant}")
        return new.children

    def _without_check(self, test: Node) -> str:
        """Returns the guard's constraint, behind the check that pointers do not overlap, which must be as it was
        written. What the compiler asserts need not be in it."""
        text = self._unit.text
        start = text.index("(", self._statement_offset)
        if not same_tokens(text[start + 1 : group_end(text, start) - 1], self._emitted.condition):
            raise Invalid("the guard in the new code is not the one that was written")
        if self._emitted.asserted:
            return self._values()
        if not self._emitted.check:
            return self._test(test)
        if not self._emitted.guard:
            return "1 = 1"
        return self._test(test.bare.children[1])

    def _values(self) -> str:
        """Returns what the compiler asserts, as a constraint: the guard itself."""
        parameters = self._guard.gist(self._model.context)
        return str(parameters).split(":", 1)[1].rsplit("}", 1)[0].strip() or "1 = 1"

    # ---- reading

    def _text(self, node: Node) -> str:
        return self._unit.text[node.offset : self._unit.statement_end(node)]

    def _statement(self, node: Node, copy: Copy) -> None:
        if self._is_expected(node, copy):
            return
        if node.kind == Kind.FOR_STMT and (strips := self._strips_of(node)):
            self._strips(node, *strips, copy)
        elif node.kind == Kind.FOR_STMT:
            self._loop(node, copy)
        elif node.kind == Kind.IF_STMT:
            test, *branches = node.children
            for number, branch in enumerate(branches):
                words = self._test(test)
                words = words if number == 0 else f"not ({words})"
                self._statement(branch, replace(copy, tests=[*copy.tests, words], time=(*copy.time, str(number))))
        elif node.kind == Kind.COMPOUND_STMT:
            for number, child in enumerate(node.children):
                self._statement(child, replace(copy, time=(*copy.time, str(number))))
        elif node.kind == Kind.DECL_STMT and self._is_declared(node, copy):
            return
        else:
            raise Invalid(f"a statement is not expected in the new code: {self._text(node)[:60]}")

    def _is_expected(self, node: Node, copy: Copy) -> bool:
        if not self._expected:
            return False
        piece = self._expected[0]
        text = self._text(node)
        if isinstance(piece, Event):
            return self._is_event(node, text, piece, copy)
        nest = self._model.region.items[piece]
        assert isinstance(nest, Nest)
        alone = not copy.loops and not copy.tests and not copy.strips
        if alone and same_tokens(text, self._original[nest.start : nest.end]):
            times = (*copy.time, *(f"{'-' if loop.down else ''}c_{loop.iterator.text}" for loop in nest.loops))
            self._take(replace(copy, piece=piece, loops=nest.loops, time=times))
            return True
        if len(copy.loops) == len(nest.loops) and same_tokens(text, self._original[nest.body[0] : nest.body[1]]):
            names = [loop.iterator.text for loop in copy.loops]
            if names == [loop.iterator.text for loop in nest.loops]:
                self._take(replace(copy, piece=piece))
                return True
        return False

    def _is_event(self, node: Node, text: str, piece: Event, copy: Copy) -> bool:
        call = self._model.region.items[piece.call]
        assert isinstance(call, Call)
        if copy.loops or copy.tests:
            return False
        if call.piece or copy.strips:
            return self._is_piece(node, call, piece, copy)
        if piece.begins and piece.completes:
            if not same_tokens(text, self._original[call.start : call.end]):
                return False
            self._take(replace(copy, piece=piece))
            return True
        if piece.begins:
            return self._begins(node, call, piece, copy)
        if node.bare.kind == Kind.CALL_EXPR and node.bare.name == "MPI_Waitall":
            return self._completes(split_arguments(node.bare), copy)
        return False

    def _begins(self, node: Node, call: Call, event: Event, copy: Copy) -> bool:
        """Takes a statement that begins blocking calls: each with its arguments and the next request. One that is
        nothing but a call may be two statements; in others, all else must be word for word the original one."""
        wanted = [begun for one in call.blocking for begun in one.begun()][self._begun_here :]
        found = [one for one in node.walk() if one.kind == Kind.CALL_EXPR and one.name.startswith(("MPI_", "PMPI_"))]
        if call.is_plain:
            wanted = wanted[:1] if node.bare.kind == Kind.CALL_EXPR else []
        if not wanted or len(found) != len(wanted):
            return False
        for made, (name, arguments) in zip(found, wanted, strict=True):
            request = f"&{self._array}[{len(self._requests)}]"
            if made.name != name or split_arguments(made) != [*arguments, request]:
                return False
            self._requests.append(request)
        self._begun_here += len(wanted)
        if not call.is_plain and not same_tokens(self._with_blocking(node, call, found), self._written(call)):
            return False
        if self._begun_here == call.requests:
            self._begun_here = 0
            self._take(replace(copy, piece=event))
        self._conditional = self._conditional or not call.is_plain
        return True

    def _written(self, call: Call) -> str:
        return self._original[call.start : call.end]

    def _with_blocking(self, node: Node, call: Call, begun: Sequence[Node]) -> str:
        """Returns the text of a statement with the original blocking calls in place of those that begin them."""
        text, last, rest = "", node.offset, list(begun)
        for one in call.blocking:
            mine = [rest.pop(0) for _ in one.begun()]
            text += self._unit.text[last : mine[0].offset]
            last = self._unit.statement_end(mine[-1])
            between = self._unit.text[self._unit.statement_end(mine[0]) : mine[-1].offset] if len(mine) > 1 else ""
            original = self._original[one.start : one.end]
            if not one.listed and len(mine) > 1 and text.rstrip().endswith("{"):
                text = text.rstrip()[:-1]
                last = self._unit.text.index("}", last) + 1
            text += between.strip() + original
        return text + self._unit.text[last : self._unit.statement_end(node)]

    def _completes(self, arguments: Sequence[str], copy: Copy) -> bool:
        """Takes all messages that wait; the call must complete exactly those which were begun, and the array of
        requests must have room for them, and be empty at first where they may not be begun."""
        count = len(self._requests)
        size = int(re.sub(r"^\[(\d+)\].*", r"\1", self._declared, flags=re.DOTALL) or 0)
        declared = f"[{size}]" + (f" = {{{', '.join(['MPI_REQUEST_NULL'] * size)}}}" if self._conditional else "")
        wanted = [str(count), self._array, "MPI_STATUSES_IGNORE"]
        if arguments != wanted or self._declared != declared or size < count:
            return False
        while self._expected and isinstance(self._expected[0], Event) and not self._expected[0].begins:
            self._take(replace(copy, piece=self._expected[0]))
        return True

    # ---- pieces of messages

    def _is_declared(self, node: Node, copy: Copy) -> bool:
        """Returns whether a declaration is one that the new code needs: of requests, or of a piece's length."""
        text = self._text(node)
        if copy.loops or copy.tests:
            return False
        if not copy.strips:
            sizes = [Written(c.piece, c.exchange, "").requests_declared for _, c in self._model.cut if c.piece]
            match = re.fullmatch(r"MPI_Request (\w+)(\[.*\](?: = \{.*\})?);", text, re.DOTALL)
            self._array, self._declared = (match[1], match[2]) if match else ("", "")
            return bool(match) and (not sizes or self._declared in sizes)
        variable = node.children[0]
        try:
            bounds = least_bounds(variable.children[-1], self._reader, "<")
        except NotAffine as why:
            raise Invalid("the length of a piece is not understood") from why
        at, elements = Poly.of(copy.strips.iterator.key), Poly.number(copy.strips.step)
        if set(bounds) != {copy.strips.upper[0] - at, elements} or not text.startswith("const int "):
            raise Invalid("the length of a piece is another one")
        self._length = variable.key
        return True

    def _strips_of(self, node: Node) -> tuple[int, Call] | None:
        """Returns whose messages' pieces a loop counts, if it does."""
        for number, call in self._model.cut:
            if call.piece and re.match(rf"for \(long {call.piece.at} = ", self._text(node)):
                following = next((one.call for one in self._expected if isinstance(one, Event)), None)
                if number == following:
                    return number, call
        return None

    def _strips(self, node: Node, number: int, call: Call, copy: Copy) -> None:
        """Reads a loop over the pieces of a call's messages, which must count exactly these."""
        piece, loop = call.piece, counted_loop(node, self._reader)
        if copy.loops or copy.tests or copy.strips or isinstance(loop, str) or piece is None:
            raise Invalid("a loop over pieces is not understood")
        domain, same = self._model.domains[number][0], loop.step == piece.elements and not loop.down
        name = f"c_{loop.iterator.text}"
        counted = isl.Set(f"{self._head()}{{ {domain.get_tuple_name()}[{name}] : {self._counts(loop)} }}")
        if not same or not counted.intersect_params(self._guard).is_equal(domain.intersect_params(self._guard)):
            raise Invalid("a loop does not count the pieces of a message")
        key = iterator_key(node)
        self._reader.bound[key] = Poly.of(loop.iterator.key)
        self._length, self._of_strips = 0, number
        for place, child in enumerate(node.children[-1].children):
            self._statement(child, replace(copy, strips=loop, time=(*copy.time, name, str(place))))
        del self._reader.bound[key]

    def _is_piece(self, node: Node, call: Call, event: Event, copy: Copy) -> bool:
        """Takes a piece of a call, or half of it: its buffers, moved by the piece's first element, and its length; all
        else as it was."""
        if not call.piece or not copy.strips or self._of_strips != event.call or node.bare.kind != Kind.CALL_EXPR:
            return False
        arguments, name = split_arguments(node.bare), node.bare.name
        if event.begins and event.completes:
            wanted = ("MPI_Sendrecv", *_SENT, *_RECEIVED, "comm", "status")
            return self._is_moved(node.bare, call, wanted) and self._taken(copy, event)
        array = self._requests_of(call, arguments[-2] if name == "MPI_Waitall" else arguments[-1])
        requests = [Written(call.piece, call.exchange, array).request(which) for which in (0, 1)]
        if event.begins and name == "MPI_Irecv" and not self._received:
            same = self._is_moved(node.bare, call, (name, *_RECEIVED, "comm")) and arguments[6] == requests[0]
            self._received = array if same else ""
            return same
        if event.begins and name == "MPI_Isend" and self._received == array:
            same = self._is_moved(node.bare, call, (name, *_SENT, "comm")) and arguments[6] == requests[1]
            self._received = ""
            self._begun[array] = event.call
            return same and self._taken(copy, event)
        if not event.begins and name == "MPI_Waitall" and self._begun.get(array) == event.call:
            return arguments == ["2", requests[0], "MPI_STATUSES_IGNORE"] and self._taken(copy, event)
        return False

    def _requests_of(self, call: Call, text: str) -> str:
        """Returns the array of requests that an argument names, which no other call may use."""
        match = re.match(r"&(\w+)\[", text)
        array = match[1] if match else ""
        number = next(number for number, one in self._model.cut if one is call)
        return array if self._begun.get(array, number) == number else ""

    def _is_moved(self, node: Node, call: Call, wanted: tuple[str, ...]) -> bool:
        """Returns whether a call has these arguments of the original one, for the piece that the loop counts."""
        assert call.piece
        arguments = [Node(one, node.unit) for one in node.cursor.get_arguments()]
        texts = split_arguments(node)
        if node.name != wanted[0] or len(texts) < len(wanted) - 1:
            return False
        elements = iter([access.base.element for access in call.accesses if access.message])
        types = dict(zip(("sendbuf", "recvbuf"), elements, strict=True))
        for argument, text, name in zip(arguments, texts, wanted[1:], strict=False):
            if name in types:
                right = text == f"{added(call.exchange[name])} + {call.piece.at}" and pointee(argument) == types[name]
            elif name in ("sendcount", "recvcount"):
                declared = argument.bare.declaration
                right = declared is not None and declared.key == self._length != 0
            else:
                right = text == call.exchange[name]
            if not right:
                return False
        return True

    def _taken(self, copy: Copy, event: Event) -> bool:
        self._take(replace(copy, piece=event))
        return True

    def _take(self, copy: Copy) -> None:
        self._expected.pop(0)
        self._copies.append(copy)

    def _loop(self, node: Node, copy: Copy) -> None:
        loop = counted_loop(node, self._reader)
        if isinstance(loop, str) or companions(node):
            raise Invalid(f"a loop of the new code is not understood: {loop}")
        key = iterator_key(node)
        self._reader.bound[key] = Poly.of(loop.iterator.key)
        time = (*copy.time, f"{'-' if loop.down else ''}c_{loop.iterator.text}")
        self._statement(node.children[-1], replace(copy, loops=[*copy.loops, loop], time=time))
        del self._reader.bound[key]

    # ---- polynomials of the new code in names of the old model

    def _poly(self, poly: Poly) -> str:
        """Returns the polynomial in the model's names. Symbols of the new text are found by what they are called."""
        words = [str(poly.terms.get((), 0))]
        old = self._by_text()
        for monomial, factor in poly.terms.items():
            if not monomial:
                continue
            symbols = [self._reader.symbols[key] for key in monomial]
            if any(symbol.iterator for symbol in symbols):
                if len(symbols) > 1:
                    raise Invalid("a bound of the new code is not affine")
                words.append(f"{factor}*c_{symbols[0].text}")
                continue
            if len(symbols) == 1 and symbols[0].meaning is not None and symbols[0].text not in old:
                words.append(f"{factor}*({self._poly(symbols[0].meaning)})")
                continue
            texts = tuple(sorted(symbol.text for symbol in symbols))
            keys = [old.get(text) for text in texts]
            if any(key is None for key in keys):
                raise Invalid(f"{' '.join(texts)} is not known in the region")
            ordered = tuple(sorted(str(key) for key in keys))
            words.append(f"{factor}*{self._model.names.parameter(ordered)}")
        return " + ".join(words)

    def _by_text(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for symbol in self._model.region.symbols.values():
            if not symbol.iterator and not symbol.foreign and found.setdefault(symbol.text, symbol.key) != symbol.key:
                raise Invalid(f"{symbol.text} names two variables")
        return found

    def _test(self, node: Node) -> str:
        node = node.bare
        if node.operator in ("&&", "||"):
            left, right = (self._test(child) for child in node.children)
            return f"({left} {'and' if node.operator == '&&' else 'or'} {right})"
        if node.operator in ("<", "<=", ">", ">=", "=="):
            try:
                left, right = (self._poly(self._reader.integer(child)) for child in node.children)
            except NotAffine as why:
                raise Invalid(f"a condition of the new code is not affine: {why.reason}") from why
            return f"({left} {'=' if node.operator == '==' else node.operator} {right})"
        raise Invalid("a condition of the new code is not understood")

    def _head(self) -> str:
        return self._model.names.head()

    # ---- the three proofs

    def _calls_are_kept(self) -> None:
        for number, item in enumerate(self._model.region.items):
            if isinstance(item, Call):
                events = [c.piece for c in self._copies if isinstance(c.piece, Event) and c.piece.call == number]
                if sum(e.begins for e in events) != 1 or sum(e.completes for e in events) != 1:
                    raise Invalid("a call is not executed exactly once")

    def _instances(self, copy: Copy) -> isl.Set:
        """Returns the instances that a copy executes."""
        number = copy.piece
        assert isinstance(number, int)
        constraints = [f"({test})" for test in copy.tests]
        nest = self._model.region.items[number]
        assert isinstance(nest, Nest)
        if copy.loops and copy.loops[0] is nest.loops[0]:
            return self._model.nest_domain(number).intersect_params(self._guard)
        constraints += [self._counts(loop) for loop in copy.loops]
        dims = ", ".join(f"c_{loop.iterator.text}" for loop in copy.loops)
        name = self._model.tuple_name(number)
        if copy.strips:
            at, piece = f"c_{copy.strips.iterator.text}", " and ".join([*constraints, self._counts(copy.strips)])
            pieces = isl.Map(f"{self._head()}{{ {name}[{dims}] -> [{at}] : {piece} }}").intersect_params(self._guard)
            if not pieces.is_single_valued():
                raise Invalid("an instance of a loop is executed with two pieces")
            return pieces.domain()
        where = f" : {' and '.join(constraints)}" if constraints else ""
        return isl.Set(f"{self._head()}{{ {name}[{dims}] {where} }}").intersect_params(self._guard)

    def _counts(self, loop: Loop) -> str:
        """Returns the constraint on what a loop counts."""
        name = f"c_{loop.iterator.text}"
        constraints = [f"{name} >= {self._poly(one)}" for one in loop.lower]
        constraints += [f"{name} < {self._poly(one)}" for one in loop.upper]
        if loop.step > 1:
            constraints.append(f"exists s_{name}: {name} = {self._poly(loop.lower[0])} + {loop.step}*s_{name}")
        return " and ".join(f"({one})" for one in constraints)

    def _instances_are_kept(self) -> None:
        for number, item in enumerate(self._model.region.items):
            if not isinstance(item, Nest):
                continue
            whole = self._model.nest_domain(number).intersect_params(self._guard)
            seen = isl.Set.empty(whole.get_space())
            for copy in self._copies:
                if copy.piece == number and isinstance(copy.piece, int):
                    some = self._instances(copy)
                    if not some.intersect(seen).is_empty():
                        raise Invalid("an instance of a loop is executed twice")
                    seen = seen.union(some)
            if not seen.is_equal(whole):
                raise Invalid("the new loops do not execute the same instances")

    def _order_is_kept(self) -> None:
        longest = max(len(copy.time) for copy in self._copies) + 2
        times: dict[str, isl.Map] = {}
        for order, copy in enumerate(self._copies):
            for one in self._times(copy, order, longest):
                name = one.get_tuple_name(isl.dim_type.in_)
                times[name] = times[name].union(one) if name in times else one
        for one in maps_of(self._model.dependences.intersect_params(self._guard)):
            first, second = (times[one.get_tuple_name(side)] for side in (isl.dim_type.in_, isl.dim_type.out))
            moved = one.apply_domain(first).apply_range(second)
            if not moved.intersect(isl.Map.lex_ge(first.range().get_space())).is_empty():
                raise Invalid("the new code breaks a dependence")

    def _times(self, copy: Copy, order: int, longest: int) -> Iterator[isl.Map]:
        """Yields when a copy's instances are executed; both halves of a call have their times."""
        if isinstance(copy.piece, Event):
            names = self._model.events(copy.piece.call)
            for half, wanted in enumerate((copy.piece.begins, copy.piece.completes)):
                if wanted:
                    numbers = [*copy.time, str(order), str(half)]
                    numbers += ["0"] * (longest - len(numbers))
                    at, where = "", ""
                    if copy.strips:
                        at, where = f"c_{copy.strips.iterator.text}", f": {self._counts(copy.strips)}"
                    yield isl.Map(f"{self._head()}{{ {names[half]}[{at}] -> [{', '.join(numbers)}] {where} }}")
            return
        numbers = [*copy.time, *["0"] * (longest - len(copy.time))]
        dims = ", ".join(f"c_{loop.iterator.text}" for loop in copy.loops)
        name = self._model.tuple_name(copy.piece)
        where = ""
        if copy.strips:  # a variable of the time, which the loops' bounds tie to the instance
            counted = [*(f"({test})" for test in copy.tests), *map(self._counts, [copy.strips, *copy.loops])]
            where = f": {' and '.join(counted)}"
        made = isl.Map(f"{self._head()}{{ {name}[{dims}] -> [{', '.join(numbers)}] {where} }}")
        yield made.intersect_domain(self._instances(copy))


def _holds(node: Node, start: int, end: int) -> bool:
    return node.offset <= start and end <= node.end


def _block(node: Node, start: int, end: int) -> Node | None:
    """Returns the innermost block that holds the text between two offsets. Where a node ends is not reliable, where it
    begins is: of a node's children only those can hold it that begin last before it."""
    begun = max((child.offset for child in node.children if child.offset <= start), default=-1)
    for child in reversed(node.children):
        if child.offset == begun and (found := _block(child, start, end)):
            return found
    return node if node.kind == Kind.COMPOUND_STMT and _holds(node, start, end) else None
