"""A described machine, whose tables (schema.py) are consistent with each other (checks.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import model_validator

from nearfield.base.validation_errors import ValidationErrors
from nearfield.machine.checks import find_contradictions
from nearfield.machine.schema import MachineTables


class DescribedMachine(MachineTables):
    """A machine as described by a file of machines/ or of the user."""

    @property
    def is_simulable(self) -> bool:
        return self.core is not None

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yields only name and title, since the complete machine would be too long to print."""
        yield from (("name", self.name), ("title", self.title))

    @model_validator(mode="after")
    def _require_consistency(self) -> DescribedMachine:
        if contradictions := find_contradictions(self):
            raise ValidationErrors(contradictions)
        return self
