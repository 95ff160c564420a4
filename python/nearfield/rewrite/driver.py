"""Analyses one C or C++ file: finds the regions with communication, and returns every legal rewrite of each.

The file is long because one class holds what the steps of a file's analysis share, and what they record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nearfield.base.errors import UsageError
from nearfield.rewrite.analysis.aliases import AliasAnalysis, NoAliasAssumptions
from nearfield.rewrite.analysis.blocking import NO_WILDCARD_ASSUMPTION
from nearfield.rewrite.analysis.exchanges import split_exchanges
from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.analysis.no_regions import explain_no_regions, find_unknown_callees
from nearfield.rewrite.analysis.program import LoopNest, MissedOptimization, NotMovable, Region
from nearfield.rewrite.analysis.regions import RegionFinder
from nearfield.rewrite.analysis.requests import find_free_of_active_request
from nearfield.rewrite.callees import InlinableCallees
from nearfield.rewrite.codegen.code import NotExpressible
from nearfield.rewrite.codegen.emit import EmittedRegion, RegionEmitter
from nearfield.rewrite.codegen.runtime_alias_check import write_alias_check
from nearfield.rewrite.frontend.callee_lookup import OtherFiles, ProgramFunctions
from nearfield.rewrite.frontend.clang import SyntaxNode, TranslationUnit, parse_file
from nearfield.rewrite.frontend.function import FunctionFacts
from nearfield.rewrite.frontend.language import (
    file_refusal_reason,
    find_place_dependent_macro,
    is_mpi_name,
    is_refused_function,
)
from nearfield.rewrite.frontend.source import decode_source, read_source
from nearfield.rewrite.limits import disable_garbage_collection, limit_isl_operations
from nearfield.rewrite.model.chunk_sizes import ChunkSizes
from nearfield.rewrite.model.chunking import MessageChunker, format_uniform_assumption, variables_in_guard
from nearfield.rewrite.model.explain_dependence import describe_shared_array, explain_refused_order
from nearfield.rewrite.model.legality import find_guard
from nearfield.rewrite.model.polyhedral import PolyhedralModel, build_model
from nearfield.rewrite.model.schedule import DependencePartition, ExecutionOrder, Transformation
from nearfield.rewrite.model.schedules import TRANSFORMATIONS, late_wait
from nearfield.rewrite.patch import Analysis, Patch
from nearfield.rewrite.placed_patches import make_persistent_patches
from nearfield.rewrite.proof import Prover, RewriteVariant, replaced_span
from nearfield.rewrite.ranking import MessageCosts, rank_patches

CPLUSPLUS_SUFFIXES = (".cc", ".cpp", ".cxx", ".C", ".hpp")
ILLEGAL_REASON, UNCHANGED_REASON_PREFIX = "it is not legal", "it stands as"  # reasons for rejecting an order
SPLIT_DEPTHS = (1, 2, 3)  # numbers of outer loops of a nest that may be split, in the order in which they are tried


def analyze(
    path: Path,
    arguments: Sequence[str],
    *,
    function: str | None = None,
    transformation_names: frozenset[str] | None = None,
    assume_noalias: Sequence[str] = (),
    costs: MessageCosts | None = None,
    other_files: OtherFiles = (),
    chunk_sizes: ChunkSizes | None = None,
    assume_uniform: Sequence[str] = (),
) -> Analysis:
    """Returns the legal rewrites of a source file, and the reason for each place that stays unchanged. `arguments` are
    compiler options (-I, -D, -std), `transformation_names` are names of transformations (None: all but `persistent`),
    `costs` are message times of a profile, and `other_files` are the other files of the program, whose functions are
    analysed as callees. Messages are split into chunks only if `chunk_sizes` gives the sizes; `assume_uniform` are
    names that have the same value on all ranks. Raises UsageError if the file cannot be parsed."""
    text = read_source(path)
    with disable_garbage_collection():
        unit = parse_file(path, text, arguments)
        analyzer = FileAnalyzer(
            path, text, unit, transformation_names, assume_noalias, costs, other_files, chunk_sizes, assume_uniform
        )
        return analyzer.analyze_file(function)


@dataclass
class FileAnalyzer:
    """Analyses the functions of one source file, and collects the legal rewrites and the reasons for refusals."""

    path: Path
    text: str
    unit: TranslationUnit
    transformation_names: frozenset[str] | None
    assumed_noalias: Sequence[str]
    costs: MessageCosts | None
    other_files: OtherFiles = ()
    chunk_sizes: ChunkSizes | None = None
    assumed_uniform: Sequence[str] = ()
    should_inline: bool = True  # whether to inline functions whose loops could then be split

    def __post_init__(self) -> None:
        self.functions = ProgramFunctions(self.unit, self.other_files)
        self._variant_by_region_and_name: dict[tuple[int, str], RewriteVariant] = {}
        # Regions that were analysed already, as source offsets and the number of splittable loops of each nest.
        self._tried_splits: set[tuple[int, ...]] = set()
        # names assumed uniform across ranks where messages are split into chunks
        self._names_assumed_uniform: list[str] = []
        self._regions_over_limit: set[tuple[int, int]] = set()  # source offsets of regions that exceeded the isl limit
        self._region_number_by_offset: dict[int, int] = {}  # by the start offset of the region
        self._missed_by_line: dict[int, MissedOptimization] = {}  # by the line of the communication

    def analyze_file(self, function: str | None) -> Analysis:
        """Returns the analysis of one function, or of all functions if `function` is None. Raises UsageError if the
        file does not define the function."""
        reason, line = self._file_refusal_reason()
        if reason:
            return Analysis(self.path, [], [MissedOptimization(line, reason)])
        nodes = [node for node in self.unit.functions if function in (None, node.name)]
        if function is not None and not nodes:
            raise UsageError(f"{self.path} defines no function {function}")
        for node in nodes:
            if self._selected_transformations() and self._calls_mpi(self.functions.function_of(node), set()):
                self._analyze_function(node)
        inlining_patches = (
            self._make_inlining_patches(nodes) if self.should_inline and self._selected_transformations() else []
        )
        persistent_patches, missed_messages = self._make_persistent_patches(
            nodes
        )  # before the prover parses this unit again
        prover = Prover(self.path, self.text, self.unit, self.costs)
        patches = [*prover.prove(list(self._variant_by_region_and_name.values())), *inlining_patches]
        for region, reason in prover.unproved_regions:
            self._record_refusal(region, reason, region.line)
        for missed_message in missed_messages:
            self._missed_by_line.setdefault(
                missed_message.line, replace(missed_message, reason=f"no persistent request: {missed_message.reason}")
            )
        changed_lines = [patch.changed_lines for patch in patches]
        missed = [
            missed
            for line, missed in sorted(
                {
                    missed_message.line: missed_message
                    for missed_message in reversed(list(self._missed_by_line.values()))
                }.items()
            )
            if not any(first <= line <= last for first, last in changed_lines)
        ]
        if not patches and not persistent_patches and not missed:
            missed = list(find_unknown_callees(self.functions, nodes)) or [explain_no_regions(self.functions, nodes)]
        return Analysis(self.path, [*rank_patches(patches), *persistent_patches], missed)

    def _file_refusal_reason(self) -> tuple[str, int]:
        """Returns the reason why no statement of the file may be moved, and its line; ('', 0) if there is no reason."""
        mpi_definition = next((node for node in self.unit.functions if is_mpi_name(node.name)), None)
        if mpi_definition is not None:
            return f"the file defines {mpi_definition.name}, a name that belongs to MPI", mpi_definition.line
        reason, line = file_refusal_reason(decode_source(self.text))
        if reason:
            return reason, line
        headers = dict(self.unit.program_headers())
        for name, text in headers.items():
            if reason := file_refusal_reason(text, name, is_header=True)[0]:
                return reason, 1
        macro, line = find_place_dependent_macro(decode_source(self.text), headers.values())
        if macro:
            return f"the file uses {macro}, which means something else at another line or in a copy", line
        return self._refused_call_reason("##" in self.text or any("##" in text for text in headers.values()))

    def _refused_call_reason(self, has_pasted_names: bool) -> tuple[str, int]:
        """Returns the reason why a call in the file forbids moving any statement, and its line; ('', 0) if there is
        none. The names in the text were checked before. This function checks the names that macros paste together, and
        whether MPI_Request_free may free an active request."""
        functions = self.functions.functions_of_file if has_pasted_names or "Request_free" in self.text else []
        for call in [call for function in functions for call in function.calls]:
            if is_refused_function(call.name):
                return f"the file calls {call.name}, by a name that a macro makes", call.line
        if (freeing_call := find_free_of_active_request(functions)) is not None:
            return (
                f"{source_text_of(freeing_call)} may free the request of a message that is under way",
                freeing_call.line,
            )
        return "", 0

    def _make_persistent_patches(self, nodes: Sequence[SyntaxNode]) -> tuple[list[Patch], list[MissedOptimization]]:
        """Returns the patches that make messages in loops persistent, and the reasons why other messages in loops stay
        as they are. Returns none unless the user named this kind of patch, because its gain is not known."""
        if not self.should_inline or self.transformation_names is None or "persistent" not in self.transformation_names:
            return [], []
        return make_persistent_patches(self.path, self.functions, nodes, self._unique_request_array_name)

    def _make_inlining_patches(self, nodes: Sequence[SyntaxNode]) -> list[Patch]:
        """Returns patches that inline callees, for blocks of statements that have no patch otherwise."""
        patches: list[Patch] = []
        patched_offsets = {start for start, _ in self._variant_by_region_and_name}
        for node in nodes:
            callees = InlinableCallees(
                self.unit, self.functions, self.functions.function_of(node), self._analyze_inlined_text
            )
            for block in callees.candidate_blocks():
                if not patched_offsets & {child.offset for child in block.children}:
                    patches += callees.make_block_patches(block, decode_source(self.text))
            for line, reason in callees.refusal_reasons:
                recorded = next((one for one in self._missed_by_line.values() if one.line == line), None)
                combined_reason = f"{recorded.reason}; {reason}" if recorded is not None else reason
                key = next((key for key, one in self._missed_by_line.items() if one is recorded), line)
                self._missed_by_line[key] = MissedOptimization(
                    line, combined_reason, node.name, recorded.assumption if recorded is not None else ""
                )
        return patches

    def _analyze_inlined_text(self, text: str, unit: TranslationUnit, function: str) -> Analysis:
        """Returns the analysis of a function in a text with inlined callees."""
        return replace(self, text=text, unit=unit, should_inline=False).analyze_file(function)

    def _calls_mpi(self, function: FunctionFacts, visited: set[str]) -> bool:
        """Returns whether a function calls MPI, directly or in a callee. `visited` are the functions visited so far."""
        visited.add(function.name)
        for call in function.calls:
            if call.name.startswith(("MPI_", "PMPI_")):
                return True
            definition = self.functions.definition_of(call)
            if definition is not None and definition.name not in visited and self._calls_mpi(definition, visited):
                return True
        return False

    def _analyze_function(self, node: SyntaxNode) -> None:
        """Analyses one function, with one to three splittable loops per nest. If no order is legal for symbolic
        constants, tries again with the constants' values."""
        function = self.functions.function_of(node)
        self._aliases = AliasAnalysis(self.functions, function, self.assumed_noalias)
        for replaces_constants in (False, True):
            num_before = len(self._variant_by_region_and_name)
            has_constants = False
            for depth in SPLIT_DEPTHS:
                finder = RegionFinder(self.unit, self.functions, function, depth, replaces_constants)
                found, has_more = finder.find_regions(), False
                for region in found.regions:
                    has_constants = has_constants or any(
                        symbol.constant_value is not None for symbol in region.symbols.values()
                    )
                    has_more = has_more or any(_has_unsplit_loops(nest) for nest in region.nests)
                    for exchange_region in split_exchanges(region):
                        self._analyze_region(exchange_region, replaces_constants)
                for missed in found.missed:
                    self._missed_by_line.setdefault(missed.line, missed)
                if not has_more:
                    break
            if len(self._variant_by_region_and_name) > num_before or not has_constants:
                return

    def _analyze_region(self, region: Region, replaces_constants: bool) -> None:
        """Records all legal orders of a region, with whole messages and with messages in chunks, or the reason why
        there are none."""
        try:
            assumptions = self._aliases.check_region(region)
        except NotMovable as barrier:
            self._record_refusal(region, barrier.reason, barrier.line, _format_noalias_option(barrier.assumption))
            return
        split_key = (region.start, region.end, replaces_constants, *(len(nest.loops) for nest in region.nests))
        if (
            (region.start, region.end) in self._regions_over_limit
            or split_key in self._tried_splits
            or self._has_all_variants(region)
        ):
            return
        self._tried_splits.add(split_key)
        transformations = self._selected_transformations()
        chunking_transformations = [one for one in transformations if one.chunks_messages]
        if len(chunking_transformations) < len(transformations):
            with limit_isl_operations() as was_limit_exceeded:
                self._record_orders(
                    region, [one for one in transformations if not one.chunks_messages], assumptions, replaces_constants
                )
            if was_limit_exceeded():
                self._regions_over_limit.add((region.start, region.end))
                array_note = describe_shared_array(region)
                reason = f"its loops and messages are too many to decide in time{array_note and '; '}{array_note}"
                self._record_refusal(region, reason, region.line)
                return
        if chunking_transformations and self.chunk_sizes:
            with limit_isl_operations() as was_limit_exceeded:
                self._record_chunked_orders(
                    region, chunking_transformations, self.chunk_sizes, assumptions, replaces_constants
                )
            if was_limit_exceeded():
                self._record_refusal(
                    region, "its messages are not cut: its loops are too many to decide in time", region.line
                )

    def _selected_transformations(self) -> list[Transformation]:
        """Returns the orders of execution that the user selected, by default all."""
        return [
            one for one in TRANSFORMATIONS if self.transformation_names is None or one.name in self.transformation_names
        ]

    def _has_all_variants(self, region: Region) -> bool:
        """Returns whether every selected transformation already has a legal order for the region that splitting more or
        fewer loops cannot improve."""
        max_depth = max((len(nest.loops) for nest in region.nests), default=0)
        variants = [
            self._variant_by_region_and_name.get((region.start, one.name))
            for one in self._selected_transformations()
            if (self.chunk_sizes or not one.chunks_messages) and one is not late_wait.SPEC
        ]
        return bool(variants) and all(
            one is not None and (one.order.max_reversed_loops == 0 or one.order.max_reversed_loops >= max_depth)
            for one in variants
        )

    def _record_chunked_orders(
        self,
        region: Region,
        transformations: Sequence[Transformation],
        chunk_sizes: ChunkSizes,
        assumptions: NoAliasAssumptions,
        replaces_constants: bool,
    ) -> None:
        """Records all legal orders of a region with its messages split into chunks."""
        iterator_name = self._unique_request_array_name(region.start).replace("requests", "at")
        try:
            region, self._names_assumed_uniform = MessageChunker(
                self.unit, self.functions, chunk_sizes, self.assumed_uniform
            ).chunk_region(region, iterator_name)
        except NotMovable as why:
            self._record_refusal(
                region, f"its messages are not cut: {why.reason}", why.line, _format_uniform_option(why.assumption)
            )
            return
        self._record_orders(region, transformations, assumptions, replaces_constants)

    def _record_orders(
        self,
        region: Region,
        transformations: Sequence[Transformation],
        assumptions: NoAliasAssumptions,
        replaces_constants: bool,
    ) -> None:
        """Records all legal orders of a region, or the reason why there are none."""
        model = build_model(region)
        partition = DependencePartition(model)
        emitter = RegionEmitter(
            self.text,
            model,
            cplusplus=self.path.suffix in CPLUSPLUS_SUFFIXES,
            request_array_name=self._unique_request_array_name(region.start),
        )
        has_recorded_order, illegal_order, last_reason = False, None, ""
        for transformation in transformations:
            for order in transformation.find_orders(partition):
                reason = self._record_order(model, emitter, transformation, order, assumptions, replaces_constants)
                has_recorded_order = has_recorded_order or not reason
                illegal_order = illegal_order or (order if reason == ILLEGAL_REASON else None)
                last_reason = reason if last_reason in ("", ILLEGAL_REASON) else last_reason
                if reason.startswith(UNCHANGED_REASON_PREFIX):  # the original order is the best of this kind, so stop
                    break
        if has_recorded_order:
            return
        if last_reason and last_reason != ILLEGAL_REASON:
            self._record_refusal(region, last_reason, region.line)
        elif model.chunked_calls:
            self._record_refusal(region, "its loops cannot be taken apart by the pieces of its messages", region.line)
        elif region.line not in self._missed_by_line:  # a smaller depth may have recorded a reason
            self._record_refusal(region, *explain_refused_order(model, partition, illegal_order))

    def _record_order(
        self,
        model: PolyhedralModel,
        emitter: RegionEmitter,
        transformation: Transformation,
        order: ExecutionOrder,
        assumptions: NoAliasAssumptions,
        replaces_constants: bool,
    ) -> str:
        """Records an order of a region if it is legal and new, or if it reverses more loops than the recorded one.
        Returns the reason for a rejection; '' if this order, or another one of the same kind, is recorded."""
        key = (model.region.start, transformation.name)
        if (
            key in self._variant_by_region_and_name
            and self._variant_by_region_and_name[key].order.max_reversed_loops >= order.max_reversed_loops
        ):
            return ""
        guard = find_guard(model, order)
        if guard is None:
            return ILLEGAL_REASON
        if model.chunked_calls:
            names = variables_in_guard(model, guard)
            if names_to_assume := [name for name in names if name not in self.assumed_uniform]:
                listed = " and ".join(names_to_assume)
                reason = f"whether messages are cut depends on {listed}, which may differ between ranks"
                self._record_refusal(
                    model.region, reason, model.region.line, _format_uniform_option(",".join(names_to_assume))
                )
                return reason
            uniform_assumption = format_uniform_assumption(list(dict.fromkeys([*self._names_assumed_uniform, *names])))
            assumptions = replace(
                assumptions,
                row_assumptions=[*assumptions.row_assumptions, *([uniform_assumption] if uniform_assumption else [])],
            )
        try:
            emitted = emitter.emit(
                order, guard, "" if model.chunked_calls else _format_runtime_alias_check(model, assumptions)
            )
        except NotExpressible as why:
            return f"{transformation.name} is legal but cannot be written: {why}"
        if order.keeps_statements_whole and emitted.guard:
            return ILLEGAL_REASON  # illegal for some sizes
        begins_several_calls = sum(len(call.blocking_calls) for call in model.region.calls) > 1
        if (
            begins_several_calls
            and self._unique_request_array_name(model.region.start) in emitted.text
            and not self.functions.is_whole_program
        ):
            assumptions = replace(assumptions, row_assumptions=[*assumptions.row_assumptions, NO_WILDCARD_ASSUMPTION])
        recorded_texts = [
            one.emitted.text
            for (start, _), one in self._variant_by_region_and_name.items()
            if start == model.region.start
        ]
        original = self.text[replaced_span(model.region)[0] : model.region.end]
        if "\r\n" in original:
            emitted = replace(emitted, text=re.sub(r"(?<!\r)\n", "\r\n", emitted.text))
        if emitted.text in recorded_texts or _is_unchanged(emitted, model.region, original):
            return f"{UNCHANGED_REASON_PREFIX} {transformation.name} would have it"
        fallback = self._variant_by_region_and_name.get(key)
        self._variant_by_region_and_name[key] = RewriteVariant(
            model, order, transformation, guard, emitted, assumptions, replaces_constants, fallback
        )
        return ""

    def _unique_request_array_name(self, start: int) -> str:
        """Returns a name for a request array that is unique in the file, always the same for one source offset."""
        number = self._region_number_by_offset.setdefault(start, len(self._region_number_by_offset) + 1)
        while True:
            name = f"nearfield_requests{number if number > 1 else ''}"
            if all(name.replace("requests", word) not in self.text for word in ("requests", "at", "count")):
                return name
            number += 100

    def _record_refusal(self, region: Region, reason: str, line: int, assumption: str = "") -> None:
        """Records the reason why the communication of a region is not moved, unless a reason is recorded already."""
        self._missed_by_line.setdefault(region.line, MissedOptimization(line, reason, region.function, assumption))


