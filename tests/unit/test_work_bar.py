"""Do people see the progress of long work, in a pipe as well as on a terminal, and is the time left an honest
estimate?"""

import io
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from rich.console import Console

from nearfield.base.progress import Progress
from nearfield.measure.live import progress
from nearfield.measure.sim.estimate import SimulationTimeEstimate
from nearfield.ui.progress import OVER_ESTIMATE_TEXT, ProgressDisplay, RemainingTimeEstimate, format_remaining_time

WHAT = "12 of 891 cases, now pingpong, same-package [shared by 52 cores]"


@dataclass(frozen=True)
class Case:
    name: str
    estimated_work: float
    work_kind: str = "bcast"

    def __str__(self) -> str:
        return self.name


def test_the_rest_takes_as_long_as_what_is_done() -> None:
    """Is the time left what the rest should cost on two processors, and does it fall while nothing ends?"""
    now = [100.0]
    cases = [Case("a case", 50.0), Case("b", 100.0), Case("c", 51.0)]  # the estimates of work are rounded
    estimate = SimulationTimeEstimate([*cases[:2], Case("c", 50.0)], num_concurrent_cases=2, clock=lambda: now[0])
    left = RemainingTimeEstimate(lambda: now[0])
    left.add_event(Progress("0 of 3 cases", 0.0))
    assert left.format_line() == "0 of 3 cases: 0 % done, time left not known yet"
    now[0] = 110.0
    event = estimate.add_finished_case(cases[0], 10.0)
    assert event == Progress("1 of 3 cases (a case)", 0.25, 15.0)
    left.add_event(event)
    texts = []
    for now[0] in (110.0, 120.0, 130.0):  # nothing more is done
        texts.append(str(left))
    assert texts == ["about 15 s left", "about 5 s left", OVER_ESTIMATE_TEXT]
    estimate.add_finished_case(cases[1], 25.0)
    assert estimate.add_finished_case(cases[2], 10.0) == Progress("3 of 3 cases (c)", 1.0, 0.0)


def test_each_kind_of_case_counts_by_the_cost_of_that_kind() -> None:
    """A small case that is dear for its work, as on a machine of a hundred cores: is its share of the whole small, so
    that no time is shown? Is the time left then what each kind took?"""
    now = [0.0]
    small, large = Case("small", 1.0), [Case("large", 1000.0), Case("other", 1000.0, "allreduce")]
    estimate = SimulationTimeEstimate([small, *large], num_concurrent_cases=1, clock=lambda: now[0])
    now[0] = 5.0
    assert (estimate.add_finished_case(small, 5.0).share or 0.0) < 0.05
    now[0] = 45.0
    event = estimate.add_finished_case(large[0], 40.0)
    share = 45 / (45 + 1000 * 45 / 1001)
    assert event.share == pytest.approx(share) and event.remaining_s == pytest.approx(45, rel=0.01)


def test_work_of_unknown_length_has_no_share() -> None:
    """Is the end of a pipe not predicted, on a terminal and in a log?"""
    event = Progress("7 accesses, from standard input")
    left = RemainingTimeEstimate()
    left.add_event(event)
    assert left.format_line() == "7 accesses, from standard input"
    out = io.StringIO()
    with ProgressDisplay(Console(file=out, width=80, force_terminal=True)) as display:
        display(event)
    assert "7 accesses" in out.getvalue() and "%" not in out.getvalue()


