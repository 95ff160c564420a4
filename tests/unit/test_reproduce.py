"""Are the papers' claims all there and judged as they say, can every judge say no, and does the command keep what it
simulated?"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tuning import in_process, nearfield

from nearfield.base.errors import MeasurementError, NearfieldError, ProfileError, UsageError
from nearfield.base.progress import Progress
from nearfield.base.toml import parse_toml
from nearfield.machine import load_machine
from nearfield.measure.sim import pool
from nearfield.measure.sim.cases import SimulationCase
from nearfield.measure.sim.places import ALL_CORES, all_places
from nearfield.measure.sim.store import RecordStore, machine_fingerprint
from nearfield.reproduce import outcome, page
from nearfield.reproduce.checks import curves_of, profile_names_of
from nearfield.reproduce.curves import metrics_of, points_of
from nearfield.reproduce.outcome import (
    JudgedStatement,
    PlottedCurve,
    ShownEvidence,
    verdict_of_claim,
)  # fmt: skip
from nearfield.reproduce.papers import Paper, claims_file_by_paper, load_paper, select_claims
from nearfield.reproduce.schema import CurveSpec
from nearfield.reproduce.session import JOURNAL_FILE, ReproductionSettings, cases_of, machine_of, reproduce
from nearfield.reproduce.svg_chart import draw_chart
from nearfield.reproduce.verdicts import Evidence, judge_claim, judge_statement, select_points

CHEAP = "S1.3"
# Of collectives and applications; the other numbers have a value at each memory speed.
OF_NO_SPEED = {"nic_events", "network_messages", "network_bytes", "engine_events"}
PAPERS = [load_paper(name) for name in claims_file_by_paper()]
STATEMENTS = [(paper, claim, s) for paper in PAPERS for claim in paper.claim for s in claim.statement]


# ---- the claims


def test_every_claim_is_there() -> None:
    """Are all claims of the five papers there, simulated or not?"""
    ids = {claim.id for paper in PAPERS for claim in paper.claim}
    counts = {"S0": 10, "S1": 5, "S2": 5, "S3": 5, "S4": 8}
    assert {f"{paper}.{n}" for paper, count in counts.items() for n in range(1, count + 1)} <= ids


@pytest.mark.parametrize("quick", [False, True])
def test_every_statement_asks_for_records_that_are_simulated(quick: bool) -> None:
    """Is each curve's parameter values, and what it is compared with, among the cases, also with fewer sizes?"""
    names = [name for paper in PAPERS for name in paper.profile]
    assert len(names) == len(set(names)), "profiles are folders side by side"
    cases = {name: cases_of(run, quick=quick) for paper in PAPERS for name, run in paper.profile.items()}
    for paper, claim, statement in STATEMENTS:
        assert set(profile_names_of(statement)) <= set(paper.profile)
        for curve in curves_of(statement):
            rows = {name: list(_rows(cases[name], curve)) for name in (curve.profile, curve.base) if name}
            found = select_points(statement, points_of(curve, rows, {}))
            assert found, f"{claim.id}: {statement.says}"


def test_no_two_cases_have_one_key_and_different_orders() -> None:
    """The first policy and memory speed of a run set the order of its messages, and numbers without a memory speed have
    neither in their key: are there no two cases with one key and another order, of which a store keeps one?"""
    first: dict[tuple, tuple] = {}
    for paper in PAPERS:
        for name, run in paper.profile.items():
            for case in cases_of(run, quick=False):
                for point in case.config_keys():
                    if not any(axis == "memory_slowdown" for axis, _ in point[2]):
                        of = (case.axes.slowdowns[:1], len(case.axes.policies))
                        assert first.setdefault((machine_fingerprint(case.machine), point), of) == of, (name, str(case))


def _rows(cases: list[SimulationCase], curve: CurveSpec) -> Iterator[dict]:
    """Returns what the cases would give if every metric were 1 (2 what it is divided by), at the requested sides."""
    sides = curve.where.get("side")
    for case in cases:
        row = {"scenario": case.scenario, "distance": case.place.distance or None, **case.value_by_parameter}
        if case.axes.policies:
            blocks = 1 if row["operation"] in ("bcast", "allreduce") else row["nodes"]
            speeds = list(case.axes.slowdowns) if curve.metric not in OF_NO_SPEED else [None]
            row["whole_bytes"] = row["size_bytes"] * blocks
            more = [{"policy": p, "memory_slowdown": s} for p in case.axes.policies for s in speeds]
        else:
            more = [{"side": side} for side in (sides if isinstance(sides, list) else [sides])]
        metrics = [*metrics_of(curve), *([curve.base_metric] if curve.base_metric else [])]
        yield from (
            {"metric": name, "value": 2.0 if name == curve.per else 1.0} | row | one for name in metrics for one in more
        )


