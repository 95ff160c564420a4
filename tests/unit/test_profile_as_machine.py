"""Is a profile a described machine, with what was measured as derived values?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from machines import PROFILE, load_content
from tuning import in_process

from nearfield.base.errors import UsageError
from nearfield.base.frames import pl
from nearfield.machine import facts, load_machine
from nearfield.machine.captured import machine_from_profile
from nearfield.machine.native import to_native
from nearfield.profile import Profile, load, save
from nearfield.profile.contradictions import describe_contradictions
from nearfield.profile.schema import Calibration


def test_a_profile_is_a_machine() -> None:
    """Has it the profile's cores and caches, what was measured as derived, and is everything else named as chosen?"""
    machine = load_machine(str(PROFILE))
    assert machine == machine_from_profile(load(PROFILE))
    assert [cache.size_bytes.value for cache in machine.cache] == [32 << 10, 512 << 10, 32 << 20]
    assert machine.transfers.shared_cycles.value == pytest.approx(57.920695 * 2.445)
    assert machine.transfers.shared_cycles.kind == "derived" and machine.transfers.remote_cycles is None
    assert machine.messaging.node.value == "single-copy" and machine.messaging.node_eager_bytes.value == 4040
    assert {key for key, fact in facts(machine) if fact.kind == "chosen"} >= {"cache[2].inclusion", "memory.latency_ns"}
    assert to_native(machine).caches[2].shared_by == 2


def test_calibration_gives_latencies() -> None:
    """Less the clock's overhead, in cycles; and has a level that cannot be distinguished from the clock a usual one?"""
    profile = load(PROFILE)
    profile.run.calibration = Calibration(
        level_latency_ns=[20.0, 40.0, 60.0], memory_latency_ns=150.0, common_clock=True, flag_ns=58.0
    )
    overhead = profile.run.clock.overhead_ns
    machine = machine_from_profile(profile)
    assert [cache.latency_cycles.kind for cache in machine.cache] == ["chosen", "derived", "derived"]
    assert "a reading" in machine.cache[0].latency_cycles.reason
    assert machine.cache[1].latency_cycles.value == pytest.approx((40 - overhead) * 2.445)
    assert machine.memory.latency_ns.value == pytest.approx(150 - overhead)


def test_what_the_clock_cannot_resolve_is_not_derived() -> None:
    """With a clock of steps of 10 ns, by which L1 and L2 take 10 ns alike: have both a usual latency that says why, and
    only memory's, of fifteen steps, the measured one?"""
    profile = load(PROFILE)
    profile.run.clock.resolution_ns = profile.run.clock.overhead_ns = 10.0
    profile.run.calibration = Calibration(
        level_latency_ns=[20.0, 20.0, 30.0], memory_latency_ns=160.0, common_clock=True, flag_ns=58.0
    )
    machine = machine_from_profile(profile)
    assert [cache.latency_cycles.value for cache in machine.cache] == [4, 14, 50]
    assert {cache.latency_cycles.kind for cache in machine.cache} == {"chosen"}
    assert "in steps of 10 ns" in machine.cache[0].latency_cycles.reason
    assert machine.memory.latency_ns.value == 150 and machine.memory.latency_ns.kind == "derived"


def test_a_profile_without_caches_is_refused() -> None:
    profile = load(PROFILE)
    profile.machine.cache = []
    with pytest.raises(UsageError) as caught:
        machine_from_profile(profile)
    assert "[[cache]]" in caught.value.remedy


def test_a_profile_as_a_file(tmp_path: Path) -> None:
    """Is what `show PROFILE --toml` prints a file that means the same?"""
    printed = in_process("machine", "show", PROFILE, "--toml")
    assert printed.code == 0
    assert load_content(printed.out, tmp_path) == load_machine(str(PROFILE))


def with_rows(profile: Profile, **changes: dict[str, object]) -> Profile:
    """Returns the profile with other values in its flags (`flag`) and shortest messages (`message`)."""
    records = profile.records
    selected = {
        "flag": (pl.col("scenario") == "floor") & (pl.col("kind") == "flag") & (pl.col("metric") == "time"),
        "message": (pl.col("metric") == "half_round_trip") & (pl.col("size_bytes") == 8),
    }
    for name, columns in changes.items():
        records = records.with_columns(
            pl.when(selected[name]).then(pl.lit(value)).otherwise(pl.col(column)).alias(column)
            for column, value in columns.items()
        )
    return replace(profile, records=records)


def test_an_unstable_value_comes_with_an_interval() -> None:
    """It is nearer to the truth than a usual one, which "not measured" would be untrue of."""
    profile = load(PROFILE)
    unstable = with_rows(profile, flag={"value": 90.0, "low": 80.0, "high": 120.0, "stable": False})
    shared = machine_from_profile(unstable).transfers.shared_cycles
    assert shared.kind == "fitted" and shared.value == pytest.approx(90 * 2.445, rel=1e-3)
    assert shared.interval == pytest.approx([80 * 2.445, 120 * 2.445], rel=1e-3) and "not stable" in shared.probe


def test_a_contradiction_is_found_and_warned_of(tmp_path: Path) -> None:
    """A message that is shorter than the flag in it; and is the file written all the same?"""
    profile = load(PROFILE)
    assert not list(describe_contradictions(profile))
    wrong = with_rows(profile, message={"value": 30.0, "low": 30.0, "high": 30.0})
    assert any("8 B" in sentence for sentence in describe_contradictions(wrong))
    save(tmp_path / "p", machine=wrong.machine, topology_xml=wrong.topology_xml, run=wrong.run, records=wrong.records)
    done = in_process("machine", "new", "--from", str(tmp_path / "p"), "-o", str(tmp_path / "mine.toml"))
    assert done.code == 0 and "warning: a message of 8 B" in " ".join(done.err.split())
    assert (tmp_path / "mine.toml").exists()
