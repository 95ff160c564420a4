"""The checks of an observed program, one per file. Each file exports SPEC, by which it is found: to add a check, add a
file."""

from __future__ import annotations

import importlib
import pkgutil

from nearfield.advise.rule import RuleSpec


def all_rules() -> list[RuleSpec]:
    """Returns all checks of an observed program, by rule id."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    found = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return sorted((module.SPEC for module in found if hasattr(module, "SPEC")), key=lambda spec: spec.rule.id)
