"""Formats the numbers of curves and the values of their parameters as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nearfield.base.units import UNITS, format_bytes


def _three_digits(value: float) -> str:
    """Returns the number with three significant digits, without an exponent where possible."""
    return f"{float(f'{value:.3g}'):g}"


BYTE_PARAMETERS = ("size_bytes", "load_bytes", "whole_bytes")
WRITERS: Mapping[str, Callable[[float], str]] = {
    "gain": lambda y: f"{_three_digits(100 * y)} %",
    "factor": lambda y: f"{_three_digits(y)}x",
    "mb_per_s": lambda y: f"{_three_digits(y)} MB/s",
    "per_line": lambda y: f"{y:.2g} a line",
    **UNITS,
}


def parameter_writer(by: str) -> Callable[[float], str]:
    """Returns a formatter for the values of a curve's parameter."""
    return format_bytes if by in BYTE_PARAMETERS else lambda x: f"{by} {x:g}"
