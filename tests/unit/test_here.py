"""Does `reproduce --live` say that a statement holds, that it does not, or that noise hides it; and does the paper's
verdict stay as it was?"""

import random
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import report_profiles as made
from tuning import in_process

from nearfield import mpi
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, ProfileError, UsageError
from nearfield.base.progress import Progress, Report
from nearfield.base.toml import parse_toml
from nearfield.measure.checkpoint import RequestOutcome
from nearfield.measure.request import Request
from nearfield.profile import Profile, load, save
from nearfield.profile.curves import Place
from nearfield.profile.schema import Launch as LaunchTable
from nearfield.reproduce.judges import JUDGES, JudgeInput
from nearfield.reproduce.live import measure
from nearfield.reproduce.live.answers import ANY_POSITION, LiveData, answer_statement
from nearfield.reproduce.live.bootstrap import decide_by_bootstrap, launch_intervals
from nearfield.reproduce.live.compiler import find_vectorized_loops
from nearfield.reproduce.live.measure import Launch
from nearfield.reproduce.live.sizes import MachineSizes
from nearfield.reproduce.live.tuned import RULE_QUESTIONS
from nearfield.reproduce.papers import Paper, claims_file_by_paper, load_paper, select_claims
from nearfield.reproduce.schema import LiveCheck
from nearfield.reproduce.verdicts import Evidence, judge_claim
from nearfield.rules.collective_tables import CollectiveTable, NativeCollectiveTable
from nearfield.rules.gain_table import StoredGain
from nearfield.rules.schema import load_rules
from nearfield.ui.progress import RemainingTimeEstimate

DATA = Path(__file__).parents[1] / "data"
PAPERS = [load_paper(name) for name in claims_file_by_paper()]
KIB = 1 << 10
SIZES = [KIB << i for i in range(6)]


def facts() -> Profile:
    """A machine with an L2 of 1 MiB, an L3 of 8 MiB and an eager limit of 4 KiB."""
    row = made.row("protocol", "single_copies", 0, "count", size_bytes=8, **made.HERE)
    return made.profile([row], [made.switch("eager-limit", 4096)])


# ---- noise


def launches(truth: Callable[[int], float], noise: float, chance: random.Random, number: int = 5) -> list[dict]:
    return [{size: truth(size) * (1 + chance.gauss(0, noise)) for size in SIZES} for _ in range(number)]


def judge_named(name: str, is_difference: bool = False, **more: Any) -> Callable[[dict], bool]:
    def holds(curve: dict) -> bool:
        given = JudgeInput(curve, None, None, more.get("at"), (), is_difference, str, str, (curve,))
        return JUDGES[name].judge(given).holds

    return holds


@pytest.mark.parametrize(
    ("judge", "true", "false"),
    [
        ("same", lambda x: 1.0, lambda x: 1.3),
        ("more", lambda x: 1.3, lambda x: 0.9),
        ("less", lambda x: 0.7, lambda x: 1.1),
        ("grows", lambda x: x, lambda x: 1 / x),
        ("flat", lambda x: 3.0, lambda x: x),
        ("some", lambda x: 0.3, lambda x: -0.3),
    ],
)
def test_there_are_three_answers(judge: str, true: Callable, false: Callable) -> None:
    """By quiet launches: does what is true hold, and what is false not? By noisy ones: can neither be decided?"""
    chance = random.Random(1)
    holds = judge_named(judge, is_difference=judge == "some")
    assert decide_by_bootstrap(launches(true, 0.003, chance), holds, (0.0, 1.0), ANY_POSITION) == "holds"
    assert decide_by_bootstrap(launches(false, 0.003, chance), holds, (0.0, 1.0), ANY_POSITION) == "does not"
    assert decide_by_bootstrap(launches(true, 0.003, chance, 2), holds, (0.0, 1.0), ANY_POSITION) == "cannot tell"
    assert decide_by_bootstrap(launches(true, 1.0, chance), holds, (0.0, 1.0), ANY_POSITION) == "cannot tell"


