"""Are a program's collectives merged, kept and measured by what they took, and no other lengths selected for it?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nearfield.apply.learn import read_call_counts
from nearfield.base.errors import MeasurementError, ProfileError, UsageError
from nearfield.rules.called_collectives import (
    CallCount,
    CalledCollectives,
    load_called_collectives,
    merge_call_counts,
    save_called_collectives,
)
from nearfield.rules.collective_tables import CollectivePointTable, CollectiveTable
from nearfield.rules.gain_table import StoredGain
from nearfield.tune.collectives import CollectiveCell, CollectiveTuning, merge_points, ranges_from_points

S = 1_000_000_000


def called_by(*counts: CallCount, ranks: int = 2) -> CalledCollectives:
    return CalledCollectives(
        schema_version=1, nearfield="0", created="now", command="run", mpi="openmpi-5", ranks=ranks,
        call=merge_call_counts(counts, ranks),
    )  # fmt: skip


def point(size_bytes: int, algorithm: str = "flat", mpi_ns: float = 300.0) -> CollectivePointTable:
    gain = StoredGain(value=mpi_ns / 100, low=1, high=9, n=3)
    return CollectivePointTable(size_bytes=size_bytes, algorithm=algorithm, mpi_ns=mpi_ns, algorithm_ns=100, gain=gain)


def table(*points: CollectivePointTable) -> CollectiveTable:
    return CollectiveTable(operation="allreduce", ranks=2, range=ranges_from_points(points), point=list(points))


def ranges(*points: CollectivePointTable) -> str:
    return "+".join(map(str, ranges_from_points(points)))


def test_ranks_and_similar_lengths_are_merged() -> None:
    """Is a collective that both ranks counted one call, does the class of a length have the name of the one that took
    most time, and is what moves no bytes left out?"""
    calls = [CallCount("bcast", 2, 1, size, number, ns) for size, number, ns in [(17, 10, 4), (24, 5, 6), (33, 1, 1)]]
    found = merge_call_counts(
        [*calls, *calls, CallCount("bcast", 2, 1, 0, 9, 9), CallCount("barrier", 2, 1, 0, 2, 3)], 2
    )
    assert [(one.operation, one.size_bytes, one.calls) for one in found] == [
        ("bcast", 24, 15), ("barrier", 0, 1), ("bcast", 33, 1)
    ]  # fmt: skip
    assert found[0].seconds == 10 / S


def test_only_what_takes_time_is_measured() -> None:
    """Are lengths by operation those that took a hundredth of the time, as whole doubles, without
    operations that nearfield does not do on several nodes?"""
    called = called_by(
        CallCount("allreduce", 2, 1, 17, 100, 50 * S), CallCount("allreduce", 2, 1, 4096, 1, S // 100),
        CallCount("barrier", 2, 1, 0, 10, 5 * S), CallCount("bcast", 4, 2, 64, 10, 45 * S),
        CallCount("gather", 2, 8, 64, 10, 9 * S),
    )  # fmt: skip
    assert called.lengths_to_measure(2) == {"barrier": [0], "allreduce": [24]}
    assert called.lengths_to_measure(4, 2) == {"bcast": [64]}
    assert called.shapes_worth_measuring() == [(2, 1), (4, 2)]
    tuning = CollectiveTuning(None, (0, 1), 1.0, lengths_by_operation=called.lengths_to_measure(2))  # type: ignore[arg-type]
    tuning._add_cells(CollectiveCell(name, size) for name in tuning.operations for size in tuning._lengths_of(name))
    assert sorted(tuning.cells) == [("allreduce", 24), ("barrier", 0)]


def test_what_would_be_saved_is_calls_times_the_difference() -> None:
    """On 4 ranks, of which pairs call 1,000 Allreduces in all: does each rank save 500 times what one call saves?"""
    called = called_by(CallCount("allreduce", 2, 1, 17, 2000, 50 * S), ranks=4)
    assert called.estimate_saved_s([table(point(24))]) == pytest.approx(500 * 200 / S)
    assert called.estimate_saved_s([table(point(32))]) == 0


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([point(8), point(1 << 24)], "flat"),
        ([point(64)], "mpi-32+flat-128+mpi"),
        ([point(64, "mpi"), point(256)], "mpi-64+flat-512+mpi"),
        ([point(8), point(64, "mpi")], "flat-8+mpi"),
        ([point(0)], "flat"),
    ],
)
def test_lengths_far_from_measured_ones_are_left_to_the_mpi(points: list[CollectivePointTable], expected: str) -> None:
    """Is nothing selected below half of the shortest and above twice the longest measured length, unless all lengths
    were measured?"""
    assert ranges(*points) == expected


def test_other_lengths_of_an_earlier_tune_stay() -> None:
    """If a program's length is measured after all lengths were, is only this one's algorithm another?"""
    old = table(point(8), point(1024), point(1 << 24))
    merged = merge_points(old, table(point(1024, "whole")))
    assert "+".join(map(str, merged.range)) == "flat-8+whole-1024+flat"
    assert [one.size_bytes for one in merged.point] == [8, 1024, 1 << 24]


def test_the_file_is_read_as_it_was_written_and_checked(tmp_path: Path) -> None:
    """Is what is read what was written, and is a damaged, foreign or absent file refused with the reason?"""
    file = tmp_path / "calls.toml"
    called = called_by(CallCount("allreduce", 2, 1, 17, 100, 50 * S))
    save_called_collectives(called, file)
    assert load_called_collectives(file) == called
    text = file.read_text()
    for old, new, reason in [
        ('"allreduce"', '"sum"', "operation"),
        ("calls = 50", "calls = -1", "calls"),
        ("[[", "[", "call"),
    ]:
        assert old in text
        file.write_text(text.replace(old, new))
        with pytest.raises(ProfileError, match=reason):
            load_called_collectives(file)
    with pytest.raises(UsageError, match="cannot read"):
        load_called_collectives(tmp_path / "none")


def test_missing_and_damaged_ranks_are_no_counts(tmp_path: Path) -> None:
    """Is a count refused if no rank, or not every rank, has written its file, or if one is damaged?"""
    with pytest.raises(MeasurementError, match="no process"):
        read_call_counts(tmp_path)
    (tmp_path / "a.lengths").write_text("nearfield-lengths 1 0 2\nbcast 2 1 8 3 4\n")
    with pytest.raises(MeasurementError, match="1 of 2 ranks"):
        read_call_counts(tmp_path)
    (tmp_path / "b.lengths").write_text("nearfield-lengths 1 1 2\nbcast 2 1 8 3 4\n")
    assert read_call_counts(tmp_path) == ([CallCount("bcast", 2, 1, 8, 3, 4)] * 2, 2)
    for text in ("", "nearfield-lengths 1 1 2\nbcast 2 1 8 3", "nearfield-lengths 1 1 2\nsum 2 1 8 3 4"):
        (tmp_path / "b.lengths").write_text(text)
        with pytest.raises(MeasurementError, match="damaged"):
            read_call_counts(tmp_path)