@pytest.mark.parametrize(("name", "on", "usual", "named", "other", "metric"), [
    ("stencil", "leo3", {"size_bytes": 512, "variant": "opt1"}, {"rows": 32}, {"rows": 4}, "iteration"),
    ("decomposition", "origin-2000", {"cells": 16, "split": "1x1x4", "mode": "standard"}, {"ghosts": "split"},
     {"ghosts": "all"}, "exchange"),
])  # fmt: skip
def test_readings_of_a_paper_are_parameters(
    name: str, on: str, usual: dict, named: dict, other: dict, metric: str
) -> None:
    """Does a parameter that stands for a reading change the result, and is one reading what its absence means?"""

    def time(given: dict) -> float:
        machine = load_machine(on)
        place = all_places(machine)[-1] if name == "stencil" else ALL_CORES
        rows = SimulationCase(machine, name, place, tuple(given.items())).run()
        return next(row["value"] for row in rows if row["metric"] == metric)

    assert time(usual) == time(usual | named) != time(usual | other)
    wrong = {key: "no" if isinstance(value, str) else 2 for key, value in other.items()}
    with pytest.raises(MeasurementError, match="ghost cells|three rows"):
        time(usual | wrong)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('judge = "grows"', 'judge = "grow"', "did you mean 'grows'"),
        ('profile = "fusion"', 'profile = "fussion"', "did you mean 'fusion'"),
        ('judge = "grows"', 'judge = "highest"', "needs a number"),
        ('id = "S1.3"', 'id = "S2.3"', "is not of S1"),
        ("says =", "said =", "unknown key"),
        ('id = "S1.3"', 'id = "S1.3"\nnote = "{nothing}"', "no quote 'nothing'"),
        ('\njudge = "none"', '\njudge = "none"\nnot_simulated = "no"', "a judge, or a rule, or the reason"),
    ],
)
def test_a_mistake_in_a_file_is_named(old: str, new: str, message: str) -> None:
    path = claims_file_by_paper()["S1"]
    with pytest.raises(ProfileError, match=message):
        parse_toml(Paper, path.read_text().replace(old, new).encode(), path)


# ---- curves and verdicts


def test_curves_are_what_they_are_called() -> None:
    rows = [
        {"metric": "time", "value": value, "size_bytes": size, "state": state}
        for state, values in (("a", (100.0, 200.0)), ("b", (80.0, 300.0)))
        for size, value in zip((64, 128), values, strict=True)
    ]

    def curve(**more) -> dict:
        description = CurveSpec(**({"profile": "p", "metric": "time", "where": {"state": "b"}} | more))
        return points_of(description, {"p": rows}, {"p": 64})

    assert curve() == {64: 80, 128: 300}
    assert curve(versus={"state": "a"}, how="gain") == pytest.approx({64: 0.2, 128: -0.5})
    assert curve(versus={"state": "a"}, how="ratio") == {64: 0.8, 128: 1.5}
    assert curve(versus={"state": "a"}, how="minus", unit="per_line") == {64: -20, 128: 50}
    assert curve(unit="mb_per_s") == pytest.approx({64: 800, 128: 1280 / 3})
    rows += [row | {"metric": "misses", "value": 40.0} for row in rows if row["size_bytes"] == 64]
    assert curve(per="misses") == {64: 2}, "128 has nothing to be divided by"
    assert curve(where={"state": ["a", "b"]}) == {64: 100, 128: 300}
    assert curve(versus={"size_bytes": 64}, how="ratio") == {64: 1, 128: 3.75}
    slowed = [row | {"memory_slowdown": {64: 1.0, 128: 2.5}[row["size_bytes"]]} for row in rows]
    by_speed = CurveSpec(profile="p", metric="time", where={"state": "b"}, by="memory_slowdown")
    assert points_of(by_speed, {"p": slowed}, {}) == {1: 80, 2.5: 300}
    with pytest.raises(ValueError, match="say more in where"):
        curve(where={})


