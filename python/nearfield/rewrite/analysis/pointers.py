"""The addresses of array elements."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nearfield.rewrite.analysis.polynomials import Polynomial
from nearfield.rewrite.analysis.program import BaseObject, NotMovable


@dataclass(frozen=True)
class Pointer:
    """The address of an array element, or of a row if `indices` has fewer entries than the array has dimensions.
    Pointer arithmetic changes the last index. An index of None is unknown."""

    base: BaseObject
    indices: tuple[Polynomial | None, ...]
    unknown_index_reason: str = ""
    is_reinterpreted: bool = False  # a cast changed the element type, so that the address may be that of any element

    def with_unknown_index(self) -> Pointer:
        """Returns the address with unknown indices, for a pointer that was cast to another element type."""
        index = (None,) * max(len(self.base.dimension_sizes), 1)
        return replace(
            self,
            indices=index,
            unknown_index_reason=self.unknown_index_reason or "a cast counts other elements",
            is_reinterpreted=True,
        )

    def first_element_address(self) -> Pointer:
        """Returns the address of the first element of the row, or of the memory behind the pointer, at this address."""
        return self if self.is_reinterpreted else replace(self, indices=(*self.indices, Polynomial()))

    def offset_by(self, distance: Polynomial | None, unknown_index_reason: str = "") -> Pointer:
        """Returns the address after pointer arithmetic by `distance` elements. If `distance` is None, the last index
        becomes unknown; `unknown_index_reason` says why. Raises NotMovable if the address is that of a scalar."""
        if self.is_reinterpreted:
            return self
        if not self.indices:
            raise NotMovable(f"{self.base.text} is one variable, which is used as an array", 0)
        last = self.indices[-1]
        moved = last + distance if last is not None and distance is not None else None
        return replace(
            self,
            indices=(*self.indices[:-1], moved),
            unknown_index_reason=self.unknown_index_reason or unknown_index_reason,
        )
