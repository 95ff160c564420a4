"""Does `nearfield advise` name the fault of a program first, at its line, and is it silent about programs without one?

tests/programs/advised.c has the programs. Losses are from the times of a simulated profile (tests/data/leo3-simulated),
so that they are the same on every machine; only waiting is judged by times of the run itself.
"""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from mpi_program import PROGRAMS
from simulator_programs import build
from test_observe_mpi import CORES, HOOKS, LAYER, wrapper
from typer.testing import CliRunner

import nearfield
from nearfield import mpi
from nearfield.advise import advise, read_run
from nearfield.advise.costs import Costs, at, difference
from nearfield.advise.grid import _local
from nearfield.advise.judged import Judged
from nearfield.advise.rules import all_rules, late_sender, late_to_collective, waiting
from nearfield.advise.rules.reuse import _each
from nearfield.advise.run import Site
from nearfield.cli import app
from nearfield.errors import NOT_DECIDED
from nearfield.mpi import Installation
from nearfield.mpi.compiler import compiler_environment
from nearfield.notes import Note, Place
from nearfield.observe import trace as traces
from nearfield.observe.observing import finish
from nearfield.observe.trace import Trace, TraceFile
from nearfield.profile import Profile, load
from nearfield.profile.compare import Estimate
from nearfield.report.advice import Advised, advice_section

SOURCE = PROGRAMS / "advised.c"
PROFILE = Path(__file__).parents[1] / "data/leo3-simulated"
# program -> the rule that names its fault; listing 1 of S0 sends late and reads late, and loses as much by either
FAULTS = {
    "listing-1": "cold-send late-read", "cold-send": "cold-send", "late-read": "late-read",
    "tiny-messages": "tiny-messages",
    "strided-datatype": "strided-datatype", "oversized-message": "oversized-message", "bad-split": "bad-split",
}  # fmt: skip
CLEAN = ("clean-stencil", "clean-pipeline", "clean-answers", "clean-sums")
UNSEEN = "unseen-buffer"  # a fault only where the profile says what one copy takes
WAITING = ("late-sender", "late-receiver", "late-to-collective")
CLEAN_WITHOUT_HOOKS = ("clean-sums", "clean-turns")
WITHOUT_HOOKS = (*WAITING, *CLEAN_WITHOUT_HOOKS, "tiny-messages")


def first_mpi() -> Installation:
    found = mpi.discover()
    return next((inst for inst in found if inst.family == "mpich"), found[0])  # it starts programs soonest


def program_of(inst: Installation, programs: Path, hooks: bool) -> Path:
    """Compiles the programs with or without hooks, unless that is done."""
    program = programs / f"advised-{'hooks' if hooks else 'plain'}"
    if not program.exists():
        compiler = f"{sys.executable} -m nearfield cc" if hooks else "cc"
        behind = dict.fromkeys(("OMPI_CC", "MPICH_CC", "I_MPI_CC"), compiler)
        env = {**os.environ, **inst.env, **compiler_environment(inst), **behind}
        command = [str(wrapper(inst, "c")), "-O2", "-g", str(SOURCE), "-o", str(program)]
        subprocess.run(command, env=env, check=True, capture_output=True, timeout=120)
    return program


def build_ahead(inst: Installation, programs: Path) -> None:
    if inst == first_mpi():
        mpi.program(inst, LAYER)
        for hooks in (True, False):
            program_of(inst, programs, hooks)


def observed(inst: Installation, program: Path, name: str, folder: Path) -> None:
    """Runs one of the programs into an open trace."""
    ranks = 4 if name == "bad-split" else 2
    env = {"LD_PRELOAD": f"{HOOKS}:{mpi.program(inst, LAYER)}", "NEARFIELD_OBSERVE": str(folder)}
    done = mpi.run(inst, [str(program), name], ranks, oversubscribe=ranks > CORES, timeout_s=100, env=env)
    assert done.exit_code == 0, done.stderr