def test_a_verdict_is_no_better_than_the_statements() -> None:
    def judge(*statements: str) -> str:
        holds = {"+": True, "-": False, "?": None}
        return verdict_of_claim(
            [JudgedStatement(says="", paper="", ours="", holds=holds[t[1]], is_number=t[0] == "n") for t in statements]
        )

    assert judge("n+", "s+") == "within"
    assert judge("n-", "s+") == "shape only"
    assert judge("n+", "s-") == judge("n-", "s+", "s-") == judge("n+", "n-") == judge("s+", "s?") == "in part"
    assert judge("n-", "s-") == judge("s-", "s?") == "not"
    assert judge("s?") == "not simulated"


# ---- a claim from end to end


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reproduced") / "out"
    done = nearfield("reproduce", CHEAP, "--quick", "--jobs", "1", "-o", out)
    assert done.code == 0, done.err
    assert CHEAP in done.out and "page faults of 4 KiB pages grow" in done.out
    return out


def test_a_claim_is_simulated_judged_and_reported(folder: Path) -> None:
    """Do the files, the page and JSON tell the verdict, free parameters included, and is nothing simulated twice?"""
    found = outcome.load_reproduction(folder)
    claim = found.papers[0].claims[0]
    assert found.complete and claim.verdict == "in part"  # one statement is not simulated
    assert [s.holds for s in claim.statements] == [True, True, True, True, None]
    chosen = {(c.of, c.key) for c in found.papers[0].chosen}
    assert ("fusion", "pages.tlb[0].entries") in chosen and ("claims", "pages of a shared window") in chosen
    html = (folder / "report.html").read_text()
    assert (
        "Page faults and TLB misses of shared memory" in html and "in part" in html and "pages.tlb[0].entries" in html
    )
    drawn = [s for s in claim.statements if s.shown]
    assert len(drawn) == html.count("<svg") == html.count('class="behind"') == 4, "all but what is not simulated"
    assert "<b>2 of 2 statements hold. 2 more are shown, but not counted. 1 is not judged.</b>" in html
    before = (folder / JOURNAL_FILE).read_bytes()
    again = in_process("reproduce", CHEAP, "--quick", "--json", "-o", folder)
    assert json.loads(again.out)["papers"][0]["claims"][0]["id"] == CHEAP
    assert (folder / JOURNAL_FILE).read_bytes() == before
    (folder / "report.html").unlink()
    assert in_process("report", folder).code == 0 and (folder / "report.html").exists()
    assert json.loads(in_process("report", folder, "--json").out)["papers"] == json.loads(again.out)["papers"]
    assert in_process("show", folder / "fusion").code == 0


def test_every_record_behind_a_statement_is_shown(folder: Path) -> None:
    """Are the records on the page those of the profile beside it, and does the command there show the same?"""
    one = outcome.load_reproduction(folder).papers[0].claims[0].statements[3]
    assert one.shown and len(one.shown.records) == 2, "huge pages, and the base"
    for series in one.shown.records:
        where = [word for name, value in series.where.items() for word in ("--where", f"{name}={value}")]
        done = in_process("show", folder / series.profile, "--metric", series.metric, *where, "--json")
        rows = {r["size_bytes"]: r["value"] for r in json.loads(done.out)["records"] if r["size_bytes"] >= 4 << 20}
        assert rows == dict(series.points)
        for word in (" ".join(map(str, where)), f'href="{series.profile}/"'):
            assert word in (folder / "report.html").read_text()
    ((own, curve),) = [(line.name, dict(line.points)) for line in one.shown.lines]
    huge, base = (dict(series.points) for series in one.shown.records)
    assert own == "ours" and curve == {x: y / base[x] for x, y in huge.items()}


