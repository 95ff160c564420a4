"""Do findings say what the records say, with the right numbers, and nothing that they do not?"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from report_profiles import (
    HERE,
    KIB,
    MIB,
    after_receive,
    floor,
    message,
    profile,
    read,
    row,
    sends,
    stock_is_best,
    switch,
)

from nearfield.profile import Profile, load
from nearfield.profile.curves import Place
from nearfield.report.findings import FINDERS, LEVELS, MACHINE_FINDERS, NOTE_FINDERS, Finding, findings
from nearfield.report.findings.single_copy import copy_in_copy_out_bounds
from nearfield.report.findings.tuned import find_tuned_gains
from nearfield.report.rules import evaluate_guidelines
from nearfield.rules.schema import LatencyTable, load_rules

DATA = Path(__file__).parents[1] / "data"
TUNED = load_rules(DATA / "rules" / "openmpi-5.0.11.toml")


def of(topic: str, made: Profile, part: str = "") -> Finding:
    found = [f for f in findings(made) if f.topic == topic and part in f.title]
    assert len(found) == 1, [f.title for f in findings(made)]
    return found[0]


def none_of(topic: str, made: Profile) -> bool:
    return not any(f.topic == topic for f in findings(made))


# ---- what tune found


def test_tuned_is_headlined_by_the_gain_over_all_sizes() -> None:
    """Is a rule judged by all sizes that were confirmed, its best range second, and what is beyond its promise
    reported?"""
    rule = TUNED.rule[0].model_copy(update={"beyond": "about 1.8x with --max-regression 20%"})
    (finding,) = find_tuned_gains(TUNED.model_copy(update={"rule": [rule]}), "")
    assert rule.gain and rule.gain.value < finding.numbers["best_gain"]
    assert finding.title == "1.50x as fast when tuned" and finding.level == "loss"
    assert finding.text.index("1.50 (1.46 to 1.53)") < finding.text.index("most for messages of")
    assert "There is more: about 1.8x" in finding.text
    little = rule.model_copy(update={"gain": rule.gain.model_copy(update={"value": 1.02})})
    (finding,) = find_tuned_gains(TUNED.model_copy(update={"rule": [little]}), "")
    assert finding.title == "1.02x as fast when tuned" and finding.level == "fact"
    slow = rule.gain.model_copy(update={"value": 0.96, "low": 0.95, "high": 0.965})
    points = [
        one.model_copy(update={"gain": slow, "size_bytes": size})
        for one, size in zip(rule.point, (64, 128), strict=False)
    ]
    (finding,) = find_tuned_gains(TUNED.model_copy(update={"rule": [rule.model_copy(update={"point": points})]}), "")
    assert "but pingpong of 64 B ran at 0.96 and pingpong of 128 B ran at 0.96 of the baseline's speed." in finding.text


def test_stock_is_best_says_how_sure_that_is() -> None:
    """Does it say how much was measured, whether the cores stayed in place, and what gains beyond the promise?"""
    (finding,) = find_tuned_gains(TUNED.model_copy(update={"rule": [stock_is_best(TUNED.rule[0])]}), "")
    assert finding.level == "good" and f"measured {TUNED.tried.measured} settings" in finding.text
    latency = [LatencyTable(c2c_latency_ns=30, share=0.6), LatencyTable(c2c_latency_ns=200, share=0.4)]
    moved = stock_is_best(TUNED.rule[0], latency=latency, beyond="about 1.8x with --max-regression 20%")
    (finding,) = find_tuned_gains(TUNED.model_copy(update={"rule": [moved]}), "")
    assert finding.level == "fact" and "30 ns in 60%" in finding.text and "There is more: about 1.8x" in finding.text
    assert "quiet" in finding.action
    (finding,) = find_tuned_gains(
        TUNED.model_copy(update={"rule": [stock_is_best(TUNED.rule[0])], "busy_share": 0.6}), ""
    )
    assert (
        finding.level == "fact"
        and "Other programs took 60% of the cores' time" in finding.text
        and "quiet" in finding.action
    )


# ---- headroom


def slow_in_the_middle(**more: object) -> list[dict]:
    """Flag 100 ns; floors 200 ns, 1 us, 4 us, 100 us. The MPI reaches 50 %, 20 %, 25 % and 80 % of them."""
    rows = [floor("flag", 8, 100)]
    for size, copy, share in ((KIB, 100, 0.5), (4 * KIB, 900, 0.2), (16 * KIB, 3900, 0.25), (MIB, 99_900, 0.8)):
        rows += [floor("copy-remote", size, copy), floor("copy-remote-nt", size, 2 * copy)]
        rows += [message(size, (copy + 100) / share, **more)]
    return rows


def test_the_worst_range_and_what_a_message_loses_there() -> None:
    finding = of("headroom", profile(slow_in_the_middle()), "that the caches allow")
    assert finding.level == "loss"
    assert finding.numbers["from_bytes"] == 4 * KIB and finding.numbers["to_bytes"] == 16 * KIB
    assert finding.numbers["share"] == pytest.approx((0.2 * 0.25) ** 0.5)
    assert finding.numbers["lost_ns"] == pytest.approx(12_000)  # 16 KiB: 16 us instead of 4
    assert "Between 4 KiB and 16 KiB this MPI reaches 22 % of the speed that these caches allow" in finding.text
    assert "16.0 us" in finding.text and "12.0 us" in finding.text


def test_the_faster_copy_is_the_floor() -> None:
    rows = [*slow_in_the_middle(), floor("copy-remote-nt", 4 * MIB, 100), floor("copy-remote", 4 * MIB, 900)]
    made = profile([*rows, message(4 * MIB, 2000)])
    shares = of("headroom", made, "by size").numbers
    assert shares[f"share_to_{4 * MIB}"] == pytest.approx((0.8 * 0.1) ** 0.5)


def test_the_fastest_copy_is_named_by_size() -> None:
    """Are the ways to copy reported by size, with how much they gain and why; and nothing where only one was
    measured?"""
    rows = [floor("flag", 8, 100)]
    for size, plain, streaming, both in ((KIB, 100, 200, 150), (64 * KIB, 6000, 9000, 4000), (MIB, 9e4, 4e4, 6e4)):
        rows += [floor("copy-remote", size, plain), floor("copy-remote-nt", size, streaming)]
        rows += [floor("copy-remote-both", size, both), floor("read-remote", size, plain / 2)]
    finding = of("copying", profile(rows))
    assert finding.text.startswith(
        "What the other core just wrote is copied fastest: at 1 KiB plainly; at 64 KiB by both cores, half each, 1.50x "
        "as fast as plainly at best; from 1 MiB on past the caches 2.2x as fast as plainly at best. At 1 MiB reading "
        "alone takes 50 % of a plain copy"
    )
    assert none_of("copying", profile([row for row in rows if row["kind"] != "copy-remote-both"]))


def test_an_mpi_at_the_floor_is_praised() -> None:
    rows = [floor("flag", 8, 100)]
    for size in (KIB, 64 * KIB):
        rows += [floor("copy-remote", size, size), message(size, 1.1 * (size + 100))]
    finding = of("headroom", profile(rows), "As fast")
    assert finding.level == "good" and finding.numbers["share"] == pytest.approx(1 / 1.1)


def three_parts(spoilt: str, low: float, high: float) -> list[dict]:
    """Flag and copy 1 us together, message 5 us; one of them unstable, with an interval of `low` to `high` times it."""
    values = {"flag": 100.0, "copy": 900.0, "message": 5000.0}
    more = {part: {} for part in values}
    more[spoilt] = {"stable": False, "note": "wide", "low": low * values[spoilt], "high": high * values[spoilt]}
    return [
        floor("flag", 8, 100, **more["flag"]),
        floor("copy-remote", KIB, 900, **more["copy"]),
        message(KIB, 5000, **more["message"]),
    ]


@pytest.mark.parametrize("spoilt", ["flag", "copy", "message"])
def test_unsteady_parts_give_bounds(spoilt: str) -> None:
    """When flag, copy or message is unstable, is no share reported, but the two it lies between?"""
    finding = of("headroom", profile(three_parts(spoilt, 0.5, 2)), "At most")
    assert finding.level == "loss" and "share" not in finding.numbers
    assert finding.numbers["low"] < 0.2 < finding.numbers["high"] < 0.45


def test_bounds_that_allow_everything_are_no_finding() -> None:
    assert none_of("headroom", profile(three_parts("message", 0.2, 3)))


# ---- steps


def test_a_step_is_named_and_measured() -> None:
    switches = [
        switch("eager-limit", 4000, "btl_sm_eager_limit", 4096),
        switch("single-copy", 4000, "btl_sm_eager_limit", 4096),
    ]
    finding = of("steps", profile([message(3999, 900), message(4000, 1000), message(4001, 2100)], switches))
    assert finding.title == "Step at 4000 B" and finding.level == "loss"
    assert finding.numbers["factor"] == pytest.approx(2.1)
    assert finding.text.count("btl_sm_eager_limit = 4096") == 1
    assert "is its eager limit" in finding.text and "the kernel copies" in finding.text
    assert "A 4001 B message takes 2.1x a 4000 B one" in finding.text
    assert "OMPI_MCA_btl_sm_eager_limit=65536" in finding.action


def test_a_step_that_costs_nothing_is_a_fact() -> None:
    made = profile([message(256, 500), message(257, 505)], [switch("unattended-limit", 256)])
    finding = of("steps", made)
    assert finding.level == "fact"
    assert "a receiver that computes stalls its sender" in finding.text and "does not jump" in finding.text


def test_an_eager_limit_implies_that_the_receiver_is_needed() -> None:
    made = profile([message(256, 500)], [switch("eager-limit", 256), switch("unattended-limit", 256)])
    assert of("steps", made).numbers["kinds"] == "eager-limit"


def test_a_step_between_unstable_times_has_no_factor() -> None:
    rows = [message(256, 500), message(257, 900, stable=False, note="wide")]
    finding = of("steps", profile(rows, [switch("unattended-limit", 256)]))
    assert "factor" not in finding.numbers and "not stable" in finding.text


# ---- single copy


def copies(local: float, remote: float) -> list[dict]:
    return [floor("flag", 8, 100), floor("copy-local", MIB, local), floor("copy-remote", MIB, remote)]


@pytest.mark.parametrize(
    ("time", "level"),
    [(60_000, "loss"), (45_000, None), (20_000, "good")],
    ids=["slower than both copies", "between", "faster than one"],
)
def test_single_copy_is_judged_only_outside_of_the_bounds(time: float, level: str | None) -> None:
    made = profile([*copies(20_000, 30_000), message(MIB, time)], [switch("single-copy", 4096)])
    found = [f.level for f in findings(made) if f.topic == "single-copy"]
    assert found == ([level] if level else [])


def test_the_bounds_of_copying_in_and_out() -> None:
    made = profile(copies(20_000, 30_000))
    low, high = copy_in_copy_out_bounds(made.records, Place(**HERE))[MIB]
    assert (low, high) == (pytest.approx(29_700), pytest.approx(202 + 50_500))


def test_without_single_copy_nothing_is_said_about_it() -> None:
    assert none_of("single-copy", profile([*copies(20_000, 30_000), message(MIB, 60_000)]))


# ---- buffer state


def test_the_peak_gain_of_cached_buffers() -> None:
    finding = of("buffer-state", profile([*sends(KIB, 1000, 900), *sends(8 * KIB, 1000, 750), *sends(MIB, 9e4, 9e4)]))
    assert finding.numbers["send_gain"] == pytest.approx(0.25)
    assert finding.numbers["send_peak_bytes"] == finding.numbers["last_bytes"] == 8 * KIB
    assert "MPI_Send returns up to 25 % sooner (at 8 KiB)" in finding.text


def test_refuted_buffer_states_decide_nothing() -> None:
    assert none_of("buffer-state", profile(sends(KIB, 1000, 500, verdict="refuted")))


def test_no_gain_is_said_too() -> None:
    assert "none of 1 comparisons" in of("buffer-state", profile(sends(KIB, 1000, 990))).text


# ---- pollution


def test_up_to_which_size_received_data_is_cached() -> None:
    finding = of("pollution", profile(after_receive({KIB: 1, MIB: 0.9, 2 * MIB: 0.6, 4 * MIB: 0.1, 8 * MIB: 1})))
    assert finding.numbers == {"receiver_cached_to": MIB, "receiver_gone_from": 4 * MIB}
    assert "up to 1 MiB is in the cache, one of 4 MiB mostly comes from memory" in finding.text
    assert "Half of the last-level cache is 4 MiB" in finding.text


def test_where_cached_and_uncached_reading_do_not_differ_nothing_is_said() -> None:
    rows = [read("receiver", s, KIB, 1000) for s in ("invalid", "base-invalid", "base-preloaded")]
    assert none_of("pollution", profile(rows))


def test_data_that_the_call_pushes_out() -> None:
    rows = [read("sender", "base-preloaded", MIB, 1000), read("sender", "preloaded", MIB, 3000)]
    finding = of("pollution", profile(rows), "pushed out")
    assert finding.numbers == {"sender_from_bytes": MIB, "sender_factor": pytest.approx(3)}


# ---- strides, pages, load, collectives, distances


def strided(method: str, time: float, **more: object) -> dict:
    return row(
        "stride", "half_round_trip", time, **HERE, **{"size_bytes": 2048, "method": method, "mode": "standard", **more}
    )


def test_strides_against_one_piece_and_packing_by_hand() -> None:
    rows = [strided("contiguous", 1000, stride=1)]
    for stride, typed, packed in ((1, 1000, 1000), (8, 4000, 2000), (64, 6000, 3000)):
        rows += [strided("datatype", typed, stride=stride), strided("manual-pack", packed, stride=stride)]
    finding = of("strides", profile(rows))
    assert finding.numbers["factor_8"] == pytest.approx(4) and finding.numbers["factor_64"] == pytest.approx(6)
    assert finding.level == "loss" and "2.0x faster" in finding.text and "Pack such messages by hand" in finding.text


def test_faces_are_compared_each_packed_the_faster_way() -> None:
    rows = [
        strided(method, time, face=face)
        for face, typed, packed in (("x", 1000, 1500), ("y", 1200, 1100), ("z", 5000, 3000))
        for method, time in (("datatype", typed), ("manual-pack", packed))
    ]
    finding = of("strides", profile(rows), "Face")
    assert finding.numbers["factor"] == pytest.approx(3) and finding.numbers["slowest"] == "z"
    assert "Pack face y and z by hand" in finding.action


def paged(memory: str, faults: float, touch: float) -> list[dict]:
    case = {"size_bytes": 4 * MIB, "memory": memory}
    return [
        row("pages", "first_touch_faults", faults, "count", **case),
        row("pages", "first_touch", touch, **case),
    ]


def test_pages_per_mib_and_the_gain_of_huge_ones() -> None:
    finding = of("pages", profile([*paged("window", 1024, 4e6), *paged("window-huge", 2, 1e6)]))
    assert finding.numbers["faults_per_mib_window"] == pytest.approx(256)
    assert "256 page faults and 1.00 ms" in finding.text and "4.0x faster" in finding.text
    assert "now 'never'" in finding.action


def test_a_field_is_compared_with_private_memory_on_huge_pages() -> None:
    """S1.4: is the cost of the halo library's memory reported, of first touch and of reading again?"""
    again = [
        row("pages", "traverse", time, size_bytes=4 * MIB, memory=memory)
        for memory, time in (("field", 3e6), ("private-huge", 1e6))
    ]
    made = profile([*paged("field", 8, 4e6), *paged("private-huge", 8, 4e6), *again])
    assert "a field of the halo library 2 page faults and 1.00 ms" in of("pages", made, "Fresh").text
    finding = of("pages", made, "Reading")
    assert finding.numbers["field_over_private-huge"] == pytest.approx(3)
    assert "Reading a field of the halo library again takes 3.0x as long as private memory" in finding.text


