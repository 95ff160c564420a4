"""Analyses one C or C++ file: finds the regions with communication, and returns every legal rewrite of each."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import islpy as isl

from nearfield.base.errors import UsageError
from nearfield.rewrite.analysis.aliases import AliasAnalysis, NoAliasAssumptions
from nearfield.rewrite.analysis.blocking import NO_WILDCARD
from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.analysis.no_regions import explain_no_regions, find_unknown_callees
from nearfield.rewrite.analysis.program import LoopNest, MissedOptimization, NotMovable, Region
from nearfield.rewrite.analysis.regions import RegionFinder, split_exchanges
from nearfield.rewrite.analysis.requests import find_free_of_active_request
from nearfield.rewrite.callees import InlinableCallees
from nearfield.rewrite.codegen.code import NotExpressible
from nearfield.rewrite.codegen.emit import EmittedRegion, RegionEmitter
from nearfield.rewrite.codegen.runtime_alias_check import write_alias_check
from nearfield.rewrite.frontend.callee_lookup import Others, ProgramFunctions
from nearfield.rewrite.frontend.clang import Node, TranslationUnit, parse_file
from nearfield.rewrite.frontend.function import FunctionFacts
from nearfield.rewrite.frontend.language import (
    file_refusal_reason,
    is_mpi_name,
    is_refused_function,
    place_dependent_macro,
)
from nearfield.rewrite.frontend.source import decode_source, read_source
from nearfield.rewrite.model.chunk_sizes import ChunkSizes
from nearfield.rewrite.model.chunking import MessageChunker, assumption_text, variables_in_guard
from nearfield.rewrite.model.explain_dependence import describe_shared_array, explain_refused_order
from nearfield.rewrite.model.legality import find_guard
from nearfield.rewrite.model.polyhedral import Model, build_model
from nearfield.rewrite.model.schedule import DependencePartition, ExecutionOrder, Transformation
from nearfield.rewrite.model.schedules import TRANSFORMATIONS, late_wait
from nearfield.rewrite.patch import Analysis, Patch
from nearfield.rewrite.placed_patches import make_persistent_patches
from nearfield.rewrite.proof import Prover, RewriteVariant, replaced_span
from nearfield.rewrite.ranking import MessageCosts, rank_patches

CPLUSPLUS = (".cc", ".cpp", ".cxx", ".C", ".hpp")
MAX_OPERATIONS = 1_000_000  # maximum isl operations per region, about half a second
ILLEGAL, STANDS = "it is not legal", "it stands as"  # reasons for rejecting an order
DEPTHS = (1, 2, 3)  # numbers of loops of a nest that may be split


def analyse(
    path: Path,
    arguments: Sequence[str],
    *,
    function: str | None = None,
    only: frozenset[str] | None = None,
    assume_noalias: Sequence[str] = (),
    costs: MessageCosts | None = None,
    others: Others = (),
    pieces: ChunkSizes | None = None,
    assume_uniform: Sequence[str] = (),
) -> Analysis:
    """Returns the legal rewrites of a source file, and the reason for each place that stays unchanged. `arguments` are
    compiler options (-I, -D, -std), `only` are names of transformations (None: all but `persistent`), `costs` are
    message times of a profile, and `others` are the other files of the program, whose functions are analysed as
    callees. Messages are split into chunks only if `pieces` gives the sizes; `assume_uniform` are names that have the
    same value on all ranks. Raises UsageError if the file cannot be parsed."""
    text = read_source(path)
    with _garbage_collection_off():
        unit = parse_file(path, text, arguments)
        analyser = Analyser(path, text, unit, only, assume_noalias, costs, others, pieces, assume_uniform)
        return analyser.analyse_file(function)


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Disables Python's garbage collection during a `with` block: to scan a million live syntax nodes would take half
    of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def limit_operations() -> Iterator[Callable[[], bool]]:
    """Limits the isl operations during a `with` block. Yields a function that returns, after the block, whether the
    limit was exceeded."""
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(MAX_OPERATIONS)
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
class Analyser:
    """Analyses the functions of one source file, and collects the legal rewrites and the reasons for refusals."""

    path: Path
    text: str
    unit: TranslationUnit
    only: frozenset[str] | None
    assumed: Sequence[str]
    costs: MessageCosts | None
    others: Others = ()
    pieces: ChunkSizes | None = None
    uniform: Sequence[str] = ()
    inlines: bool = True  # whether to inline functions whose loops could then be split

    def __post_init__(self) -> None:
        self.functions = ProgramFunctions(self.unit, self.others)
        self._variants: dict[tuple[int, str], RewriteVariant] = {}
        # Regions that were analysed already, as source offsets and the number of splittable loops of each nest.
        self._tried_splits: set[tuple[int, ...]] = set()
        self._uniform_names: list[str] = []  # names assumed uniform across ranks where messages are split into chunks
        self._over_limit: set[tuple[int, int]] = set()  # source offsets of regions that exceeded the isl limit
        self._names: dict[int, int] = {}  # by start offset of a region: its number
        self._missed: dict[int, MissedOptimization] = {}  # by the line of the communication

    def analyse_file(self, function: str | None) -> Analysis:
        """Returns the analysis of one function, or of all functions if `function` is None. Raises UsageError if the
        file does not define the function."""
        reason, line = self._file_refusal_reason()
        if reason:
            return Analysis(self.path, [], [MissedOptimization(line, reason)])
        nodes = [node for node in self.unit.functions if function in (None, node.name)]
        if function is not None and not nodes:
            raise UsageError(f"{self.path} defines no function {function}")
        for node in nodes:
            if self._wanted_transformations() and self._communicates(self.functions.function_of(node), set()):
                self._analyse_function(node)
        bodies = self._inline_bodies(nodes) if self.inlines and self._wanted_transformations() else []
        placed, unplaced = self._make_persistent_patches(nodes)  # before the prover parses this unit again
        prover = Prover(self.path, self.text, self.unit, self.costs)
        patches = [*prover.prove(list(self._variants.values())), *bodies]
        for region, reason in prover.unproved:
            self._record_refusal(region, reason, region.line)
        for one in unplaced:
            self._missed.setdefault(one.line, replace(one, reason=f"no persistent request: {one.reason}"))
        changed = [patch.lines for patch in patches]
        missed = [
            missed
            for line, missed in sorted({one.line: one for one in reversed(list(self._missed.values()))}.items())
            if not any(first <= line <= last for first, last in changed)
        ]
        if not patches and not placed and not missed:
            missed = list(find_unknown_callees(self.functions, nodes)) or [explain_no_regions(self.functions, nodes)]
        return Analysis(self.path, [*rank_patches(patches), *placed], missed)

    def _file_refusal_reason(self) -> tuple[str, int]:
        """Returns the reason why no statement of the file may be moved, and its line; ('', 0) if there is no reason."""
        own = next((node for node in self.unit.functions if is_mpi_name(node.name)), None)
        if own is not None:
            return f"the file defines {own.name}, a name that belongs to MPI", own.line
        reason, line = file_refusal_reason(decode_source(self.text))
        if reason:
            return reason, line
        headers = dict(self.unit.program_headers())
        for name, text in headers.items():
            if reason := file_refusal_reason(text, name, is_header=True)[0]:
                return reason, 1
        macro, line = place_dependent_macro(decode_source(self.text), headers.values())
        if macro:
            return f"the file uses {macro}, which means something else at another line or in a copy", line
        return self._refused_call_reason("##" in self.text or any("##" in text for text in headers.values()))

    def _refused_call_reason(self, has_pasted_names: bool) -> tuple[str, int]:
        """Returns the reason why calls of the file forbid to move anything, and the line; ('', 0) if none does. The
        text of the file has shown all names but those that macros paste together."""
        functions = self.functions.functions_of_file if has_pasted_names or "Request_free" in self.text else []
        for call in [call for function in functions for call in function.calls]:
            if is_refused_function(call.name):
                return f"the file calls {call.name}, by a name that a macro makes", call.line
        if (freed := find_free_of_active_request(functions)) is not None:
            return f"{source_text_of(freed)} may free the request of a message that is under way", freed.line
        return "", 0

    def _make_persistent_patches(self, nodes: Sequence[Node]) -> tuple[list[Patch], list[MissedOptimization]]:
        """Returns the patches that give messages of loops persistent requests, and the reasons for all other messages
        in loops. Returns none unless the user named this kind of patch, because its gain is not known."""
        if not self.inlines or self.only is None or "persistent" not in self.only:
            return [], []
        return make_persistent_patches(self.path, self.functions, nodes, self._unique_name)

    def _inline_bodies(self, nodes: Sequence[Node]) -> list[Patch]:
        """Returns patches that inline callees, for blocks of statements that have no patch otherwise."""
        found: list[Patch] = []
        starts = {start for start, _ in self._variants}
        for node in nodes:
            callees = InlinableCallees(
                self.unit, self.functions, self.functions.function_of(node), self._analyse_inlined
            )
            for block in callees.candidate_blocks():
                if not starts & {child.offset for child in block.children}:
                    found += callees.make_block_patches(block, decode_source(self.text))
            for line, reason in callees.missed:
                known = next((one for one in self._missed.values() if one.line == line), None)
                problem = f"{known.reason}; {reason}" if known is not None else reason
                key = next((key for key, one in self._missed.items() if one is known), line)
                self._missed[key] = MissedOptimization(
                    line, problem, node.name, known.assumption if known is not None else ""
                )
        return found

    def _analyse_inlined(self, text: str, unit: TranslationUnit, function: str) -> Analysis:
        """Returns the analysis of a function in a text with inlined callees."""
        return replace(self, text=text, unit=unit, inlines=False).analyse_file(function)

    def _communicates(self, function: FunctionFacts, seen: set[str]) -> bool:
        """Returns whether a function calls MPI, directly or in a callee. `seen` are the functions visited so far."""
        seen.add(function.name)
        for call in function.calls:
            if call.name.startswith(("MPI_", "PMPI_")):
                return True
            inner = self.functions.definition_of(call)
            if inner is not None and inner.name not in seen and self._communicates(inner, seen):
                return True
        return False

    def _analyse_function(self, node: Node) -> None:
        """Analyses one function, with one to three splittable loops per nest. If no order is legal for symbolic
        constants, tries again with the constants' values."""
        function = self.functions.function_of(node)
        self._aliases = AliasAnalysis(self.functions, function, self.assumed)
        for by_value in (False, True):
            before = len(self._variants)
            constants = False
            for depth in DEPTHS:
                reader, has_more = RegionFinder(self.unit, self.functions, function, depth, by_value), False
                for region in reader.find_regions():
                    constants = constants or any(symbol.value is not None for symbol in region.symbols.values())
                    has_more = has_more or any(_has_unsplit_loops(nest) for nest in region.nests)
                    for one in split_exchanges(region):
                        self._analyse_region(one, by_value)
                for missed in reader.missed:
                    self._missed.setdefault(missed.line, missed)
                if not has_more:
                    break
            if len(self._variants) > before or not constants:
                return

    def _analyse_region(self, region: Region, by_value: bool) -> None:
        """Records all legal orders of a region, with whole messages and with messages in chunks, or the reason why
        there are none."""
        try:
            assumed = self._aliases.check_region(region)
        except NotMovable as barrier:
            self._record_refusal(region, barrier.reason, barrier.line, _noalias_option(barrier.assumption))
            return
        seen = (region.start, region.end, by_value, *(len(nest.loops) for nest in region.nests))
        if (
            (region.start, region.end) in self._over_limit
            or seen in self._tried_splits
            or self._has_all_variants(region)
        ):
            return
        self._tried_splits.add(seen)
        wanted = self._wanted_transformations()
        chunking = [one for one in wanted if one.chunks_messages]
        if len(chunking) < len(wanted):
            with limit_operations() as spent:
                self._reorder(region, [one for one in wanted if not one.chunks_messages], assumed, by_value)
            if spent():
                self._over_limit.add((region.start, region.end))
                known = describe_shared_array(region)
                reason = f"its loops and messages are too many to decide in time{known and '; '}{known}"
                self._record_refusal(region, reason, region.line)
                return
        if chunking and self.pieces:
            with limit_operations() as spent:
                self._reorder_chunked(region, chunking, self.pieces, assumed, by_value)
            if spent():
                self._record_refusal(
                    region, "its messages are not cut: its loops are too many to decide in time", region.line
                )

    def _wanted_transformations(self) -> list[Transformation]:
        """Returns the orders of execution that the user selected, by default all."""
        return [one for one in TRANSFORMATIONS if self.only is None or one.name in self.only]

    def _has_all_variants(self, region: Region) -> bool:
        """Returns whether the region already has a legal order of every kind of transformation that no other loop split
        can improve."""
        deepest = max((len(nest.loops) for nest in region.nests), default=0)
        made = [
            self._variants.get((region.start, one.name))
            for one in self._wanted_transformations()
            if (self.pieces or not one.chunks_messages) and one is not late_wait.SPEC
        ]
        return bool(made) and all(
            one is not None and (one.order.max_reversed_loops == 0 or one.order.max_reversed_loops >= deepest)
            for one in made
        )

    def _reorder_chunked(
        self,
        region: Region,
        wanted: Sequence[Transformation],
        pieces: ChunkSizes,
        assumed: NoAliasAssumptions,
        by_value: bool,
    ) -> None:
        """Records all legal orders of a region with its messages split into chunks."""
        at = self._unique_name(region.start).replace("requests", "at")
        try:
            region, self._uniform_names = MessageChunker(self.unit, self.functions, pieces, self.uniform).chunk_region(
                region, at
            )
        except NotMovable as why:
            self._record_refusal(
                region, f"its messages are not cut: {why.reason}", why.line, _uniform_option(why.assumption)
            )
            return
        self._reorder(region, wanted, assumed, by_value)

    def _reorder(
        self, region: Region, wanted: Sequence[Transformation], assumed: NoAliasAssumptions, by_value: bool
    ) -> None:
        """Records all legal orders of a region, or the reason why there are none."""
        model = build_model(region)
        partition = DependencePartition(model)
        emitter = RegionEmitter(
            self.text, model, cplusplus=self.path.suffix in CPLUSPLUS, requests=self._unique_name(region.start)
        )
        found, tried, why = False, None, ""
        for transformation in wanted:
            for order in transformation.orders(partition):
                problem = self._try_order(model, emitter, transformation, order, assumed, by_value)
                found = found or not problem
                tried = tried or (order if problem == ILLEGAL else None)
                why = problem if why in ("", ILLEGAL) else why
                if problem.startswith(STANDS):  # the original order is the best of this kind, so stop
                    break
        if found:
            return
        if why and why != ILLEGAL:
            self._record_refusal(region, why, region.line)
        elif model.chunked_calls:
            self._record_refusal(region, "its loops cannot be taken apart by the pieces of its messages", region.line)
        elif region.line not in self._missed:  # a smaller depth may have recorded a reason
            self._record_refusal(region, *explain_refused_order(model, partition, tried))

    def _try_order(
        self,
        model: Model,
        emitter: RegionEmitter,
        transformation: Transformation,
        order: ExecutionOrder,
        assumed: NoAliasAssumptions,
        by_value: bool,
    ) -> str:
        """Records an order of a region if it is legal and new, or if it reverses more loops than the recorded one.
        Returns the reason for a rejection; '' if this order, or another one of the same kind, is recorded."""
        key = (model.region.start, transformation.name)
        if key in self._variants and self._variants[key].order.max_reversed_loops >= order.max_reversed_loops:
            return ""
        guard = find_guard(model, order)
        if guard is None:
            return ILLEGAL
        if model.chunked_calls:
            names = variables_in_guard(model, guard)
            if missing := [name for name in names if name not in self.uniform]:
                reason = f"whether messages are cut depends on {' and '.join(missing)}, which may differ between ranks"
                self._record_refusal(model.region, reason, model.region.line, _uniform_option(",".join(missing)))
                return reason
            problem = assumption_text(list(dict.fromkeys([*self._uniform_names, *names])))
            assumed = replace(assumed, rows=[*assumed.rows, *([problem] if problem else [])])
        try:
            emitted = emitter.emit(order, guard, "" if model.chunked_calls else _runtime_alias_check(model, assumed))
        except NotExpressible as why:
            return f"{transformation.name} is legal but cannot be written: {why}"
        if order.whole_statements and emitted.guard:
            return ILLEGAL  # for some sizes
        begun_together = sum(len(call.blocking) for call in model.region.calls) > 1
        if (
            begun_together
            and self._unique_name(model.region.start) in emitted.text
            and not self.functions.is_whole_program
        ):
            assumed = replace(assumed, rows=[*assumed.rows, NO_WILDCARD])
        same = [one.emitted.text for (start, _), one in self._variants.items() if start == model.region.start]
        original = self.text[replaced_span(model.region)[0] : model.region.end]
        if "\r\n" in original:
            emitted.text = re.sub(r"(?<!\r)\n", "\r\n", emitted.text)
        if emitted.text in same or _moves_nothing(emitted, model.region, original):
            return f"{STANDS} {transformation.name} would have it"
        shallower = self._variants.get(key)
        self._variants[key] = RewriteVariant(model, order, transformation, guard, emitted, assumed, by_value, shallower)
        return ""

    def _unique_name(self, start: int) -> str:
        """Returns a name for a request array that is unique in the file, always the same for one source offset."""
        number = self._names.setdefault(start, len(self._names) + 1)
        while True:
            name = f"nearfield_requests{number if number > 1 else ''}"
            if all(name.replace("requests", word) not in self.text for word in ("requests", "at", "count")):
                return name
            number += 100

    def _record_refusal(self, region: Region, reason: str, line: int, assumption: str = "") -> None:
        """Records the reason why the communication of a region is not moved, unless a reason is recorded already."""
        self._missed.setdefault(region.line, MissedOptimization(line, reason, region.function, assumption))


