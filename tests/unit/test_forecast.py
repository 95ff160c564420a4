"""Is what a forecast says never below a gain that is possible, and does it say when a run cannot tell?"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearfield.base.estimates import interpolate_by_size
from nearfield.forecast import saying
from nearfield.forecast.ceiling import compute_ceilings, refault_seconds
from nearfield.forecast.message_times import MeasuredMessageTimes, message_times_of_rules, pattern_of
from nearfield.forecast.ranks import CallCategory, CallGroup, PartnerPlace, ProcessUsage, RecordedRank, RecordingState
from nearfield.forecast.run import RecordedRun
from nearfield.rules.schema import load_rules
from nearfield.ui.terminal import Table

RULES = Path(__file__).parents[1] / "data/rules/openmpi-5.0.11.toml"
NONE = ProcessUsage(*[0] * len(ProcessUsage._fields))


def made_calls(seconds: float, name: str = "MPI_Sendrecv", **more: Any) -> CallGroup:
    values: dict[str, Any] = {
        "category": CallCategory.POINT_TO_POINT, "partner_place": PartnerPlace.NODE, "size_class": 9, "site": None,
        "num_calls": 10, "num_messages": 10, "total_bytes": 655360, "between_polls_s": 0.0,
    }  # fmt: skip
    return CallGroup(name=name, duration_s=seconds, **{**values, **more})


def made_rank(number: int, seconds: float, *calls: CallGroup, ranks: int = 2, **more: Any) -> RecordedRank:
    """Returns a rank that had a core all the time and no page faults."""
    ran = NONE._replace(user_ns=int(seconds * 1e9), has_delay=1, idle_ticks=100)
    values: dict[str, Any] = {
        "num_node_ranks": ranks, "host": "a", "library": "MPI 1.0", "state": RecordingState.FINALIZED,
        "is_spawned": False, "num_threads": 1, "num_lost_threads": 0, "begin_usage": NONE, "end_usage": ran,
        "page_fault_ns": 500.0, "layer_call_ns": 20.0, "cores": frozenset({0, 1}),
        "sent_to_node_bytes": 0, "sent_to_others_bytes": 0,
    }  # fmt: skip
    in_mpi = sum(one.duration_s for one in calls)
    return RecordedRank(
        rank=number, num_ranks=ranks, duration_s=seconds, in_mpi_s=in_mpi, call_groups=calls, **{**values, **more}
    )


def pair(*calls: CallGroup, seconds: float = 10.0, **more: Any) -> list[RecordedRank]:
    return [made_rank(number, seconds, *calls, **more) for number in (0, 1)]


# ---- ceilings


def test_only_what_a_means_touches_counts() -> None:
    """Do the ceilings of rules, collectives and the halo library come from their own calls, inside a node?"""
    ranks = pair(
        made_calls(1.0),
        made_calls(2.0, "MPI_Allreduce", category=CallCategory.COLLECTIVE),
        made_calls(3.0, "MPI_Bcast", category=CallCategory.COLLECTIVE, partner_place=PartnerPlace.OTHERS),
        made_calls(1.0, "MPI_File_write", category=CallCategory.FILE),
    )
    rules, collectives, halo = compute_ceilings(ranks, None)
    assert rules.share_of_time == pytest.approx(
        0.4
    )  # what opens and reads files moves data, too, inside collectives' libraries
    assert collectives.share_of_time == pytest.approx(0.2) and halo.share_of_time == pytest.approx(0.1)
    assert collectives.max_speedup == pytest.approx(10 / 6) and halo.max_speedup == pytest.approx(
        10 / 8
    )  # two ranks' time
    assert rules.max_speedup and rules.max_speedup >= collectives.max_speedup and rules.likely_speedup is None


def test_page_faults_are_the_heaps_gain() -> None:
    """Does a program without messages that faults memory in again and again have a ceiling, and one only for the
    shared heap?"""
    faulting = NONE._replace(user_ns=6 * 10**9, system_ns=4 * 10**9, minor_faults=4 * 10**6, has_delay=1)
    ranks = [replace(rank, end_usage=faulting) for rank in pair(made_calls(0.1))]
    rules, collectives, halo = compute_ceilings(ranks, None)
    assert rules.max_speedup and rules.max_speedup > 10 / 6
    assert collectives.max_speedup == 1.0 and halo.max_speedup and halo.max_speedup < 1.03
    assert refault_seconds(ranks[0]) == pytest.approx(2.0)
    resident = faulting._replace(resident_kib=4 * 4 * 10**6)
    assert refault_seconds(replace(ranks[0], end_usage=resident)) == 0.0, "memory that stays is faulted in once"


def test_a_run_in_mpi_alone_has_no_bound() -> None:
    (rules, *_) = compute_ceilings(pair(made_calls(9.9999)), None)
    assert rules.max_speedup is None and rules.max_speedup_text == "no bound"


def test_of_a_rank_that_was_killed_little_is_known() -> None:
    """Where nobody can tell page faults and processor time, is there no bound that rests on them, and no number?"""
    run = RecordedRun([replace(rank, end_usage=None, state=RecordingState.RUNNING) for rank in pair(made_calls(1.0))])
    rules, collectives, halo = run.ceilings
    assert rules.max_speedup is None and collectives.max_speedup == 1.0 and halo.max_speedup == pytest.approx(10 / 8)
    assert "how busy the host was is not known" in " ".join(saying.run_sentences(run))
    result = saying.run_as_dict(run)
    assert result["no_core_share"] is None and result["per_rank"][0]["processor_seconds"] is None


class Modelled:
    """A program of several ranks that compute and exchange messages with random partners, as far as time goes: an
    exchange begins when both are there, and takes its transfer."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.ranks = chance.randint(2, 5)
        late = chance.choice([0.1, 1.0, 5.0])
        self.steps = [
            (
                [chance.uniform(0, late) for _ in range(self.ranks)],
                chance.sample(range(self.ranks), 2),
                chance.uniform(0, 2),
            )
            for _ in range(chance.randint(1, 30))
        ]

    def times(self, faster: float) -> tuple[list[float], list[float]]:
        """Returns each rank's time, and of it the time in MPI, where transfers take `faster` of what they take."""
        now, in_mpi = [0.0] * self.ranks, [0.0] * self.ranks
        for compute, (a, b), transfer in self.steps:
            now = [time + duration for time, duration in zip(now, compute, strict=True)]
            end = max(now[a], now[b]) + faster * transfer
            for rank in (a, b):
                in_mpi[rank] += end - now[rank]
                now[rank] = end
        return [max(now)] * self.ranks, [duration + max(now) - time for duration, time in zip(in_mpi, now, strict=True)]