def test_the_reason_for_missing_huge_pages_is_reported() -> None:
    missing = row("pages", "first_touch", None, size_bytes=4 * MIB, memory="window-huge", note="needs Linux 6.1")
    assert "needs Linux 6.1" in of("pages", profile([*paged("window", 1024, 4e6), missing])).text


def test_load_is_compared_with_none() -> None:
    rows = [
        row("load", "half_round_trip", time, size_bytes=size, load_bytes=load, **HERE)
        for size, load, time in ((8, 0, 500), (8, MIB, 550), (MIB, 0, 1e5), (MIB, MIB, 2.5e5))
    ]
    finding = of("load", profile(rows))
    assert finding.numbers == {"bytes": MIB, "load_bytes": MIB, "factor": pytest.approx(2.5)}


def test_collectives_in_messages_and_their_jump() -> None:
    rows = [message(size, size) for size in (KIB, 2 * KIB)]
    rows += [
        row("collective", "time", time, operation="bcast", ranks=2, size_bytes=size)
        for size, time in ((KIB, 2 * KIB), (2 * KIB, 10 * KIB))
    ]
    made = profile(rows)
    assert of("collectives", made, "in messages").numbers["bcast_factor"] == pytest.approx(5)
    assert of("collectives", made, "jumps").numbers["factor"] == pytest.approx(5)


