"""Does `nearfield advise` name the fault of a program first, at its line, and is it silent about programs without one?

tests/programs/advised.c has the programs. Losses are from the times of a simulated profile (tests/data/leo3-simulated),
so that they are the same on every machine; only waiting is judged by times of the run itself.
"""

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import nearfield
from nearfield.advise.grid import _cells_per_rank
from nearfield.advise.judged import JudgedCalls
from nearfield.advise.rules import all_rules, late_sender, late_to_collective, waiting
from nearfield.advise.rules.reuse import _loss_of_message
from nearfield.advise.run import MpiCallSite
from nearfield.base.estimates import Estimate
from nearfield.cli import app
from nearfield.notes import Note, SourcePlace
from nearfield.observe import trace as traces
from nearfield.observe.trace import TraceFile
from nearfield.profile import Profile, load
from nearfield.profile.costs import Costs, time_at_size

PROFILE = Path(__file__).parents[1] / "data/leo3-simulated"


def invoked(*words: object) -> Any:
    return CliRunner().invoke(app, ["advise", *map(str, words)])


@pytest.mark.parametrize(
    ("words", "said"),
    [(["nowhere"], "neither a trace nor a command"), ([str(PROFILE)], "there is no trace"),
     ([str(PROFILE), "--on", "leo3"], "leave one of them out"), ([str(PROFILE), "--nodes", "2"], "add --on MACHINE"),
     ([str(PROFILE), "--min-loss", "2"], "not a share")],
)  # fmt: skip
def test_wrong_arguments(words: list[str], said: str) -> None:
    assert said in str(invoked(*words, "--profile", PROFILE).exception)


def test_a_program_without_mpi(tmp_path: Path) -> None:
    """Is a trace of a program without MPI refused with the reason?"""
    about = TraceFile(nearfield=nearfield.__version__, created=datetime.now(timezone.utc), command="x")
    traces.create_trace_folder(tmp_path / "trace", about, force=False)
    assert "without MPI" in str(invoked(tmp_path / "trace", "--profile", PROFILE).exception)


# ---- the parts


def test_every_rule_says_what_it_rests_on() -> None:
    """Has each rule a name like its file's, words and a source?"""
    rules = all_rules()
    assert len(rules) >= 10
    for spec in rules:
        assert spec.rule.summary and spec.rule.explanation and spec.rule.source
        assert spec.scenarios or spec.needs_program_times, spec.rule.id
    folder = Path(nearfield.__file__).parent / "advise/rules"
    files = {file.stem.replace("_", "-") for file in folder.glob("*.py")}
    assert {spec.rule.id for spec in rules} <= files


def test_times_between_records() -> None:
    """Do times lie between those of the neighbouring sizes, and grow as bytes do beyond the last one?"""
    points = {100: Estimate(10, 9, 11), 400: Estimate(40, 36, 44)}
    assert time_at_size(points, 200).value == pytest.approx(20) and time_at_size(points, 200).low == pytest.approx(18)
    assert time_at_size(points, 50) == points[100]
    assert time_at_size(points, 4000).value == pytest.approx(400)
    assert time_at_size({}, 10) is None
    assert Estimate(10, 7, 13) - Estimate(5, 1, 9) == Estimate(5, 0, 10)


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
    whole, cut, piece = Costs(more_records(*rows)).whole_and_chunked_times(20 << 20) or pytest.fail("no answer")
    assert (whole.value, cut.value, piece) == (18e6, 8e6, 1 << 18)
    simulated = Costs(load(PROFILE)).whole_and_chunked_times(16 << 20)
    assert simulated and simulated[0].value > simulated[1].value


def face(size: int, piece: int, address: int = 0) -> Any:
    return SimpleNamespace(counts=SimpleNamespace(bytes=size, piece_bytes=piece, address=address))


def test_losses_of_lines_in_caches_between() -> None:
    """Do lines in memory lose the whole difference, and those in a cache between a part, by the latencies?"""
    profile = load(PROFILE)
    latencies = SimpleNamespace(level_latency_ns=[1.0, 5.0, 20.0], memory_latency_ns=105.0)
    calibrated = replace(profile, run=profile.run.model_copy(update={"calibration": latencies}))
    run: Any = SimpleNamespace(max_ranks_on_node=2)

    def loss(profile: Profile, *shares: float) -> Estimate | None:
        one: Any = SimpleNamespace(
            costs=Costs(profile), shares_by_cache_level=lambda: shares, counts=SimpleNamespace(bytes=64 << 10)
        )  # which L2 can hold
        return _loss_of_message(run, one, Estimate(100, 100, 100), Estimate(60, 60, 60))

    assert loss(calibrated, 0.5, 0.5, 0, 0) is None
    assert loss(calibrated, 0.5, 0, 0, 0.5) == Estimate(20, 20, 20)
    between = loss(calibrated, 0.5, 0, 0.5, 0)
    assert between and (between.value, between.low) == (pytest.approx(0.5 * 40 * 15 / 100), 0)
    assert loss(profile, 0, 0, 1, 0) is None


