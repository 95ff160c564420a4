"""Are people told how far long work is, in a pipe as well as on a terminal, and is the time left an honest guess?"""

import io
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from rich.console import Console

from nearfield.cli import probe_bar
from nearfield.cli.case_bar import CaseBar
from nearfield.ui.progress import LONGER, Guesses, Standing, WorkBar, left_text

WHAT = "12 of 891 cases, now pingpong, same-package [shared by 52 cores]"


@dataclass(frozen=True)
class Case:
    name: str
    work: float
    kind: str = "bcast"

    def __str__(self) -> str:
        return self.name


def test_the_rest_takes_as_long_as_what_is_done() -> None:
    """Is the time left what the rest should cost on two processors, and does it fall while nothing ends?"""
    now = [100.0]
    out = io.StringIO()
    with CaseBar(Console(file=out), at_once=2, clock=lambda: now[0]) as bar:
        cases = [Case("a case", 50.0), Case("b", 100.0), Case("c", 51.0)]  # the estimates of work are rounded
        bar.plan([*cases[:2], Case("c", 50.0)], 2)
        assert bar.standing() == Standing("0 of 3 cases", 0.0, None)
        assert out.getvalue() == "simulating 3 cases, 2 at a time, 2 more are there already\n"
        now[0] = 110.0
        bar.done(cases[0], 10.0)
        assert bar.standing() == Standing("1 of 3 cases (a case)", 0.25, 15.0)
        now[0] = 120.0  # nothing more was done meanwhile
        assert bar.standing().left_s == 5
        now[0] = 130.0
        assert bar.standing().left_s == -5  # longer than was planned
        bar.done(cases[1], 25.0)
        bar.done(cases[2], 10.0)
        assert bar.standing() == Standing("3 of 3 cases (c)", 1.0, 0.0)


def test_each_kind_of_case_counts_by_the_cost_of_that_kind() -> None:
    """A small case that is dear for its work, as on a machine of a hundred cores: is what it foretells a small share,
    by which nobody is told a time; and is the time left then what each kind took?"""
    now = [0.0]
    with CaseBar(Console(file=io.StringIO()), at_once=1, clock=lambda: now[0]) as bar:
        small, large = Case("small", 1.0), [Case("large", 1000.0), Case("other", 1000.0, "allreduce")]
        bar.plan([small, *large], 0)
        assert bar.standing().left_s is None
        now[0] = 5.0
        bar.done(small, 5.0)
        left = []
        for now[0] in (6.0, 60.0, 600.0):
            assert bar.standing().share < 0.05
            left.append(bar.standing().left_s)
        assert left == sorted(left, reverse=True)  # it does not grow while nothing ends
        now[0] = 45.0
        bar.done(large[0], 40.0)
        share = 45 / (45 + 1000 * 45 / 1001)
        assert bar.standing().share == pytest.approx(share) and bar.standing().left_s == pytest.approx(45, rel=0.01)


def test_work_of_unknown_length_has_no_share() -> None:
    """Is a pipe's end not foretold, on a terminal and in a log?"""
    standing = Standing("7 accesses, from standard input", None, None)
    assert str(standing) == "7 accesses, from standard input"
    out = io.StringIO()
    with WorkBar(Console(file=out, width=80, force_terminal=True), lambda: standing) as bar:
        bar.start()
    assert "7 accesses" in out.getvalue() and "%" not in out.getvalue().replace("  0 %", "", 1)


def test_a_slow_start_of_a_probe_foretells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that waits two seconds for its first 10 ms: is the time left still what was planned, and the pace counted
    once it means something?"""
    now = [100.0]
    monkeypatch.setattr(probe_bar.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(probe_bar, "err", Console(file=io.StringIO()))
    group = SimpleNamespace(distance="same-core", pair="0-1", places=(0, 1))
    job = SimpleNamespace(group=group, number=0, budgets={"pingpong": 100.0})
    with probe_bar.ProbeBar(None) as display:
        display.plan([job])
        display.begin(job)
        display.progress(job, "pingpong", 1e-4)
        now[0] += 2.0
        assert display._left_s() == pytest.approx(100.0, abs=0.1)
        display.progress(job, "pingpong", 0.1)
        now[0] += 18.0
        assert display._left_s() == pytest.approx(180.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "time left not known yet"), (0.2, "about 1 s left"), (59, "about 59 s left"), (840, "about 14 min left"),
     (7800, "about 2 h 10 min left"), (-3, "longer than was planned")],
)  # fmt: skip
def test_time_left_in_words(seconds: float | None, text: str) -> None:
    assert left_text(seconds) == text


def test_the_first_moments_foretell_nothing() -> None:
    """Is no time told while less than a twentieth of the work is done, whatever its pace would say?"""
    texts = [Guesses().left(Standing("", share, 23_580.0)) for share in (0.0, 0.01, 0.049)]
    assert texts == ["time left not known yet"] * 3
    assert Guesses().left(Standing("", 0.05, 58.0)) == "about 58 s left"


def test_the_time_left_does_not_grow_for_ever() -> None:
    """If the end moves away again and again, is that said instead of ever longer times? Do other work's guesses count
    anew?"""
    guesses = Guesses()
    texts = [guesses.left(Standing("", share, left_s)) for share, left_s in ((0.1, 60), (0.2, 100), (0.3, 200))]
    assert texts == ["about 60 s left", "about 2 min left", LONGER]
    assert guesses.left(Standing("", 0.5, 90)) == "about 90 s left"
    assert guesses.left(Standing("the next", 0.1, 600)) == "about 10 min left"


def test_a_pipe_gets_whole_lines() -> None:
    """Are they never wrapped, without a control character, and does none come after the end?"""
    out = io.StringIO()
    with WorkBar(Console(file=out, width=40), lambda: Standing(WHAT, 0.23, 840.0), every_s=0.01) as bar:
        bar.start()
        while "\n" not in out.getvalue():
            time.sleep(0.01)
    lines = out.getvalue().splitlines()
    assert set(lines) == {f"{WHAT}: 23 % done, about 14 min left"}
    time.sleep(0.05)
    assert out.getvalue().splitlines() == lines


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_gets_one_line_that_fits(columns: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=columns)
    bar = WorkBar(console, lambda: Standing(WHAT, 0.23, 840.0))
    assert bar._bar
    (line,) = console.render_lines(bar._bar.get_renderable(), pad=False)
    text = "".join(segment.text for segment in line)
    assert len(text) <= columns and "about 14 min left" in text and "23 %" in text


def test_nothing_is_printed_while_nothing_runs() -> None:
    out = io.StringIO()
    with WorkBar(Console(file=out), lambda: None, every_s=0.01) as bar:
        bar.start()
        time.sleep(0.05)
    assert out.getvalue() == ""
