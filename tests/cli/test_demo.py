"""Does `nearfield demo` go on where it stopped, and does each step follow whatever became of the one before?"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import typer

from nearfield.base import errors
from nearfield.base.cpu_load import Busyness, busyness_advice
from nearfield.cli import demo_steps
from nearfield.cli.demo_steps import (
    StepProgress,
    describe_profile,
    describe_rules,
    probe_progress,
    run_step,
    tune_progress,
)
from nearfield.cli.verbs import demo


def test_standing_follows_the_files(tmp_path: Path) -> None:
    """Are a step that never began and one that was interrupted distinguished?"""
    out = tmp_path / "demo"
    assert (probe_progress(out), tune_progress(out)) == (StepProgress.ABSENT, StepProgress.ABSENT)
    (tmp_path / "demo.launches").mkdir()
    (tmp_path / "demo.launches/request.json").write_text("{}")
    out.mkdir()
    (out / "rules.toml.trials").write_text("")
    assert (probe_progress(out), tune_progress(out)) == (StepProgress.UNFINISHED, StepProgress.UNFINISHED)
    (out / "rules.toml.trials").unlink()
    (out / "rules.toml").write_text("")
    assert tune_progress(out) is StepProgress.COMPLETE


@pytest.mark.parametrize(
    ("standing", "resume_code", "ran"),
    [
        (StepProgress.COMPLETE, 0, []),
        (StepProgress.ABSENT, 0, [["tune", "--out", "x"]]),
        (StepProgress.UNFINISHED, 0, [["tune", "--resume", "--out", "x"]]),
        (StepProgress.UNFINISHED, 5, [["tune", "--resume", "--out", "x"]]),
        (StepProgress.UNFINISHED, 4, [["tune", "--resume", "--out", "x"], ["tune", "--out", "x"]]),
    ],
)
def test_a_step_goes_on_from_where_it_stands(
    standing: StepProgress, resume_code: int, ran: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is what is complete left alone, what is unfinished resumed, and what cannot be resumed begun anew?"""
    seen: list[list[str]] = []

    def step(name: str, words: list[str]) -> int:
        seen.append(words)
        return resume_code if "--resume" in words else 0

    monkeypatch.setattr(demo, "run_step", step)
    demo._run_or_resume("tune", standing, ["--out", "x"])
    assert seen == ran


def test_a_step_returns_the_exit_code_of_the_verb(capfd: pytest.CaptureFixture[str]) -> None:
    """Does a verb that fails end neither the demo nor in silence?"""
    assert run_step("show", ["show", "there-is-no-such-profile"]) != 0
    assert "there-is-no-such-profile" in capfd.readouterr().err


def test_a_signal_ends_the_step_and_then_the_demo(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Does Ctrl-C reach the verb, and is said how to go on?"""

    def interrupt(name: str, lines: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(demo_steps, "_print_lines", interrupt)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(typer.Exit) as ended:
        run_step("probe", ["probe", "--list"])
    assert ended.value.exit_code == 130 and signal.getsignal(signal.SIGINT) is before
    assert "to continue" in capfd.readouterr().err


def test_the_summary_names_what_is_not_known(tmp_path: Path) -> None:
    """Without a profile, without rules, and without a decision: does nothing sound like a result?"""
    assert describe_profile(tmp_path).startswith("nothing: ")
    assert describe_rules(tmp_path / "rules.toml", 0).startswith("nothing: ")
    assert describe_rules(tmp_path / "rules.toml", errors.NOT_DECIDED_EXIT_CODE).startswith("not decided")


def test_a_busy_machine_is_reported_with_the_effects() -> None:
    """Do the first words say how long it will take, and a quiet machine's not?"""
    text = busyness_advice(Busyness(cores=2, used_cores=1.6, mean_waiting_threads=4.0, steal_share=0.0))
    assert "1.6 of 2 cores" in text and "about 3 times as long" in text and "unstable" in text
    assert "quiet" in busyness_advice(Busyness(cores=2, used_cores=0.0, mean_waiting_threads=0.0, steal_share=0.0))
    assert "its host takes 10%" in busyness_advice(
        Busyness(cores=2, used_cores=0.0, mean_waiting_threads=0.0, steal_share=0.1)
    )