def _has_unsplit_loops(nest: LoopNest) -> bool:
    """Returns whether a loop nest may have further loops inside the splittable ones."""
    return bool(nest.loops) and any(access.loops for access in nest.accesses)


def _is_unchanged(emitted: EmittedRegion, region: Region, original: str) -> bool:
    """Returns whether emitted code has the same tokens as the original, and moves at most statements that access no
    arrays."""
    item_numbers = [piece if isinstance(piece, int) else piece.call_number for piece in emitted.pieces]
    numbers_with_arrays = [n for n in item_numbers if n in region.items_with_arrays]
    return sorted(emitted.text.split()) == sorted(original.split()) and numbers_with_arrays == sorted(
        numbers_with_arrays
    )


def _format_runtime_alias_check(model: PolyhedralModel, assumptions: NoAliasAssumptions) -> str:
    """Returns the run-time check, as a C condition, that the array pairs assumed disjoint do not overlap; '' if it is
    not needed or cannot be written."""
    try:
        return write_alias_check(model, assumptions.disjoint_pairs)
    except NotExpressible:
        return ""


def _format_noalias_option(names: str) -> str:
    """Returns the command-line option that asserts that some arrays do not overlap; '' for no names."""
    return f"--assume-noalias {names}" if names else ""


def _format_uniform_option(names: str) -> str:
    """Returns the command-line option that asserts that some names have the same value on all ranks; '' for no
    names."""
    return f"--assume-uniform {names}" if names else ""
