"""Does `nearfield advise` find what is slow in real programs, and nothing where there is no fault?"""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from build_lock import build_lock
from mpi_program import PROGRAMS
from test_observe_mpi import CORES, HOOKS, LAYER, wrapper
from typer.testing import CliRunner

from nearfield import mpi
from nearfield.advise import advise, read_run
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.cli import app
from nearfield.mpi import Installation
from nearfield.mpi.compiler import compiler_environment
from nearfield.observe import trace as traces
from nearfield.observe.observing import complete_trace
from nearfield.observe.trace import Trace, TraceFile
from nearfield.profile import Profile, load
from nearfield.profile.costs import Costs
from nearfield.report.advice import ProgramAdvice, advice_section_html

pytestmark = pytest.mark.turn(0)

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
    found = mpi.find_usable_mpis()
    return next((inst for inst in found if inst.family == "mpich"), found[0])  # it starts programs soonest


def program_of(inst: Installation, programs: Path, hooks: bool) -> Path:
    """Compiles the programs with or without hooks, unless that is done."""
    program = programs / f"advised-{'hooks' if hooks else 'plain'}"
    compiler = f"{sys.executable} -m nearfield cc" if hooks else "cc"
    behind = dict.fromkeys(("OMPI_CC", "MPICH_CC", "I_MPI_CC"), compiler)
    env = {**os.environ, **inst.env, **compiler_environment(inst), **behind}
    command = [str(wrapper(inst, "c")), "-O2", "-g", str(SOURCE), "-o", str(program)]
    with build_lock(program) as is_missing:
        if is_missing:
            subprocess.run(command, env=env, check=True, capture_output=True, timeout=120)
    return program


def build_ahead(inst: Installation, programs: Path) -> None:
    if inst == first_mpi():
        mpi.build_target(inst, LAYER)
        for hooks in (True, False):
            program_of(inst, programs, hooks)


def observed(inst: Installation, program: Path, name: str, folder: Path) -> None:
    """Runs one of the programs into an open trace."""
    ranks = 4 if name == "bad-split" else 2
    env = {"LD_PRELOAD": f"{HOOKS}:{mpi.build_target(inst, LAYER)}", "NEARFIELD_OBSERVE": str(folder)}
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
        traces.create_trace_folder(where, abouts[where], force=False)
    with ThreadPoolExecutor(4) as pool:  # launchers sleep more than they work
        list(pool.map(lambda run: observed(inst, *run), runs))
    for where, about in abouts.items():
        assert complete_trace(where, about) == ""
    return folder


def line_of(mark: str) -> int:
    lines = SOURCE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"// {mark}"))


def invoked(*words: object) -> Any:
    return CliRunner().invoke(app, ["advise", *map(str, words)])


def advice_on(trace: Path, *words: object, least: str = "0") -> dict[str, Any]:
    done = invoked(trace, "--profile", PROFILE, "--min-loss", least, "--json", *words)
    found = json.loads(done.stdout)
    assert done.exit_code == (0 if found["decided"] else NOT_DECIDED_EXIT_CODE), done.output
    return found


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


@pytest.mark.parametrize("name", CLEAN)
def test_clean_programs_get_no_note(observations: Path, name: str) -> None:
    """Is nothing said about a program without a fault, however little a loss must be?"""
    advice = advice_on(observations / name)
    assert (advice["notes"], advice["smaller_losses"]) == ([], 0)
    said = invoked(observations / name, "--profile", PROFILE)
    if name == "clean-sums":  # it has collectives alone, and neither their sizes nor their waits can be judged
        assert said.exit_code == NOT_DECIDED_EXIT_CODE and "nothing to gain" not in said.stdout
        assert advice["headline"].startswith(f"cannot tell for {advice['calls']} of {advice['calls']} calls: ")
    else:
        assert said.exit_code == 0 and "nothing to gain" in said.stdout


def test_losses_are_differences_of_records(observations: Path) -> None:
    """Is the loss what the profile says that cold data cost, times the messages whose data were cold?"""
    send = Costs(load(PROFILE)).times_by_size("pingpong", "send", side="sender", state="invalid")
    warm = Costs(load(PROFILE)).times_by_size("pingpong", "send", side="sender", state="modified")
    each = send[512 << 10].value - warm[512 << 10].value
    note = advice_on(observations / "cold-send")["notes"][0]
    assert note["loss"]["seconds"] == pytest.approx(4 * each * 1e-9, rel=0.02)
    assert note["related"][0]["place"]["line"] == line_of("written cold-send")
    between = next(one["value"] for one in note["evidence"] if one["unit"] == "bytes")
    assert between == pytest.approx(16.5 * 2**20, rel=0.15)
    read = advice_on(observations / "late-read")["notes"][0]
    assert read["related"][0]["place"]["line"] == line_of("read late-read")