@pytest.mark.parametrize("seed", range(60))
def test_no_gain_is_above_the_ceiling(seed: int) -> None:
    """Whatever waits for whatever: if all transfers become shorter, or take no time, is the gain within the ceiling?"""
    program = Modelled(seed)
    seconds, in_mpi = program.times(1.0)
    ranks = [
        made_rank(number, whole, made_calls(durations), ranks=program.ranks)
        for number, (whole, durations) in enumerate(zip(seconds, in_mpi, strict=True))
    ]
    max_gain = compute_ceilings(ranks, None)[0].max_speedup
    for faster in (0.0, 0.3, 0.9):
        gain = seconds[0] / max(1e-12, program.times(faster)[0][0])
        assert max_gain is None or gain <= max_gain * (1 + 1e-9)


# ---- message_times


def test_transfer_is_priced_and_the_rest_is_waiting() -> None:
    """Is the transfer what a message of this size was measured to take, at most the time of the call, and less under
    the rules?"""
    message_times = MeasuredMessageTimes(
        "x", {"pingpong": {1024: 1e6, 65536: 64e6}}, {"pingpong": {1024: 1e6, 65536: 32e6}}, has_rules=True
    )
    long = made_calls(2.0, "MPI_Send")
    assert message_times.transfer_s(long, 2) == pytest.approx(0.64) and message_times.saved_s(long, 2) == pytest.approx(
        0.32
    )
    assert message_times.transfer_s(replace(long, duration_s=0.1), 2) == 0.1
    run = RecordedRun(pair(long), message_times)
    assert run.transfer_share == pytest.approx(0.064)
    assert run.call_summaries()[0].waiting_s == pytest.approx(2 * (2.0 - 0.64))
    (rules, _, halo) = run.ceilings
    assert rules.likely_speedup == pytest.approx(1 / (1 - 0.032)) and halo.likely_speedup == pytest.approx(
        1 / (1 - 0.064)
    )


