"""Does an interrupted tune go on where it was, and does one call tune all MPIs, each for itself?

The command line, the search and the files are the real ones; jobs are a formula (factories.py): no MPI is started.
"""

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from factories import MODEL, FormulaBenchmark, hill, run_search
from tune_machine import GRID, OPENMPI, Machine, after, combinations, resuming, tune

from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, NearfieldError, ProfileError, UsageError
from nearfield.base.paired import Gain
from nearfield.base.topology import Topology
from nearfield.cli import signals
from nearfield.rules.gains import BenchmarkCase
from nearfield.rules.knobs import Settings
from nearfield.rules.schema import load_rules
from nearfield.tune.request import TuneRequest
from nearfield.tune.search import Trial
from nearfield.tune.starved import JobStarved, OutOfTime
from nearfield.tune.trial_log import TrialLine, parse_log_line
from nearfield.tune.trial_log_file import TrialLogFile

# ---- going on


def test_an_interrupted_tune_goes_on_by_the_command_that_it_tells(machine: Machine) -> None:
    """Is each setting measured once in both sittings, the one under way again, and are the rules what they would have
    been, with the first sitting's command and all trials counted?"""
    tune(*GRID, "-o", "whole.toml")
    whole, every = load_rules(Path("whole.toml")), combinations(OPENMPI)
    machine.started.clear()
    machine.on_start = after(8)
    ended = tune(*GRID, "-o", "my rules.toml")
    assert ended.exit_code == 130 and not Path("my rules.toml").exists()
    assert "8 finished trials" in ended.output  # stock is a combination, too
    first = machine.started.pop(OPENMPI.name)
    machine.on_start = lambda name, count: None
    done = tune(*resuming(ended.output))
    assert done.exit_code == 0, done.output
    second = machine.started[OPENMPI.name][: len(every) - 7]
    assert first == every[:8] and second == every[7:]
    rules = load_rules(Path("my rules.toml"))
    assert (rules.tried, rules.rule[0].parameters) == (whole.tried, whole.rule[0].parameters)
    assert rules.rule[0].parameters
    assert not list(Path().glob("*.trials"))


def interrupt_at(machine: Machine, count: int) -> None:
    """Tunes, and presses Ctrl-C when a number of settings have been started."""
    machine.on_start = lambda name, started: os.kill(os.getpid(), signal.SIGINT) if started == count else None
    assert tune(*GRID).exit_code == 130
    machine.on_start = lambda name, started: None


def test_the_best_of_an_interrupted_tune_is_confirmed(machine: Machine) -> None:
    """Does --confirm-best make rules if something gained, without a new trial, and can the rest of the time still be
    used?"""
    every = combinations(OPENMPI)
    interrupt_at(machine, len(every) - 1)
    ended = tune("--resume", "--confirm-best")
    assert ended.exit_code == 0, ended.output
    assert load_rules(Path("rules.toml")).tried.measured == len(every) - 1
    assert load_rules(Path("rules.toml")).rule[0].launches == 1
    assert "confirmed in 1 launch instead of 6" in " ".join(ended.output.split())
    assert resuming(ended.output) == ["--resume", "-o", "rules.toml"]
    assert read("rules.toml").rule("shared-l3") is None, "it was confirmed in short"
    done = tune("--resume")
    assert done.exit_code == 0 and "confirmed in" not in done.output
    assert load_rules(Path("rules.toml")).rule[0].launches >= 6
    assert load_rules(Path("rules.toml")).tried.measured == len(every) + 1


def test_nothing_is_confirmed_before_anything_gained(machine: Machine) -> None:
    """Is there no file that sets nothing, a word that says why, an exit code of its own, and a way to go on?"""
    interrupt_at(machine, 3)
    ended = tune("--resume", "--confirm-best")
    assert ended.exit_code == NOT_DECIDED_EXIT_CODE and not Path("rules.toml").exists()
    assert "shared-l3: not decided: the search was interrupted" in ended.output and "run --rules" not in ended.output
    assert resuming(ended.output) == ["--resume", "-o", "rules.toml"]
    assert tune("--resume").exit_code == 0 and load_rules(Path("rules.toml")).has_any_setting


# ---- what is not decided