def test_a_probe_is_as_slow_as_the_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that waits two seconds for its first 10 ms: is no time shown before the pace means something? Does a time
    limit end the probe earlier? Is a failed launch reported?"""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    left, lines = RemainingTimeEstimate(lambda: now[0]), []

    def report(event: str | Progress) -> None:
        if isinstance(event, Progress):
            left.add_event(event)
        lines.append(left.format_line() if isinstance(event, Progress) else event)

    group = SimpleNamespace(distance="same-core", pair="0-1", places=(0, 1))
    job = SimpleNamespace(group=group, launch_index=0, budget_s_by_scenario={"pingpong": 60.0, "floor": 40.0})
    for limit_s in (None, 118.0):
        probe = progress.ProbeProgress(report, [job], limit_s)
        probe.report_start(job)
        probe.report_share(job, "pingpong", 1e-4)
        now[0] += 2.0
        probe.report_share(job, "pingpong", 1e-3)
        now[0] += 18.0
        probe.report_share(job, "pingpong", 1 / 6)
        now[0] += 20.0
        probe.report_share(job, "floor", 0.0)
    probe.report_end(job, SimpleNamespace(state="failed", reason="a rank died"))
    name = "same-core (0-1) launch 1"
    assert lines[:5] == [
        f"{name}: starting 2 ranks for pingpong, floor: 0 % done, time left not known yet",
        f"{name}: pingpong: 0 % done, time left not known yet", f"{name}: pingpong: 0 % done, time left not known yet",
        f"{name}: pingpong: 10 % done, about 2 min left".replace("2 min", "3 min"),
        f"{name}: floor: 60 % done, about 27 s left",
    ]  # fmt: skip
    assert lines[8] == f"{name}: pingpong: 10 % done, about 98 s left"
    assert lines[-2:] == [f"{name}: ending: 100 % done, about 1 s left", f"launch failed ({name}): a rank died"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "time left not known yet"), (0.2, "about 1 s left"), (59, "about 59 s left"), (840, "about 14 min left"),
     (7800, "about 2 h 10 min left")],
)  # fmt: skip
def test_time_left_in_words(seconds: float | None, text: str) -> None:
    assert format_remaining_time(seconds) == text


def test_the_first_moments_allow_no_estimate() -> None:
    """Is no time shown while less than a twentieth of the work is done, whatever its pace?"""
    assert [left_texts((share, 23_580.0)) for share in (0.0, 0.01, 0.049)] == [["time left not known yet"]] * 3
    assert left_texts((0.05, 58.0)) == ["about 58 s left"]


def test_work_that_is_done_is_ending() -> None:
    """Is it said that work ends, and not that it takes long, after its last progress event?"""
    now = [0.0]
    left = RemainingTimeEstimate(lambda: now[0])
    left.add_event(Progress("", 0.5, 10.0))
    left.add_event(Progress("", 1.0, 0.0))
    now[0] = 2.0
    assert str(left) == "ending"


def test_the_time_left_does_not_grow_for_ever() -> None:
    """If the end moves away again and again, is that said instead of ever longer times? Do the estimates of other work
    count anew?"""
    assert left_texts((0.1, 60), (0.2, 100), (0.3, 200), (0.5, 90), (0.1, 600)) == [
        "about 60 s left", "about 2 min left", OVER_ESTIMATE_TEXT, "about 90 s left", "about 10 min left",
    ]  # fmt: skip


def left_texts(*progress: tuple[float, float]) -> list[str]:
    """Returns the texts for shares and seconds that are left."""
    left, texts = RemainingTimeEstimate(lambda: 0.0), []
    for share, left_s in progress:
        left.add_event(Progress("", share, left_s))
        texts.append(str(left))
    return texts


def test_the_pace_counts_from_the_start_of_the_work() -> None:
    """Is the time left that of the pace since the work began, and not that of the work before?"""
    now = [0.0]
    left = RemainingTimeEstimate(lambda: now[0])
    for now[0], share, text in (
        (0.0, 0.0, "time left not known yet"), (50.0, 0.5, "about 50 s left"), (60.0, 0.2, "time left not known yet"),
        (90.0, 0.5, "about 50 s left"),
    ):  # fmt: skip
        left.add_event(Progress("", share))
        assert str(left) == text


def test_a_pipe_gets_whole_lines() -> None:
    """Are they never wrapped, without a control character, one at once when a phase begins, and none after the end?"""
    out = io.StringIO()
    with ProgressDisplay(Console(file=out, width=40), every_s=0.01, clock=lambda: 0.0) as display:
        display(Progress(WHAT, 0.23, 840.0, phase="first"))
        assert out.getvalue() == f"first: {WHAT}: 23 % done, about 14 min left\n"
        display(Progress(WHAT, 0.24, 840.0, phase="first"))
        while out.getvalue().count("\n") < 2:
            time.sleep(0.01)
    lines = out.getvalue().splitlines()
    assert lines[1:] == [f"first: {WHAT}: 24 % done, about 14 min left"]
    time.sleep(0.05)
    assert out.getvalue().splitlines() == lines


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_gets_one_line_that_fits(columns: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=columns)
    with ProgressDisplay(console) as display:
        display(Progress(WHAT, 0.23, 840.0))
        assert display._bar
        (line,) = console.render_lines(display._bar.get_renderable(), pad=False)
    text = "".join(segment.text for segment in line)
    assert len(text) <= columns and "about 14 min left" in text and "23 %" in text


def test_nothing_is_printed_while_nothing_runs() -> None:
    out = io.StringIO()
    with ProgressDisplay(Console(file=out), every_s=0.01):
        time.sleep(0.05)
    assert out.getvalue() == ""