@pytest.mark.parametrize(
    ("name", "category", "pattern"),
    [
        ("MPI_Isend", CallCategory.POINT_TO_POINT, "pingpong"),
        ("MPI_Sendrecv_c", CallCategory.POINT_TO_POINT, "exchange"),
        ("MPI_Ibcast", CallCategory.COLLECTIVE, "bcast"),
        ("MPI_Allgatherv_init", CallCategory.COLLECTIVE, "allgather"),
        ("MPI_Allreduce", CallCategory.COLLECTIVE, "allreduce"),
        ("MPI_Waitall", CallCategory.COLLECTIVE, "allreduce"),
        ("MPI_Win_fence", CallCategory.ONE_SIDED, "pingpong"),
        ("MPI_Comm_dup", CallCategory.OTHER, ""),
    ],
)
def test_each_call_is_priced_by_the_nearest_pattern(name: str, category: CallCategory, pattern: str) -> None:
    assert pattern_of(made_calls(1.0, name, category=category)) == pattern


def test_times_between_two_sizes_lie_between() -> None:
    curve = {1024: 1000.0, 4096: 4000.0}
    assert interpolate_by_size(curve, 1) == 1000.0 and interpolate_by_size(curve, 1 << 20) == pytest.approx(1024000.0)
    assert interpolate_by_size(curve, 2048) == pytest.approx(2000.0)


def test_rules_have_prices() -> None:
    """Do the rules that tune writes tell the times of stock and of tuned messages?"""
    message_times = message_times_of_rules(load_rules(RULES), "here")
    assert (
        message_times
        and message_times.has_rules
        and set(message_times.baseline_curves) == set(message_times.tuned_curves)
    )
    assert all(time > 0 for curve in message_times.baseline_curves.values() for time in curve.values())


# ---- what cannot be decided, and words


def reasons(*ranks: RecordedRank) -> str:
    return "; ".join(RecordedRun(list(ranks)).inconclusive_reasons())


def test_what_a_run_cannot_show_is_said() -> None:
    """Does each way in which a run says nothing for sure have its reason, and a good run none?"""
    good = pair(made_calls(1.0))
    assert reasons(*good) == ""
    assert "no process called MPI_Init" in reasons()
    assert "1 of 2 ranks were recorded" in reasons(good[0])
    assert "the launcher is another MPI's" in reasons(*(replace(rank, num_ranks=1) for rank in good))
    assert "rank 1 ended without MPI_Finalize" in reasons(good[0], replace(good[1], state=RecordingState.EXITED))
    assert "3 threads called MPI beyond" in reasons(good[0], replace(good[1], num_lost_threads=3))
    assert "no rank called MPI between" in reasons(*pair())
    assert "0.05 s, which is too short" in reasons(*pair(made_calls(0.01), seconds=0.05))
    waited = good[0].end_usage._replace(delay_ns=9 * 10**9) if good[0].end_usage else None
    disturbed = [replace(rank, end_usage=waited) for rank in good]
    assert "47% of the time in which the ranks could run they had no core: other programs" in reasons(*disturbed)
    crowded = [replace(rank, cores=frozenset({0})) for rank in disturbed]
    assert "2 ranks share 1 cores" in reasons(*crowded)


