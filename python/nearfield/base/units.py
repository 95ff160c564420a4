"""Formats numbers with units as human-readable text: sizes in binary units, times with three digits. Pure functions,
independent of the locale."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from nearfield.base.errors import UsageError

_BINARY_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))
_TIME_UNITS = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))
_RATE_UNITS = (("GB/s", 1.0), ("MB/s", 1e-3))  # 1 byte per ns is 1 GB/s
_FACTOR_BY_SUFFIX = {"": 1, "b": 1} | {
    suffix: 1 << shift for shift, letter in ((10, "k"), (20, "m"), (30, "g")) for suffix in (letter, letter + "ib")
}


def format_bytes(size_bytes: float, digits: int | None = None) -> str:
    """Returns a size such as '4 KiB', without rounding: 4097 stays '4097 B', because one more byte can select another
    protocol. With `digits`, rounds to that many significant digits, for capacities but not for message sizes."""
    for name, factor in _BINARY_UNITS:
        scaled = size_bytes / factor
        if abs(scaled) >= 1 and (digits is not None or (scaled * 100).is_integer()):
            text = f"{scaled:.2f}" if digits is None else _format_significant(scaled, digits)
            return f"{_strip_zeros(text)} {name}"
    return f"{size_bytes:g} B"


def format_size_range(from_bytes: int, to_bytes: int) -> str:
    """Returns a range of sizes such as '4 KiB to 16 KiB', or '4 KiB' if both sizes are equal."""
    first, last = format_bytes(from_bytes), format_bytes(to_bytes)
    return first if first == last else f"{first} to {last}"


def parse_bytes(text: str) -> int:
    """Parses a size such as '4096', '4K', '4KiB' or '1.5 MiB'. Returns bytes. Raises UsageError for anything else, also
    for '4KB', which may mean 4000 bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if match is None:
        raise UsageError(f"'{text}' is not a size", "Write sizes as 4096, 4KiB or 1.5MiB.")
    number, suffix = match.group(1), match.group(2).lower()
    if suffix not in _FACTOR_BY_SUFFIX:
        ambiguous = suffix in ("kb", "mb", "gb")
        cause = "may mean powers of 1000 or of 1024" if ambiguous else f"has the unknown unit '{match.group(2)}'"
        raise UsageError(f"the size '{text}' {cause}", "Write sizes as 4096, 4KiB or 1.5MiB.")
    size_bytes = float(number) * _FACTOR_BY_SUFFIX[suffix]
    if not size_bytes.is_integer():
        raise UsageError(f"the size '{text}' is not a whole number of bytes", "Write sizes as 4096, 4KiB or 1.5MiB.")
    return int(size_bytes)


def format_ns(time_ns: float) -> str:
    """Returns a time such as '1.23 us': three significant digits, in the unit that leaves one to three digits before
    the point."""
    return _format_scaled(time_ns, _TIME_UNITS)


def format_rate(bytes_per_ns: float) -> str:
    """Returns a bandwidth such as '12.3 GB/s' (powers of 1000, as usual for memory bandwidth)."""
    return _format_scaled(bytes_per_ns, _RATE_UNITS)


def format_seconds(seconds: float) -> str:
    """Returns a duration such as '45 s', '3 min', '3 min 20 s' or '1 h 5 min'."""
    if seconds < 3600:
        minutes, rest = divmod(round(seconds), 60)
        parts = ((minutes, "min"), (rest, "s"))
    else:
        hours, rest = divmod(round(seconds / 60), 60)
        parts = ((hours, "h"), (rest, "min"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def format_count(count: float) -> str:
    """Returns a count such as '12', or '0.33' for a fractional mean over repetitions."""
    return f"{count:.0f}" if float(count).is_integer() else f"{count:.3g}"


def format_rounded(count: float) -> str:
    """Returns a large count with three significant digits, such as '12.3 million'."""
    for name, factor in (("billion", 1e9), ("million", 1e6)):
        if count >= 0.9995 * factor:
            return f"{_format_significant(count / factor, 3)} {name}"
    return f"{count:,.0f}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Returns a count with its noun, such as '1 case' or '2 cases'."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


# Functions that format values of records, by unit.
FORMATTER_BY_UNIT: dict[str, Callable[[float], str]] = {
    "ns": format_ns,
    "bytes": lambda value: format_bytes(value, digits=3),
    "count": format_count,
    "share": lambda value: f"{value * 100:.3g} %",
}


MUCH_WIDER_FACTOR = 10  # an interval is much wider if its half-width is at least this many times the value


def format_value(value: float, unit: str, half_width: float | None = None) -> str:
    """Returns a value with its unit, such as '1.23 us', or with half an interval in the same unit, '1.23 us ±0.02', or
    '852 ns ±2.02 ms' if the interval is much wider. Raises KeyError if the unit is not in FORMATTER_BY_UNIT."""
    text = FORMATTER_BY_UNIT[unit](value)
    if not half_width:
        return text
    if half_width >= MUCH_WIDER_FACTOR * abs(value):
        return f"{text} ±{FORMATTER_BY_UNIT[unit](half_width)}"
    name = text.rpartition(" ")[2]
    factor = dict((*_TIME_UNITS, *_BINARY_UNITS, ("%", 0.01))).get(name, 1.0)
    return f"{text} ±{_format_half_width(half_width / factor)}"


def format_ratio(ratio: float) -> str:
    """Returns a ratio with three significant digits, such as 'x0.97', or 'x1' for exactly 1."""
    return "x1" if ratio == 1 else f"x{_format_significant(ratio, 3)}"


def parse_share(text: str) -> float:
    """Parses a share such as '5%' or '0.05' to a number from 0 to 1. Raises UsageError for anything else."""
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise UsageError(f"'{text}' is not a share between 0 % and 100 %", "Write 5% or 0.05.")
    return share


def _format_scaled(value: float, scales: tuple[tuple[str, float], ...]) -> str:
    """Returns the value with three significant digits in the largest unit in which it is at least 1, otherwise in the
    smallest unit."""
    rounded = float(f"{value:.3g}")
    name, factor = next((scale for scale in scales if abs(rounded) >= scale[1] * (1 - 1e-9)), scales[-1])
    return f"{_format_significant(value / factor, 3)} {name}"


def _format_significant(value: float, digits: int) -> str:
    """Returns the value with `digits` significant digits and trailing zeros ('1.20'), without an exponent; digits
    before the point are never dropped."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits}g}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:.{min(decimals, 12)}f}"


def _strip_zeros(decimal: str) -> str:
    """Removes trailing zeros after the point: '1.5' for '1.50', '32' for '32.0', '100' for '100'."""
    return decimal.rstrip("0").rstrip(".") if "." in decimal else decimal


def _format_half_width(value: float) -> str:
    """Returns the value with one significant digit below 9.5 ('0.02'), and as a whole number above."""
    return f"{value:.0f}" if value >= 9.5 or not math.isfinite(value) else _format_significant(value, 1)