def test_text_is_a_compilers(observations: Path) -> None:
    """Does an editor find the place, and a person what was compared with what?"""
    text = invoked(observations / "cold-send", "--profile", PROFILE, "--min-loss", "0").stdout
    assert f"advised.c:{line_of('fault cold-send')}: note: cold send: " in text.replace("\n", "")
    for part in ("[cold-send]", "rule: ", "do: Move the send", "losses are from the profile", "without hooks"):
        assert part in text, part
    none = invoked(observations / "cold-send", "--profile", PROFILE, "--min-loss", "100%").stdout
    assert "nothing to gain" in none and "largest: " in none and "(cold-send)" in none.replace("\n", " ")


def test_sarif_has_the_same_notes(observations: Path, tmp_path: Path) -> None:
    """Are notes and rules in the SARIF file those of the text?"""
    file = tmp_path / "notes.sarif"
    notes = advice_on(observations / "listing-1", "--sarif", file)["notes"]
    run = json.loads(file.read_text())["runs"][0]
    assert [one["ruleId"] for one in run["results"]] == [note["rule"] for note in notes]
    lines = [one["locations"][0]["physicalLocation"]["region"]["startLine"] for one in run["results"]]
    assert lines == [note["line"] for note in notes]
    assert {"cold-send", "bad-split"} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]}


@pytest.mark.parametrize("name", WAITING)
def test_waiting_is_seen_without_hooks(observations: Path, name: str) -> None:
    """Is a wait of 90 ms in all, or of 400 ms in collectives, named first, and of about that length?"""
    advice = advice_on(observations / f"plain-{name}", least="1%")
    assert advice["seconds_are"] == "observed"
    notes = [*advice["notes"], *advice["undecided"]]  # undecided where other programs took the cores for as long
    first = next(note for note in notes if (note["rule"], note["line"]) == (name, line_of(f"fault {name}")))
    assert 0.05 < first["loss"]["high"] < 10
    without = next(one["value"] for one in first["evidence"] if one["name"].startswith("without a core"))
    assert first["loss"]["seconds"] <= max(0.0, first["loss"]["high"] - without / 1e9) + 1e-9
    assert name != "late-to-collective" or "for rank 1, which is the last" in first["message"]


@pytest.mark.parametrize("name", CLEAN_WITHOUT_HOOKS)
def test_nobody_waits_where_no_rank_has_more_to_do(observations: Path, name: str) -> None:
    """Is nothing said where ranks are equally busy, or late in turns?"""
    advice = advice_on(observations / f"plain-{name}", least="1%")
    assert advice["notes"] == [] and "late-to-collective" in advice["rules"]


def test_without_accesses_it_says_what_it_cannot_judge(observations: Path) -> None:
    """Are rules about reuse left out by name, and others judged, where only MPI calls are known?"""
    advice = advice_on(observations / "plain-tiny-messages")
    assert "tiny-messages" in {note["rule"] for note in advice["notes"]}
    assert "cold-send" not in advice["rules"]
    remark = next(one for one in advice["remarks"] if "cold-send" in one)
    assert "late-read" in remark and "nearfield cc" in remark


def test_times_of_a_run_without_hooks_count(observations: Path) -> None:
    """Are the run's times those of the other trace, if one is given?"""
    alone = advice_on(observations / "tiny-messages")
    both = advice_on(observations / "tiny-messages", "--times", observations / "plain-tiny-messages")
    assert (alone["seconds_are"], both["seconds_are"]) == ("estimated", "observed")
    assert both["seconds"] == advice_on(observations / "plain-tiny-messages")["seconds"]


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