def test_a_busy_machine_shows_no_defaults_to_be_best(machine: Machine) -> None:
    """If nothing gains while other programs use the cores, is that not decided and so reported, also by --json; and is
    it measured again when it goes on, and decided once the machine is quiet?"""
    machine.gains, machine.others = 1.0, 0.97
    ended = tune(*GRID, "--json")
    assert ended.exit_code == NOT_DECIDED_EXIT_CODE and not Path("rules.toml").exists()
    printed = json.loads(ended.stdout)
    assert printed["verdicts"] == {"shared-l3": "not decided"} and printed["rule"] == []
    assert "other programs took 97% of the cores' time" in printed["undecided"][0]["reason"]
    assert "longer --budget" not in ended.output
    machine.others = 0.0
    machine.started.clear()
    done = tune("--resume", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["verdicts"] == {"shared-l3": "defaults are best"}
    assert machine.started[OPENMPI.name][: len(combinations(OPENMPI))] == combinations(OPENMPI)
    assert not load_rules(Path("rules.toml")).has_any_setting and not list(Path().glob("*.trials"))
    assert "memory_per_rank_bytes" not in Path("rules.toml").read_text()  # nothing is set, so nothing is needed


def test_launches_of_a_confirmation_are_not_lost(machine: Machine) -> None:
    """If a confirmation is cut short because jobs are starved, does the resumed tune only measure the launches that are
    left, and make the rule?"""
    launches: list[Settings] = []

    def begin_launch(name: str, count: int) -> None:
        if machine.is_confirming():
            launches.append(machine.started[name][-1])
            if len(launches) > 4:
                raise OutOfTime("made up")

    machine.on_start, machine.others = begin_launch, 0.97
    ended = tune(*GRID)
    assert ended.exit_code == NOT_DECIDED_EXIT_CODE and "only 4 of the 6 launches" in ended.output
    assert "measured 1.30x, but was not confirmed" in ended.output
    assert "4 confirming launches" in ended.output and not Path("rules.toml").exists()
    started = len(machine.started[OPENMPI.name])
    machine.on_start = lambda name, count: None
    assert tune(*resuming(ended.output)).exit_code == 0
    assert machine.started[OPENMPI.name][started:] == [launches[0]] * 2, "neither searched nor confirmed again"
    assert load_rules(Path("rules.toml")).has_any_setting


def test_decided_distances_are_saved_without_the_others(machine: Machine) -> None:
    """If one of two distances is not decided, does the file hold the rule of the other and say what is missing, does
    the exit code tell, and does the resumed tune only tune the missing one?"""
    machine.topology = Topology.from_synthetic("package:2 l3:1 l2:2 core:1 pu:1")
    near, far = machine.topology.representative_pairs()

    def starve(name: str, count: int) -> None:
        if machine.is_confirming(far):
            raise OutOfTime("made up")

    machine.on_start = starve
    ended = tune(*GRID)
    assert ended.exit_code == NOT_DECIDED_EXIT_CODE and f"{far}: not decided: " in ended.output
    rules = load_rules(Path("rules.toml"))
    assert [rule.distance for rule in rules.rule] == [near] and [one.distance for one in rules.undecided] == [far]
    machine.on_start = lambda name, count: None
    machine.started.clear()
    assert tune("--resume").exit_code == 0
    rules = load_rules(Path("rules.toml"))
    assert [rule.distance for rule in rules.rule] == [near, far] and rules.undecided == []


def test_a_starved_trial_is_measured_again(machine: Machine) -> None:
    """Is a setting whose job got no processor neither called unusable nor forgotten?"""
    every, starved = combinations(OPENMPI), 3

    def starve(name: str, count: int) -> None:
        if count == starved:
            raise JobStarved("made up")

    machine.on_start = starve
    ended = tune(*GRID, "-o", "rules.toml")
    assert ended.exit_code == 0, ended.output
    assert load_rules(Path("rules.toml")).tried.unfit == []
    machine.gains = 1.0
    ended = tune(*GRID, "-o", "other.toml")
    machine.started.clear()
    assert ended.exit_code == 0, "all were tried"
    ended = tune(*GRID, "-o", "third.toml")
    assert ended.exit_code == NOT_DECIDED_EXIT_CODE and "there was no time for 1 of the settings" in ended.output
    machine.started.clear()
    machine.on_start = lambda name, count: None
    assert tune("--resume", "-o", "third.toml").exit_code == 0
    assert machine.started[OPENMPI.name][0] == every[starved - 1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_ends_at_once_loses_nothing(machine: Machine, number: signal.Signals) -> None:
    """Does each signal that asks a command to end leave what was measured, and a command that goes on?"""
    before = signal.getsignal(number)
    signals.install_handlers()
    machine.on_start = lambda name, count: os.kill(os.getpid(), number) if count == 5 else None
    try:
        ended = tune(*GRID)
    finally:
        signals.restore_default_handlers()
        signal.signal(number, before)
    assert ended.exit_code == 128 + number and not Path("rules.toml").exists()
    assert resuming(ended.output) == ["--resume", "-o", "rules.toml"]
    assert len(read("rules.toml").trials("shared-l3")) >= 4


@pytest.mark.parametrize("count", [7, 22])
def test_a_search_goes_on_as_it_would_have(count: int) -> None:
    """What is proposed follows from what was measured: does a search that knows the trials of an earlier one propose
    the same ones again, measure none of them, and go on as if it had never been interrupted?"""
    whole = run_search(FormulaBenchmark(hill, noise=0), MODEL, 28)
    known = [TrialLine.from_trial("same-core", 0.0, trial).to_trial() for trial in whole.trials[:count]]
    benchmark = FormulaBenchmark(hill, noise=0)
    search = run_search(benchmark, MODEL, 28, earlier_trials=known)
    assert [(t.settings, t.state, t.score) for t in search.trials] == [
        (t.settings, t.state, t.score) for t in whole.trials
    ]
    assert [settings for settings in benchmark.started if settings] == [t.settings for t in whole.trials[count:]]


def test_a_distance_that_is_done_is_not_measured_again(machine: Machine) -> None:
    """With two distances, is the rule of the first taken as it is, and the second tuned from where it was?"""
    machine.topology = Topology.from_synthetic("package:2 l3:1 l2:2 core:1 pu:1")
    near, far = machine.topology.representative_pairs()
    every = combinations(OPENMPI)

    def on_start(name: str, count: int) -> None:
        lines = [json.loads(line) for line in Path("rules.toml.trials").read_text().splitlines()]
        if sum(line.get("distance") == far for line in lines) == 4:
            raise KeyboardInterrupt

    machine.on_start = on_start
    ended = tune(*GRID)
    assert (
        ended.exit_code == 130
        and f"{len(every) + 1 + 4} finished trials, 6 confirming launches and 1 rule in " in ended.output
    )
    log = read("rules.toml")
    machine.started.clear()
    machine.on_start = lambda name, count: None
    assert tune(*resuming(ended.output)).exit_code == 0
    rules = load_rules(Path("rules.toml"))
    assert [rule.distance for rule in rules.rule] == [near, far]
    first = log.rule(near)
    assert first and rules.rule[0].point == first.point
    assert machine.started[OPENMPI.name][: len(every) - 3] == every[3:], "stock and three others are kept"
    assert rules.tried.measured == 2 * len(every) + 2


def read(rules: str) -> TrialLogFile:
    """Returns the lines that are kept beside these rules."""
    with TrialLogFile(Path(rules)).open_locked(resume=True) as unfinished:
        return unfinished


# ---- what does not go on


def interrupted(machine: Machine) -> Path:
    machine.on_start = after(8)
    assert tune(*GRID).exit_code == 130
    machine.on_start = lambda name, count: None
    machine.started.clear()
    return Path("rules.toml.trials")


def last(text: str, old: str, new: str) -> str:
    """With another word in the place of the last such one."""
    before, found, behind = text.rpartition(old)
    assert found
    return before + new + behind


@pytest.mark.parametrize(
    ("damage", "lost"),
    [
        (lambda text: text[:-20], 1),  # a crash cuts the last line short
        (lambda text: last(text, '"state":"measured"', '"state":"measurred"'), 1),
        (lambda text: last(text, '"gains":[[', '"gains":[[7,'), 1),
        (lambda text: last(text, '"settings":{"', '"settings":{"un'), 1),
        (lambda text: last(text, '["stream",16384', '["stream",12345'), 1),
        (lambda text: "\n".join([*text.splitlines()[:3], "\0" * 100, *text.splitlines()[3:], ""]), 0),
    ],
)
def test_what_is_damaged_is_measured_again(machine: Machine, damage: Callable[[str], str], lost: int) -> None:
    """And is that said, and nothing else measured again?"""
    file = interrupted(machine)
    file.write_text(damage(file.read_text()))
    done = tune("--resume")
    assert done.exit_code == 0, done.output
    assert "a line is damaged; lost trials are measured again" in done.output
    every = combinations(OPENMPI)
    run_search = machine.started[OPENMPI.name][: len(every) - 7 + lost]
    assert sum(settings not in every[7:] for settings in run_search) == lost
    assert len(load_rules(Path("rules.toml")).rule[0].point) and not file.exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"nearfield":"', '"nearfield":"9.', "nearfield was 9."),
        ("/opt/openmpi/mpirun", "/opt/mpich/mpirun", "the MPI's version was openmpi 5.0.11, and is mpich 5.0.2"),
        ('"version":"5.0.11"', '"version":"5.0.3"', "the MPI's version was openmpi 5.0.3, and is openmpi 5.0.11"),
        ('"transport":"', '"transport":"pml / ucx ', "transport was pml / ucx"),
        ('"cpu_model":"', '"cpu_model":"Another', "the machine is another: processor Another"),
        ('"distances":["shared-l3"]}', '"distances":["same-numa"]}', "core distances same-numa, here shared-l3"),
        ('"knobs":"', '"knobs":"0', "parameters that nearfield has for this MPI have changed"),
        ('"type":"request"', '"type":"reqest"', "the first line"),
        ('"type":"begin"', '"type":"began"', "the line with the start of the tune is damaged"),
    ],
)
def test_what_differs_is_refused(machine: Machine, old: str, new: str, words: str) -> None:
    """Is the cause named, a remedy named that works, and nothing lost?"""
    file = interrupted(machine)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(NearfieldError, match=re.escape(words)) as caught:
        raise tune("--resume").exception or AssertionError
    assert "--overwrite" in caught.value.remedy
    assert file.read_text() == text.replace(old, new, 1)
    assert tune(*GRID, "--overwrite").exit_code == 0 and not file.exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--budget", "30"), "--budget was 300, and is 30 now"),
        (("--sizes", "8"), "--sizes was 8, 16384, 1048576, and is 8 now"),
        (("--mpi", "mpich"), "--mpi was not given, and is mpich now"),
        (("--distance", "same-numa"), "--distance was not given"),
        (("--max-regression", "20%"), "--max-regression was 0.03, and is 0.2 now"),
        (("--overwrite",), "exclude each other"),
    ],
)
def test_another_request_is_refused(machine: Machine, given: tuple[str, ...], words: str) -> None:
    interrupted(machine)
    with pytest.raises(UsageError, match=re.escape(words)):
        raise tune("--resume", *given).exception or AssertionError
    assert tune("--resume", *GRID).exit_code == 0, "what was asked may be said again"


