"""`nearfield report A B`: does one page show what several profiles have in common, and what differs?"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_pages import DATA, QUIET, RULES, charts_of, own_part, run, trace
from report_profiles import KIB, message, profile, row, switch

from nearfield.base.errors import UsageError
from nearfield.profile import Profile
from nearfield.report import comparison


def named_profile(name: str, rows: list[dict[str, Any]], *switches: Any, **more: Any) -> Profile:
    return replace(profile(rows, *switches, **more), path=Path(name))


def test_curves_of_several_profiles_are_in_one_plot() -> None:
    """Is each there with its profile's name, dash and values, and does the plot reach over all of them? PUs that are
    numbered otherwise are matched by their distance."""
    a = named_profile("a", [message(size, size) for size in (KIB, 2 * KIB)])
    b = named_profile("b", [message(size, 4 * size, pair="2-3") for size in (KIB, 64 * KIB)])
    chart = charts_of(comparison.render_comparison([a, b]))["pingpong"]
    assert chart["options"] == {"place": ["shared-l3"], "show": ["bandwidth", "time"]}
    one, other = (trace(chart, f"{name}: reused", show="time") for name in "ab")
    assert (one["y"], other["y"]) == ([KIB, 2 * KIB], [4 * KIB, 256 * KIB])
    assert one["line"]["color"] == other["line"]["color"] and one["line"]["dash"] != other["line"]["dash"]
    assert one["marker"]["symbol"] != other["marker"]["symbol"] and other["text"][0].startswith("<b>b: reused")
    x, y = (
        next(v for v in chart["variants"] if v["choice"]["show"] == "time")["layout"][k] for k in ("xaxis", "yaxis")
    )
    assert 10 ** x["range"][0] < KIB and 10 ** x["range"][1] > 64 * KIB and y["range"][1] > math.log10(256 * KIB)
    assert x["tickvals"] == sorted(set(x["tickvals"])) and len(x["tickvals"]) == len(x["ticktext"])


def test_unstable_points_stay_hollow_with_another_profile() -> None:
    made = [named_profile(name, [message(KIB, 500, stable=name == "a"), message(2 * KIB, 600)]) for name in "ab"]
    chart = charts_of(comparison.render_comparison(made))["pingpong"]
    assert trace(chart, "a: reused")["marker"]["symbol"] == ["circle", "circle"]
    assert trace(chart, "b: reused")["marker"]["symbol"] == ["square-open", "square"]


def test_marks_say_whose_they_are_where_not_all_have_them() -> None:
    both, one = switch("eager-limit", 2 * KIB), switch("single-copy", 3 * KIB)
    rows = [message(size, size) for size in (KIB, 4 * KIB)]
    page = comparison.render_comparison([named_profile("a", rows, [both, one]), named_profile("b", rows, [both])])
    notes = [note["text"] for note in charts_of(page)["pingpong"]["variants"][0]["layout"]["annotations"]]
    assert notes == ["eager limit 2 KiB", "single copy 3 KiB (a)"]


def test_the_page_of_several_says_first_what_surely_differs() -> None:
    """Does it leave out unstable and small differences, and say what only one has, and where each is from?"""
    a = [message(KIB, 500), message(2 * KIB, 600), message(4 * KIB, 700, stable=False), message(8, 100)]
    b = [message(KIB, 1000), message(2 * KIB, 610), message(4 * KIB, 7000), row("future", "delay", 5.0)]
    page = own_part(comparison.render_comparison([named_profile("old", a), named_profile("new", b, complete=False)]))
    differences = page[page.index('id="differences"') : page.index('id="findings"')]
    assert "new (B) against old (A)" in differences and "1 slower" in differences and "[1.97 to 2.03]" in differences
    largest = differences[differences.index('<th scope="col">what') :]
    assert "size 1\u00a0KiB" in largest and "size 2\u00a0KiB" not in largest and "size 4\u00a0KiB" not in largest
    assert "only in B: the scenario future" in differences
    assert page.index('class="banner"') < page.index('id="differences"') and "new: This profile is unfinished" in page
    assert page.count("<h3>Run</h3>") == 2 and not re.search(r'(?:src|href)="(?!#|data:)', page) and "{{" not in page


@pytest.mark.parametrize("folders", [("x/a", "y/a"), ("x/a", "x/a"), ("a", "b", "c")])
def test_profiles_on_one_page_have_different_names(folders: tuple[str, ...]) -> None:
    found = comparison.unique_names([named_profile(folder, [message(8, 500)]) for folder in folders])
    assert len(set(found)) == len(folders) and all(name in found[i] for i, name in enumerate(folders))


def test_what_several_profiles_say_cannot_become_markup() -> None:
    evil = "<script>alert(1)</script><img src=x>"
    made = named_profile(evil, [message(8, 500), row("future", "delay", 5.0, colour=evil)], command=evil)
    page = comparison.render_comparison([made, QUIET])
    without_json = re.sub(r'(<script type="application/json").*?</script>', "", own_part(page), flags=re.DOTALL)
    assert "alert(1)" in without_json and "<script>alert" not in without_json and "<img" not in without_json


def test_the_command_writes_a_page_about_several_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does it write into this folder, and are options for one profile refused, with what to type instead?"""
    monkeypatch.chdir(tmp_path)
    folders = [DATA / "epyc-vm-quiet", DATA / "epyc-vm-busy"]
    said = run(*folders)
    assert (
        "epyc-vm-quiet: cannot tell what changed: only 78 of 337 times are stable" in said and "comparison.html" in said
    )
    assert (tmp_path / "comparison.html").stat().st_size > 1_000_000
    for option in ("--json", "--summary", f"--rules={RULES}"):
        with pytest.raises(UsageError, match=option.split("=")[0]):
            run(*folders, option)
