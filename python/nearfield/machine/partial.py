"""Checks the valid values of a machine file that also has errors, so that the user sees all errors at once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from nearfield.base.validation_errors import Location, ValidationErrors, key_path, unwrap_annotation
from nearfield.machine.checks import find_contradictions
from nearfield.machine.quantity import SourcedFact, ValueFact
from nearfield.machine.schema import DescribedMachine


def check_valid_parts(values: dict[str, Any], error: ValidationError) -> list[str]:
    """Returns the contradictions between the valid values of a file for which validation raised `error`. Returns [] if
    `error` itself consists of contradictions, since these are then already complete."""
    causes = [one.get("ctx", {}).get("error") for one in error.errors()]
    if any(isinstance(cause, ValidationErrors) for cause in causes):
        return []
    part = _PartialMachine({one["loc"] for one in error.errors() if one["type"] != "value_error"})
    machine = part.build_table(DescribedMachine, values, ())
    return [*part.missing_sources, *find_contradictions(machine, partial=True)]


class _PartialMachine:
    """Builds pydantic models from the valid values of a file. A wrong or missing value is no attribute of its model, so
    that a check cannot mistake the value for a part that the machine lacks."""

    def __init__(self, wrong: set[Location]) -> None:
        self.missing_sources: list[str] = []
        self._wrong = wrong
        self._around = {location[:end] for location in wrong for end in range(len(location))}

    def build_table(self, model: Any, values: Any, at: Location) -> Any:
        values = values if isinstance(values, dict) else {}
        made = model.model_construct(
            **{name: self._build_value(model, name, values[name], at) for name in model.model_fields if name in values}
        )
        for name in [name for name in made.__dict__ if self._is_wrong(made.__dict__[name], (*at, name))]:
            del made.__dict__[name]
        # Pydantic then has not run the validator that requires a source.
        if isinstance(made, SourcedFact) and at in self._around:
            self._check_source(made, at)
        return made

    def _build_value(self, model: type[BaseModel], name: str, value: Any, at: Location) -> Any:
        kind, _ = unwrap_annotation(model.model_fields[name].annotation)
        if get_origin(kind) is list and _is_table(inner := unwrap_annotation(get_args(kind)[0])[0]):
            items = enumerate(value) if isinstance(value, list) else ()
            return [self.build_table(inner, item, (*at, name, place)) for place, item in items]
        if not _is_table(kind):
            return value
        return _fact_without_source(kind, value) or self.build_table(kind, value, (*at, name))

    def _is_wrong(self, made: Any, at: Location) -> bool:
        """Returns whether the value at this location must not become an attribute: the value is wrong or missing in the
        file, or is a list with an error. A bare number in place of a table with a source counts as valid."""
        if isinstance(made, ValueFact) and hasattr(made, "value"):
            return False
        plain = not isinstance(made, BaseModel) and not (isinstance(made, list) and made and _is_table(type(made[0])))
        return at in self._wrong or (plain and at in self._around)

    def _check_source(self, made: SourcedFact, at: Location) -> None:
        known = all(hasattr(made, name) for name in ("kind", "source", "reason", "claims"))
        if at not in self._wrong and known and (problem := made.origin_problem()):
            self.missing_sources.append(f"{key_path(at)}: {problem}")


def _fact_without_source(kind: type[BaseModel], value: Any) -> ValueFact | None:
    """Returns the fact for a bare value, such as 64 in place of { value = 64, source = "..." }; None if the field takes
    no such value."""
    if not issubclass(kind, ValueFact) or isinstance(value, dict):
        return None
    with suppress(ValidationError):
        return kind(value=value, source="a bare value")
    return None


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
