"""Analyses one C or C++ file: finds its regions of communication, and returns every legal rewrite of each."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import islpy as isl

from nearfield.base.errors import UsageError
from nearfield.base.files import read_file
from nearfield.rewrite.accesses import unknown_call
from nearfield.rewrite.aliases import Aliases, Assumed
from nearfield.rewrite.because import joined, reason_of_order
from nearfield.rewrite.callees import Callees
from nearfield.rewrite.clang import Kind, Node, TypeKind, Unit, parse
from nearfield.rewrite.code import NotWritten
from nearfield.rewrite.cutting import Cutting, deciding, sentence
from nearfield.rewrite.elsewhere import Functions, Others
from nearfield.rewrite.emit import Emitted, Emitter
from nearfield.rewrite.function import Function
from nearfield.rewrite.languages import check_language
from nearfield.rewrite.legality import guard_of
from nearfield.rewrite.model import Model
from nearfield.rewrite.overlap import check_of
from nearfield.rewrite.parts import Order, Parts, Transformation
from nearfield.rewrite.patch import Patch, Refusal
from nearfield.rewrite.pieces import Pieces
from nearfield.rewrite.program import Barrier, Nest, Region
from nearfield.rewrite.ranking import Costs, expected_gain, ranked, reason_of
from nearfield.rewrite.regions import Reader, groups
from nearfield.rewrite.schedules import TRANSFORMATIONS
from nearfield.rewrite.text import line_of
from nearfield.rewrite.validate import Invalid, Validator

CPLUSPLUS = (".cc", ".cpp", ".cxx", ".C", ".hpp")
MOST_OPERATIONS = 1_000_000  # of isl on one region, about half a second
ILLEGAL, STANDS = "it is not legal", "it stands as"  # why an order is not kept
DEPTHS = (1, 2, 3)  # loops of a nest that may be split


@dataclass
class Analysis:
    """What was found in a file: legal variants, ranked best first within each region, and refusals by line."""

    path: Path
    patches: list[Patch] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)


def analyse(
    path: Path,
    arguments: Sequence[str],
    *,
    function: str | None = None,
    only: frozenset[str] | None = None,
    assume_noalias: Sequence[str] = (),
    costs: Costs | None = None,
    others: Others = (),
    pieces: Pieces | None = None,
    assume_alike: Sequence[str] = (),
) -> Analysis:
    """Returns the legal rewrites of a file, and why the rest stays as it is. `arguments` are those of the compiler
    (-I, -D, -std), `only` are names of transformations, `costs` those of a profile, `others` are other files of the
    program, whose functions are gone through. Messages are cut only if `pieces` say how; `assume_alike` are names that
    have the same value on all ranks. Raises UsageError if the file cannot be parsed."""
    text = read(path)
    with _no_collection():
        unit = parse(path, text, arguments)
        analyser = Analyser(path, text, unit, only, assume_noalias, costs, others, pieces, assume_alike)
        return analyser.run(function)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Lets Python not look for garbage among a million nodes that are all in use, which takes half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def read(path: Path) -> str:
    """Returns a file with one character for each byte. Raises UsageError if it is not UTF-8, cannot be read, or is in
    Fortran."""
    check_language(path)
    try:
        data = read_file(path)
        data.decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: byte {error.start}", "Convert it first, with iconv.") from error
    return data.decode("latin-1")


def plain(text: str) -> str:
    """Returns a text of `read` with its real characters."""
    return text.encode("latin-1").decode("utf-8")


@contextmanager
def limited() -> Iterator[Callable[[], bool]]:
    """Limits what isl may compute in a block. Provides a function that tells afterwards whether it was too little."""
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(MOST_OPERATIONS)
    exceeded = False
    try:
        yield lambda: exceeded
    except isl.Error:
        context.set_max_operations(0)
        context.reset_operations()
        exceeded = True
    finally:
        context.set_max_operations(0)
        context.reset_operations()


@dataclass
class Variant:
    """A legal order of a region, written but not yet proved again."""

    model: Model
    order: Order
    transformation: Transformation
    guard: isl.Set
    emitted: Emitted
    assumed: Assumed
    by_value: bool
    instead: Variant | None = None  # to be taken if this one's text is not proved

    @property
    def region(self) -> Region:
        return self.model.region

    @property
    def unchecked(self) -> list[str]:
        """Returns the assumptions that the code does not check."""
        return self.assumed.rows if self.emitted.check else self.assumed.sentences


@dataclass
class Analyser:
    """Analyses the functions of one file."""

    path: Path
    text: str
    unit: Unit
    only: frozenset[str] | None
    assumed: Sequence[str]
    costs: Costs | None
    others: Others = ()
    pieces: Pieces | None = None
    alike: Sequence[str] = ()
    inlines: bool = True  # functions of the file, where that lets their loops be split

    def __post_init__(self) -> None:
        self.functions = Functions(self.unit, self.others)
        self._variants: dict[tuple[int, str], Variant] = {}
        self._seen: set[tuple[int, ...]] = set()  # regions, by where they stand and how many loops each nest may split
        self._counts: list[str] = []  # what is taken to be the same on all ranks where messages are cut
        self._too_long: set[tuple[int, int]] = set()  # regions on which isl would take too long
        self._names: dict[int, int] = {}  # numbers of regions, by where they start
        self._refusals: dict[int, Refusal] = {}  # by line of the communication

    def run(self, function: str | None) -> Analysis:
        """Returns the analysis of one function or of all. Raises UsageError if the file has no such function."""
        nodes = [node for node in self.unit.functions if function in (None, node.name)]
        if function is not None and not nodes:
            raise UsageError(f"{self.path} defines no function {function}")
        for node in nodes:
            if self._communicates(self.functions.of(node), set()):
                self._function(node)
        bodies = self._with_bodies(nodes) if self.inlines else []
        patches = [*self._proved(), *bodies]
        changed = [patch.lines for patch in patches]
        refusals = [
            refusal
            for line, refusal in sorted({one.line: one for one in reversed(list(self._refusals.values()))}.items())
            if not any(first <= line <= last for first, last in changed)
        ]
        if not patches and not refusals:
            refusals = list(self._elsewhere(nodes)) or [self._nothing(nodes)]
        return Analysis(self.path, ranked(patches), refusals)

    def _with_bodies(self, nodes: Sequence[Node]) -> list[Patch]:
        """Returns patches for blocks that have none, with bodies of functions in place of their calls."""
        found: list[Patch] = []
        starts = {start for start, _ in self._variants}
        for node in nodes:
            callees = Callees(self.unit, self.functions, self.functions.of(node), self._again)
            for block in callees.blocks():
                if not starts & {child.offset for child in block.children}:
                    found += callees.patches(block, plain(self.text))
            for line, reason in callees.refusals:
                known = next((one for one in self._refusals.values() if one.line == line), None)
                told = f"{known.reason}; {reason}" if known is not None else reason
                key = next((key for key, one in self._refusals.items() if one is known), line)
                self._refusals[key] = Refusal(line, told, node.name, known.assumption if known is not None else "")
        return found

    def _again(self, text: str, unit: Unit, function: str) -> Analysis:
        """Returns the analysis of a function of another text, in which bodies stand in place of calls."""
        return replace(self, text=text, unit=unit, inlines=False).run(function)

    def _nothing(self, nodes: Sequence[Node]) -> Refusal:
        """Returns why there is nothing to move in a file in which nothing else was found."""
        calls = [(node, call) for node in nodes for call in self.functions.of(node).calls]
        sent = [(node, call) for node, call in calls if self.functions.messages(call)]
        if sent:
            return Refusal(sent[0][1].line, "no loop stands in one block with its messages", sent[0][0].name)
        names = dict.fromkeys(call.name for _, call in calls if call.name.startswith(("MPI_", "PMPI_")))
        if not names:
            return Refusal(1, "no function of this file calls MPI")
        node, call = next(one for one in calls if one[1].name in names)
        shown = ", ".join(list(names)[:4]) + (" and others" if len(names) > 4 else "")
        return Refusal(call.line, f"of MPI it calls {shown}, but it has no messages between two ranks", node.name)

    def _elsewhere(self, nodes: Sequence[Node]) -> Iterator[Refusal]:
        """Yields a refusal for each function that is not known and may communicate."""
        told: set[str] = set()
        for node in nodes:
            for call in self.functions.of(node).calls:
                callee = call.callee()
                library = callee is None or callee.cursor.location.is_in_system_header or "MPI_" in call.name
                if library or call.name in told or self.functions.definition(call) is not None:
                    continue
                if not any(one.type.kind == TypeKind.POINTER for one in call.children[1:]):
                    continue
                told.add(call.name)
                reason = unknown_call(call)
                made = callee.cursor.get_definition() if callee is not None else None
                if made is not None and made.location.file and made.location.file.name == self.unit.path:
                    reason = f"{call.name} is a template, in which nothing is moved"
                elif callee is not None and callee.kind == Kind.FUNCTION_DECL:
                    reason = (
                        f"{call.name} is defined in another file, so what it sends and receives is not known "
                        "(--extra-source FILE or --compile-commands FOLDER tells where it is)"
                    )
                yield Refusal(call.line, reason, node.name)

    def _communicates(self, function: Function, seen: set[str]) -> bool:
        seen.add(function.name)
        for call in function.calls:
            if call.name.startswith(("MPI_", "PMPI_")):
                return True
            inner = self.functions.definition(call)
            if inner is not None and inner.name not in seen and self._communicates(inner, seen):
                return True
        return False

    def _function(self, node: Node) -> None:
        function = self.functions.of(node)
        self._aliases = Aliases(self.functions, function, self.assumed)
        for by_value in (False, True):
            before = len(self._variants)
            constants = False
            for depth in DEPTHS:
                reader, has_more = Reader(self.unit, self.functions, function, depth, by_value), False
                for region in reader.regions():
                    constants = constants or any(symbol.value is not None for symbol in region.symbols.values())
                    has_more = has_more or any(_has_loops_inside(nest) for nest in region.nests)
                    for one in groups(region):
                        self._region(one, by_value)
                for refusal in reader.refusals:
                    self._refusals.setdefault(refusal.line, refusal)
                if not has_more:
                    break
            if len(self._variants) > before or not constants:
                return

    def _region(self, region: Region, by_value: bool) -> None:
        try:
            assumed = self._aliases.check(region)
        except Barrier as barrier:
            self._refuse(region, barrier.reason, barrier.line, _apart(barrier.assumption))
            return
        seen = (region.start, region.end, by_value, *(len(nest.loops) for nest in region.nests))
        if (region.start, region.end) in self._too_long or seen in self._seen or self._complete(region):
            return
        self._seen.add(seen)
        wanted = self._wanted()
        cutting = [one for one in wanted if one.cuts]
        if len(cutting) < len(wanted):
            with limited() as spent:
                self._reorder(region, [one for one in wanted if not one.cuts], assumed, by_value)
            if spent():
                self._too_long.add((region.start, region.end))
                known = joined(region)
                reason = f"its loops and messages are too many to decide in time{known and '; '}{known}"
                self._refuse(region, reason, region.line)
                return
        if cutting and self.pieces:
            with limited() as spent:
                self._cut(region, cutting, self.pieces, assumed, by_value)
            if spent():
                self._refuse(region, "its messages are not cut: its loops are too many to decide in time", region.line)

    def _wanted(self) -> list[Transformation]:
        return [one for one in TRANSFORMATIONS if self.only is None or one.name in self.only]

    def _complete(self, region: Region) -> bool:
        """Returns whether there is a variant of every kind already, which no other split of its loops could better."""
        deepest = max((len(nest.loops) for nest in region.nests), default=0)
        made = [self._variants.get((region.start, one.name)) for one in self._wanted() if self.pieces or not one.cuts]
        return all(one is not None and (one.order.reverse == 0 or one.order.reverse >= deepest) for one in made)

    def _cut(
        self, region: Region, wanted: Sequence[Transformation], pieces: Pieces, assumed: Assumed, by_value: bool
    ) -> None:
        """Keeps all legal orders of a region whose messages are cut."""
        at = self._requests(region).replace("requests", "at")
        try:
            region, self._counts = Cutting(self.unit, self.functions, pieces, self.alike).region(region, at)
        except Barrier as why:
            self._refuse(region, f"its messages are not cut: {why.reason}", why.line, _alike(why.assumption))
            return
        self._reorder(region, wanted, assumed, by_value)

    def _reorder(self, region: Region, wanted: Sequence[Transformation], assumed: Assumed, by_value: bool) -> None:
        """Keeps all legal orders of a region."""
        model = Model(region)
        parts = Parts(model)
        emitter = Emitter(self.text, model, cplusplus=self.path.suffix in CPLUSPLUS, requests=self._requests(region))
        found, tried, why = False, None, ""
        for transformation in wanted:
            for order in transformation.orders(parts):
                told = self._order(model, emitter, transformation, order, assumed, by_value)
                found = found or not told
                tried = tried or (order if told == ILLEGAL else None)
                why = told if why in ("", ILLEGAL) else why
                if told.startswith(STANDS):  # the region's own order is the best one; lesser ones are worse
                    break
        if found:
            return
        if why and why != ILLEGAL:
            self._refuse(region, why, region.line)
        elif model.cut:
            self._refuse(region, "its loops cannot be taken apart by the pieces of its messages", region.line)
        elif region.line not in self._refusals:  # with fewer loops, a reason was found before
            self._refuse(region, *reason_of_order(model, parts, tried))

    def _order(
        self,
        model: Model,
        emitter: Emitter,
        transformation: Transformation,
        order: Order,
        assumed: Assumed,
        by_value: bool,
    ) -> str:
        """Keeps the order if it is legal and new, or reverses more loops. Returns why it is not kept, or '' if it is or
        another of its kind."""
        key = (model.region.start, transformation.name)
        if key in self._variants and self._variants[key].order.reverse >= order.reverse:
            return ""
        guard = guard_of(model, order)
        if guard is None:
            return ILLEGAL
        if model.cut:
            names = deciding(model, guard)
            if missing := [name for name in names if name not in self.alike]:
                reason = f"whether messages are cut depends on {' and '.join(missing)}, which may differ between ranks"
                self._refuse(model.region, reason, model.region.line, _alike(",".join(missing)))
                return reason
            told = sentence(list(dict.fromkeys([*self._counts, *names])))
            assumed = replace(assumed, rows=[*assumed.rows, *([told] if told else [])])
        try:
            emitted = emitter.emit(order, guard, "" if model.cut else _check(model, assumed))
        except NotWritten as why:
            return f"{transformation.name} is legal but cannot be written: {why}"
        same = [one.emitted.text for (start, _), one in self._variants.items() if start == model.region.start]
        original = self.text[span_of(model.region)[0] : model.region.end]
        if "\r\n" in original:
            emitted.text = re.sub(r"(?<!\r)\n", "\r\n", emitted.text)
        if emitted.text in same or _moves_nothing(emitted, model.region, original):
            return f"{STANDS} {transformation.name} would have it"
        shallower = self._variants.get(key)
        self._variants[key] = Variant(model, order, transformation, guard, emitted, assumed, by_value, shallower)
        return ""

    def _requests(self, region: Region) -> str:
        """Returns a name for the region's requests that no other region and nothing in the file has."""
        number = self._names.setdefault(region.start, len(self._names) + 1)
        while True:
            name = f"nearfield_requests{number if number > 1 else ''}"
            if all(name.replace("requests", word) not in self.text for word in ("requests", "at", "count")):
                return name
            number += 100

    def _refuse(self, region: Region, reason: str, line: int, assumption: str = "") -> None:
        self._refusals.setdefault(region.line, Refusal(line, reason, region.function, assumption))

    # ---- the second proof

    def _proved(self) -> Iterator[Patch]:
        """Yields the patches whose text is proved again. To save time one text has a variant of each function, since
        functions do not depend on one another's statements."""
        waiting = list(self._variants.values())
        while waiting:
            chosen = {one.region.function: one for one in reversed(waiting)}
            together = [one for one in waiting if chosen[one.region.function] is one]
            waiting = [one for one in waiting if chosen[one.region.function] is not one]
            for variant, reason in self._proved_together(together):
                if not reason:
                    yield self._patch(variant)
                elif variant.instead is not None:
                    waiting.append(variant.instead)
                else:
                    self._refuse(variant.region, f"the new code could not be proved: {reason}", variant.region.line)

    def _proved_together(self, variants: Sequence[Variant]) -> Iterator[tuple[Variant, str]]:
        """Yields why each of several variants, which stand in one text, is not proved; '' if it is."""
        text, places = self._with(variants)
        self.unit = self.unit.reread(text)
        if self.unit.problem and len(variants) > 1:  # of one of them
            for one in variants:
                yield from self._proved_together([one])
            return
        for variant, (start, end) in zip(variants, places, strict=True):
            validator = Validator(variant.model, self.text, variant.emitted, variant.guard, by_value=variant.by_value)
            try:
                validator.check(self.unit, variant.region.function, start, end)
            except Invalid as why:
                yield variant, str(why)
            else:
                yield variant, ""

    def _with(self, variants: Sequence[Variant]) -> tuple[str, list[tuple[int, int]]]:
        """Returns the file with variants, which must not overlap, and between which offsets the code of each stands."""
        pieces, length, at, places = [], 0, 0, {}
        for one in sorted(variants, key=lambda one: one.region.start):
            start, end = span_of(one.region)
            pieces += [self.text[at:start], text := self._written(one)]
            length, at = length + (start - at) + len(text), end
            places[id(one)] = (length - len(one.emitted.text), length)
        return "".join([*pieces, self.text[at:]]), [places[id(one)] for one in variants]

    def _written(self, variant: Variant) -> str:
        """Returns the code of a variant, with a comment that has its assumptions."""
        text, start = variant.emitted.text, span_of(variant.region)[0]
        return self._assuming(variant, text, start) if variant.unchecked else text

    def _patch(self, variant: Variant) -> Patch:
        region = variant.region
        start, end = span_of(region)
        assumptions = list(variant.unchecked)
        if variant.emitted.check:
            pairs = variant.assumed.pairs
            assumptions += [
                f"{one.text} and {other.text} do not overlap, which the code checks" for one, other in pairs
            ]
        if variant.emitted.guard:
            assumptions.append(
                f"{variant.emitted.guard}, which {'the compiler' if variant.emitted.asserted else 'the code'} checks"
            )
        return Patch(
            self.path, plain(self.text), plain(self._with([variant])[0]), region.function, variant.transformation.name,
            reason_of(variant.transformation, variant.order, region),
            (line_of(self.text, start), line_of(self.text, end)), assumptions,
            expected_gain(variant.transformation.name, region, self.costs), variant.order.words,
        )  # fmt: skip

    def _assuming(self, variant: Variant, text: str, start: int) -> str:
        line = self.text.rfind("\n", 0, start) + 1
        indent = self.text[line:start] if not self.text[line:start].strip() else ""
        told = "; ".join(variant.unchecked)
        return f"/* This order of loops and messages needs that {told}. */\n{indent}{text}"


def _has_loops_inside(nest: Nest) -> bool:
    """Returns whether a nest may have more loops than those that may be split."""
    return bool(nest.loops) and any(access.loops for access in nest.accesses)


def _moves_nothing(emitted: Emitted, region: Region, original: str) -> bool:
    """Returns whether the new text has the old words, and at most statements without arrays stand elsewhere."""
    numbers = [piece if isinstance(piece, int) else piece.call for piece in emitted.pieces]
    kept = [n for n in numbers if n in region.with_arrays]
    return sorted(emitted.text.split()) == sorted(original.split()) and kept == sorted(kept)


def _check(model: Model, assumed: Assumed) -> str:
    """Returns the check that assumed pairs do not overlap; '' if none is needed, or none can be written."""
    try:
        return check_of(model, assumed.pairs)
    except NotWritten:
        return ""


def _apart(names: str) -> str:
    return f"--assume-noalias {names}" if names else ""


def _alike(names: str) -> str:
    return f"--assume-uniform {names}" if names else ""


def span_of(region: Region) -> tuple[int, int]:
    """Returns the offsets between which a region's text is replaced."""
    return region.items[0].start, region.end
