"""Checks the valid values of a machine file that also has errors, so that the user sees all errors at once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from nearfield.base.validation_errors import KeyLocation, ValidationErrors, format_key_path, unwrap_annotation
from nearfield.machine.checks import find_contradictions
from nearfield.machine.quantity import SourcedFact, ValueFact
from nearfield.machine.schema import MachineTables


def check_valid_parts(values: dict[str, Any], error: ValidationError) -> list[str]:
    """Returns the contradictions between the valid values of a file for which validation raised `error`. Returns [] if
    `error` itself consists of contradictions, since these are then already complete."""
    causes = [one.get("ctx", {}).get("error") for one in error.errors()]
    if any(isinstance(cause, ValidationErrors) for cause in causes):
        return []
    part = _PartialMachine({one["loc"] for one in error.errors() if one["type"] != "value_error"})
    machine = part.build_model(MachineTables, values, ())
    return [*part.missing_sources, *find_contradictions(machine, is_partial=True)]


class _PartialMachine:
    """Builds pydantic models from the valid values of a file. If a value is wrong or missing, its model has no such
    attribute (not None, which would mean that the machine lacks that part)."""

    def __init__(self, wrong_locations: set[KeyLocation]) -> None:
        self.missing_sources: list[str] = []
        self._wrong_locations = wrong_locations
        self._locations_around_wrong = {location[:end] for location in wrong_locations for end in range(len(location))}

    def build_model(self, model: Any, values: Any, location: KeyLocation) -> Any:
        values = values if isinstance(values, dict) else {}
        result = model.model_construct(
            **{
                name: self._build_field(model, name, values[name], location)
                for name in model.model_fields
                if name in values
            }
        )
        for name in [
            name for name in result.__dict__ if self._is_wrong_or_missing(result.__dict__[name], (*location, name))
        ]:
            del result.__dict__[name]
        # Pydantic has not run the validator that requires a source, since it stopped at the error.
        if isinstance(result, SourcedFact) and location in self._locations_around_wrong:
            self._check_origin(result, location)
        return result

    def _build_field(self, model: type[BaseModel], name: str, value: Any, location: KeyLocation) -> Any:
        field_type, _ = unwrap_annotation(model.model_fields[name].annotation)
        if get_origin(field_type) is list and _is_table(inner := unwrap_annotation(get_args(field_type)[0])[0]):
            items = enumerate(value) if isinstance(value, list) else ()
            return [self.build_model(inner, item, (*location, name, place)) for place, item in items]
        if not _is_table(field_type):
            return value
        return _fact_without_source(field_type, value) or self.build_model(field_type, value, (*location, name))

    def _is_wrong_or_missing(self, value: Any, location: KeyLocation) -> bool:
        """Returns whether the value at this location must not become an attribute: the value is wrong or missing in the
        file, or is a list with an error. A bare number in place of a table with a source counts as valid."""
        if isinstance(value, ValueFact) and hasattr(value, "value"):
            return False
        is_plain = not isinstance(value, BaseModel) and not (
            isinstance(value, list) and value and _is_table(type(value[0]))
        )
        return location in self._wrong_locations or (is_plain and location in self._locations_around_wrong)

    def _check_origin(self, fact: SourcedFact, location: KeyLocation) -> None:
        has_origin_keys = all(hasattr(fact, name) for name in ("kind", "source", "reason", "claims"))
        if location not in self._wrong_locations and has_origin_keys and (problem := fact.describe_origin_problem()):
            self.missing_sources.append(f"{format_key_path(location)}: {problem}")


def _fact_without_source(fact_type: type[BaseModel], value: Any) -> ValueFact | None:
    """Returns the fact for a bare value, such as 64 in place of { value = 64, source = "..." }; None if the field takes
    no such value."""
    if not issubclass(fact_type, ValueFact) or isinstance(value, dict):
        return None
    with suppress(ValidationError):
        return fact_type(value=value, source="a bare value")
    return None


def _is_table(type_or_object: Any) -> bool:
    return isinstance(type_or_object, type) and issubclass(type_or_object, BaseModel)