def test_a_sketch_shows_the_curve_and_the_papers_number() -> None:
    """Are there a point for each number, a line for the paper's, and a place for numbers in an order of their own?"""

    def drawn(points: list, number: tuple | None = None, kind: str = "mb_per_s") -> str:
        shown = ShownEvidence(by="stride", kind=kind, lines=[PlottedCurve(name="ours", points=points)], records=[])
        return draw_chart(
            JudgedStatement(says="", paper="", ours="", holds=True, is_number=False, number=number, shown=shown)
        )

    plain, numbered = drawn([(1, 100), (2, 50), (4, 25)]), drawn([(1, 100), (2, 50)], (70, 80))
    assert plain.count("<circle") == 3 and "100 MB/s" in plain and 'class="paper"' not in plain
    assert numbered.count('<line class="paper"') + numbered.count('class="paper"></line>') == 2 and "near" in numbered
    far = re.findall(r'cy="([0-9.]+)"', drawn([(1, 0.001), (2, 0.05), (3, 0.1)], kind="gain"))
    low, middle, high = map(float, far)
    assert low - middle == pytest.approx(middle - high, rel=0.1), "a point of time is as high everywhere"
    assert '<text x="6" y="108">stride 3<' in drawn([(3, 0.1), (2, 0.1)], kind="gain"), "the first one is at the left"
    assert 'cy="nan"' not in drawn([(1, 0.0), (2, 0.0)], (0.2, 0.2), "gain") and not drawn([])


def test_records_that_say_otherwise_are_judged_otherwise(folder: Path) -> None:
    """With base and huge pages swapped in the records: does the claim fail?"""
    from nearfield.profile import load

    paper, (claim,) = select_claims([CHEAP])[0]
    evidence = Evidence.from_profiles({"fusion": load(folder / "fusion")})
    assert judge_claim(claim, evidence).verdict == "in part"
    other = {"private": "private-huge", "private-huge": "private"}
    rows = [{**row, "memory": other[row["memory"]]} for row in evidence.rows["fusion"]]
    swapped = judge_claim(claim, Evidence(evidence.profiles, {"fusion": rows}))
    assert not any(s.holds for s in swapped.statements[1:]), swapped
    assert judge_claim(claim, Evidence({}, {})).verdict == "not simulated"


@pytest.mark.slow
def test_what_was_simulated_before_a_stop_is_stored(tmp_path: Path) -> None:
    """After Ctrl-C in the middle: is nothing judged by half of its records, and does the next run go on from there?"""
    wanted, simulated = select_claims([CHEAP]), []

    def stopped(cases: list[SimulationCase]) -> Iterator:
        yield from pool.run_sequentially(cases[:3])
        raise KeyboardInterrupt

    def go_on(cases: list[SimulationCase]) -> Iterator:
        simulated.extend(cases)
        yield from pool.run_sequentially(cases)

    settings = ReproductionSettings(tmp_path / "out", is_quick=True)
    found = reproduce(wanted, settings, stopped)
    assert not found.complete and found.papers[0].claims[0].verdict == "not simulated"
    shown = page.render_page(found, settings.out_folder)
    assert "Not all of it is simulated" in shown
    assert "No statement is judged; simulated to the end: 0 of 1 profile." in shown and "0 of 0" not in shown
    with (tmp_path / "out" / JOURNAL_FILE).open("a") as file:
        file.write('["cut')  # what a crash leaves
    reported: list[str | Progress] = []
    assert reproduce(wanted, settings, go_on, reported.append, max_concurrent_cases=2).complete
    assert len(simulated) == 6 - 3
    assert reported[:2] == ["simulating 3 cases, 2 at a time, 3 more are there already", Progress("0 of 3 cases", 0.0)]
    assert str(reported[-1]).startswith("3 of 3 cases (")


@pytest.mark.parametrize("name", ["S0", "S3", "S4"])
def test_nothing_explains_what_was_not_judged(name: str) -> None:
    """If a run was stopped before anything was simulated to its end: does no cause, note or reading stand there, which
    tell of numbers that nobody has seen?"""
    from nearfield.reproduce.session import _judge_papers

    (paper,) = _judge_papers(select_claims([name]), Evidence({}, {}), None, None)
    assert paper.missing and not paper.simulated and not paper.reading
    assert not [one for claim in paper.claims for one in (claim.note, *(s.why for s in claim.statements)) if one]
    assert outcome.format_statement_counts([paper]).startswith("no statement is judged; simulated to the end: 0 of ")


