"""Formats the numbers of curves, and the values of the curves' parameters, as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nearfield.base.units import FORMATTER_BY_UNIT, format_bytes


def _format_three_digits(value: float) -> str:
    """Returns the number with three significant digits, without an exponent where possible."""
    return f"{float(f'{value:.3g}'):g}"


BYTE_PARAMETERS = ("size_bytes", "load_bytes", "whole_bytes")
NUMBER_FORMATTERS: Mapping[str, Callable[[float], str]] = {
    "gain": lambda y: f"{_format_three_digits(100 * y)} %",
    "factor": lambda y: f"{_format_three_digits(y)}x",
    "mb_per_s": lambda y: f"{_format_three_digits(y)} MB/s",
    "per_line": lambda y: f"{y:.2g} a line",
    **FORMATTER_BY_UNIT,
}


def parameter_formatter(parameter: str) -> Callable[[float], str]:
    """Returns a formatter for the values of a curve's parameter."""
    return format_bytes if parameter in BYTE_PARAMETERS else lambda x: f"{parameter} {x:g}"
