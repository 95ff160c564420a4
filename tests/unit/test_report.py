"""`nearfield report`: is the page whole, self-contained and true to the records, whatever the profile holds?"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest
from doc_tables import rewrite
from report_pages import DATA, QUIET, RULES, charts_of, own_part, run, trace
from report_profiles import HERE, KIB, MIB, floor, message, profile, read, row, simulated, stock_is_best, switch

from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.topology import Topology
from nearfield.profile import Profile, load
from nearfield.profile.curves import Point
from nearfield.profile.schema import Memory, SkippedMeasurement
from nearfield.report import topology_boxes
from nearfield.report.core_pairs import heat_map_charts, pairs_table_html
from nearfield.report.findings import findings
from nearfield.report.page import render_report
from nearfield.report.plots import SCENARIOS, sections
from nearfield.report.plots.axes import make_linear_axis, make_log_axis, make_share_axis
from nearfield.report.plots.series import bar_traces, curve_style, line_traces
from nearfield.rules.schema import load_rules
from nearfield.ui.html import embedded_json, text

# ---- what the page says


def test_the_page_is_one_file_with_all_parts() -> None:
    page = render_report(QUIET)
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert "{{" not in own_part(page)
    assert not re.search(r'(?:src|href)="(?!#|data:)', own_part(page)), "it would load something"
    for fact in ("AMD EPYC", "Open MPI 4.1.4", "ob1 / vader", "nearfield probe"):
        assert fact in page
    assert "Not measured: needs" in page


def test_the_package_holds_what_the_page_is_made_of() -> None:
    for name in ("frame.html", "main.html", "comparison.html", "comparison.css", "style.css", "theme.js", "report.js"):
        assert files("nearfield.report").joinpath(name).is_file()


def test_an_incomplete_profile_says_so_at_the_top() -> None:
    page = render_report(profile([message(8, 500)], complete=False))
    assert page.index('class="banner"') < page.index('id="findings"')
    assert "nearfield probe --resume" in page
    assert 'class="banner"' not in render_report(profile([message(8, 500)]))


def test_a_scenario_that_was_skipped_shows_the_reason() -> None:
    made = profile(
        [message(8, 500)], skipped=[SkippedMeasurement(scenario="load", reason="needs 4 cores", distance="shared-l3")]
    )
    assert [s.remarks for s in sections(made) if s.scenario == "load"] == [["Not measured: needs 4 cores (shared-l3)."]]
    assert "Not measured: needs 4 cores (shared-l3)." in render_report(made)


def test_an_empty_profile_still_makes_a_page() -> None:
    page = render_report(profile([]))
    assert "No finding" in page and charts_of(page) == {}


def test_what_a_profile_says_cannot_become_markup() -> None:
    """Are names and reasons escaped, which come from files that other people send?"""
    evil = "</script><script>alert(1)</script><img src=x>"
    made = profile(
        [message(8, 500), row("future", "delay", 5.0, colour=evil)],
        skipped=[SkippedMeasurement(scenario="load", reason=evil)], command=evil,
    )  # fmt: skip
    page = render_report(made)
    assert "<script>alert" not in page and "<img" not in own_part(page)
    assert charts_of(page)


def test_numbers_are_set_as_on_paper() -> None:
    assert text("takes 2.1x of 5 us & 4 KiB") == "takes 2.1\u00d7 of 5\u00a0\u00b5s &amp; 4\u00a0KiB"
    assert text("0x10 and x4") == "0x10 and x4"
    assert json.loads(embedded_json({"a": "</script>"})) == {"a": "</script>"}
    assert "</" not in embedded_json({"a": "</script>"})


@pytest.mark.parametrize(("unstable", "warned"), [(2, True), (1, False)])
def test_a_page_of_unstable_times_begins_with_that(unstable: int, warned: bool) -> None:
    """Does whoever reads only the top learn that most times are unstable, and what to do about it?"""
    rows = [message(8 << i, 500, stable=i >= unstable) for i in range(3)]
    top = render_report(profile(rows)).split('id="findings"')[0]
    assert ("67\u00a0% of the times cannot be used" in top and "nearfield probe --overwrite" in top) == warned
    assert ('class="banner"' in top) == warned


# ---- plots


def test_axes_reach_as_far_as_medians() -> None:
    """Can plots be read where intervals reach a hundred times as far, or a loss is of 70000 %?"""
    wide = {1 << i: Point(10 + i, 0.001, 5000, 3, False) for i in range(4)}
    assert make_linear_axis(bar_traces("b", wide, curve_style(0)), "t")["range"] == [0, pytest.approx(13 * 1.12)]
    low, high = make_log_axis(line_traces("l", wide, curve_style(0)), "t")["range"]
    assert 0.5 < low < 1 < high < 1.5
    lost = {8: Point(-700.0, -900, -1, 3, False, unit="share"), 16: Point(0.2, 0.1, 0.3, 3, True, unit="share")}
    low, high = make_share_axis(line_traces("l", lost, curve_style(0)), "t")["range"]
    assert -1.2 < low < -1 and 0.2 < high < 0.4
    assert "range" not in make_linear_axis([], "t")


def test_bandwidth_is_size_over_time_with_an_interval() -> None:
    chart = charts_of(render_report(profile([message(4 * KIB, 1024)])))["pingpong"]
    reused = trace(chart, "reused", show="bandwidth")
    assert reused["x"] == [4096] and reused["y"] == [pytest.approx(4.0)]
    assert reused["meta"]["cells"] == ["4.00 GB/s [3.96 GB/s to 4.04 GB/s]"]
    assert "n = 100, stable" in reused["text"][0]


def test_the_floor_is_in_every_bandwidth_plot_of_messages() -> None:
    rows = [
        floor("flag", 8, 100),
        floor("copy-remote", KIB, 924),
        floor("copy-remote-nt", KIB, 2000),
        message(KIB, 2048),
    ]
    chart = charts_of(render_report(profile(rows)))["pingpong"]
    assert trace(chart, "floor: a flag and one copy", show="bandwidth")["y"] == [pytest.approx(1.0)]
    assert trace(chart, "floor: a flag and one copy", show="time")["y"] == [pytest.approx(1024)]


def test_a_field_of_the_halo_library_is_in_the_pages_plot() -> None:
    """S1.4: is it beside private memory, for first touch, reading again and page faults?"""
    case = {"size_bytes": 1 << 20, "memory": "field"}
    metrics = (("first_touch", "ns"), ("traverse", "ns"), ("first_touch_faults", "count"))
    chart = charts_of(render_report(profile([row("pages", metric, 100, unit, **case) for metric, unit in metrics])))[
        "pages"
    ]
    for show in ("first touch", "reading again", "page faults"):
        assert trace(chart, "a field of the halo library", show=show)["y"] == [pytest.approx(100)]


def test_unstable_points_are_hollow_and_refuted_ones_have_a_dot() -> None:
    rows = [
        message(8, 500, "invalid", verdict="verified"),
        message(16, 500, "invalid", verdict="verified", stable=False, note="wide"),
        message(32, 500, "invalid", verdict="refuted"),
    ]
    drawn = trace(charts_of(render_report(profile(rows)))["pingpong"], "invalid", show="time")
    base = drawn["marker"]["symbol"][0]
    assert drawn["marker"]["symbol"] == [base, f"{base}-open", f"{base}-open-dot"]
    assert "unstable: wide" in drawn["text"][1] and "refuted" in drawn["text"][2]


def test_switches_are_marked_by_name_in_the_plots_of_their_pair() -> None:
    far = {"distance": "same-node", "pair": "0-8"}
    rows = [message(s, s, **place) for s in (KIB, 64 * KIB) for place in (HERE, far)]
    made = profile(rows, [switch("eager-limit", 4000), switch("single-copy", 4000), switch("step", 9000, **far)])
    layouts = {v["choice"]["place"]: v["layout"] for v in charts_of(render_report(made))["pingpong"]["variants"]}
    notes = {place: {n["text"] for n in layout["annotations"]} for place, layout in layouts.items()}
    assert "eager limit, single copy 4000 B" in notes["shared-l3, 0-1"]
    assert not any("eager" in text for text in notes["same-node, 0-8"]) and "step 9000 B" in notes["same-node, 0-8"]


def test_the_gain_is_the_share_of_time_saved() -> None:
    place = {**HERE, "side": "sender", "size_bytes": KIB}
    rows = [row("pingpong", "send", t, state=s, **place) for s, t in (("invalid", 1000), ("modified", 750))]
    made = trace(charts_of(render_report(profile(rows)))["state-gain"], "modified", call="MPI_Send")
    assert made["y"] == [pytest.approx(0.25)]


def test_both_baselines_are_in_the_pollution_plot() -> None:
    rows = [read("receiver", s, KIB, 1000) for s in ("invalid", "preloaded", "base-invalid", "base-preloaded")]
    chart = charts_of(render_report(profile(rows)))["pollution"]
    names = {t["name"] for t in chart["variants"][0]["data"]}
    assert {"no call, in the cache", "no call, in memory"} < names and len(names) == 4


def test_stock_against_tuned_is_on_the_page_with_the_line_that_applies_it() -> None:
    """Is the factor the first finding, the gain drawn as it was measured, and what to set there to copy?"""
    rules = load_rules(RULES)
    page = render_report(QUIET, rules)
    assert page.index("as fast when tuned") < page.index("that the caches allow")
    assert "no size was found slower" in page, "not that none is: nobody can measure that"
    assert "export OMPI_MCA_btl_sm_eager_limit=65536" in page
    drawn = trace(charts_of(page)["tuned-gain"], "ping-pong")
    measured = {p.size_bytes: p.gain.value for p in rules.rule[0].point if p.pattern == "pingpong"}
    assert dict(zip(drawn["x"], drawn["y"], strict=True)) == measured
    assert "tuned" not in own_part(render_report(QUIET)).split("<footer")[0].replace("tuned-", "")


def test_rules_that_found_nothing_say_so() -> None:
    """Is it said that stock was measured and is best, and not that nothing was measured?"""
    rules = load_rules(RULES)
    rules.rule[0] = stock_is_best(rules.rule[0])
    part = render_report(QUIET, rules).split('id="s-tuned"')[1].split("</section>")[0]
    assert "defaults are best (all lose)." in part and "Not measured" not in part


def test_rules_of_another_mpi_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "rules.toml"
    other.write_text(RULES.read_text().replace('version = "5.0.11"', 'version = "5.0.3"'))
    with pytest.raises(UsageError, match="5.0.3, the profile of"):
        run(DATA / "epyc-vm-quiet", "--rules", other, "-o", tmp_path / "report.html")


def test_simulated_applications_have_a_plot_and_a_finding() -> None:
    """Is every application there, by policy and speed of memory under these names, and what saves most reported? And
    are placement rules, of which nothing was simulated, left out?"""
    rows = [
        simulated(name, policy, slowdown, time, size)
        for name, size in (("amg", KIB), ("fft", MIB))
        for policy, times in (("memory", (1000, 2000)), ("tph", (990, 1200)))
        for slowdown, time in zip((1.0, 10.0), times, strict=True)
    ]
    made = profile([*rows, simulated("bcast", "memory", 1.0, 50), simulated("bcast", "tph", 1.0, 49)], backend="sim")
    page = render_report(made)
    assert 'id="rules"' not in page and '"#rules"' not in page
    chart = charts_of(page)["application"]
    assert chart["options"]["application"] == ["amg, 1 KiB a rank", "fft, 1 MiB a rank"]
    drawn = trace(chart, "tph", application="fft, 1 MiB a rank", show="time saved")
    assert drawn["x"] == ["memory as described", "memory 10x as slow"] and "error_y" not in drawn
    assert drawn["y"] == [pytest.approx(0.01), pytest.approx(0.4)]
    (finding,) = [f for f in findings(made) if f.topic == "policies"]
    assert finding.title == "Bytes put into a cache save up to 40 %"
    assert "amg 40 % with tph (1 KiB, 8 ranks, memory 10x as slow)" in finding.text and "bcast 2 %" in finding.text


def test_memory_that_nobody_described_is_not_drawn() -> None:
    """hwloc gives every machine a NUMA node with some memory; does the diagram show only what the profile knows?"""
    made = profile([message(8, 500)])
    assert "NUMA node" in topology_boxes.topology_html(made)
    unknown = made.machine.model_copy(update={"memory": Memory(numa_nodes=1)})
    assert "NUMA node" not in topology_boxes.topology_html(replace(made, machine=unknown))


def test_a_scenario_of_the_future_gets_a_plot() -> None:
    rows = [
        row("future", "delay", 10.0 * w, width=w, colour=c, stable=w != 4, note="wide" if w == 4 else None)
        for w in (1, 2, 4)
        for c in ("red", "blue")
    ]
    chart = charts_of(render_report(profile([*rows, row("future", "lonely", 3, "count")])))["scenario-future"]
    assert chart["options"]["metric"] == ["delay", "lonely"]
    assert trace(chart, "red", metric="delay")["y"] == [10, 20, 40]


def test_every_scenario_has_a_separate_plot() -> None:
    """Is every measured scenario that the engine describes drawn, by its own module or the generic one?"""
    for section in sections(QUIET):
        assert section.charts or section.remarks, section.scenario
        assert section.scenario in SCENARIOS


@pytest.mark.parametrize("name", ["epyc-vm-quiet", "epyc-vm-busy"])
def test_every_point_of_a_plot_is_a_record(name: str) -> None:
    made = load(DATA / name)
    own = made.records.filter((pl.col("scenario") == "pingpong") & (pl.col("metric") == "half_round_trip"))
    chart = charts_of(render_report(made))["pingpong"]
    drawn = sorted(
        y for v in chart["variants"] if v["choice"]["show"] == "time" for t in v["data"]
        if "marker" in t and not t["name"].startswith("floor") for y in t["y"]
    )  # fmt: skip
    assert drawn == sorted(own["value"].drop_nulls())


# ---- machine


def with_pairs(pairs: list[tuple[str, str]]) -> Profile:
    return profile([message(8, 400 + 10 * i, distance=d, pair=p) for i, (d, p) in enumerate(pairs)])


def test_one_pair_for_each_distance_is_a_table_and_more_are_a_heat_map() -> None:
    few = with_pairs([("shared-l3", "0-1"), ("same-node", "0-8")])
    assert heat_map_charts(few) == [] and pairs_table_html(few).count("<tr>") == 3
    many = with_pairs([("shared-l3", "0-1"), ("shared-l3", "0-2"), ("same-node", "a:0-node-b:8")])
    (chart,) = heat_map_charts(many)
    (drawn,) = chart.variants[0].figure["data"]
    assert drawn["x"] == [":0", ":1", ":2", "a:0", "node-b:8"]
    assert drawn["z"][0][1] == drawn["z"][1][0] == 400 and drawn["z"][3][4] == 420 and drawn["z"][0][0] is None


def test_the_topology_is_nested_boxes_with_sizes_and_the_measured_pus_marked() -> None:
    html = topology_boxes.topology_html(profile([message(8, 500)]))
    assert html.index("L3") < html.index("L2") < html.index("Core")
    assert "8\u00a0MiB" in html and html.count('class="pu used"') == 2


def test_a_large_machine_is_drawn_in_part_and_counted() -> None:
    small = profile([message(8, 500)])
    xml = Topology.from_synthetic("package:1 l3:1 core:64 pu:2").to_xml()
    html = topology_boxes.topology_html(Profile(small.path, small.machine, small.run, small.records, xml))
    assert "and 60 more like it" in html


def test_a_damaged_topology_is_said_and_does_not_spoil_the_page() -> None:
    small = profile([message(8, 500)])
    broken = Profile(small.path, small.machine, small.run, small.records, '<topology version="2.0">')
    assert "cannot be drawn" in render_report(broken)


# ---- the command


def test_the_command_writes_next_to_the_profile_and_prints_the_findings(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    for source in (DATA / "epyc-vm-quiet").iterdir():
        (folder / source.name).write_bytes(source.read_bytes())
    out = run(folder)
    assert (folder / "report.html").stat().st_size > 1 * MIB
    assert str(folder / "report.html") in out.replace("\n", "") and "•" in out
    assert sorted(p.name for p in folder.glob("*report*")) == ["report.html"]


def test_findings_are_data_too() -> None:
    """Does --json print what the page says, and does docs/reference/findings.md say what is in it?"""
    printed = json.loads(run(DATA / "epyc-vm-busy", "--json"))
    found = findings(load(DATA / "epyc-vm-busy"))
    assert [f["title"] for f in printed["finding"]] == [f.title for f in found]
    first = printed["finding"][0]
    assert first["level"] == "warning" and first["numbers"]["unstable"] == 231 and "varied too much" in first["text"]
    assert not (DATA / "epyc-vm-busy" / "report.html").exists()
    page = (DATA.parents[1] / "docs/reference/findings.md").read_text()
    assert "`finding[].level`" in page and rewrite(page) == page


def test_the_page_goes_to_the_given_file(tmp_path: Path) -> None:
    run(DATA / "epyc-vm-quiet", "-o", tmp_path / "page.html")
    assert (tmp_path / "page.html").is_file()
    run(DATA / "epyc-vm-quiet", "--summary", "-o", tmp_path / "sheet.html")
    sheet = (tmp_path / "sheet.html").read_text()
    assert len(charts_of(sheet)) == 1 and own_part(sheet).count('<li class="finding') == 3
    with pytest.raises(UsageError, match="--json writes no page"):
        run(DATA / "epyc-vm-quiet", "--summary", "--json")


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        run(DATA / "epyc-vm-quiet", "-o", tmp_path)
    with pytest.raises(UsageError, match="there is no folder"):
        run(DATA / "epyc-vm-quiet", "-o", tmp_path / "none" / "page.html")
    with pytest.raises(ProfileError, match="there is no profile"):
        run(tmp_path / "nothing")
    with pytest.raises(ProfileError, match="cannot write"):
        run(DATA / "epyc-vm-quiet", "-o", "/proc/page.html")


def test_of_many_pairs_one_for_each_distance_is_drawn() -> None:
    """Does a page not grow with the square of the cores, and has the heat map still all pairs?"""
    made = with_pairs([("shared-l3", f"{a}-{b}") for a in range(6) for b in range(a + 1, 6)])
    charts = charts_of(render_report(made))
    assert charts["pingpong"]["options"]["place"] == ["shared-l3, 0-1"]
    (cells,) = charts["core-to-core"]["variants"][0]["data"]
    assert sum(value is not None for row in cells["z"] for value in row) == 30
    assert "15 were measured" in render_report(made)