@pytest.mark.parametrize("judge", ["same", "more", "less", "no-more", "grows", "falls", "flat", "peaks"])
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_noise_alone_is_no_answer(judge: str, noise: float) -> None:
    """Where nothing differs but for noise that hides it: does at most one experiment in twenty say anything that is
    wrong, whatever the question? (What is the same holds as "same" and "flat", and as nothing else.)"""
    chance = random.Random(2)
    holds = judge_named(judge, is_difference=judge == "peaks", at=(SIZES[2], SIZES[3]))
    truth: Callable[[int], float] = lambda x: 1.0  # noqa: E731
    said = []
    for _ in range(40):
        some = launches(truth, noise, chance)
        if judge == "peaks":
            some = [{x: y - 1 for x, y in one.items()} for one in some]
        said.append(decide_by_bootstrap(some, holds, (0.0, 1.0), (SIZES[2], SIZES[3])))
    wrong = "does not" if judge in ("same", "flat", "no-more") else "holds"
    assert said.count(wrong) <= 2
    assert said.count("cannot tell") >= 38 or noise < 1


@pytest.mark.parametrize(("number", "outside"), [(5, 0.015), (4, 0.04), (3, 0.11)])
def test_an_interval_has_the_truth_in_it(number: int, outside: float) -> None:
    """How often is the truth outside the interval, by noise alone?"""
    chance = random.Random(3)
    missed = 0
    for _ in range(4000):
        low, high = launch_intervals([{0: chance.gauss(0, 1)} for _ in range(number)])[0]
        missed += not low <= 0 <= high
    assert missed / 4000 < outside


def many(truth: float, noise: float, chance: random.Random, number: int) -> list[dict]:
    return [{size: truth + chance.gauss(0, noise) for size in range(24)} for _ in range(number)]


@pytest.mark.parametrize("number", [3, 4])
@pytest.mark.parametrize(
    ("judge", "truth", "wrong"),
    [("some", 0.0, "holds"), ("never", 0.0, "does not"), ("more", 0.02, "does not"), ("less", -0.02, "does not")],
)
def test_one_size_of_many_gives_no_false_alarm(judge: str, truth: float, wrong: str, number: int) -> None:
    """Where one size of 24 is enough for an answer, and noise hides the truth: is the answer wrong in at most one
    experiment of ten? (Without a correction for how many sizes there are, three launches say it in most.)"""
    chance, holds = random.Random(8), judge_named(judge, is_difference=True)
    said = [
        decide_by_bootstrap(many(truth, 0.3, chance, number), holds, (0.0, 1.0), ANY_POSITION, JUDGES[judge].quantifier)
        for _ in range(40)
    ]
    assert said.count(wrong) <= 4, said


def test_one_size_of_many_is_still_seen() -> None:
    """Does one size of 24 that significantly gains, or loses, give the answer, in quiet launches?"""
    chance = random.Random(9)
    for judge, value, word in (("some", 0.3, "holds"), ("never", 0.3, "does not"), ("more", -0.3, "does not")):
        some = [one | {5: value + chance.gauss(0, 0.003)} for one in many(0.0 if value > 0 else 0.3, 0.003, chance, 4)]
        holds = judge_named(judge, is_difference=True)
        assert decide_by_bootstrap(some, holds, (0.0, 1.0), ANY_POSITION, JUDGES[judge].quantifier) == word, judge


# ---- what a statement means here


