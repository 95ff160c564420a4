"""Proves emitted code: inserts it into the source file, parses the result, validates it, and makes patches of the
proved variants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import islpy as isl

from nearfield.rewrite.analysis.aliases import NoAliasAssumptions
from nearfield.rewrite.analysis.program import Region
from nearfield.rewrite.check.validate import NotEquivalent, Validator
from nearfield.rewrite.codegen.emit import EmittedRegion
from nearfield.rewrite.frontend.clang import TranslationUnit
from nearfield.rewrite.frontend.source import decode_source
from nearfield.rewrite.frontend.text import line_number_of
from nearfield.rewrite.model.polyhedral import PolyhedralModel
from nearfield.rewrite.model.schedule import ExecutionOrder, Transformation
from nearfield.rewrite.patch import Patch
from nearfield.rewrite.ranking import MessageCosts, expected_gain, format_benefit


@dataclass
class RewriteVariant:
    """A legal new order of a region, as source text that is not yet proved."""

    model: PolyhedralModel
    order: ExecutionOrder
    transformation: Transformation
    guard: isl.Set
    emitted: EmittedRegion
    noalias_assumptions: NoAliasAssumptions
    replaces_constants: bool
    fallback: RewriteVariant | None = None  # variant to prove instead if the proof of this one fails

    @property
    def region(self) -> Region:
        """Returns the region that the rewrite variant reorders."""
        return self.model.region

    @property
    def unchecked_assumptions(self) -> list[str]:
        """Returns the assumptions that the emitted code does not check at run time, as sentences."""
        return (
            self.noalias_assumptions.row_assumptions if self.emitted.alias_check else self.noalias_assumptions.sentences
        )


@dataclass
class Prover:
    """Proves the emitted rewrite variants of one file. `unproved_regions` has the regions without a proved variant,
    with the reason."""

    path: Path
    text: str
    unit: TranslationUnit
    costs: MessageCosts | None
    unproved_regions: list[tuple[Region, str]] = field(default_factory=list)

    def prove(self, variants: Sequence[RewriteVariant]) -> Iterator[Patch]:
        """Yields a patch for each rewrite variant whose text is proved. Each parsed text has one variant per function,
        which saves time. It is safe, since the proof of a function does not depend on the statements of other
        functions."""
        remaining = list(variants)
        while remaining:
            variant_by_function = {one.region.function: one for one in reversed(remaining)}
            variants_of_text = [one for one in remaining if variant_by_function[one.region.function] is one]
            remaining = [one for one in remaining if variant_by_function[one.region.function] is not one]
            for variant, reason in self._prove_together(variants_of_text):
                if not reason:
                    yield self._make_patch(variant)
                elif variant.fallback is not None:
                    remaining.append(variant.fallback)
                else:
                    self.unproved_regions.append((variant.region, f"the new code could not be proved: {reason}"))

    def _prove_together(self, variants: Sequence[RewriteVariant]) -> Iterator[tuple[RewriteVariant, str]]:
        """Inserts several rewrite variants into one text. Yields each variant with the reason why its proof fails; ''
        if it succeeds."""
        text, spans = self._insert_variants(variants)
        self.unit = self.unit.reparse(text)
        if self.unit.first_error and len(variants) > 1:  # one of the variants does not compile
            for one in variants:
                yield from self._prove_together([one])
            return
        for variant, (start, end) in zip(variants, spans, strict=True):
            validator = Validator(
                variant.model, self.text, variant.emitted, variant.guard, replaces_constants=variant.replaces_constants
            )
            try:
                validator.check_equivalence(self.unit, variant.region.function, start, end)
            except NotEquivalent as difference:
                yield variant, str(difference)
            else:
                yield variant, ""

    def _insert_variants(self, variants: Sequence[RewriteVariant]) -> tuple[str, list[tuple[int, int]]]:
        """Returns the file with the rewrite variants inserted, which must not overlap, and the start and end offset of
        each."""
        pieces, text_length, previous_end, span_by_variant = [], 0, 0, {}
        for one in sorted(variants, key=lambda one: one.region.start):
            start, end = replaced_span(one.region)
            pieces += [self.text[previous_end:start], text := self._commented_text(one)]
            text_length, previous_end = text_length + (start - previous_end) + len(text), end
            span_by_variant[id(one)] = (text_length - len(one.emitted.text), text_length)
        return "".join([*pieces, self.text[previous_end:]]), [span_by_variant[id(one)] for one in variants]

    def _commented_text(self, variant: RewriteVariant) -> str:
        """Returns the emitted code of a rewrite variant, with a comment that states its unchecked assumptions."""
        text, start = variant.emitted.text, replaced_span(variant.region)[0]
        return self._add_assumption_comment(variant, text, start) if variant.unchecked_assumptions else text

    def _make_patch(self, variant: RewriteVariant) -> Patch:
        """Returns the patch for a proved rewrite variant."""
        region = variant.region
        start, end = replaced_span(region)
        assumptions = list(variant.unchecked_assumptions)
        if variant.emitted.alias_check:
            pairs = variant.noalias_assumptions.disjoint_pairs
            assumptions += [
                f"{one.text} and {other.text} do not overlap, which the code checks" for one, other in pairs
            ]
        if variant.emitted.guard:
            checker = "the compiler" if variant.emitted.is_guard_asserted else "the code"
            assumptions.append(f"{variant.emitted.guard}, which {checker} checks")
        return Patch(
            self.path, decode_source(self.text), decode_source(self._insert_variants([variant])[0]), region.function,
            variant.transformation.name,
            format_benefit(variant.transformation, variant.order, region),
            (line_number_of(self.text, start), line_number_of(self.text, end)), assumptions,
            expected_gain(variant.transformation.name, region, self.costs), variant.order.description,
        )  # fmt: skip

    def _add_assumption_comment(self, variant: RewriteVariant, text: str, start: int) -> str:
        """Returns the emitted code with a comment in front that states the unchecked assumptions."""
        line = self.text.rfind("\n", 0, start) + 1
        indent = self.text[line:start] if not self.text[line:start].strip() else ""
        problem = "; ".join(variant.unchecked_assumptions)
        return f"/* This order of loops and messages needs that {problem}. */\n{indent}{text}"


def replaced_span(region: Region) -> tuple[int, int]:
    """Returns the source offsets of the text that a rewrite of the region replaces."""
    return region.items[0].pragma_offset, region.end
