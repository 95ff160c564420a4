"""Are people told how far long work is, in a pipe as well as on a terminal, and is the time left an honest guess?"""

import io
import time

import pytest
from rich.console import Console

from nearfield.cli import work_bar
from nearfield.cli.work_bar import Pace, WorkBar, left_text


def test_the_rest_takes_as_long_as_what_is_done() -> None:
    now = [100.0]
    pace = Pace(200.0, clock=lambda: now[0])
    assert pace.left_s() is None
    now[0], pace.done = 110.0, 50.0
    assert pace.left_s() == 30
    now[0] = 120.0  # nothing more was done meanwhile
    assert pace.left_s() == 60
    pace.done = 201.0
    assert pace.left_s() == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "time left not known yet"), (0.2, "about 1 s left"), (59, "about 59 s left"), (840, "about 14 min left"),
     (7800, "about 2 h 10 min left")],
)  # fmt: skip
def test_time_left_in_words(seconds: float | None, text: str) -> None:
    assert left_text(seconds) == text


def test_a_pipe_gets_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long they are, without a control character, and none after the end."""
    monkeypatch.setattr(work_bar, "EVERY_S", 0.01)
    out = io.StringIO()
    bar = WorkBar(Console(file=out, width=40), lambda: 840.0)
    what = "12 of 891 cases, now pingpong, same-package [shared by 52 cores]"
    bar.show(what, 0.03)
    bar.start()
    while "\n" not in out.getvalue():
        time.sleep(0.01)
    bar.stop()
    time.sleep(0.05)
    lines = out.getvalue().splitlines()
    assert set(lines) == {f"{what}: 3 % done, about 14 min left"}
    time.sleep(0.05)
    assert out.getvalue().splitlines() == lines


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_gets_one_line_that_fits(columns: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=columns)
    bar = WorkBar(console, lambda: 840.0)
    bar.show("12 of 891 cases, now pingpong, same-package and more words than fit", 0.03)
    assert bar._bar
    (line,) = console.render_lines(bar._bar.get_renderable(), pad=False)
    text = "".join(segment.text for segment in line)
    assert len(text) <= columns and "about 14 min left" in text and "3 %" in text
