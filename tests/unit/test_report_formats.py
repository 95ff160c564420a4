"""`nearfield report --format csv` and `svg`: do the files hold what the page draws, and is said what cannot be?"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
from report_pages import DATA, QUIET, RULES, own_part, run
from report_profiles import message, profile

from nearfield.base.errors import UsageError
from nearfield.profile.records import where
from nearfield.report.columns import format_osu_columns
from nearfield.report.page import charts_of, render_report
from nearfield.rules.schema import load_rules


def test_the_tables_are_the_records(tmp_path: Path) -> None:
    """Is each half round trip there with value, interval, n and stability, for each choice, and no other?"""
    said = run(QUIET.path, "--format", "csv", "-o", tmp_path / "tables")
    assert said.strip().endswith("tables") and not (QUIET.path / "report.html").exists()
    assert {f"{chart.id}.csv" for chart in charts_of(QUIET)} == {path.name for path in (tmp_path / "tables").iterdir()}
    rows = list(csv.DictReader((tmp_path / "tables" / "pingpong.csv").open(encoding="utf-8")))
    times = {(row["curve"], int(row["x"])): row for row in rows if row["show"] == "time"}
    records = where(QUIET.records, scenario="pingpong", metric="half_round_trip").drop_nulls("value")
    for record in records.iter_rows(named=True):
        row = times.pop((record["state"], record["size_bytes"]))
        values = (float(row["value"]), float(row["low"]), float(row["high"]), int(row["n"]), row["stable"], row["unit"])
        assert values == (*(record[n] for n in ("value", "low", "high", "n")), str(record["stable"]), "ns")
    assert {curve for curve, _ in times} == {"floor: a flag and one copy"}


def test_the_gains_of_rules_are_columns_to_paste(tmp_path: Path) -> None:
    """Has each confirmed point a line with size, both times and the gain, as a file and on the page?"""
    rules = load_rules(RULES)
    lines = [line.split() for line in format_osu_columns(rules).splitlines() if not line.startswith("#")]
    points = [point for rule in rules.rule for point in rule.point]
    assert len(lines) == len(points) > 0
    for line, point in zip(lines, points, strict=True):
        assert line[0] == str(point.size_bytes) and float(line[1]) == pytest.approx(point.baseline_ns / 1e3, abs=0.005)
        assert float(line[3]) == pytest.approx(point.gain.value, abs=0.005)
    assert "baseline (us)" in own_part(render_report(QUIET, rules, "nearfield run"))


def test_answers_and_pairs_are_in_tables_too(tmp_path: Path) -> None:
    """Do plots of questions have the words yes and no, and a heat map a row for each pair?"""
    run(DATA / "epyc-vm-quiet", DATA / "epyc-vm-busy", "--format", "csv", "-o", tmp_path / "both")
    answers = (tmp_path / "both" / "protocol.csv").read_text()
    assert ",yes," in answers and ",no," in answers and "epyc-vm-busy: kernel copies" in answers
    pairs = profile([message(8, 500, pair=pair) for pair in ("0-1", "0-2")])
    [heat] = [chart for chart in charts_of(pairs) if chart.id == "core-to-core"]
    from nearfield.report.plots.table import as_csv

    assert [line for line in as_csv(heat).splitlines() if line.startswith("message of 8 B,0,")] == [
        "message of 8 B,0,1,500.0,,,,,,",
        "message of 8 B,0,2,500.0,,,,,,",
    ]


def test_without_a_browser_there_is_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Is it said what to install, or what to do instead?"""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="needs a browser") as error:
        run(QUIET.path, "--format", "svg", "-o", tmp_path / "x")
    assert "click SVG" in error.value.remedy and not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("words", "cause"),
    [(["--format", "pdf"], "no format 'pdf'"), (["--format", "csv", "--json"], "plots alone")],
)
def test_what_does_not_fit_is_refused(words: list[str], cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        run(QUIET.path, *words, "-o", os.devnull)
