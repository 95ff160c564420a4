"""Formats the numbers of curves, and their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nearfield.base.units import UNITS, format_bytes


def _short(value: float) -> str:
    """Returns three digits, without an exponent where possible."""
    return f"{float(f'{value:.3g}'):g}"


IN_BYTES = ("size_bytes", "load_bytes", "whole_bytes")
WRITERS: Mapping[str, Callable[[float], str]] = {
    "gain": lambda y: f"{_short(100 * y)} %",
    "factor": lambda y: f"{_short(y)}x",
    "mb_per_s": lambda y: f"{_short(y)} MB/s",
    "per_line": lambda y: f"{y:.2g} a line",
    **UNITS,
}


def writer_x(by: str) -> Callable[[float], str]:
    """Returns a formatter for a curve's parameter."""
    return format_bytes if by in IN_BYTES else lambda x: f"{by} {x:g}"