def test_nothing_is_thrown_away_unasked(machine: Machine) -> None:
    """Is a new tune refused while an interrupted one is there, and one that is there no more not resumed?"""
    file = interrupted(machine)
    with pytest.raises(ProfileError, match="8 finished trials") as caught:
        raise tune(*GRID).exception or AssertionError
    assert "--resume" in caught.value.remedy and "--overwrite" in caught.value.remedy and file.exists()
    assert tune("--resume").exit_code == 0
    with pytest.raises(UsageError, match="nothing to resume at rules.toml"):
        raise tune("--resume").exception or AssertionError
    machine.started.clear()
    machine.on_start = after(1)
    assert "before anything was measured" in tune("--budget", "20", "--sizes", "8", "-o", "other.toml").output
    assert not Path("other.toml.trials").exists()


def test_the_file_is_for_nobody_else(tmp_path: Path) -> None:
    """Where others may write, is a file that lies in wait left as it is? And is one that is held not taken?"""
    rules, file = tmp_path / "rules.toml", tmp_path / "rules.toml.trials"
    (tmp_path / "target").write_text("mine")
    for trap in (lambda: file.symlink_to(tmp_path / "target"), lambda: file.write_text("a letter\n")):
        trap()
        with pytest.raises(ProfileError), TrialLogFile(rules).open_locked(resume=False):
            pass
        assert file.read_text() in ("mine", "a letter\n")
        file.unlink()
    with TrialLogFile(rules).open_locked(resume=False) as unfinished:
        unfinished.record_request(TuneRequest())
        assert file.stat().st_mode & 0o777 == 0o600
        with pytest.raises(UsageError, match="another tune is at work"), TrialLogFile(rules).open_locked(resume=True):
            pass
    file.chmod(0o666)
    with pytest.raises(ProfileError, match="only you may write"), TrialLogFile(rules).open_locked(resume=True):
        pass