def test_distances_are_compared_where_there_are_several() -> None:
    far = {"distance": "same-node", "pair": "0-8"}
    made = profile([message(8, 500), message(8, 1500, **far), message(MIB, 1e5), message(MIB, 1.2e5, **far)])
    assert of("distances", made).numbers["factor"] == pytest.approx(3)
    assert none_of("distances", profile([message(8, 500)]))


# ---- quality, and laws of all findings


def test_unstable_refuted_and_missing_are_counted() -> None:
    rows = [message(8, 500), message(16, 500, stable=False, note="wide"), *sends(KIB, 9, 8, verdict="refuted")]
    made = profile(rows, counters={"llc_misses": "no permission", "page_faults": "available"})
    notes = [f for f in findings(made) if f.level == "note"]
    assert {f.title for f in notes} == {
        "25 % of the times are unstable", "Buffers not in the requested state", "Counters that are not there",
    }  # fmt: skip
    assert any("llc_misses: no permission" in f.text for f in notes)


def test_a_restless_machine_is_reported() -> None:
    """Does the reader learn that something else used the cores, and not when it was next to nothing?"""
    assert "54 %" in of("quality", profile([], disturbed_share=0.54)).statement
    assert none_of("quality", profile([], disturbed_share=0.04))


def test_the_places_of_moving_cores_are_reported() -> None:
    """Does the reader learn to which place the times belong, and nothing if there was only one?"""
    near = {"pair": "0-1", "distance": "shared-l3", "c2c_latency_ns": 55.2, "share": 0.7, "used": True}
    far = near | {"c2c_latency_ns": 238.0, "share": 0.2, "used": False}
    found = of("quality", profile([], place=[near, far]))
    assert all(words in found.statement for words in ("2 places", "at 55 ns", "70 %", "238 ns"))
    assert none_of("quality", profile([], place=[near]))


