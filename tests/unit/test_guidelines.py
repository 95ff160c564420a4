"""Are the placement rules judged by what was measured, and by nothing else?"""

from __future__ import annotations

import pytest
from report_profiles import KIB, MIB, after_receive, message, profile, sends, switch

from nearfield.report.rules import evaluate_guidelines


def test_rule_1_is_supported_by_cached_gains_and_cached_received_data() -> None:
    rows = [r for size in (256, 512, KIB) for r in sends(size, 1000, 700)]
    rows += after_receive({256: 1, 512: 1, KIB: 1})
    first = evaluate_guidelines(profile(rows, [switch("eager-limit", 4096)]))[0]
    assert first.status == "supported" and first.range == "Up to 4 KiB (the eager limit)"
    assert first.numbers["gain"] == pytest.approx(0.3) and "3 of 3" in first.evidence


def test_rule_1_is_not_seen_where_cached_buffers_gain_nothing() -> None:
    rows = [r for size in (256, 512, KIB) for r in sends(size, 1000, 1000)]
    assert evaluate_guidelines(profile(rows, [switch("eager-limit", 4096)]))[0].status == "not seen here"


def test_rule_2_needs_another_node() -> None:
    assert evaluate_guidelines(profile(after_receive({MIB: 1})))[1].status == "not measured"
    across = {"distance": "network-1", "pair": "a:0-b:0"}
    rows = [{**r, **across} for r in after_receive({MIB: 0.1, 2 * MIB: 0, 4 * MIB: 0.2})]
    second = evaluate_guidelines(profile([*rows, message(8, 5000, **across)]))[1]
    assert second.status == "supported" and "3 of 3" in second.evidence


def test_rule_3_takes_the_measured_gap_or_half_of_the_cache() -> None:
    near = message(8, 500)
    evaluated = evaluate_guidelines(profile([near, *after_receive({s * KIB: 1 for s in (8, 64, 512)})]))[2]
    assert evaluated.status == "supported" and "up to 4 MiB (half of the last-level cache)" in evaluated.range
    gap = evaluate_guidelines(profile([near, *after_receive({8 * KIB: 1, 64 * KIB: 1, MIB: 1, 2 * MIB: 0})]))[2]
    assert "up to 1 MiB (measured here)" in gap.range and "at 2 MiB" in gap.evidence
    gone = evaluate_guidelines(profile([near, *after_receive({8 * KIB: 0, 64 * KIB: 0, MIB: 0})]))[2]
    assert gone.status == "not seen here"


def test_one_or_two_sizes_are_not_enough_for_a_rule() -> None:
    assert (
        evaluate_guidelines(profile([message(8, 500), *after_receive({KIB: 1, 2 * KIB: 1})]))[2].status
        == "not measured"
    )