def test_a_whole_forecast_fits_a_screen() -> None:
    """With more calls than are shown: are there at most 25 lines, in three parts, and a doubt comes first?"""
    many = [made_calls(0.1, f"MPI_{number}") for number in range(30)]
    run = RecordedRun(
        [replace(rank, state=RecordingState.EXITED) for rank in pair(*many)],
        message_times_of_rules(load_rules(RULES), "here"),
    )
    said = [*saying.report_lines(run), *saying.next_commands(run, ["mpirun", "./a"])]
    height = sum(len(one.rows) + 1 if isinstance(one, Table) else 1 for one in said)
    assert height <= 25 and said.count("") == 2
    assert isinstance(said[0], str) and said[0].startswith("Cannot tell: rank 0 and rank 1 ended without")


def test_the_next_step_follows_from_the_ceiling() -> None:
    """Is a program whose time is not in MPI reported to have nothing to gain, and another one what to do?"""
    idle = RecordedRun(pair(made_calls(0.01)))
    assert saying.next_commands(idle, ["a"]) == [
        "nearfield cannot speed this program up: it does not spend its time in MPI inside a node"
    ]
    worth = saying.next_commands(
        RecordedRun(pair(made_calls(5.0)), message_times_of_rules(load_rules(RULES), "here")), ["a"]
    )
    assert len(worth) <= 3 and "compare -- a" in worth[0] and "observe -- a" in worth[1]
    assert "tune" in saying.next_commands(RecordedRun(pair(made_calls(5.0))), ["a"])[0]
    message_times = message_times_of_rules(load_rules(RULES), "here")
    assert (
        "compare --rules r.toml -- a"
        in saying.next_commands(RecordedRun(pair(made_calls(5.0)), message_times), ["a"], Path("r.toml"))[0]
    )
    assert (
        "tune --mpi mpich-5.0.2"
        in saying.next_commands(RecordedRun(pair(made_calls(5.0))), ["a"], None, "mpich-5.0.2")[0]
    )


def test_the_sentence_of_the_ceiling_names_the_call() -> None:
    ranks = pair(made_calls(0.6), made_calls(0.1, "MPI_Bcast", category=CallCategory.COLLECTIVE))
    text = saying.ceiling_sentence(RecordedRun(ranks))
    assert text.startswith("MPI took 7.0% of this run, so rules can make it at most 1.08x as fast")
    assert "86% of MPI's time is in MPI_Sendrecv of 64 KiB" in text
    assert "better rules could make it at most 1.08x" in saying.ceiling_sentence(
        RecordedRun(ranks), is_under_rules=True
    )


def test_the_sentence_of_the_ceiling_explains_it() -> None:
    """If more than MPI's time could become shorter, does the sentence say what else, and how much it is?"""
    faulting = NONE._replace(user_ns=6 * 10**9, system_ns=4 * 10**9, has_delay=1)
    ranks = [replace(rank, end_usage=faulting) for rank in pair(made_calls(0.1))]
    assert saying.ceiling_sentence(RecordedRun(ranks)).startswith(
        "MPI took 1.0% of this run; with the time between polls, page faults and waiting for cores it is 41.0%, so "
        "rules can make it at most 1.70x as fast"
    )


def test_calls_of_one_place_and_size_are_one_line() -> None:
    ranks = pair(made_calls(1.0), made_calls(2.0, size_class=3))
    counted: dict[str, float] = defaultdict(float)
    for line in RecordedRun(ranks).call_summaries():
        counted[line.name] += line.duration_s
    assert [line.duration_s for line in RecordedRun(ranks).call_summaries()] == [4.0, 2.0] and counted == {
        "MPI_Sendrecv": 6.0
    }
