"""Do `report`, `show` and `diff` take records that lack a column or have another type, and names that are not UTF-8?"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from report_pages import DATA
from report_profiles import profile, row, simulated

from nearfield.base.errors import NearfieldError, ProfileError
from nearfield.cli import diff_tables, show_tables
from nearfield.profile import Profile, load
from nearfield.profile.compare import compare_records
from nearfield.profile.gate import GateLimits, judge_slowdown
from nearfield.profile.records import STANDARD_COLUMNS, check_records, identity_columns
from nearfield.report import comparison
from nearfield.report.findings import findings
from nearfield.report.page import charts_of
from nearfield.report.plots.table import as_csv
from nearfield.ui.terminal import Terminal

BASE = load(DATA / "leo3-simulated")
POLICIES = profile(
    [simulated(name, policy, "1", 50.0) for name in ("bcast", "amg") for policy in ("memory", "tph")], backend="sim"
)
CASES = [
    pytest.param(base, name, id=f"{source}-{name}")
    for source, base in (("pairs", BASE), ("cluster", POLICIES))
    for name in base.records.columns
    if name not in (*STANDARD_COLUMNS, "memory_slowdown")
]


def without(records: pl.DataFrame, name: str) -> pl.DataFrame:
    fewer = records.drop(name)
    return fewer.unique(subset=identity_columns(fewer), maintain_order=True)


def as_numbers(records: pl.DataFrame, name: str) -> pl.DataFrame:
    numbers = (pl.col(name).hash() % 1000).cast(pl.Int64)
    return records.with_columns(pl.when(pl.col(name).is_not_null()).then(numbers).alias(name))


def as_words(records: pl.DataFrame, name: str) -> pl.DataFrame:
    return records.with_columns(pl.col(name).cast(pl.String) + "x")


def use(profile: Profile) -> None:
    """Reads the profile as all commands about profiles do."""
    for chart in charts_of(profile):
        as_csv(chart)
    findings(profile)
    comparison.describe_differences([BASE, profile])
    runs = (BASE.run, profile.run)
    judge_slowdown(
        compare_records(BASE.records, profile.records, runs, 0.05), runs, GateLimits(0.1, checks_single_times=True)
    )
    with redirect_stdout(io.StringIO()):
        Terminal().print(show_tables.overview_of(profile))
        Terminal().print(
            diff_tables.comparison_view(BASE, profile, compare_records(BASE.records, profile.records, runs, 0.05))
        )


@pytest.mark.parametrize("change", [without, as_numbers, as_words])
@pytest.mark.parametrize(("base", "name"), CASES)
def test_a_column_that_is_gone_or_has_another_type(
    base: Profile, name: str, change: Callable[[pl.DataFrame, str], pl.DataFrame]
) -> None:
    """Are such records refused in words, or read by all without an exception of another kind?"""
    with suppress(NearfieldError):
        use(replace(base, records=check_records(change(base.records, name))))


def test_a_number_that_only_some_records_have_is_no_axis() -> None:
    """Is a scenario without a plot of its own drawn by the number that all its records have?"""
    rows = [row("new", "time", 5.0, depth=i % 2, **({"width": i} if i > 3 else {"shape": f"s{i}"})) for i in range(8)]
    use(profile(rows))


@pytest.mark.parametrize(("name", "change"), [("stride", as_words), ("verdict", as_numbers)])
def test_a_type_that_cannot_be_is_refused(name: str, change: Callable[[pl.DataFrame, str], pl.DataFrame]) -> None:
    """Does the error name the column and the type that it must have?"""
    with pytest.raises(ProfileError, match=f"column '{name}' is .* and must be "):
        check_records(change(BASE.records, name))


def test_a_negative_stride_is_refused() -> None:
    """No stride is negative: is the record named?"""
    with pytest.raises(ProfileError, match=r"stride half_round_trip \(.*stride=-1.*: stride is negative"):
        check_records(BASE.records.with_columns(-pl.col("stride")))


@pytest.mark.slow
def test_names_that_are_not_utf8_are_written(tmp_path: Path) -> None:
    """Is there a page, a comparison, JSON and an overview of a profile whose folder has such a name?"""
    name = os.fsdecode(b"p\xff")
    folder = Path(shutil.copytree(DATA / "epyc-vm-quiet", tmp_path / name))

    def output_of(*words: str | Path) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "nearfield", *words], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert "p?" in output_of("report", name) and "p?" in (folder / "report.html").read_text(encoding="utf-8")
    assert "c?.html" in output_of("report", name, name, "-o", os.fsdecode(b"c\xff.html"))
    for verb in ("report", "show"):
        found = json.loads(output_of(verb, name, "--json"))
        assert name in (found.get("path"), found.get("profile"))
    assert "p?" in output_of("show", name)
