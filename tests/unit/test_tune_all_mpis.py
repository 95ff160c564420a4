"""Does `nearfield tune --all-mpis` tune each MPI by itself, and say how long that takes and how far it is?"""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tune_machine import GRID, MPICH, OPENMPI, Machine, after, combinations, resuming, tune

from nearfield.apply import cached_plan
from nearfield.apply.plan import plan_launch
from nearfield.base.errors import MeasurementError, UsageError
from nearfield.base.progress import Progress
from nearfield.cli.verbs.export import export_text
from nearfield.rules.schema import find_rules_path, load_only_rules, load_rules, load_rules_of_mpi
from nearfield.tune.request import TuneRequest
from nearfield.tune.search import Trial
from nearfield.tune.trial_log import TrialLine
from nearfield.tune.trial_log_file import TrialLogFile
from nearfield.tune.tuning import PHASE_NAMES, Tuning
from nearfield.ui.progress import RemainingTimeEstimate


def test_every_mpi_gets_the_rules_for_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is there a row for each, and does a program get the rules of its own MPI, whichever verb asks?"""
    done = tune("--all-mpis", *GRID)
    assert done.exit_code == 0, done.output
    folder = Path("nearfield-rules")
    assert sorted(file.name for file in folder.iterdir()) == ["mpich-5.0.2.toml", "openmpi-5.0.11.toml"]
    rows = [line.split()[:3] for line in done.output.splitlines() if re.match(r"(mpich|openmpi)-5\S+\s\s", line)]
    assert [row[:2] for row in rows] == [["openmpi-5.0.11", "shared-l3"], ["mpich-5.0.2", "shared-l3"]]
    assert "run -- mpirun ..." in done.output, "the folder is found without being named"
    for inst in (OPENMPI, MPICH):
        chosen, rules = load_rules_of_mpi(find_rules_path(None), inst.family, inst.version)
        assert (chosen.stem, rules.mpi.family) == (inst.name, inst.family)
        assert load_rules_of_mpi(folder, inst.family, re.sub(r"\d+$", "77", inst.version))[0] == chosen, "a patch level"
        plan, _ = plan_launch(["true"], folder, False, inst.name)
        assert plan.variables and set(plan.variables) == set(
            rules.find_knob_file().launch_environment(rules.rule[0].parameters, {})
        )
        path, rules = load_only_rules(folder, inst.family)
        assert next(iter(plan.variables)) in export_text(rules, inst.family, "env", path)
    with pytest.raises(UsageError, match=r"no rules in nearfield-rules are for intel 2021; there are mpich 5.0.2 \(mp"):
        load_rules_of_mpi(folder, "intel", "2021")
    with pytest.raises(UsageError, match=r"has rules for mpich 5.0.2 \(mpich-5.0.2.toml\), openmpi"):
        load_only_rules(folder)
    question = cached_plan._cache_key(["true"], None, False, "mpich")
    (folder / "mpich-5.0.2.toml").write_text((folder / "mpich-5.0.2.toml").read_text() + "\n")
    assert cached_plan._cache_key(["true"], None, False, "mpich") != question, "what is kept is of other rules"


@pytest.mark.parametrize("what", [KeyboardInterrupt, SystemExit, MeasurementError])
def test_what_fails_or_is_interrupted_costs_only_itself(machine: Machine, what: type[BaseException]) -> None:
    """Does the other MPI have its rules, does the exit code say so, and does the command that is printed go on with the
    one that is left?"""
    machine.on_start = after(5, what, of="mpich")
    machine.found = [MPICH, OPENMPI] if what is MeasurementError else [OPENMPI, MPICH]
    done = tune("--all-mpis", *GRID, "-o", "site rules")
    said = done.output
    if what is MeasurementError:
        assert isinstance(done.exception, MeasurementError) and "1 of 2 MPIs could not be tuned" in str(done.exception)
        assert "failed: made up" in said
        said += done.exception.remedy
    elif what is SystemExit:
        assert done.exit_code and "the measurements are saved" in said
    else:
        assert done.exit_code == 130 and "not done yet: mpich-5.0.2 (5 finished trials)" in said
    folder = Path("site rules")
    assert load_rules(folder / "openmpi-5.0.11.toml").rule[0].parameters
    assert [file.name for file in folder.glob("mpich*")] == ["mpich-5.0.2.toml.trials"]
    machine.started.clear()
    machine.on_start = lambda name, count: None
    again = tune(*resuming(said))
    assert again.exit_code == 0, again.output
    assert list(machine.started) == ["mpich-5.0.2"] and len(list(folder.iterdir())) == 2
    assert load_rules(folder / "mpich-5.0.2.toml").tried.measured == len(combinations(MPICH)) + 1
    with pytest.raises(UsageError, match="nothing to resume in site rules"):
        raise tune(*resuming(said)).exception or AssertionError


def test_all_mpis_needs_a_folder_and_all(machine: Machine) -> None:
    Path("file").touch()
    for options, words in ((("-o", "file"), "is a file"), (("--mpi", "mpich"), "exclude each other")):
        with pytest.raises(UsageError, match=words):
            raise tune("--all-mpis", *options).exception or AssertionError
    assert tune("--all-mpis", *GRID, "--json").exit_code == 0
    machine.found = [replace(OPENMPI, version="3.0", name="openmpi-3.0")]
    failed = tune("--all-mpis", *GRID)
    assert failed.exception and "has no parameters of openmpi 3.0" in failed.output


def test_the_time_is_announced_before(machine: Machine) -> None:
    """Of all MPIs, what is left of it when that goes on, and of one with its phases?"""
    machine.on_start = after(1, MeasurementError)
    said = tune("--all-mpis", "--budget", "300").output
    machine.started.clear()
    assert "2 MPIs (openmpi-5.0.11, mpich-5.0.2): about 11 min in all, of which 1 min to build" in said
    phases = "(searching 2 min 15 s, playing off 45 s, confirming 2 min)"
    assert f"1 of 2, openmpi-5.0.11, shared-l3: about 5 min, at most 10 min 40 s {phases}" in said
    with TrialLogFile(Path("nearfield-rules/mpich-5.0.2.toml")).open_locked(resume=True) as unfinished:
        unfinished.add(TrialLine.from_trial("shared-l3", 60.0, Trial({}, "model", "unfit")))
    said = tune("--all-mpis", "--resume").output
    assert "about 10 min in all" in said and "about 4 min, at most 8 min" in said


def test_progress_says_how_long_the_tune_will_take(machine: Machine) -> None:
    """Does a log get a line when a phase begins, do trials report how many there are and the best, and is a tune that
    takes longer than planned reported as such, with the time at which it ends at the latest?"""
    reported: list[str | Progress] = []
    Tuning(TuneRequest(budget_s=2.0, mpi="openmpi"), reported.append).run()
    events = [event for event in reported if isinstance(event, Progress)]
    assert str(reported[0]).startswith("openmpi-5.0.11, shared-l3: about 2 s, at most ")
    phases = [event for event in events if event.text.endswith("s are planned")]
    assert [event.phase for event in phases] == [f"shared-l3: {name}" for name in PHASE_NAMES]
    assert any(re.fullmatch(r"\d+ tried, best \d\.\d\dx", event.text) for event in events)
    assert any(re.fullmatch(r"\d+ launch(es)?", event.text) for event in events)
    assert all(event.remaining_s <= event.max_remaining_s and 0 <= event.share < 1 for event in events)  # type: ignore[operator]
    now, left = [0.0], RemainingTimeEstimate(lambda: now[0])
    left.add_event(Progress("50 s are planned", 0.5, 50.0, 130.0, "same-core: searching"))
    assert left.format_line() == "same-core: searching: 50 s are planned: 50 % done, about 50 s left"
    now[0] = 110.0
    assert str(left) == "taking longer than estimated, at most 20 s more"


def test_all_rules_are_printed_as_json(machine: Machine) -> None:
    printed = json.loads(tune("--all-mpis", *GRID, "--json").stdout)
    assert {name: rules["mpi"]["family"] for name, rules in printed.items()} == {
        "openmpi-5.0.11": "openmpi",
        "mpich-5.0.2": "mpich",
    }
