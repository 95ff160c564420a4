"""Writes an order of a region as source: calls and whole nests as they were, parts of nests as new loops."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl

from nearfield.rewrite.code import NotWritten, Style, Writer, text_of, words_of_names
from nearfield.rewrite.model import Model
from nearfield.rewrite.parts import Event, Order, Phase, Pieces, Strips
from nearfield.rewrite.pieces import Written
from nearfield.rewrite.program import NONBLOCKING, Blocking, Call, Nest
from nearfield.rewrite.text import indent_at, indent_step, reindented

_NONE = "MPI_REQUEST_NULL"
LONGEST = 100  # characters of a condition on one line


@dataclass
class Emitted:
    """New text for a region. `pieces` says in order what it consists of: numbers of items for nests, events for calls;
    `guard` is the condition under which it runs, '' if it always does."""

    text: str
    pieces: list[int | Event] = field(default_factory=list)
    guard: str = ""
    asserted: bool = False
    check: str = ""  # that pointers do not overlap, in front of the guard

    @property
    def condition(self) -> str:
        """Returns the condition of the `if` around it; '' if there is none."""
        guard = "" if self.asserted else self.guard
        wrapped = f"({guard})" if self.check and ("||" in guard or "&&" in guard) else guard
        return " && ".join(part for part in (self.check, wrapped) if part)


def requests_declared(calls: Sequence[Call], name: str) -> str:
    """Returns the declaration of the requests of calls that are begun and completed apart. Those of calls in branches
    are none at first, since they may not be begun."""
    count = sum(call.requests for call in calls)
    certain = all(call.is_plain for call in calls)
    return f"MPI_Request {name}[{count}]" + ("" if certain else f" = {{{', '.join([_NONE] * count)}}}") + ";"


class Emitter:
    """Writes orders of one region of a file."""

    def __init__(self, text: str, model: Model, *, cplusplus: bool, requests: str = "nearfield_requests") -> None:
        self._text = text
        self._model = model
        self._cplusplus = cplusplus
        self._requests = requests
        region = model.region
        self._indent = indent_at(text, region.start)
        self._step = indent_step(text)
        self._leads = self._comments()
        self._airy = any(lead.startswith("\n") for lead in self._leads.values())  # blank lines between statements

    def _comments(self) -> dict[int, str]:
        """Returns what stands between items, such as comments, by the item that follows."""
        found = {}
        items = self._model.region.items
        for number in range(1, len(items)):
            between = self._model.region.without_declarations(self._text, items[number - 1].end, items[number].lead)
            kept = between if "\n" in between.strip(" \t") else f"\n{between}"
            blank = re.match(r"[ \t]*(//[^\n]*|/\*[^\n]*?\*/)?[ \t]*\n", kept)
            found[number] = kept[blank.end() if blank and not blank[1] else 0 :].strip(" \t")
            found[number] = "\n".join(line.rstrip() for line in found[number].split("\n"))
        return found

    def emit(self, order: Order, guard: isl.Set, check: str = "") -> Emitted:
        """Returns the new text from the region's first character to its last. `check` is a further condition in C.
        Raises NotWritten."""
        made = Emitted("", check=check)
        known = self._model.names.facts([])
        condition = self._condition(guard)
        values = self._values(guard)
        made.guard, made.asserted = condition, bool(condition) and values is True
        if condition and values is False:
            raise NotWritten("the constants have values for which the order does not hold")
        self._surely_computed(made.condition)
        nested = bool(made.condition)
        indent = self._indent + (self._step if nested else "")
        context = guard.intersect(known)
        for number, item in enumerate(self._model.region.items):
            if isinstance(item, Nest):
                context = context.intersect(self._model.nest_domain(number).params())
        lines = self._steps(order, context, indent, made)
        if made.asserted:
            word = "static_assert" if self._cplusplus else "_Static_assert"
            lines.insert(0, f'{indent}{word}({condition}, "the order of this loop and its messages needs it");')
        text = "\n".join(lines).rstrip()
        if nested:
            head, between = f"{self._indent}if ({self._broken(made.condition)}) {{\n", f"\n{self._indent}}} else {{\n"
            text = f"{head}{text}{between}{self._original()}\n{self._indent}}}"
        for start, end in reversed(self._model.region.declared):
            text = f"{self._indent}{self._text[start:end]}\n{text}"
        made.text = text[len(self._indent) :] if text.startswith(self._indent) else text
        return made

    def _broken(self, condition: str) -> str:
        """Returns a long condition on several lines."""
        if len(condition) < LONGEST:
            return condition
        return condition.replace(" && ", f" &&\n{self._indent}    ")

    def _original(self) -> str:
        text = self._model.region.text(self._text)
        return reindented(text.lstrip(), self._indent, self._indent + self._step)

    # ---- the guard

    def _condition(self, guard: isl.Set) -> str:
        shown = guard.gist(self._model.context).coalesce()
        if self._model.context.is_subset(guard):
            return ""
        build = isl.AstBuild.from_context(self._model.context)
        return text_of(build.expr_from_set(shown), words_of_names(self._model.names))

    def _surely_computed(self, condition: str) -> None:
        """Raises NotWritten if a condition computes what may fail, such as a division, and the original does not always
        compute that."""
        region = self._model.region
        polys = [one for nest in region.nests for loop in nest.loops[:1] for one in (*loop.lower, *loop.upper)]
        for call in region.calls:
            if all(message.certain for message in call.messages):
                polys += [message.count for message in call.messages if message.count is not None]
                polys += [one for access in call.accesses if access.message for one in access.index if one is not None]
        always = {key for poly in polys for key in poly.keys}
        for key, symbol in region.symbols.items():
            if symbol.may_fail and key not in always and symbol.text in condition:
                raise NotWritten(f"it depends on {symbol.text}, which may be computed under a condition only")

    def _values(self, guard: isl.Set) -> bool | None:
        """Returns whether the guard holds for the values of constants; None if it depends on more than these."""
        shown = guard.gist(self._model.context)
        for keys, name in self._model.names.parameters.items():
            place = shown.find_dim_by_name(isl.dim_type.param, name)
            if place < 0 or not shown.involves_dims(isl.dim_type.param, place, 1):
                continue
            value = 1
            for key in keys:
                own = self._model.region.symbols[key].value
                if own is None:
                    return None
                value *= own
            shown = shown.fix_val(isl.dim_type.param, place, isl.Val(value))
        return not shown.is_empty()

    # ---- steps

    def _steps(self, order: Order, context: isl.Set, indent: str, made: Emitted) -> list[str]:
        lines: list[str] = []
        told: set[int] = set()
        split = [step for step in order.steps if isinstance(step, Event) and not (step.begins and step.completes)]
        for step in order.steps:
            if isinstance(step, Strips) and step.begins and not step.completes:
                lines.append(f"{indent}MPI_Request {self._declared(step)};")
        if split:
            lines.append(
                indent + requests_declared([self._call(step) for step in split if step.begins], self._requests)
            )
        waiting: list[Event] = []
        number_of_requests = 0
        for step in order.steps:
            if self._airy and lines and lines[-1] and not (isinstance(step, Phase) and self._nothing(step)):
                lines.append("")
            if isinstance(step, Event) and step.completes and not step.begins:
                waiting.append(step)
                continue
            if waiting and not (isinstance(step, Phase) and self._nothing(step)):
                lines += self._wait(waiting, number_of_requests, indent, made)
                waiting = []
            if isinstance(step, Phase):
                lines += self._phase(step, context, indent, made, told)
            elif isinstance(step, Strips):
                lines += self._strips(step, context, indent, made, told)
            elif step.completes:
                lines += self._comment(step.call, indent, told)
                lines.append(self._verbatim(step.call, indent))
                made.pieces.append(step)
            else:
                lines += self._begin(step, number_of_requests, indent, made, told)
                number_of_requests += self._call(step).requests
        if waiting:
            lines += self._wait(waiting, number_of_requests, indent, made)
        return lines

    @staticmethod
    def _nothing(phase: Phase) -> bool:
        return all(bool(some.is_empty()) for some in phase.sets.values())

    def _phase(self, phase: Phase, context: isl.Set, indent: str, made: Emitted, told: set[int]) -> list[str]:
        lines: list[str] = []
        for number, instances in sorted(phase.sets.items()):
            instances = instances.intersect_params(context)
            if instances.is_empty():
                continue
            lines += self._comment(number, indent, told)
            whole = self._model.nest_domain(number).intersect_params(context)
            nest = self._model.region.items[number]
            assert isinstance(nest, Nest)
            if not phase.reverse and instances.is_equal(whole) or not nest.loops:
                if not instances.is_equal(whole):
                    raise NotWritten("a statement without loops is executed for some parameters only")
                lines.append(self._verbatim(number, indent))
                made.pieces.append(number)
                continue
            writer = self._writer(nest)
            lines.append(writer.loops(instances, context, indent, reverse=phase.reverse))
            made.pieces += [number] * writer.written
        return lines

    def _writer(self, nest: Nest, at: Mapping[str, str] | None = None) -> Writer:
        text = self._text[nest.start : nest.end]
        body = self._text[nest.body[0] : nest.body[1]]
        style = Style.of(text[: nest.body[0] - nest.start] or text, self._step)
        return Writer(self._model.names, nest, body, indent_at(self._text, nest.body[0]), style, at or {})

    def _strips(self, step: Strips, context: isl.Set, indent: str, made: Emitted, told: set[int]) -> list[str]:
        """Returns the loop over the pieces of a call's messages."""
        written, inner = self._written(step), indent + self._step
        lines = self._comment(step.call, indent, told) if step.begins else []
        lines.append(f"{indent}{written.loop} {{")
        if step.begins:
            lines.append(f"{inner}{written.count_declared};")
        lines += self._pieces(step.before, step.call, context, inner, made, told)
        made.pieces.append(Event(step.call, step.begins, step.completes))
        lines += [f"{inner}{call}" for call in written.calls(begins=step.begins, completes=step.completes)]
        lines += self._pieces(step.after, step.call, context, inner, made, told)
        return [*lines, f"{indent}}}"]

    def _declared(self, step: Strips) -> str:
        """Returns the array of requests of a call that is cut. Raises NotWritten where C++ has none."""
        piece = self._call(step).piece
        constant = piece and all(self._model.region.symbols[key].value is not None for key in piece.count.keys)
        if self._cplusplus and not constant:
            raise NotWritten("C++ has no arrays of variable length")
        return self._written(step).requests_declared

    def _written(self, step: Strips) -> Written:
        number = [number for number, _ in self._model.cut].index(step.call)
        call = self._call(step)
        assert call.piece
        return Written(call.piece, call.exchange, f"{self._requests}{f'_{number + 1}' if number else ''}")

    def _pieces(
        self, pieces: Pieces, call: int, context: isl.Set, indent: str, made: Emitted, told: set[int]
    ) -> list[str]:
        """Returns the loops over the instances that are executed with one piece, whose first element is a parameter."""
        lines: list[str] = []
        domain = self._model.domains[call][0]
        at = self._model.region.items[call].loops[0].iterator
        name = self._model.names.iterator(at.key)
        known = domain.move_dims(isl.dim_type.param, domain.dim(isl.dim_type.param), isl.dim_type.set, 0, 1)
        known = known.set_dim_name(isl.dim_type.param, known.dim(isl.dim_type.param) - 1, name).params()
        for number, piece in sorted(pieces.items()):
            nest = self._model.region.items[number]
            assert isinstance(nest, Nest)
            place = piece.dim(isl.dim_type.param)
            of_piece = piece.move_dims(isl.dim_type.param, place, isl.dim_type.out, 0, 1)
            instances = of_piece.set_dim_name(isl.dim_type.param, place, name).domain()
            lines += self._comment(number, indent, told)
            writer = self._writer(nest, {name: at.text})
            within = context.intersect(known)
            instances = instances.intersect_params(context).gist_params(within)
            lines.append(writer.loops(instances, within, indent))
            made.pieces += [number] * writer.written
        return lines

    def _verbatim(self, number: int, indent: str) -> str:
        item = self._model.region.items[number]
        text = self._text[item.lead : item.end]
        return reindented(text.lstrip(), self._indent, indent)

    def _comment(self, number: int, indent: str, told: set[int]) -> list[str]:
        """Returns the comments in front of an item, once."""
        lead = "" if number in told else self._leads.get(number, "").strip("\n \t")
        told.add(number)
        return [f"{indent}{line.strip()}" if line.strip() else "" for line in lead.split("\n")] if lead else []

    def _begin(self, step: Event, place: int, indent: str, made: Emitted, told: set[int]) -> list[str]:
        call = self._call(step)
        made.pieces.append(step)
        lead = self._comment(step.call, indent, told)
        begun = [self._begun(one, place + number) for number, one in self._numbered(call)]
        if call.is_plain:
            return lead + [f"{indent}{line}" for line in begun[0]]
        text, last = "", call.lead
        for one, lines in zip(call.blocking, begun, strict=True):
            text += self._text[last : one.start]
            between = "\n" + indent_at(self._text, one.start)
            text += between.join(lines) if one.listed or len(lines) == 1 else f"{{ {' '.join(lines)} }}"
            last = one.end
        text += self._text[last : call.end]
        return [*lead, reindented(text.lstrip(), self._indent, indent)]

    @staticmethod
    def _numbered(call: Call) -> Iterator[tuple[int, Blocking]]:
        """Yields the blocking calls of a statement, each with the number of its first request."""
        number = 0
        for one in call.blocking:
            yield number, one
            number += len(NONBLOCKING[one.name])

    def _begun(self, call: Blocking, place: int) -> list[str]:
        """Returns the statements that begin a blocking call, whose first request is at this place."""
        return [
            f"{name}({', '.join(words)}, &{self._requests}[{place + number}]);"
            for number, (name, words) in enumerate(call.begun())
        ]

    def _wait(self, waiting: list[Event], count: int, indent: str, made: Emitted) -> list[str]:
        made.pieces += waiting
        return [f"{indent}MPI_Waitall({count}, {self._requests}, MPI_STATUSES_IGNORE);"]

    def _call(self, step: Event | Strips) -> Call:
        call = self._model.region.items[step.call]
        assert isinstance(call, Call)
        if call.unsplit:
            raise NotWritten(call.unsplit)
        return call
