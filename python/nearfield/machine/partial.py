"""Finds contradictory values in a machine file that has other errors, too, so that the user learns of all errors at
once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from nearfield.base.validation_errors import Location, ValidationErrors, key_path, unwrap_annotation
from nearfield.machine.checks import problems
from nearfield.machine.quantity import Sourced, Valued
from nearfield.machine.schema import DescribedMachine


def extra_checks(values: dict[str, Any], error: ValidationError) -> list[str]:
    """Returns the findings of multi-key checks in the valid parts of a file. Returns nothing if `error` comes from
    these checks, which have then reported everything."""
    causes = [one.get("ctx", {}).get("error") for one in error.errors()]
    if any(isinstance(cause, ValidationErrors) for cause in causes):
        return []
    part = _Part({one["loc"] for one in error.errors() if one["type"] != "value_error"})
    machine = part.table(DescribedMachine, values, ())
    return [*part.without_source, *problems(machine, partial=True)]


class _Part:
    """Builds tables from the valid values of a file. A wrong or missing value is not an attribute of its table, so that
    a check cannot mistake it for an absent part of the machine."""

    def __init__(self, wrong: set[Location]) -> None:
        self.without_source: list[str] = []
        self._wrong = wrong
        self._around = {location[:end] for location in wrong for end in range(len(location))}

    def table(self, model: Any, values: Any, at: Location) -> Any:
        values = values if isinstance(values, dict) else {}
        made = model.model_construct(
            **{name: self._value(model, name, values[name], at) for name in model.model_fields if name in values}
        )
        for name in [name for name in made.__dict__ if self._is_wrong(made.__dict__[name], (*at, name))]:
            del made.__dict__[name]
        if isinstance(made, Sourced) and at in self._around:  # the schema then does not ask for its source
            self._check_source(made, at)
        return made

    def _value(self, model: type[BaseModel], name: str, value: Any, at: Location) -> Any:
        kind, _ = unwrap_annotation(model.model_fields[name].annotation)
        if get_origin(kind) is list and _is_table(inner := unwrap_annotation(get_args(kind)[0])[0]):
            items = enumerate(value) if isinstance(value, list) else ()
            return [self.table(inner, item, (*at, name, place)) for place, item in items]
        if not _is_table(kind):
            return value
        return _without_source(kind, value) or self.table(kind, value, (*at, name))

    def _is_wrong(self, made: Any, at: Location) -> bool:
        """Returns whether this value is not an attribute of its table: it is wrong or missing in the file, or is a list
        with an error. A bare number that should be a table with a source counts as valid."""
        if isinstance(made, Valued) and hasattr(made, "value"):
            return False
        plain = not isinstance(made, BaseModel) and not (isinstance(made, list) and made and _is_table(type(made[0])))
        return at in self._wrong or (plain and at in self._around)

    def _check_source(self, made: Sourced, at: Location) -> None:
        known = all(hasattr(made, name) for name in ("kind", "source", "reason", "claims"))
        if at not in self._wrong and known and (problem := made.origin_problem()):
            self.without_source.append(f"{key_path(at)}: {problem}")


def _without_source(kind: type[BaseModel], value: Any) -> Valued | None:
    """Returns the fact for a bare value, such as 64 for { value = 64, source = "..." }; None if it is not such a
    value."""
    if not issubclass(kind, Valued) or isinstance(value, dict):
        return None
    with suppress(ValidationError):
        return kind(value=value, source="a bare value")
    return None


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