def test_waiting_in_collectives() -> None:
    """Is the late rank found among noise, in a part of the ranks, with what each other one waits, and not in noise?"""
    random, line, other = (
        Random(3),
        MpiCallSite("MPI_Barrier", SourcePlace("a.c", 3)),
        MpiCallSite("MPI_Barrier", SourcePlace("a.c", 9)),
    )

    def notes(members: list[int], late_ns: float, calls: int = 200, without_core_s: float = 0) -> list[Note]:
        """The last member comes later by so much on average, and had no core for so long; rank 3 calls from another
        line."""
        arrivals = [
            [random.expovariate(1e-6) + (rank == members[-1]) * late_ns for rank in members] for _ in range(calls)
        ]
        spent = {rank: [int(max(times) - times[at]) + 100 for times in arrivals] for at, rank in enumerate(members)}
        found = [
            SimpleNamespace(
                synchronisations=[SimpleNamespace(context=1, world=members, calls=[0] * calls, times_ns=spent[rank])]
                if rank in members else [],
                calls=[SimpleNamespace(delayed_ns=0)],
            )
            for rank in range(4)
        ]  # fmt: skip
        ranks = [SimpleNamespace(result=one) for one in found]
        run: Any = SimpleNamespace(ranks=ranks, call_sites=[[line], [line], [line], [other]], seconds=1.0)
        run.timing_run, run.time_without_core_ns = run, lambda rank: without_core_s * 1e9 * (rank == members[-1])
        return list(late_to_collective.find_late_ranks(run))

    (note,) = notes([0, 1, 3], late_ns=5e6)
    assert note.place == line.place and [one.place for one in note.related] == [other.place]
    assert note.loss and note.loss.low < 200 * 5e-3 < note.loss.high and note.loss.low > 0.8
    assert "for rank 3, which is the last to enter" in note.message and "; 1 other rank waits, too" in note.message
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
        costs = SimpleNamespace(message_time=lambda size: Estimate(10, 9, 11))
        return SimpleNamespace(rank=rank, counts=SimpleNamespace(sends=False, bytes=8, world_peer=peer), costs=costs)

    def ended(*times: int) -> list[Any]:
        return [SimpleNamespace(call=0, messages=at, times=count) for at, count in enumerate(times)]

    line = MpiCallSite("MPI_Waitall", SourcePlace("a.c", 3))

    def notes(ended_in: list[list[Any]], peers: list[list[int]], spent_ns: list[float]) -> list[Note]:
        messages = [message(rank, peer) for rank, entries in enumerate(peers) for peer in entries]
        ranks = [
            SimpleNamespace(result=SimpleNamespace(ended_in=entries, calls=[SimpleNamespace(time_ns=ns, delayed_ns=0)]))
            for entries, ns in zip(ended_in, spent_ns, strict=True)
        ]
        node_costs = SimpleNamespace(source="measured")
        run: Any = SimpleNamespace(
            ranks=ranks, messages=messages, call_sites=[[line]] * len(ranks), seconds=1.0,
            node_costs=node_costs, time_without_core_ns=lambda rank: 0,
        )  # fmt: skip
        run.timing_run = run
        return list(waiting.find_waits(run, late_sender.RULE, "", sends=False))

    (note,) = notes([ended(2), ended(9)], [[1], [0]], [9e6, 1e5])  # rank 1 has more messages from rank 0
    assert "2 messages of rank 0, mostly for rank 1" in note.message
    assert notes([ended(2)], [[0]], [9e6]) == []


def test_what_is_said_first() -> None:
    """Is "nothing to gain" said of calls alone that were judged?"""
    assert JudgedCalls(24, 0, "").headline(0.01, has_notes=True) == ""
    none = "no rule finds a loss of 1 % of the run's time or more"
    assert JudgedCalls(24, 0, "").headline(0.01, has_notes=False) == f"nothing to gain: {none}"
    some = JudgedCalls(24, 12, "the profile has no stable records")
    assert some.headline(0.01, has_notes=True) == "cannot tell for 12 of 24 calls: the profile has no stable records"
    assert some.headline(0.01, has_notes=False).endswith(f"; nothing to gain at the others: {none}")
    assert (
        not some.has_judged_none
        and not JudgedCalls(0, 0, "").has_judged_none
        and JudgedCalls(24, 24, "x").has_judged_none
    )
    assert "nothing to gain" not in JudgedCalls(24, 24, "x").headline(0.01, has_notes=False)


def test_grids_from_faces() -> None:
    """Are the cells of a rank those that its faces tell, and unknown where they do not?"""
    x, y, z = face(5 * 6 * 8, 5 * 6 * 8), face(4 * 6 * 8, 6 * 8), face(4 * 5 * 8, 8)
    assert _cells_per_rank([{(0, 0, True): x, (1, 0, True): y, (2, 0, True): z}], (2, 2, 2), 8) == (4, 5, 6)
    assert _cells_per_rank([{(0, 0, True): x, (1, 0, True): y}], (2, 2, 1), 8) == (4, 5, 6)
    assert _cells_per_rank([{(0, 0, True): x}], (2, 1, 1), 8) is None
    assert _cells_per_rank([{(0, 0, True): face(7 * 8, 56), (1, 0, True): face(9 * 8, 8)}], (2, 2), 8) == (9, 7)
    row = 10 * 8
    rows = {
        (0, side, sends): face(row, row, 4096 + row * at)
        for side, sends, at in ((0, False, 0), (0, True, 1), (1, True, 20), (1, False, 21))
    }
    assert _cells_per_rank([rows], (4, 1), 8) == (20, 10)
    packed = {**rows, (0, 1, True): face(row, row, 99999)}
    assert _cells_per_rank([packed], (4, 1), 8) is None


def test_no_answer_without_records() -> None:
    """Is there no number where the profile has no stable record?"""
    costs = Costs(load(PROFILE))
    assert costs.remote_copy_time(1024) is None
    assert costs.send_time(1024, "nonsense") is None
    assert Costs(load(PROFILE), network=True).message_time(1024) is None
    unstable = replace(load(PROFILE), records=load(PROFILE).records.with_columns(stable=False))
    assert Costs(unstable).message_time(1024) is None
