"""Finds which functions have to stand in place of their calls so that their loops can be split, and makes patches of
what is legal then."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from nearfield.base.errors import UsageError
from nearfield.rewrite.clang import Kind, Node, Unit
from nearfield.rewrite.elsewhere import Functions
from nearfield.rewrite.function import Function
from nearfield.rewrite.inlined import Comparison, Differs
from nearfield.rewrite.inlining import Inliner, Site, Text, site_of
from nearfield.rewrite.patch import Patch, Refusal
from nearfield.rewrite.program import Barrier


class Found(Protocol):
    """What the analysis of a text has found."""

    patches: list[Patch]
    refusals: list[Refusal]


Again = Callable[[str, Unit, str], Found]  # analyses a function, by its name, of another text


@dataclass
class Callees:
    """The functions that one function calls beside its messages. `refusals` are reasons by line."""

    unit: Unit
    functions: Functions
    function: Function
    again: Again
    refusals: list[tuple[int, str]] = field(default_factory=list)
    _last: tuple[tuple[Node | Site, ...], tuple[Text, Unit]] | None = None  # block, calls, and what was made of them

    def blocks(self) -> Iterator[Node]:
        """Yields the blocks in which a function with loops is called beside messages."""
        body = self.function.body
        for block in body.walk() if body is not None else ():
            if block.kind == Kind.COMPOUND_STMT and self._is_entered_above(block) and self._is_promising(block):
                yield block

    def _is_promising(self, block: Node) -> bool:
        loops = (_has_loops(site) and not self._sends(site) for site in self._sites(block))
        return any(map(self._has_message, block.children)) and any(loops)

    def patches(self, block: Node, original: str) -> list[Patch]:
        """Returns patches of a block: those with bodies in place of the calls that have loops, or of all calls if that
        allows more kinds of orders. `original` is the file as it is."""
        sites = [site for site in self._sites(block) if self._can_be_inlined(block, site)]
        loops = [site for site in sites if _has_loops(site) and not self._sends(site)]
        if not loops:
            return []
        found, why = self._made(block, loops, original)
        if len(loops) < len(sites):
            more, other = self._made(block, sites, original)
            if len({one.transformation for one in more}) > len({one.transformation for one in found}):
                found = more
            why = other or why
        if not found and why:
            names = " and ".join(dict.fromkeys(site.callee.name for site in loops))
            self.refusals.append((loops[0].call.line, f"with the body of {names} in place of the call: {why}"))
        return found

    def _sites(self, block: Node) -> list[Site]:
        found = [site_of(child, self.functions) for child in block.children]
        return [site for site in found if site is not None and (_has_loops(site) or self._sends(site))]

    def _is_entered_above(self, block: Node) -> bool:
        """Returns whether nothing jumps behind the declarations with which a block begins."""
        above = self.function.parent(block)
        return not self.function.has_label(block) and (above is None or above.kind != Kind.SWITCH_STMT)

    def _sends(self, site: Site) -> bool:
        return self.functions.messages(site.call)

    def _has_message(self, statement: Node) -> bool:
        return any(
            statement.offset <= call.offset < statement.end and self.functions.messages(call)
            for call in self.function.calls
        )

    def _can_be_inlined(self, block: Node, site: Site) -> bool:
        """Returns whether a call can be inlined; keeps the reason if not, and it has loops to be split."""
        try:
            self._proved(block, [site])
        except (Barrier, Differs) as why:
            if _has_loops(site) and not self._sends(site):
                reason = why.reason if isinstance(why, Barrier) else f"{site.callee.name} cannot be inlined: {why}"
                self.refusals.append((site.call.line, reason))
            return False
        return True

    def _proved(self, block: Node, sites: Sequence[Site]) -> tuple[Text, Unit]:
        """Returns the text with the bodies of these calls, which may be those of the last time. Raises Barrier or
        Differs."""
        if self._last is not None and self._last[0] == (block, *sites):
            return self._last[1]
        self._last = None  # its unit is used for the next text
        text = Inliner(self.unit, self.functions, self.function, block).text(sites)
        try:
            unit = self.unit.another(text.text)
        except UsageError as error:
            raise Differs(error.message) from error
        Comparison(text).check(self.function.node, unit)
        self._last = (block, *sites), (text, unit)
        return text, unit

    def _made(self, block: Node, sites: Sequence[Site], original: str) -> tuple[list[Patch], str]:
        """Returns patches with these bodies in place of calls, or why there are none. A body stays only if its
        statements are in the region that is rewritten."""
        try:
            text, unit = self._proved(block, sites)
        except (Barrier, Differs) as why:
            return [], str(why)
        self._last = None  # since what comes now reads other texts into its unit
        found = self.again(text.text, unit, self.function.name)
        kept: dict[tuple[int, ...], list[Patch]] = {}
        for patch in found.patches:
            inside = [n for n, (first, last) in enumerate(text.spans) if _meet(patch.lines, (first, last))]
            if inside:
                kept.setdefault(tuple(inside), []).append(patch)
        if not kept:
            return [], self._reason(text, found)
        numbers, patches = max(kept.items(), key=lambda one: len(one[1]))
        if len(numbers) < len(sites):
            return self._made(block, [sites[n] for n in numbers], original)
        return [self._of_file(patch, text, original) for patch in patches], ""

    @staticmethod
    def _of_file(patch: Patch, text: Text, original: str) -> Patch:
        """Returns the patch as one of the file as it is."""
        first, last = patch.lines
        lines = [text.calls[n - 1] for n in (first, last)]
        changed = [text.calls[n - 1] for span in text.spans for n in span]
        if text.declares:
            changed.append(text.declares)
        names = " and ".join(dict.fromkeys(site.callee.name for site in text.sites))
        reason = f"{patch.reason}; the body of {names} stands in place of its call"
        return replace(patch, original=original, lines=(min(*lines, *changed), max(*lines, *changed)), reason=reason)

    def _reason(self, text: Text, found: Found) -> str:
        """Returns why nothing can be moved in the block, with the lines of the file as it is."""
        first, last = text.spans[0][0], text.spans[-1][1]
        own = [one for one in found.refusals if one.function == self.function.name]
        near = sorted(own, key=lambda one: max(first - one.line, one.line - last, 0))
        if not near:
            return ""
        told = near[0].reason
        return re.sub(r"\blines? (\d+)", lambda match: _line(match, text.sources), told)


def _line(match: re.Match[str], sources: Sequence[int]) -> str:
    number = int(match[1])
    return match[0].replace(match[1], str(sources[number - 1])) if 0 < number <= len(sources) else match[0]


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _has_loops(site: Site) -> bool:
    body = site.callee.body
    return body is not None and any(node.kind == Kind.FOR_STMT for node in body.walk())