@pytest.mark.parametrize("name", ["epyc-vm-quiet", "epyc-vm-busy"])
def test_without_stable_records_there_is_no_finding_but_about_the_measurement(name: str) -> None:
    real = load(DATA / name)
    unsteady = real.records.with_columns(pl.lit(False).alias("stable"))
    made = Profile(real.path, real.machine, real.run, unsteady, real.topology_xml)
    conclusions = [f for f in findings(made) if not f.title.startswith("At most")]  # bounds: from the intervals
    assert {f.topic for f in conclusions} <= {"quality", "steps"}
    assert not any("factor" in f.numbers for f in findings(made))
    assert all(rule.status == "not measured" for rule in evaluate_guidelines(made))


@pytest.mark.parametrize("finder", (*FINDERS, *MACHINE_FINDERS, *NOTE_FINDERS), ids=lambda finder: finder.__name__)
def test_no_finder_needs_anything_to_be_there(finder) -> None:  # noqa: ANN001
    made = profile([])
    assert list(finder(made)) == []


@pytest.mark.parametrize("name", ["epyc-vm-quiet", "epyc-vm-busy"])
def test_findings_of_a_real_profile_are_sentences_in_order(name: str) -> None:
    found = findings(load(DATA / name))
    assert found
    assert [LEVELS.index(f.level) for f in found] == sorted(LEVELS.index(f.level) for f in found)
    for finding in found:
        assert finding.statement.endswith(".") and "  " not in finding.text and "nan" not in finding.text.split()
        assert finding.title and finding.title[0].isupper() or finding.title[0].isdigit()


def test_the_first_finding_of_a_topic_comes_before_the_second_of_another() -> None:
    switches = [switch("unattended-limit", 256), switch("eager-limit", 4096)]
    rows = [message(s, t) for s, t in ((256, 100), (257, 500), (4095, 600), (4097, 2400))]
    topics = [f.topic for f in findings(profile([*rows, *slow_in_the_middle()], switches)) if f.level == "loss"]
    assert topics[:2] in (["headroom", "steps"], ["steps", "headroom"])