def test_sizes_are_of_this_machine() -> None:
    sizes = MachineSizes(facts())
    inside = sizes.find_place("same-node")
    assert inside == Place("shared-l3", "0-1") and sizes.find_place("network-1") is None
    across = made.row("protocol", "single_copies", 0, "count", size_bytes=8, distance="network-1", pair="a:0-b:0")
    both = MachineSizes(made.profile([*facts().records.to_dicts(), across], [made.switch("eager-limit", 4096),
                              made.switch("eager-limit", 8192, distance="network-1", pair="a:0-b:0")]))  # fmt: skip
    between = both.find_place("network-3")
    assert between == Place("network-1", "a:0-b:0") and both.bytes_of("2*eager", between) == 16384
    assert both.resolve_known_sizes(["eager"]) == (4096, 8192)
    named = {"eager": 4096, "eager/2": 2048, "llc": 8 << 20, "2*llc/3": (16 << 20) // 3, "l2": 1 << 20, 77: 77}
    assert {size: sizes.bytes_of(size, inside) for size in named} == named
    assert sizes.resolve_known_sizes([64, "eager", 4096, "2*llc"]) == (64, 4096, 16 << 20)


def one_way(side: str, state: str, size: int, time: float, metric: str = "call") -> dict:
    more = {"side": side, "state": state, "access": "read", "size_bytes": size, **made.HERE}
    return made.row("one-way", metric, time, **more)


def of_states(saved: float, noise: float, chance: random.Random) -> Profile:
    """Two sides whose calls save this share of their time at 4 MiB when preloaded, and nothing elsewhere."""
    rows = []
    for side in ("sender", "receiver"):
        for size in (KIB, 4 * KIB, 64 * KIB, 4 << 20, 16 << 20):
            gain = saved if size == 4 << 20 else 0.0
            wobble = 1 + chance.gauss(0, noise)
            rows += [
                one_way(side, "invalid", size, 1000.0),
                one_way(side, "pages", size, 1000.0),  # the control: used pages alone save nothing
                one_way(side, "exclusive", size, 1000 * (1 - gain) * wobble),
            ]
    return made.profile(rows, [made.switch("eager-limit", 4096)])


@pytest.mark.parametrize(
    ("saved", "noise", "word"), [(0.25, 0.005, "holds"), (-0.25, 0.0, "does not"), (0.25, 0.3, "cannot tell")]
)
def test_a_statement_is_answered_with_intervals(saved: float, noise: float, word: str) -> None:
    """S0.6: the gain peaks just below the last-level cache. Is each answer given, with our number and its interval?"""
    paper, (claim,) = select_claims(["S0.6"])[0]
    chance = random.Random(4)
    live = LiveData(MachineSizes(facts()), {"one-way": [of_states(saved, noise, chance) for _ in range(5)]})
    statement = next(one for one in claim.statement if one.says.startswith("receiver: the gain"))
    found = answer_statement(paper, statement, live)
    assert (found.answer, found.launches, found.profile) == (word, 5, "one-way"), found
    if word == "holds":
        assert found.ours.startswith("24.9 %") and " to " in found.ours and found.ours.endswith("at 4 MiB")


def test_what_cannot_be_decided_says_why() -> None:
    """Without a second node, an eager limit, enough launches, or a profile: is there a reason, and never an answer?"""
    paper, (claim,) = select_claims(["S0.2"])[0]
    some = [of_states(0.25, 0.0, random.Random(5))] * 5
    live = LiveData(MachineSizes(facts()), {"one-way": some})
    assert answer_statement(paper, claim.statement[0], live).ours == "needs a second node: --hostfile"
    inside = claim.statement[0].model_copy(update={"here": LiveCheck(profile="one-way", judge="peaks",
                                                                over=[64, "eager"],
                                                                curve={"where": {"distance": "inside"}})})  # fmt: skip
    unknown = LiveData(MachineSizes(made.profile(facts().records.to_dicts(), [])), {"one-way": some})
    assert answer_statement(paper, inside, unknown).ours == "no eager limit was seen here"
    assert (
        answer_statement(paper, inside, LiveData(live.machine_sizes, {"one-way": some[:2]})).ours
        == "measured in 2 launches"
    )
    refused = LiveData(live.machine_sizes, {}, {"one-way": "needs 4 free cores; there are 2"})
    assert answer_statement(paper, inside, refused).ours == "needs 4 free cores; there are 2"
    assert {answer_statement(paper, inside, one).answer for one in (unknown, refused)} == {"cannot tell"}
    counted = claim.statement[4]
    assert (
        answer_statement(paper, counted, live).answer == "" and "counted" in answer_statement(paper, counted, live).ours
    )


def unusable(kind: str) -> Profile:
    """What a launch of `of_states` leaves if it is stopped in part, disturbed, or too noisy."""
    good = of_states(0.25, 0.0, random.Random(5))
    if kind == "unstable":
        rows = [{**row, "stable": number % 3 == 0} for number, row in enumerate(good.records.to_dicts())]
        return made.profile(rows, good.run.switch)
    if kind == "busy":
        return made.profile(good.records.to_dicts(), good.run.switch, disturbed_share=0.4)
    part = LaunchTable(ranks=2, cpus=[0, 1], scenarios=["one-way"], seconds=1.0, state="failed", reason="a rank died")
    return made.profile(good.records.to_dicts(), good.run.switch, launch=[part])


UNUSABLE = {
    "incomplete": "it is incomplete (a rank died)",
    "busy": "something else used its cores during 40% of the repetitions",
    "unstable": "of its times are unstable",
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_launches_without_information_give_no_verdict(kind: str) -> None:
    """By launches that are incomplete, disturbed or unstable: is the answer "cannot tell" with the reason, and is the
    same statement still answered by as many good ones as it takes?"""
    paper, (claim,) = select_claims(["S0.6"])[0]
    statement = next(one for one in claim.statement if one.says.startswith("receiver: the gain"))
    bad = [unusable(kind)] * 3
    good = [of_states(0.25, 0.005, random.Random(seed)) for seed in range(5)]
    answered = answer_statement(paper, statement, LiveData(MachineSizes(facts()), {"one-way": [*bad, *good[:2]]}))
    assert answered.answer == "cannot tell" and answered.launches == 2
    assert answered.ours.startswith("3 of 5 launches cannot be used: ") and UNUSABLE[kind] in answered.ours
    enough = answer_statement(paper, statement, LiveData(MachineSizes(facts()), {"one-way": [*bad, *good]}))
    assert (enough.answer, enough.launches) == ("holds", 5)


def test_no_verdict_depends_on_it() -> None:
    paper, (claim,) = select_claims(["S0.6"])[0]
    live = LiveData(MachineSizes(facts()), {"one-way": [of_states(0.25, 0.0, random.Random(6))] * 5})
    nothing = Evidence({}, {})
    answered = judge_claim(claim, nothing, here=lambda statement: answer_statement(paper, statement, live))
    plain = judge_claim(claim, nothing)
    assert any(one.here and one.here.answer == "holds" for one in answered.statements)
    assert [one.model_copy(update={"here": None}) for one in answered.statements] == plain.statements
    assert answered.verdict == plain.verdict == "not simulated"


def test_every_statement_is_judged_here_or_says_why_not() -> None:
    """Has no statement an empty cell without a reason?"""
    silent = [f"{c.id}: {s.says}" for p in PAPERS for c in p.claim for s in c.statement
              if not (s.here or s.here_not or p.here_not)]  # fmt: skip
    assert not silent


GAINS = {"faster": (1.5, 1.45, 1.55), "slower": (0.8, 0.78, 0.82), "noisy": (1.1, 0.9, 1.3)}


@pytest.mark.parametrize(
    ("question", "gain", "word"),
    [
        ("faster", "faster", "holds"), ("faster", "slower", "does not"), ("faster", "noisy", "cannot tell"),
        ("never-slower", "faster", "holds"), ("never-slower", "slower", "does not"),
        ("never-slower", "noisy", "cannot tell"), ("bcast", "faster", "cannot tell"),
        ("loses-elsewhere", "slower", "cannot tell"), ("by-distance", "faster", "cannot tell"),
    ],
)  # fmt: skip
def test_tuned_rules_answer(question: str, gain: str, word: str) -> None:
    """By gains with intervals: is there each of the three answers, and none about what was not measured?"""
    rules = load_rules(DATA / "rules" / "openmpi-5.0.11.toml")
    value, low, high = GAINS[gain]
    point = rules.rule[0].point[0].model_copy(update={"gain": StoredGain(value=value, low=low, high=high, n=9)})
    one = rules.model_copy(update={"rule": [rules.rule[0].model_copy(update={"point": [point]})]})
    found, ours = RULE_QUESTIONS[question](one)
    assert found == word and (f"{value:.2f}x ({low:.2f}x to {high:.2f}x)" in ours or question != "faster")


@pytest.mark.parametrize(("gain", "word"), [("faster", "holds"), ("slower", "does not"), ("noisy", "cannot tell")])
@pytest.mark.parametrize("is_native", [False, True])
def test_selected_algorithms_of_collectives_answer(is_native: bool, gain: str, word: str) -> None:
    """Do the algorithms that `tune --collectives` has selected answer whether a collective gains, and not about another
    collective or where the MPI's own was left?"""
    rules = load_rules(DATA / "rules" / "openmpi-5.0.11.toml")
    value, low, high = GAINS[gain]
    point = {
        "size_bytes": 64,
        "mpi_ns": 300.0,
        "algorithm_ns": 200.0,
        "gain": {"value": value, "low": low, "high": high, "n": 9},
    }
    table = {
        "operation": "bcast",
        "ranks": 2,
        "range": [{"algorithm": "flat" if not is_native else "linear"}],
        "point": [
            {**point, "algorithm": "flat" if not is_native else "linear"},
            {**point, "algorithm": "mpi", "gain": {"value": 9.0, "low": 8.0, "high": 10.0, "n": 9}},
        ],
    }
    made = NativeCollectiveTable(**table) if is_native else CollectiveTable(**table)
    name = "native_collective" if is_native else "collective"
    one = rules.model_copy(update={"rule": [rules.rule[0].model_copy(update={"point": [], name: [made]})]})
    found, ours = RULE_QUESTIONS["bcast"](one)
    assert found == word and f"{value:.2f}x" in ours and "bcast of 64 B by " in ours
    assert RULE_QUESTIONS["allreduce"](one)[0] == "cannot tell"


def test_parameters_that_lose_at_another_distance_are_noticed() -> None:
    rules = load_rules(DATA / "rules" / "openmpi-5.0.11.toml")
    machine = rules.machine.model_copy(update={"distances": ["shared-l3", "same-node"]})
    near = rules.rule[0].model_copy(update={"other_distances": {"same-node": 0.6}})
    far = rules.rule[0].model_copy(update={"distance": "same-node", "parameters": {}})
    both = rules.model_copy(update={"machine": machine, "rule": [near, far]})
    assert RULE_QUESTIONS["loses-elsewhere"](both) == (
        "holds",
        "those of shared-l3 run at 0.60x of the baseline's speed at same-node",
    )
    assert RULE_QUESTIONS["by-distance"](both)[0] == "holds"


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_the_compiler_is_queried() -> None:
    """Is each loop distinguished in its report, and is the paper's result there where a double may overlap a
    pointer?"""
    every = ("plain", "alias", "restricted")
    assert find_vectorized_loops(["gcc"], "gcc") == dict.fromkeys(every, True)
    assert find_vectorized_loops(["gcc", "-fno-tree-vectorize"], "gcc") == dict.fromkeys(every, False)
    assert find_vectorized_loops(["gcc", "-fno-strict-aliasing"], "gcc") == {
        "plain": False,
        "alias": True,
        "restricted": True,
    }
    assert find_vectorized_loops(["false"], "gcc") is None


# ---- measuring


class FakeProbe:
    """Saves made-up profiles where `probe` would measure; `ends` says by which signal each attempt is stopped, and
    `disturbed` in which share of its repetitions the machine was busy."""

    def __init__(self, *ends: int | None, disturbed: Iterable[float] = ()) -> None:
        self.made: list[str] = []
        self._ends, self._disturbed = iter(ends), iter(disturbed)

    def __call__(self, out: Path, request: Request, **_: Any) -> RequestOutcome:
        self.made.append(out.name)
        stopped = next(self._ends, None)
        rows = (
            facts().records.to_dicts()
            if out.name == "facts"
            else of_states(0.25, 0.0, random.Random(7)).records.to_dicts()
        )
        like = made.profile(rows, [made.switch("eager-limit", 4096)], command=request.command, complete=stopped is None,
                            disturbed_share=next(self._disturbed, None))  # fmt: skip
        save(
            out,
            machine=like.machine,
            topology_xml=like.topology_xml,
            run=like.run,
            records=like.records,
            overwrite=True,
        )
        return RequestOutcome(stopped is None, True, stopped)


def test_launches_are_profiles_and_none_is_measured_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C in a launch: does the same command go on with it, is nothing judged meanwhile, and does the finished
    column stand in the table, JSON and page?"""
    fake = FakeProbe(None, None, 2)
    monkeypatch.setattr(measure, "probe", fake)
    monkeypatch.setattr(mpi, "choose_mpi", lambda name: SimpleNamespace(name="made-up"))
    words = ("reproduce", "S0.6", "--live-only", "--quick", "-o", tmp_path / "out")
    stopped = in_process(*words)
    assert stopped.code == 130 and "cannot tell" in stopped.out and "holds:" not in stopped.out
    assert fake.made == ["facts", "one-way-1", "one-way-2"]
    done = in_process(*words)
    assert done.code == 0, done.err
    assert fake.made[3:] == ["one-way-2", "one-way-3", "one-way-4"]
    assert "holds: 25 % at 4 MiB" in done.out and "4 launches" in done.out and "simulated" not in done.out
    assert load(tmp_path / "out" / "here" / "made-up" / "one-way-4").run.complete
    again = in_process(*words, "--json")
    assert len(fake.made) == 6 and '"answer": "holds"' in again.out
    page = (tmp_path / "out" / "report.html").read_text()
    assert "verdict holds" in page and "Measured on " in page and "in 4 launches" in page
    assert 'id="verdicts"' not in page, "what is simulated is no part of a page of measurements"


def test_a_busy_machine_is_not_judged_and_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If something else used the cores in all launches: is the exit code that of what is not decided, and does the same
    command measure them again?"""
    fake = FakeProbe(disturbed=[0.4] * 5)
    monkeypatch.setattr(measure, "probe", fake)
    monkeypatch.setattr(mpi, "choose_mpi", lambda name: SimpleNamespace(name="made-up"))
    words = ("reproduce", "S0.6", "--live-only", "--quick", "-o", tmp_path / "out")
    done = in_process(*words)
    assert done.code == NOT_DECIDED_EXIT_CODE and "no statement could be decided on this machine" in done.err
    assert "4 of 4 launches cannot be used: the machine is busy" in done.out and "does not:" not in done.out
    again = in_process(*words)
    assert again.code == 0 and "holds: 25 % at 4 MiB" in again.out and fake.made[:5] == fake.made[5:]


def test_a_launch_aims_at_a_time_and_has_no_limit() -> None:
    """Is the time of a launch an aim, so that none of its cases is left out where the machine is busy?"""
    request = Request(tier="quick", launches=1, target_s=9.0)
    assert (request.effective_tier.num_launches, request.effective_tier.budget_s, request.budget_s) == (1, 9.0, None)
    with pytest.raises(UsageError, match="a parameter and its values"):
        Request(only=("pingpong state",))


def test_building_the_engine_is_not_expected_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first launch may have built the engine: are the others expected to take as long as they do? Does the progress
    of one launch count as its share of all launches?"""
    now, left, lines = [0.0], RemainingTimeEstimate(lambda: now[0]), []

    def report(event: str | Progress) -> None:
        if isinstance(event, Progress):
            left.add_event(event)
        lines.append(left.format_line() if isinstance(event, Progress) else event)

    def probe(*args: object, report: Report, **more: object) -> RequestOutcome:
        report(Progress("floor", 0.0))
        now[0] += 600.0 if not runner.total_expected_s else 20.0
        report(Progress("floor", 0.5))
        report("a remark")
        return RequestOutcome(is_complete=True)

    monkeypatch.setattr(measure, "probe", probe)
    runner = measure._LaunchRunner(report)
    runner.measure_or_load(Launch(tmp_path / "facts", Request(), "protocol", 6.0))
    runner.total_expected_s = 40.0
    for name in ("pages-1", "pages-2"):
        runner.measure_or_load(Launch(tmp_path / name, Request(), "pages", 20.0))
    assert lines == [
        "facts: floor: 0 % done, time left not known yet", "facts: floor: 50 % done, about 10 min left",
        "facts: a remark",
        "pages-1: floor: 0 % done, time left not known yet", "pages-1: floor: 25 % done, about 60 s left",
        "pages-1: a remark",
        "pages-2: floor: 50 % done, about 20 s left", "pages-2: floor: 75 % done, about 13 s left",
        "pages-2: a remark",
    ]  # fmt: skip


def test_what_is_for_measuring_needs_here(tmp_path: Path) -> None:
    refused = in_process("reproduce", "S0.6", "--mpi", "mpich", "-o", tmp_path / "out")
    assert refused.code == 2 and "--live" in refused.err


def test_a_mistake_in_what_is_judged_here_is_named() -> None:
    path = claims_file_by_paper()["S0"]
    for old, new, message in (
        ('here = { profile = "rules" }', 'here = { profile = "rule" }', "did you mean 'rules'"),
        ('"2*llc/3"', '"2*llcc/3"', "2*llcc/3"),
        ('here = { profile = "rules" }', 'here = { profile = "rules", judge = "highest" }', "needs a number"),
    ):
        with pytest.raises(ProfileError, match=re.escape(message)):
            parse_toml(Paper, path.read_text().replace(old, new).encode(), path)