def test_a_cause_is_given_only_for_what_does_not_hold(folder: Path) -> None:
    """Is a statement's `why` there where it was judged and fails, and nowhere else?"""
    from nearfield.profile import load

    _, (claim,) = select_claims([CHEAP])[0]
    first = claim.statement[0].model_copy(update={"why": "because"})
    evidence = Evidence.from_profiles({"fusion": load(folder / "fusion")})
    other = first.model_copy(update={"judge": "falls"})
    assert [judge_statement(one, evidence).why for one in (first, other)] == ["", "because"]
    assert judge_statement(other, Evidence({}, {})).why == ""


APPLICATION = """
schema_version = 1
name = "S4"
title = "made up"
[profile.slow]
on = "power5-redstorm"
clock_ghz = 0.9
[[profile.slow.application]]
name = ["fft"]
nodes = [4]
policy = ["payload-l3"]
bytes = [4096, 8192]
quick = [4096]
memory_slowdown = [1, 7.5]
[[profile.slow.application]]
name = ["amg"]
nodes = [8]
policy = ["payload-l3"]
slow = true
[[claim]]
id = "S4.4"
weight = 1
says = "slower memory takes longer"
where = "nowhere"
[[claim.statement]]
says = "FFT"
paper = "longer"
judge = "grows"
curve = { profile = "slow", metric = "time", where = { nodes = 4, policy = "payload-l3" }, by = "memory_slowdown" }
[[claim.statement]]
says = "messages are counted once, not for each speed"
paper = "none"
judge = "given"
curve = { profile = "slow", metric = "nic_events", where = { nodes = 4, policy = "memory" }, by = "memory_slowdown" }
"""


def test_an_application_is_simulated_at_the_given_frequency_and_judged(tmp_path: Path) -> None:
    """Is an application simulated once, on a processor of the frequency that the profile asks for, less of it if
    quick; judged by memory's speeds; and not judged by numbers that are the same at all speeds?"""
    paper = parse_toml(Paper, APPLICATION.encode(), tmp_path / "claims.toml")
    run = paper.profile["slow"]
    (slow,) = cases_of(run, quick=True)
    assert (slow.value_by_parameter["operation"], slow.value_by_parameter["size_bytes"], slow.repetitions) == (
        "fft",
        4096,
        1,
    )
    assert [case.value_by_parameter["size_bytes"] for case in cases_of(run, quick=False)] == [4096, 8192, 384]
    (usual,) = cases_of(run.model_copy(update={"clock_ghz": None}), quick=True)
    assert usual.machine.prefetcher and not machine_of(run.model_copy(update={"without": ["prefetcher"]})).prefetcher
    assert RecordStore.key_of(usual) != RecordStore.key_of(slow), "another frequency is another simulation"
    rows = slow.run()
    assert _value(rows, "time") > _value(usual.run(), "time")
    in_calls = [_value(rows, f"{name}_time") for name in ("sending", "receiving", "waiting")]
    assert min(in_calls) > 0 and _value(rows, "mpi_time") < _value(rows, "time")
    assert sum(in_calls) == pytest.approx(_value(rows, "mpi_time"))

    (one,) = (run.model_copy(update={"apart": True}) for run in run.application[:1])
    each = cases_of(run.model_copy(update={"application": [one]}), quick=True)
    assert [case.axes.policies for case in each] == [("memory",), ("payload-l3",)]
    assert {case.axes.slowdowns for case in each} == {(1.0, 7.5)}

    settings = ReproductionSettings(tmp_path / "out", is_quick=True)
    found = reproduce([(paper, paper.claim)], settings, pool.run_sequentially)
    assert [one.holds for one in found.papers[0].claims[0].statements] == [True, None]
    assert in_process("show", tmp_path / "out" / "slow").code == 0


def _value(rows: list[dict], metric: str) -> float:
    wanted = {"metric": metric, "policy": "memory", "memory_slowdown": 1.0}
    (row,) = (row for row in rows if wanted.items() <= row.items())
    return row["value"]


def test_mistakes_of_the_user_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no claim 'S9'"):
        select_claims(["S9"])
    (tmp_path / "mine.txt").write_text("not a reproduction")
    with pytest.raises(NearfieldError, match="in the way"):
        reproduce(select_claims([CHEAP]), ReproductionSettings(tmp_path), pool.make_runner_on_cores(1))
    done = in_process("reproduce", "S3", "--list")
    assert done.code == 0 and "S3.5" in done.out and "S0.1" not in done.out
