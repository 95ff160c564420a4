"""Selects the callees to inline so that their loops can be split, and returns patches for the orders that become
legal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from nearfield.base.errors import UsageError
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.check.inlined import InliningComparison, InliningDiffers
from nearfield.rewrite.codegen.inlining import CallSite, InlinedText, Inliner, call_site_of
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, Node, TranslationUnit
from nearfield.rewrite.frontend.function import FunctionFacts
from nearfield.rewrite.patch import Analysis, Patch

Analyse = Callable[[str, TranslationUnit, str], Analysis]  # analyses the function of this name in another text


@dataclass
class InlinableCallees:
    """The calls in one function whose callees could be inlined, in blocks with messages. `missed` are reasons against
    inlining, by line."""

    unit: TranslationUnit
    functions: ProgramFunctions
    function: FunctionFacts
    analyse: Analyse
    missed: list[tuple[int, str]] = field(default_factory=list)
    _last: tuple[tuple[Node | CallSite, ...], tuple[InlinedText, TranslationUnit]] | None = (
        None  # latest block and calls, with their result
    )

    def candidate_blocks(self) -> Iterator[Node]:
        """Yields the blocks that have messages and call a function with loops."""
        body = self.function.body
        for block in body.walk() if body is not None else ():
            if block.kind == Kind.COMPOUND_STMT and self._is_entered_at_beginning(block) and self._is_promising(block):
                yield block

    def _is_promising(self, block: Node) -> bool:
        """Returns whether a block has messages, and calls a function that has loops and sends nothing."""
        loops = (_has_loops(site) and not self._callee_communicates(site) for site in self._call_sites(block))
        return any(map(self._has_message_call, block.children)) and any(loops)

    def make_block_patches(self, block: Node, original: str) -> list[Patch]:
        """Returns patches for a block: with the callees inlined that have loops, or with all callees if that allows
        more kinds of orders. `original` is the unmodified file."""
        sites = [site for site in self._call_sites(block) if self._can_be_inlined(block, site)]
        loops = [site for site in sites if _has_loops(site) and not self._callee_communicates(site)]
        if not loops:
            return []
        found, why = self._make_patches(block, loops, original)
        if len(loops) < len(sites):
            more, other = self._make_patches(block, sites, original)
            if len({one.transformation for one in more}) > len({one.transformation for one in found}):
                found = more
            why = other or why
        if not found and why:
            names = " and ".join(dict.fromkeys(site.callee.name for site in loops))
            self.missed.append((loops[0].call.line, f"with the body of {names} in place of the call: {why}"))
        return found

    def _call_sites(self, block: Node) -> list[CallSite]:
        """Returns the calls in a block whose callees have loops or messages."""
        found = [call_site_of(child, self.functions) for child in block.children]
        return [site for site in found if site is not None and (_has_loops(site) or self._callee_communicates(site))]

    def _is_entered_at_beginning(self, block: Node) -> bool:
        """Returns whether no jump into a block skips the declarations at its beginning."""
        above = self.function.parent(block)
        return not self.function.has_label(block) and (above is None or above.kind != Kind.SWITCH_STMT)

    def _callee_communicates(self, site: CallSite) -> bool:
        """Returns whether the callee at a call site sends or receives messages."""
        return self.functions.communicates(site.call)

    def _has_message_call(self, statement: Node) -> bool:
        """Returns whether a statement sends, receives or completes a message."""
        return any(
            statement.offset <= call.offset < statement.end and self.functions.communicates(call)
            for call in self.function.calls
        )

    def _can_be_inlined(self, block: Node, site: CallSite) -> bool:
        """Returns whether a call can be inlined. If not, and the callee has loops to split, records the reason."""
        try:
            self._inline_and_prove(block, [site])
        except (NotMovable, InliningDiffers) as why:
            if _has_loops(site) and not self._callee_communicates(site):
                reason = why.reason if isinstance(why, NotMovable) else f"{site.callee.name} cannot be inlined: {why}"
                self.missed.append((site.call.line, reason))
            return False
        return True

    def _inline_and_prove(self, block: Node, sites: Sequence[CallSite]) -> tuple[InlinedText, TranslationUnit]:
        """Returns the text with the given calls inlined, which is proved equivalent, and the parsed text. The result
        for the latest calls is cached. Raises NotMovable or InliningDiffers if the calls cannot be inlined."""
        if self._last is not None and self._last[0] == (block, *sites):
            return self._last[1]
        self._last = None  # the next text reuses the parsed unit of the latest one
        text = Inliner(self.unit, self.functions, self.function, block).inline_calls(sites)
        try:
            unit = self.unit.parse_second_text(text.text)
        except UsageError as error:
            raise InliningDiffers(error.message) from error
        InliningComparison(text).check_equivalence(self.function.node, unit)
        self._last = (block, *sites), (text, unit)
        return text, unit

    def _make_patches(self, block: Node, sites: Sequence[CallSite], original: str) -> tuple[list[Patch], str]:
        """Returns patches with the given calls inlined, or the reason why there are none. A body stays inlined only if
        its statements are in the rewritten region."""
        try:
            text, unit = self._inline_and_prove(block, sites)
        except (NotMovable, InliningDiffers) as why:
            return [], str(why)
        self._last = None  # the analysis parses other texts into the same unit
        found = self.analyse(text.text, unit, self.function.name)
        by_calls: dict[tuple[int, ...], list[Patch]] = {}
        for patch in found.patches:
            inside = [n for n, (first, last) in enumerate(text.spans) if _have_common_lines(patch.lines, (first, last))]
            if inside:
                by_calls.setdefault(tuple(inside), []).append(patch)
        if not by_calls:
            return [], self._refusal_reason(text, found)
        numbers, patches = max(by_calls.items(), key=lambda one: len(one[1]))
        if len(numbers) < len(sites):
            return self._make_patches(block, [sites[n] for n in numbers], original)
        return [self._patch_of_original_file(patch, text, original) for patch in patches], ""

    @staticmethod
    def _patch_of_original_file(patch: Patch, text: InlinedText, original: str) -> Patch:
        """Converts a patch of the text with inlined calls to a patch of the unmodified file."""
        first, last = patch.lines
        lines = [text.calls[n - 1] for n in (first, last)]
        changed = [text.calls[n - 1] for span in text.spans for n in span]
        if text.declares:
            changed.append(text.declares)
        names = " and ".join(dict.fromkeys(site.callee.name for site in text.sites))
        reason = f"{patch.reason}; the body of {names} stands in place of its call"
        return replace(patch, original=original, lines=(min(*lines, *changed), max(*lines, *changed)), reason=reason)

    def _refusal_reason(self, text: InlinedText, found: Analysis) -> str:
        """Returns the reason why nothing can be moved in a block with inlined calls, with line numbers of the
        unmodified file."""
        first, last = text.spans[0][0], text.spans[-1][1]
        own = [one for one in found.missed if one.function == self.function.name]
        near = sorted(own, key=lambda one: max(first - one.line, one.line - last, 0))
        if not near:
            return ""
        reason = near[0].reason
        return re.sub(r"\blines? (\d+)", lambda match: _original_line_reference(match, text.sources), reason)


def _original_line_reference(match: re.Match[str], sources: Sequence[int]) -> str:
    """Returns the text of a line reference, with the line number of the unmodified file."""
    number = int(match[1])
    return match[0].replace(match[1], str(sources[number - 1])) if 0 < number <= len(sources) else match[0]


def _have_common_lines(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Returns whether two ranges of lines overlap."""
    return one[0] <= other[1] and other[0] <= one[1]


def _has_loops(site: CallSite) -> bool:
    """Returns whether the callee at a call site contains a `for` loop."""
    body = site.callee.body
    return body is not None and any(node.kind == Kind.FOR_STMT for node in body.walk())