def _has_unsplit_loops(nest: LoopNest) -> bool:
    """Returns whether a loop nest may have further loops inside the splittable ones."""
    return bool(nest.loops) and any(access.loops for access in nest.accesses)


def _moves_nothing(emitted: EmittedRegion, region: Region, original: str) -> bool:
    """Returns whether emitted code has the same tokens as the original, and moves at most statements that access no
    arrays."""
    numbers = [piece if isinstance(piece, int) else piece.call for piece in emitted.pieces]
    order = [n for n in numbers if n in region.items_with_arrays]
    return sorted(emitted.text.split()) == sorted(original.split()) and order == sorted(order)


def _runtime_alias_check(model: Model, assumed: NoAliasAssumptions) -> str:
    """Returns the run-time check, as a C condition, that the array pairs assumed disjoint do not overlap; '' if it is
    not needed or cannot be written."""
    try:
        return write_alias_check(model, assumed.pairs)
    except NotExpressible:
        return ""


def _noalias_option(names: str) -> str:
    """Returns the command-line option that asserts that some arrays do not overlap; '' for no names."""
    return f"--assume-noalias {names}" if names else ""


def _uniform_option(names: str) -> str:
    """Returns the command-line option that asserts that some names have the same value on all ranks; '' for no
    names."""
    return f"--assume-uniform {names}" if names else ""
