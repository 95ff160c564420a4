"""Does a report say first what can be relied on: nothing on a busy machine, no floor that is none, no empty cards?"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from report_pages import DATA, QUIET, RULES, own_part, run
from report_profiles import KIB, floor, message, one_rule_judged, profile
from typer.testing import CliRunner

from nearfield.cli.verbs.show import command
from nearfield.profile import load
from nearfield.profile.curves import Point
from nearfield.profile.ending import describe_unfinished
from nearfield.profile.schema import Launch
from nearfield.report import comparison
from nearfield.report.findings import findings, select_headlines
from nearfield.report.page import render_report, render_summary
from nearfield.report.plots.axes import make_share_axis
from nearfield.report.plots.series import curve_style, line_traces
from nearfield.rules.schema import load_rules

shown = typer.Typer()
shown.command()(command)


@pytest.mark.slow
def test_a_useless_profile_says_one_thing() -> None:
    """If most times are unstable, do page, sheet, comparison, terminal and `show` begin with that sentence and how to
    measure again, and headline no finding? Is what was measured still there, folded?"""
    busy = load(DATA / "epyc-vm-busy")
    sentence = "The times varied too much: 69\u00a0% of the times cannot be used."
    for page in (render_report(busy), render_summary(busy)):
        main = own_part(page).split("<main>")[1]
        assert main.lstrip().startswith('<p class="banner"') and sentence in main.split("</p>")[0]
        assert main.index("<details") < main.index('class="finding') < main.rindex("</details>")
    both = own_part(comparison.render_comparison([QUIET, busy]))
    assert sentence in both.split("<h2>")[0] and 'class="whole cannot-tell"' in both
    assert both.index("unreliable comparison") < both.index('<th scope="col">scenario')
    for output in (run(busy.path, "-o", os.devnull), CliRunner().invoke(shown, [str(busy.path)]).stdout):
        assert output.startswith(("The times varied too much", "\u2022 The times varied too much"))
        assert "probe --quick --overwrite" in output and "At 1 KiB" not in output and output.count("\u2022") <= 1


def test_everything_unstable_leaves_nothing_to_use() -> None:
    """With no stable time at all, is it said so, and no cause that the records do not show?"""
    [only] = select_headlines(findings(profile([message(8, 500, stable=False), message(16, 600, stable=False)])))
    assert only.statement == "The times varied too much: no record can be used."


def test_measuring_again_replaces_what_is_there() -> None:
    """Has the command the options of the first run, and only one folder to write to, whatever the first run's was?"""
    for typed in ("--quick -o 'a b' --mpi x", "--quick --mpi x --resume --out=c", "--quick --overwrite --mpi x"):
        again = profile([], command=f"nearfield probe {typed}").measured_by
        assert again.partition(" probe ")[2] == f"--quick --mpi x --overwrite --out {Path('made-up').resolve()}"


def test_what_is_unfinished_is_said_as_the_launches_ended() -> None:
    """Is a run with a failed launch not called interrupted, and is its reason there?"""
    launch = Launch(ranks=2, scenarios=["pingpong"], seconds=1.0, state="complete")
    failed = launch.model_copy(update={"state": "failed", "reason": "no end after 196 s"})
    page = render_report(profile([message(8, 500)], complete=False, launch=[launch, failed]))
    assert "unfinished: 1 of 2 launches failed (no end after 196\u00a0s)" in page and "interrupted" not in own_part(
        page
    )
    pending = launch.model_copy(update={"state": "pending", "reason": "the time was over"})
    stopped = launch.model_copy(update={"state": "stopped"})
    reason = describe_unfinished(profile([], complete=False, launch=[stopped, pending, launch]).run)
    stop, begin = "stopped before the end (interrupted)", "did not begin (the time was over)"
    assert reason == f"unfinished: 1 of 3 launches {stop}; 1 of 3 launches {begin}"
    assert describe_unfinished(profile([], complete=False).run) == "unfinished: it was interrupted"


def test_rules_that_were_not_judged_have_no_cards() -> None:
    """Is a page without any judged placement rule without that part, and does one with some say why not the others?"""
    assert 'id="rules"' not in render_report(QUIET)
    page = own_part(render_report(one_rule_judged()))
    assert "<h3>Rule 1" in page and "<h3>Rule 2" not in page and "Not judged here, rule 2: No pair" in page


def test_the_page_ends_the_findings_with_commands() -> None:
    """Are there at most three, to tune without rules, and to run and compare with them?"""
    for rules, words in ((None, ("tune --mpi", "advise -p", "diff")), (load_rules(RULES), ("run --rules", "compare"))):
        box = own_part(render_report(QUIET, rules, "nearfield run --rules r.toml -- mpirun ...")).split('class="next"')[
            1
        ]
        steps = box.split("</ol>")[0]
        assert steps.count("<li>") == 3 and all(word in steps for word in words)


# ---- plots


def test_a_floor_that_messages_pass_is_none() -> None:
    """If a message takes less than a flag alone, is no floor drawn and no share of it reported, and is it said why?"""

    def page_of(time: float) -> tuple[str, list[str]]:
        rows = [message(KIB << i, time * (i + 1)) for i in range(4)]
        rows += [floor("flag", 8, 269.0)] + [floor("copy-remote", KIB << i, 50.0) for i in range(4)]
        made = profile(rows)
        return own_part(render_report(made)), [f.topic for f in findings(made)]

    page, topics = page_of(174)
    assert page.count("a message of 1\u00a0KiB took 174\u00a0ns") == 2 and "floor: a flag" not in page
    assert "headroom" not in topics
    page, topics = page_of(600)
    assert "floor: a flag" in page and "headroom" in topics and "There is no floor" not in page


def test_ticks_of_small_shares_differ() -> None:
    """Has an axis whose ticks are half a per cent apart a decimal, and is none wasted on wide ones?"""
    stops = make_share_axis([], "saved")["tickformatstops"]
    formats = {step: next(s["value"] for s in stops if (s["dtickrange"][0] or 0) <= step <= (s["dtickrange"][1] or 1))
               for step in (0.0005, 0.005, 0.01, 0.2)}  # fmt: skip
    assert formats == {0.0005: ".2%", 0.005: ".1%", 0.01: ".0%", 0.2: ".0%"}


def test_unstable_points_have_no_band() -> None:
    """Is the band there for neighbouring stable points only?"""
    points = {1 << i: Point(10.0, 9.0, 11.0, 3, i != 2) for i in range(5)}
    *bands, drawn = line_traces("l", points, curve_style(0))
    assert [sorted(set(band["x"])) for band in bands] == [[1, 2], [8, 16]] and drawn["x"] == list(points)


def test_memory_that_moves_has_one_size_on_the_page() -> None:
    """A virtual machine's memory at the time of the topology is not what the profile says: is only the latter shown?"""
    for total, shown_there in ((30 << 30, False), (1 << 30, True)):
        made = profile([])
        memory = made.machine.memory.model_copy(update={"total_bytes": total})
        made = replace(made, machine=made.machine.model_copy(update={"memory": memory}))
        assert ("<b>memory</b> 1\u00a0GiB" in render_report(made)) == shown_there
