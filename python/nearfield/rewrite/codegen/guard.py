"""Writes the guard of a new order, the condition under which the order is legal, as C."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from nearfield.rewrite.analysis.program import Region
from nearfield.rewrite.codegen.code import NotExpressible, c_names_of_parameters, expression_to_c
from nearfield.rewrite.model.polyhedral import PolyhedralModel


@dataclass(frozen=True, kw_only=True)
class GuardedCode:
    """Code that is executed under a guard, a C condition; '' if it always holds. `is_guard_asserted` is set if the
    compiler checks the guard."""

    guard: str
    is_guard_asserted: bool
    alias_check: str  # run-time check that pointers do not alias, tested before the guard; '' if there is none

    @property
    def condition(self) -> str:
        """Returns the condition of the `if` around the new code; '' if there is no `if`."""
        guard = "" if self.is_guard_asserted else self.guard
        wrapped = f"({guard})" if self.alias_check and ("||" in guard or "&&" in guard) else guard
        return " && ".join(part for part in (self.alias_check, wrapped) if part)


def write_guard(guard: isl.Set, model: PolyhedralModel, alias_check: str) -> GuardedCode:
    """Writes the guard of a new execution order, the condition under which the order is legal, as C. Raises
    NotExpressible if C cannot express the guard, if the values of the constants in it make it false, or if it evaluates
    an expression that may trap."""
    condition, holds = _guard_condition(guard, model), _holds_for_constants(guard, model)
    if condition and holds is False:
        raise NotExpressible("the constants have values for which the order does not hold")
    code = GuardedCode(guard=condition, is_guard_asserted=bool(condition) and bool(holds), alias_check=alias_check)
    _check_computable(code.condition, model.region)
    return code


def _guard_condition(guard: isl.Set, model: PolyhedralModel) -> str:
    """Returns a guard as a C condition; '' if it always holds."""
    simplified_guard = guard.gist(model.parameter_context).coalesce()
    if model.parameter_context.is_subset(guard):
        return ""
    build = isl.AstBuild.from_context(model.parameter_context)
    return expression_to_c(build.expr_from_set(simplified_guard), c_names_of_parameters(model.names))


def _holds_for_constants(guard: isl.Set, model: PolyhedralModel) -> bool | None:
    """Returns whether a guard holds for the values of the constants in it; None if it depends on other parameters."""
    simplified_guard = guard.gist(model.parameter_context)
    for keys, name in model.names.parameters.items():
        dimension = simplified_guard.find_dim_by_name(isl.dim_type.param, name)
        if dimension < 0 or not simplified_guard.involves_dims(isl.dim_type.param, dimension, 1):
            continue
        value = 1
        for key in keys:
            constant_value = model.region.symbols[key].constant_value
            if constant_value is None:
                return None
            value *= constant_value
        simplified_guard = simplified_guard.fix_val(isl.dim_type.param, dimension, isl.Val(value))
    return not simplified_guard.is_empty()


def _check_computable(condition: str, region: Region) -> None:
    """Raises NotExpressible if a condition evaluates an expression that may trap, such as a division, which the
    original code does not always evaluate."""
    polynomials = [
        one for nest in region.nests for loop in nest.loops[:1] for one in (*loop.lower_bounds, *loop.upper_bounds)
    ]
    for call in region.calls:
        if all(message.is_certain for message in call.messages):
            polynomials += [message.count for message in call.messages if message.count is not None]
            polynomials += [
                one for access in call.accesses if access.is_message for one in access.indices if one is not None
            ]
    always_computed_keys = {key for poly in polynomials for key in poly.keys}
    for key, symbol in region.symbols.items():
        if symbol.may_trap and key not in always_computed_keys and symbol.text in condition:
            raise NotExpressible(f"it depends on {symbol.text}, which may be computed under a condition only")
