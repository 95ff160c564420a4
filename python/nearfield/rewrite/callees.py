"""Selects the callees to inline so that their loops can be split, and returns patches for the orders that become
legal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from nearfield.base.errors import UsageError
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.check.inlined import InliningComparison, InliningDiffers
from nearfield.rewrite.codegen.call_sites import CallSite, call_site_of
from nearfield.rewrite.codegen.inlining import InlinedText, Inliner
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TranslationUnit
from nearfield.rewrite.frontend.function import FunctionFacts
from nearfield.rewrite.patch import Analysis, Patch

AnalyzeText = Callable[[str, TranslationUnit, str], Analysis]  # analyses the function of this name in another text


@dataclass
class InlinableCallees:
    """The calls in one function whose callees could be inlined, in blocks with messages. `refusal_reasons` are reasons
    against inlining, by line."""

    unit: TranslationUnit
    functions: ProgramFunctions
    function: FunctionFacts
    analyze_text: AnalyzeText
    refusal_reasons: list[tuple[int, str]] = field(default_factory=list)
    _latest_inlining: tuple[tuple[SyntaxNode | CallSite, ...], tuple[InlinedText, TranslationUnit]] | None = (
        None  # latest block and calls, with their result
    )

    def candidate_blocks(self) -> Iterator[SyntaxNode]:
        """Yields the blocks that have messages and call a function with loops."""
        body = self.function.body
        for block in body.walk() if body is not None else ():
            if (
                block.kind == Kind.COMPOUND_STMT
                and self._is_entered_at_beginning(block)
                and self._has_messages_and_loop_callees(block)
            ):
                yield block

    def _has_messages_and_loop_callees(self, block: SyntaxNode) -> bool:
        """Returns whether a block has messages, and calls a function that has loops and sends nothing."""
        has_loops = (_has_loops(site) and not self._callee_communicates(site) for site in self._call_sites(block))
        return any(map(self._has_message_call, block.children)) and any(has_loops)

    def make_block_patches(self, block: SyntaxNode, original: str) -> list[Patch]:
        """Returns patches for a block after inlining the callees that have loops, or all callees if that allows more
        kinds of orders. `original` is the unmodified file."""
        sites = [site for site in self._call_sites(block) if self._can_be_inlined(block, site)]
        sites_with_loops = [site for site in sites if _has_loops(site) and not self._callee_communicates(site)]
        if not sites_with_loops:
            return []
        patches, reason = self._make_patches(block, sites_with_loops, original)
        if len(sites_with_loops) < len(sites):
            more_patches, other_reason = self._make_patches(block, sites, original)
            if len({one.transformation for one in more_patches}) > len({one.transformation for one in patches}):
                patches = more_patches
            reason = other_reason or reason
        if not patches and reason:
            names = " and ".join(dict.fromkeys(site.callee.name for site in sites_with_loops))
            self.refusal_reasons.append(
                (sites_with_loops[0].call.line, f"with the body of {names} in place of the call: {reason}")
            )
        return patches

    def _call_sites(self, block: SyntaxNode) -> list[CallSite]:
        """Returns the calls in a block whose callees have loops or messages."""
        call_sites = [call_site_of(child, self.functions) for child in block.children]
        return [
            site for site in call_sites if site is not None and (_has_loops(site) or self._callee_communicates(site))
        ]

    def _is_entered_at_beginning(self, block: SyntaxNode) -> bool:
        """Returns whether no jump into a block skips the declarations at its beginning."""
        above = self.function.parent_of(block)
        return not self.function.contains_label(block) and (above is None or above.kind != Kind.SWITCH_STMT)

    def _callee_communicates(self, site: CallSite) -> bool:
        """Returns whether the callee at a call site sends or receives messages."""
        return self.functions.communicates(site.call)

    def _has_message_call(self, statement: SyntaxNode) -> bool:
        """Returns whether a statement sends, receives or completes a message."""
        return any(
            statement.offset <= call.offset < statement.end and self.functions.communicates(call)
            for call in self.function.calls
        )

    def _can_be_inlined(self, block: SyntaxNode, site: CallSite) -> bool:
        """Returns whether a call can be inlined. If not, and the callee has loops to split, records the reason."""
        try:
            self._inline_and_prove(block, [site])
        except (NotMovable, InliningDiffers) as why:
            if _has_loops(site) and not self._callee_communicates(site):
                reason = why.reason if isinstance(why, NotMovable) else f"{site.callee.name} cannot be inlined: {why}"
                self.refusal_reasons.append((site.call.line, reason))
            return False
        return True

    def _inline_and_prove(self, block: SyntaxNode, sites: Sequence[CallSite]) -> tuple[InlinedText, TranslationUnit]:
        """Returns the text with the given calls inlined, which is proved equivalent, and the parsed text. The result
        for the latest calls is cached. Raises NotMovable or InliningDiffers if the calls cannot be inlined."""
        if self._latest_inlining is not None and self._latest_inlining[0] == (block, *sites):
            return self._latest_inlining[1]
        self._latest_inlining = None  # the next text reuses the parsed unit of the latest one
        inlined_text = Inliner(self.unit, self.functions, self.function, block).inline_calls(sites)
        try:
            unit = self.unit.parse_second_text(inlined_text.text)
        except UsageError as error:
            raise InliningDiffers(error.message) from error
        InliningComparison(inlined_text).check_equivalence(self.function.node, unit)
        self._latest_inlining = (block, *sites), (inlined_text, unit)
        return inlined_text, unit

    def _make_patches(self, block: SyntaxNode, sites: Sequence[CallSite], original: str) -> tuple[list[Patch], str]:
        """Returns patches with the given calls inlined, or the reason why there are none. A body stays inlined only if
        its statements are in the rewritten region."""
        try:
            inlined_text, unit = self._inline_and_prove(block, sites)
        except (NotMovable, InliningDiffers) as refusal:
            return [], str(refusal)
        self._latest_inlining = None  # the analysis parses other texts into the same unit
        analysis = self.analyze_text(inlined_text.text, unit, self.function.name)
        patches_by_calls: dict[tuple[int, ...], list[Patch]] = {}
        for patch in analysis.patches:
            inlined_numbers = [
                n
                for n, (first, last) in enumerate(inlined_text.body_line_spans)
                if _line_ranges_overlap(patch.changed_lines, (first, last))
            ]
            if inlined_numbers:
                patches_by_calls.setdefault(tuple(inlined_numbers), []).append(patch)
        if not patches_by_calls:
            return [], self._refusal_reason(inlined_text, analysis)
        numbers, patches = max(patches_by_calls.items(), key=lambda one: len(one[1]))
        if len(numbers) < len(sites):
            return self._make_patches(block, [sites[n] for n in numbers], original)
        return [self._patch_of_original_file(patch, inlined_text, original) for patch in patches], ""

    @staticmethod
    def _patch_of_original_file(patch: Patch, inlined_text: InlinedText, original: str) -> Patch:
        """Converts a patch of the text with inlined calls to a patch of the unmodified file."""
        first, last = patch.changed_lines
        lines = [inlined_text.original_line_numbers[n - 1] for n in (first, last)]
        changed_lines = [
            inlined_text.original_line_numbers[n - 1] for span in inlined_text.body_line_spans for n in span
        ]
        if inlined_text.declaration_line:
            changed_lines.append(inlined_text.declaration_line)
        names = " and ".join(dict.fromkeys(site.callee.name for site in inlined_text.sites))
        reason = f"{patch.reason}; the body of {names} stands in place of its call"
        return replace(
            patch,
            original=original,
            changed_lines=(min(*lines, *changed_lines), max(*lines, *changed_lines)),
            reason=reason,
        )

    def _refusal_reason(self, inlined_text: InlinedText, analysis: Analysis) -> str:
        """Returns the reason why nothing can be moved in a block with inlined calls, with line numbers of the
        unmodified file."""
        first, last = inlined_text.body_line_spans[0][0], inlined_text.body_line_spans[-1][1]
        missed_in_function = [one for one in analysis.missed if one.function == self.function.name]
        nearest_first = sorted(missed_in_function, key=lambda one: max(first - one.line, one.line - last, 0))
        if not nearest_first:
            return ""
        reason = nearest_first[0].reason
        return re.sub(
            r"\blines? (\d+)",
            lambda match: _format_original_line_reference(match, inlined_text.callee_line_numbers),
            reason,
        )


def _format_original_line_reference(match: re.Match[str], original_lines: Sequence[int]) -> str:
    """Returns the text of a line reference, with the line number of the unmodified file."""
    number = int(match[1])
    return (
        match[0].replace(match[1], str(original_lines[number - 1])) if 0 < number <= len(original_lines) else match[0]
    )


def _line_ranges_overlap(first_range: tuple[int, int], second_range: tuple[int, int]) -> bool:
    """Returns whether two ranges of lines overlap."""
    return first_range[0] <= second_range[1] and second_range[0] <= first_range[1]


def _has_loops(site: CallSite) -> bool:
    """Returns whether the callee at a call site contains a `for` loop."""
    body = site.callee.body
    return body is not None and any(node.kind == Kind.FOR_STMT for node in body.walk())