@pytest.fixture(scope="module")
def observations(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trace of each program; those without hooks are called plain-NAME."""
    inst, folder = first_mpi(), tmp_path_factory.mktemp("advised")
    runs = [(program_of(inst, programs, hooks=True), name, folder / name) for name in (*FAULTS, *CLEAN, UNSEEN)]
    plain = program_of(inst, programs, hooks=False)
    runs += [(plain, name, folder / f"plain-{name}") for name in WITHOUT_HOOKS]
    abouts = {}
    for program, name, where in runs:
        now = datetime.now(timezone.utc)
        abouts[where] = TraceFile(nearfield="0", created=now, command=f"{program} {name}", mpi=inst.name, exit_code=0)
        traces.new_folder(where, abouts[where], force=False)
    with ThreadPoolExecutor(4) as pool:  # launchers sleep more than they work
        list(pool.map(lambda run: observed(inst, *run), runs))
    for where, about in abouts.items():
        assert finish(where, about) == ""
    return folder


def line_of(mark: str) -> int:
    lines = SOURCE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"// {mark}"))


def invoked(*words: object) -> Any:
    return CliRunner().invoke(app, ["advise", *map(str, words)])


def advice_on(trace: Path, *words: object, least: str = "0") -> dict[str, Any]:
    done = invoked(trace, "--profile", PROFILE, "--least", least, "--json", *words)
    found = json.loads(done.stdout)
    assert done.exit_code == (0 if found["decided"] else NOT_DECIDED), done.output
    return found


@pytest.mark.mpi
@pytest.mark.parametrize("name", FAULTS)
def test_the_planted_fault_comes_first(observations: Path, name: str) -> None:
    """Is the fault named first, at the line of its call, with a loss and the numbers behind it?"""
    notes = advice_on(observations / name)["notes"]
    assert notes, "nothing is found"
    rules = FAULTS[name].split()
    assert sorted(note["rule"] for note in notes[: len(rules)]) == rules
    assert {note["line"] for note in notes[: len(rules)]} == {line_of(f"fault {name}")}
    assert Path(notes[0]["file"]) == SOURCE
    assert name != "bad-split" or "16x16384 cells are split 4x1; split 1x4" in notes[0]["message"]
    for note in notes:
        assert note["loss"]["seconds"] > 0
        assert [one for one in note["evidence"] if one["source"] == "simulated" and one["value"] > 0]
    assert [n["loss"]["seconds"] for n in notes] == sorted((n["loss"]["seconds"] for n in notes), reverse=True)


@pytest.mark.mpi
@pytest.mark.parametrize("name", CLEAN)
def test_clean_programs_get_no_note(observations: Path, name: str) -> None:
    """Is nothing said about a program without a fault, however little a loss must be?"""
    advice = advice_on(observations / name)
    assert (advice["notes"], advice["smaller_losses"]) == ([], 0)
    said = invoked(observations / name, "--profile", PROFILE)
    if name == "clean-sums":  # it has collectives alone, and neither their sizes nor their waits can be judged
        assert said.exit_code == NOT_DECIDED and "nothing to gain" not in said.stdout
        assert advice["headline"].startswith(f"cannot tell for {advice['calls']} of {advice['calls']} calls: ")
    else:
        assert said.exit_code == 0 and "nothing to gain" in said.stdout


@pytest.mark.mpi
def test_losses_are_differences_of_records(observations: Path) -> None:
    """Is the loss what the profile says that cold data cost, times the messages whose data were cold?"""
    send = Costs(load(PROFILE)).points("pingpong", "send", side="sender", state="invalid")
    warm = Costs(load(PROFILE)).points("pingpong", "send", side="sender", state="modified")
    each = send[512 << 10].value - warm[512 << 10].value
    note = advice_on(observations / "cold-send")["notes"][0]
    assert note["loss"]["seconds"] == pytest.approx(4 * each * 1e-9, rel=0.02)
    assert note["related"][0]["place"]["line"] == line_of("written cold-send")
    between = next(one["value"] for one in note["evidence"] if one["unit"] == "bytes")
    assert between == pytest.approx(16.5 * 2**20, rel=0.15)
    read = advice_on(observations / "late-read")["notes"][0]
    assert read["related"][0]["place"]["line"] == line_of("read late-read")


@pytest.mark.mpi
def test_text_is_a_compilers(observations: Path) -> None:
    """Does an editor find the place, and a person what was compared with what?"""
    text = invoked(observations / "cold-send", "--profile", PROFILE, "--least", "0").stdout
    assert f"advised.c:{line_of('fault cold-send')}: note: cold send: " in text.replace("\n", "")
    for part in ("[cold-send]", "rule: ", "do: Move the send", "losses are from the profile", "without hooks"):
        assert part in text, part
    none = invoked(observations / "cold-send", "--profile", PROFILE, "--least", "100%").stdout
    assert "nothing to gain" in none and "largest: " in none and "(cold-send)" in none.replace("\n", " ")


@pytest.mark.mpi
def test_sarif_has_the_same_notes(observations: Path, tmp_path: Path) -> None:
    """Are notes and rules in the SARIF file those of the text?"""
    file = tmp_path / "notes.sarif"
    notes = advice_on(observations / "listing-1", "--sarif", file)["notes"]
    run = json.loads(file.read_text())["runs"][0]
    assert [one["ruleId"] for one in run["results"]] == [note["rule"] for note in notes]
    lines = [one["locations"][0]["physicalLocation"]["region"]["startLine"] for one in run["results"]]
    assert lines == [note["line"] for note in notes]
    assert {"cold-send", "bad-split"} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]}


@pytest.mark.mpi
@pytest.mark.parametrize("name", WAITING)
def test_waiting_is_seen_without_hooks(observations: Path, name: str) -> None:
    """Is a wait of 90 ms in all, or of 400 ms in collectives, named first, and of about that length?"""
    advice = advice_on(observations / f"plain-{name}", least="1%")
    assert advice["seconds_are"] == "observed"
    told = [*advice["notes"], *advice["undecided"]]  # undecided where other programs took the cores for as long
    first = next(note for note in told if (note["rule"], note["line"]) == (name, line_of(f"fault {name}")))
    assert 0.05 < first["loss"]["high"] < 10
    without = next(one["value"] for one in first["evidence"] if one["name"].startswith("without a core"))
    assert first["loss"]["seconds"] <= max(0.0, first["loss"]["high"] - without / 1e9) + 1e-9
    assert name != "late-to-collective" or "for rank 1, which comes last" in first["message"]


@pytest.mark.mpi
@pytest.mark.parametrize("name", CLEAN_WITHOUT_HOOKS)
def test_nobody_waits_where_no_rank_has_more_to_do(observations: Path, name: str) -> None:
    """Is nothing said where ranks are equally busy, or late in turns?"""
    advice = advice_on(observations / f"plain-{name}", least="1%")
    assert advice["notes"] == [] and "late-to-collective" in advice["rules"]


@pytest.mark.mpi
def test_without_accesses_it_says_what_it_cannot_judge(observations: Path) -> None:
    """Are rules about reuse left out by name, and others judged, where only MPI calls are known?"""
    advice = advice_on(observations / "plain-tiny-messages")
    assert "tiny-messages" in {note["rule"] for note in advice["notes"]}
    assert "cold-send" not in advice["rules"]
    remark = next(one for one in advice["remarks"] if "cold-send" in one)
    assert "late-read" in remark and "nearfield cc" in remark


@pytest.mark.mpi
def test_times_of_a_run_without_hooks_count(observations: Path) -> None:
    """Are the run's times those of the other trace, if one is given?"""
    alone = advice_on(observations / "tiny-messages")
    both = advice_on(observations / "tiny-messages", "--times", observations / "plain-tiny-messages")
    assert (alone["seconds_are"], both["seconds_are"]) == ("estimated", "observed")
    assert both["seconds"] == advice_on(observations / "plain-tiny-messages")["seconds"]


@pytest.mark.mpi
def test_other_records_make_other_notes(observations: Path) -> None:
    """Are jumps of collectives, and copies inside a node, found where the profile has records of them?"""
    rows: list[dict[str, Any]] = [
        {
            "scenario": "collective",
            "distance": None,
            "pair": None,
            "operation": "allreduce",
            "ranks": 2,
            "size_bytes": size,
            "value": ns,
        }
        for size, ns in ((4, 100.0), (8, 5000.0))
    ]
    rows += [
        {"scenario": "floor", "kind": "copy-remote", "size_bytes": size, "value": size / 40}
        for size in (1 << 10, 1 << 20)
    ]
    fuller = more_records(*rows)
    sums = advise(read_run(Trace(observations / "clean-sums"), fuller), 0).notes
    assert [(note.rule.id, note.place.line) for note in sums] == [("collective-jump", line_of("sums"))]
    copies = advise(read_run(Trace(observations / "clean-pipeline"), fuller), 0).notes
    assert [note.rule.id for note in copies] == ["same-node-copies"]
    unseen = advise(read_run(Trace(observations / UNSEEN), fuller), 0).notes
    assert [(note.rule.id, note.place.line) for note in unseen] == [(UNSEEN, line_of("unseen buffer"))]
    assert " 8 calls of rank 0" in unseen[0].message
    assert unseen[0].loss.seconds == pytest.approx(2 * copies[0].loss.seconds)


@pytest.mark.mpi
def test_losses_on_another_machine(observations: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are losses on a described machine those of its profile, as shares of the simulated time there? Do messages go
    between nodes with --nodes?"""
    monkeypatch.setattr("nearfield.cli.advise.profile_of", lambda machine, name: PROFILE)
    words = ["advise", str(observations / "cold-send"), "--on", "leo3", "--least", "0", "--json"]
    there = json.loads(CliRunner().invoke(app, words).stdout)
    note, same = there["notes"][0], advice_on(observations / "cold-send")["notes"][0]
    assert (note["rule"], note["loss"]["seconds"]) == (same["rule"], same["loss"]["seconds"])
    assert there["seconds_are"] == "simulated"
    assert note["loss"]["share"] * there["seconds"] == pytest.approx(note["loss"]["seconds"])
    simulated = ["simulate", "run", words[1], "--on", "leo3", "--nodes", "1", "--policy", "memory", "--json"]
    found = json.loads(CliRunner().invoke(app, [*simulated, "--memory-slowdown", "1"]).stdout)
    assert there["seconds"] == pytest.approx(found["time_ns"][0][0] / 1e9)
    apart = json.loads(CliRunner().invoke(app, [*words, "--nodes", "2"]).stdout)  # of which this profile has no records
    assert apart["notes"] == [] and any("on 2 nodes" in remark for remark in apart["remarks"])


@pytest.mark.mpi
def test_the_report_has_the_notes(observations: Path, tmp_path: Path) -> None:
    """Does the page about the profile have a section with the notes on the program?"""
    page = tmp_path / "page.html"
    words = [str(PROFILE), "--trace", str(observations / "tiny-messages"), "-o", str(page)]
    assert CliRunner().invoke(app, ["report", *words]).exit_code == 0
    section = page.read_text().partition('<section id="advice">')[2].partition("</section>")[0]
    assert "tiny-messages" in section and f"advised.c:{line_of('fault tiny-messages')}" in section
    refused = CliRunner().invoke(app, ["report", *words, "--json"])
    assert "--trace is for the page" in str(refused.exception)


# ---- bad inputs


@pytest.mark.mpi
def test_a_cut_trace_is_refused(observations: Path, tmp_path: Path) -> None:
    """Is a stream that ends in the middle refused at its byte?"""
    cut = tmp_path / "cut"
    shutil.copytree(observations / "cold-send", cut)
    stream = cut / "rank-1.nfs"
    stream.write_bytes(stream.read_bytes()[:-40])
    done = invoked(cut, "--profile", PROFILE)
    assert "byte" in str(done.exception) and "rank-1.nfs" in str(done.exception)


@pytest.mark.mpi
def test_without_a_profile_it_says_how_to_get_one(
    observations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is the user told to measure?"""
    monkeypatch.chdir(tmp_path)
    assert "probe --quick" in str(invoked(observations / "cold-send").exception)


@pytest.mark.mpi
def test_a_profile_of_another_machine_is_told(observations: Path) -> None:
    """Is the user told whose losses these are?"""
    done = invoked(observations / "cold-send", "--profile", PROFILE.with_name("epyc-vm-quiet"), "--json")
    assert any("the program ran on" in remark for remark in json.loads(done.stdout)["remarks"])
    assert "simulated leo3" in " ".join(advice_on(observations / "cold-send")["remarks"])


@pytest.mark.parametrize(
    ("words", "said"),
    [(["nowhere"], "neither a trace nor a command"), ([str(PROFILE)], "there is no trace"),
     ([str(PROFILE), "--on", "leo3"], "leave one of them out"), ([str(PROFILE), "--nodes", "2"], "add --on MACHINE"),
     ([str(PROFILE), "--least", "2"], "not a share")],
)  # fmt: skip
def test_wrong_arguments(words: list[str], said: str) -> None:
    assert said in str(invoked(*words, "--profile", PROFILE).exception)


def test_a_program_without_mpi(tmp_path: Path) -> None:
    """Is a trace of a program without MPI refused with the reason?"""
    about = TraceFile(nearfield=nearfield.__version__, created=datetime.now(timezone.utc), command="x")
    traces.new_folder(tmp_path / "trace", about, force=False)
    assert "without MPI" in str(invoked(tmp_path / "trace", "--profile", PROFILE).exception)


# ---- the parts


def test_reuse_distances(programs: Path) -> None:
    """Are reuse distances, messages and bursts those of an exact LRU stack and of streams made by hand?"""
    done = subprocess.run([build("test_advise", programs)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_says_what_it_rests_on() -> None:
    """Has each rule a name like its file's, words and a source?"""
    rules = all_rules()
    assert len(rules) >= 10
    for spec in rules:
        assert spec.rule.summary and spec.rule.explanation and spec.rule.source
        assert spec.scenarios or spec.needs_times, spec.rule.id
    folder = Path(nearfield.__file__).parent / "advise/rules"
    files = {file.stem.replace("_", "-") for file in folder.glob("*.py")}
    assert {spec.rule.id for spec in rules} <= files


def test_times_between_records() -> None:
    """Do times lie between those of the neighbouring sizes, and grow as bytes do beyond the last one?"""
    points = {100: Estimate(10, 9, 11), 400: Estimate(40, 36, 44)}
    assert at(points, 200).value == pytest.approx(20) and at(points, 200).low == pytest.approx(18)
    assert at(points, 50) == points[100]
    assert at(points, 4000).value == pytest.approx(400)
    assert at({}, 10) is None
    assert difference(Estimate(10, 7, 13), Estimate(5, 1, 9)) == Estimate(5, 0, 10)


def more_records(*rows: dict[str, Any]) -> Profile:
    """Returns the profile with records of its pair added."""
    profile = load(PROFILE)
    place = {"distance": profile.records["distance"][0], "pair": profile.records["pair"].drop_nulls()[0]}
    usual = {"metric": "time", "unit": "ns", "n": 9, "stable": True, "source": "sim", **place}
    added = [{**usual, **row} for row in rows]
    frame = pl.DataFrame(added, schema_overrides={"n": pl.Int64}, infer_schema_length=None)
    return replace(profile, records=pl.concat([profile.records, frame], how="diagonal_relaxed"))


def test_cuts_are_those_that_were_measured() -> None:
    """Do records of messages in pieces, where there are any, come before what ping-pongs say, at the nearest size?"""
    pieces = ((10 << 20, 0, 9e6), (10 << 20, 1 << 16, 5e6), (10 << 20, 1 << 18, 4e6), (1 << 20, 1 << 18, 1.0))
    rows = [
        {"scenario": "cut", "size_bytes": size, "piece_bytes": piece, "value": value} for size, piece, value in pieces
    ]
    whole, cut, piece = Costs(more_records(*rows)).whole_and_cut(20 << 20) or pytest.fail("no answer")
    assert (whole.value, cut.value, piece) == (18e6, 8e6, 1 << 18)
    simulated = Costs(load(PROFILE)).whole_and_cut(16 << 20)
    assert simulated and simulated[0].value > simulated[1].value


def face(size: int, piece: int, address: int = 0) -> Any:
    return SimpleNamespace(found=SimpleNamespace(bytes=size, piece_bytes=piece, address=address))


def test_losses_of_lines_in_caches_between() -> None:
    """Do lines in memory lose the whole difference, and those in a cache between a part, by the latencies?"""
    profile = load(PROFILE)
    latencies = SimpleNamespace(level_latency_ns=[1.0, 5.0, 20.0], memory_latency_ns=105.0)
    calibrated = replace(profile, run=profile.run.model_copy(update={"calibration": latencies}))
    run: Any = SimpleNamespace(ranks_on_node=2)

    def loss(profile: Profile, *shares: float) -> Estimate | None:
        one: Any = SimpleNamespace(
            costs=Costs(profile), shares=lambda: shares, found=SimpleNamespace(bytes=64 << 10)
        )  # which L2 can hold
        return _each(run, one, Estimate(100, 100, 100), Estimate(60, 60, 60))

    assert loss(calibrated, 0.5, 0.5, 0, 0) is None
    assert loss(calibrated, 0.5, 0, 0, 0.5) == Estimate(20, 20, 20)
    between = loss(calibrated, 0.5, 0, 0.5, 0)
    assert between and (between.value, between.low) == (pytest.approx(0.5 * 40 * 15 / 100), 0)
    assert loss(profile, 0, 0, 1, 0) is None


def test_waiting_in_collectives() -> None:
    """Is the late rank found among noise, in a part of the ranks, with what each other one waits, and not in noise?"""
    random, line, other = Random(3), Site("MPI_Barrier", Place("a.c", 3)), Site("MPI_Barrier", Place("a.c", 9))

    def notes(members: list[int], late_ns: float, calls: int = 200, without_core_s: float = 0) -> list[Note]:
        """The last member comes later by so much on average, and had no core for so long; rank 3 calls from another
        line."""
        arrivals = [
            [random.expovariate(1e-6) + (rank == members[-1]) * late_ns for rank in members] for _ in range(calls)
        ]
        spent = {rank: [int(max(its) - its[at]) + 100 for its in arrivals] for at, rank in enumerate(members)}
        found = [
            SimpleNamespace(
                synchronisations=[SimpleNamespace(context=1, world=members, calls=[0] * calls, times_ns=spent[rank])]
                if rank in members else [],
                calls=[SimpleNamespace(delayed_ns=0)],
            )
            for rank in range(4)
        ]  # fmt: skip
        ranks = [SimpleNamespace(found=one) for one in found]
        run: Any = SimpleNamespace(ranks=ranks, sites=[[line], [line], [line], [other]], seconds=1.0)
        run.timing, run.delayed_ns = run, lambda rank: without_core_s * 1e9 * (rank == members[-1])
        return list(late_to_collective.find(run))

    (note,) = notes([0, 1, 3], late_ns=5e6)
    assert note.place == line.place and [one.place for one in note.related] == [other.place]
    assert note.loss and note.loss.low < 200 * 5e-3 < note.loss.high and note.loss.low > 0.8
    assert "for rank 3, which comes last to" in note.message and "; 1 other rank waits, too" in note.message
    (partly,) = notes([0, 1, 3], late_ns=5e6, without_core_s=0.5)
    assert partly.loss and partly.loss.high > 0.9 > 0.7 > partly.loss.seconds > 0.2
    assert "500 ms of that in all because ranks had no core" in partly.message
    (undecided,) = notes([0, 1, 3], late_ns=5e6, without_core_s=3)
    assert undecided.loss and undecided.loss.seconds == undecided.loss.low == 0 < undecided.loss.high
    assert not notes([0, 1, 3], late_ns=5e6, calls=5)
    assert sum(bool(notes([0, 1, 2, 3], late_ns=0)) for _ in range(50)) <= 5


def test_nobody_waits_for_itself() -> None:
    """Is the rank named that the worst one waits for, whatever others wait for, and is a message to oneself no wait?"""

    def message(rank: int, peer: int) -> Any:
        found = SimpleNamespace(sends=False, bytes=8, world_peer=peer)
        return SimpleNamespace(rank=rank, found=found, costs=SimpleNamespace(message=lambda size: Estimate(10, 9, 11)))

    def ended(*times: int) -> list[Any]:
        return [SimpleNamespace(call=0, messages=at, times=count) for at, count in enumerate(times)]

    line = Site("MPI_Waitall", Place("a.c", 3))

    def notes(ended_in: list[list[Any]], peers: list[list[int]], spent_ns: list[float]) -> list[Note]:
        messages = [message(rank, peer) for rank, its in enumerate(peers) for peer in its]
        ranks = [
            SimpleNamespace(found=SimpleNamespace(ended_in=its, calls=[SimpleNamespace(time_ns=ns, delayed_ns=0)]))
            for its, ns in zip(ended_in, spent_ns, strict=True)
        ]
        inside = SimpleNamespace(source="measured")
        run: Any = SimpleNamespace(
            ranks=ranks, messages=messages, sites=[[line]] * len(ranks), seconds=1.0, inside=inside,
            delayed_ns=lambda rank: 0,
        )  # fmt: skip
        run.timing = run
        return list(waiting.notes(run, late_sender.RULE, "", sends=False))

    (note,) = notes([ended(2), ended(9)], [[1], [0]], [9e6, 1e5])  # rank 1 has more messages from rank 0
    assert "2 messages of rank 0, mostly for rank 1" in note.message
    assert notes([ended(2)], [[0]], [9e6]) == []


def test_what_is_said_first() -> None:
    """Is "nothing to gain" said of calls alone that were judged?"""
    assert Judged(24, 0, "").headline(0.01, noted=True) == ""
    none = "no rule finds a loss of 1 % of the run's time or more"
    assert Judged(24, 0, "").headline(0.01, noted=False) == f"nothing to gain: {none}"
    some = Judged(24, 12, "the profile has no stable records")
    assert some.headline(0.01, noted=True) == "cannot tell for 12 of 24 calls: the profile has no stable records"
    assert some.headline(0.01, noted=False).endswith(f"; nothing to gain at the others: {none}")
    assert not some.nothing and not Judged(0, 0, "").nothing and Judged(24, 24, "x").nothing
    assert "nothing to gain" not in Judged(24, 24, "x").headline(0.01, noted=False)


@pytest.mark.mpi
def test_a_profile_without_stable_records_judges_nothing(observations: Path, tmp_path: Path) -> None:
    """Does advice on a profile of noise say so first, with an exit code of its own, on the page, too?"""
    unstable = replace(load(PROFILE), records=load(PROFILE).records.with_columns(stable=False))
    found = advise(read_run(Trace(observations / "listing-1"), unstable), 0.01)
    assert not found.is_decided and found.notes == []
    assert found.headline.startswith(f"cannot tell for {found.judged.calls} of {found.judged.calls} calls: the profile")
    section = advice_section(Advised("a", found.headline, found.warnings, found.notes, found.remarks))
    assert "Cannot tell for" in section and "othing to gain" not in section


@pytest.mark.mpi
def test_a_profile_of_another_mpi_is_a_warning(observations: Path) -> None:
    """Is it the first line that losses are those of another MPI?"""
    profile = load(PROFILE.with_name("epyc-vm-quiet"))
    said = invoked(observations / "cold-send", "--profile", profile.path).stdout
    assert said.startswith("warning: the profile was measured with ") == (profile.run.mpi.name != first_mpi().name)
    assert advice_on(observations / "cold-send")["warnings"] == []  # a simulated machine has no MPI of its own


@pytest.mark.mpi
def test_valgrind_has_no_hooks(observations: Path, tmp_path: Path) -> None:
    """Do the last lines name the recorder that there was?"""
    shutil.copytree(observations / "clean-stencil", tmp_path / "trace")
    file = tmp_path / "trace/trace.toml"
    file.write_text(file.read_text().replace('recorder = "hooks"', 'recorder = "valgrind"'))
    remarks = " ".join(advice_on(tmp_path / "trace")["remarks"])
    assert "with hooks" not in remarks and "a run with Valgrind" in remarks and "without Valgrind, by which" in remarks


def test_grids_from_faces() -> None:
    """Are the cells of a rank those that its faces tell, and unknown where they do not?"""
    x, y, z = face(5 * 6 * 8, 5 * 6 * 8), face(4 * 6 * 8, 6 * 8), face(4 * 5 * 8, 8)
    assert _local([{(0, 0, True): x, (1, 0, True): y, (2, 0, True): z}], (2, 2, 2), 8) == (4, 5, 6)
    assert _local([{(0, 0, True): x, (1, 0, True): y}], (2, 2, 1), 8) == (4, 5, 6)
    assert _local([{(0, 0, True): x}], (2, 1, 1), 8) is None
    assert _local([{(0, 0, True): face(7 * 8, 56), (1, 0, True): face(9 * 8, 8)}], (2, 2), 8) == (9, 7)
    row = 10 * 8
    rows = {
        (0, side, sends): face(row, row, 4096 + row * at)
        for side, sends, at in ((0, False, 0), (0, True, 1), (1, True, 20), (1, False, 21))
    }
    assert _local([rows], (4, 1), 8) == (20, 10)
    packed = {**rows, (0, 1, True): face(row, row, 99999)}
    assert _local([packed], (4, 1), 8) is None


def test_no_answer_without_records() -> None:
    """Is there no number where the profile has no stable record?"""
    costs = Costs(load(PROFILE))
    assert costs.copied_once(1024) is None
    assert costs.send(1024, "nonsense") is None
    assert Costs(load(PROFILE), network=True).message(1024) is None
    unstable = replace(load(PROFILE), records=load(PROFILE).records.with_columns(stable=False))
    assert Costs(unstable).message(1024) is None