def test_losses_on_another_machine(observations: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are losses on a described machine those of its profile, as shares of the simulated time there? Do messages go
    between nodes with --nodes?"""
    monkeypatch.setattr("nearfield.cli.advise_on.simulated_profile_of", lambda machine, name: PROFILE)
    words = ["advise", str(observations / "cold-send"), "--on", "leo3", "--min-loss", "0", "--json"]
    there = json.loads(CliRunner().invoke(app, words).stdout)
    note, same = there["notes"][0], advice_on(observations / "cold-send")["notes"][0]
    assert (note["rule"], note["loss"]["seconds"]) == (same["rule"], same["loss"]["seconds"])
    assert there["seconds_are"] == "simulated"
    assert note["loss"]["share"] * there["seconds"] == pytest.approx(note["loss"]["seconds"])
    simulated = ["simulate", "run", words[1], "--on", "leo3", "--nodes", "1", "--policy", "memory", "--json"]
    found = json.loads(CliRunner().invoke(app, [*simulated, "--memory-slowdown", "1"]).stdout)
    assert there["seconds"] == pytest.approx(found["time_ns"][0][0] / 1e9)
    two_nodes = json.loads(
        CliRunner().invoke(app, [*words, "--nodes", "2"]).stdout
    )  # of which this profile has no records
    assert two_nodes["notes"] == [] and any("on 2 nodes" in remark for remark in two_nodes["remarks"])


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


def test_a_cut_trace_is_refused(observations: Path, tmp_path: Path) -> None:
    """Is a stream that ends in the middle refused at its byte?"""
    cut = tmp_path / "cut"
    shutil.copytree(observations / "cold-send", cut)
    stream = cut / "rank-1.nfs"
    stream.write_bytes(stream.read_bytes()[:-40])
    done = invoked(cut, "--profile", PROFILE)
    assert "byte" in str(done.exception) and "rank-1.nfs" in str(done.exception)


def test_without_a_profile_it_says_how_to_get_one(
    observations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is the user advised to measure?"""
    monkeypatch.chdir(tmp_path)
    assert "probe --quick" in str(invoked(observations / "cold-send").exception)


def test_a_profile_of_another_machine_is_reported(observations: Path) -> None:
    """Does the user learn whose losses these are?"""
    done = invoked(observations / "cold-send", "--profile", PROFILE.with_name("epyc-vm-quiet"), "--json")
    assert any("the program ran on" in remark for remark in json.loads(done.stdout)["remarks"])
    assert "simulated leo3" in " ".join(advice_on(observations / "cold-send")["remarks"])


def more_records(*rows: dict[str, Any]) -> Profile:
    """Returns the profile with records of its pair added."""
    profile = load(PROFILE)
    place = {"distance": profile.records["distance"][0], "pair": profile.records["pair"].drop_nulls()[0]}
    usual = {"metric": "time", "unit": "ns", "n": 9, "stable": True, "source": "sim", **place}
    added = [{**usual, **row} for row in rows]
    frame = pl.DataFrame(added, schema_overrides={"n": pl.Int64}, infer_schema_length=None)
    return replace(profile, records=pl.concat([profile.records, frame], how="diagonal_relaxed"))


def test_a_profile_without_stable_records_judges_nothing(observations: Path, tmp_path: Path) -> None:
    """Does advice on a profile of noise say so first, with an exit code of its own, on the page, too?"""
    unstable = replace(load(PROFILE), records=load(PROFILE).records.with_columns(stable=False))
    found = advise(read_run(Trace(observations / "listing-1"), unstable), 0.01)
    assert not found.is_decided and found.notes == []
    assert found.headline.startswith(
        f"cannot tell for {found.judged_calls.num_calls} of {found.judged_calls.num_calls} calls: the profile"
    )
    section = advice_section_html(ProgramAdvice("a", found.headline, found.warnings, found.notes, found.remarks))
    assert "Cannot tell for" in section and "othing to gain" not in section


def test_a_profile_of_another_mpi_is_a_warning(observations: Path) -> None:
    """Is it the first line that losses are those of another MPI?"""
    profile = load(PROFILE.with_name("epyc-vm-quiet"))
    said = invoked(observations / "cold-send", "--profile", profile.path).stdout
    assert said.startswith("warning: the profile was measured with ") == (profile.run.mpi.name != first_mpi().name)
    assert advice_on(observations / "cold-send")["warnings"] == []  # a simulated machine has no MPI of its own


def test_valgrind_has_no_hooks(observations: Path, tmp_path: Path) -> None:
    """Do the last lines name the recorder that there was?"""
    shutil.copytree(observations / "clean-stencil", tmp_path / "trace")
    file = tmp_path / "trace/trace.toml"
    file.write_text(file.read_text().replace('recorder = "hooks"', 'recorder = "valgrind"'))
    remarks = " ".join(advice_on(tmp_path / "trace")["remarks"])
    assert "with hooks" not in remarks and "a run with Valgrind" in remarks and "without Valgrind, by which" in remarks