def test_a_trial_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Are trials read as written, unusable ones, too, and is one with impossible numbers left out?"""
    gains: dict[BenchmarkCase, Gain] = {
        ("pingpong", 8): Gain(1.25, 1.2, 1.3, 6),
        ("stream", 1 << 20): Gain(0.9, 0.8, 1.0, 2),
    }
    good = [
        Trial({"eager_limit": 65536, "single_copy": "none"}, "model", gains=gains, c2c_latency_ns=51.5),
        Trial({"eager_limit": 4096}, "search", "unfit", reason='dies "so"\n\x1b[2J'),
    ]
    bad = Trial({}, "grid", gains={("pingpong", 8): Gain(float("inf"), 1, 1, 1)})
    with TrialLogFile(tmp_path / "rules.toml").open_locked(resume=False) as unfinished:
        unfinished.record_request(TuneRequest(sizes=(8, 64), never_below=0.8, command="nearfield tune"))
        for spent, trial in enumerate([*good, bad]):
            unfinished.add(TrialLine.from_trial("same-core", float(spent), trial))
    with TrialLogFile(tmp_path / "rules.toml").open_locked(resume=True) as again:
        assert again.read_request() == TuneRequest(sizes=(8, 64), never_below=0.8, command="nearfield tune")
        assert (again.trials("same-core"), again.spent_s("same-core"), again.num_damaged_lines) == (good, 1.0, 1)
    text = TrialLine.from_trial("same-core", 0.0, good[0]).model_dump_json().replace("c2c_latency_ns", "flag_ns")
    old = parse_log_line(text.encode())
    assert "flag_ns" in text and isinstance(old, TrialLine) and old.to_trial() == good[0], "as it was called before"
