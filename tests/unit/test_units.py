"""Numbers for people: does each say what it means, and does reading undo writing?"""

from __future__ import annotations

import pytest

from nearfield.base.errors import UsageError
from nearfield.base.units import (
    FORMATTER_BY_UNIT,
    counted,
    format_bytes,
    format_ns,
    format_rate,
    format_ratio,
    format_seconds,
    format_value,
    parse_bytes,
    parse_share,
)
from nearfield.profile.records import ALLOWED_WORDS_BY_COLUMN


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1, "1 B"), (1000, "1000 B"), (4096, "4 KiB"), (1536, "1.5 KiB"), (4097, "4097 B"),
     (65537, "65537 B"), (1 << 20, "1 MiB"), (1025 << 10, "1025 KiB"), (100 << 20, "100 MiB"),
     (3 << 30, "3 GiB")],
)  # fmt: skip
def test_sizes_are_exact(size_bytes: int, text: str) -> None:
    """Is a size never rounded, and does parse_bytes read it back?"""
    assert format_bytes(size_bytes) == text
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (59.7, "1 min"),
        (180, "3 min"),
        (81, "1 min 21 s"),
        (3600, "1 h"),
        (5430, "1 h 30 min"),
    ],
)
def test_waits_are_reported_in_whole_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_capacities_are_rounded_on_request() -> None:
    """Does `digits` give a short text for a number that nobody wants to the byte?"""
    assert format_bytes(6537039872, digits=3) == "6.09 GiB"
    assert format_bytes(33554432, digits=3) == "32 MiB"


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [(0, "0 ns"), (0.5, "0.500 ns"), (1, "1.00 ns"), (999.4, "999 ns"), (999.6, "1.00 us"), (1234, "1.23 us"),
     (12345, "12.3 us"), (1e6, "1.00 ms"), (123456789, "123 ms"), (5e9, "5.00 s"), (90e9, "90.0 s")],
)  # fmt: skip
def test_times_have_three_digits(time_ns: float, text: str) -> None:
    """Is the unit the one that fits the rounded number?"""
    assert format_ns(time_ns) == text


def test_every_unit_of_records_can_be_shown() -> None:
    """Is there a way to write every unit that a record may have, and no other?"""
    assert set(FORMATTER_BY_UNIT) == set(ALLOWED_WORDS_BY_COLUMN["unit"])


def test_values_with_their_interval() -> None:
    """Is half the interval in the unit of the value, and left out where it is 0?"""
    assert format_value(1234, "ns", 20) == "1.23 us ±0.02"
    assert format_value(123, "ns", 34) == "123 ns ±34"
    assert format_value(852, "ns", 2_016_039) == "852 ns ±2.02 ms"
    assert format_value(1, "count", 0) == "1"
    assert format_value(1 / 3, "count") == "0.333"
    assert format_value(0.25, "share", 0.05) == "25 % ±5"
    assert format_value(2 << 20, "bytes", 1 << 20) == "2 MiB ±1"


def test_rates_and_ratios() -> None:
    """Is a byte a nanosecond a GB/s, and is only an exact 1 shown as x1?"""
    assert (format_rate(12.34), format_rate(0.3)) == ("12.3 GB/s", "300 MB/s")
    assert (format_ratio(1), format_ratio(1.0001), format_ratio(0.0973)) == ("x1", "x1.00", "x0.0973")


@pytest.mark.parametrize(("text", "size_bytes"), [("4096", 4096), ("4k", 4096), ("4KiB", 4096), (" 1.5 MiB ", 3 << 19)])
def test_sizes_as_people_write_them(text: str, size_bytes: int) -> None:
    """Are the usual spellings understood?"""
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "reason"),
    [("4KB", "1000 or of 1024"), ("x", "not a size"), ("", "not a size"), ("-3", "not a size"),
     ("1.3", "whole number"), ("4 parsecs", "unknown unit 'parsecs'"), ("1e3", "unknown unit|not a size")],
)  # fmt: skip
def test_sizes_that_are_none(text: str, reason: str) -> None:
    """Is what is ambiguous or no size refused, not guessed?"""
    with pytest.raises(UsageError, match=reason):
        parse_bytes(text)


def test_shares() -> None:
    """Are 5% and 0.05 the same, and is what lies outside [0, 1] refused?"""
    assert parse_share("5%") == parse_share("0.05") == 0.05
    for wrong in ("5", "-1%", "five", "", "nan"):
        with pytest.raises(UsageError, match="share"):
            parse_share(wrong)


@pytest.mark.parametrize(("count", "text"), [(0, "0 cases"), (1, "1 case"), (2, "2 cases")])
def test_one_is_not_plural(count: int, text: str) -> None:
    assert counted(count, "case") == text
