"""Finds the time saved if a simulated NIC writes incoming data to a cache instead of memory (paper S4,
papers/S4/README.md), for collectives, applications, programs and two-rank scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes
from nearfield.base.words import join_and
from nearfield.profile import Profile
from nearfield.profile.curves import CLUSTER_SCENARIOS, distinct_combinations, distinct_values, select_records
from nearfield.report.derived_metrics import BASE_POLICY, mean_times_by_policy, policy_savings, savings_by_case
from nearfield.report.findings.finding import Finding
from nearfield.report.formatting import format_memory_speed, format_percent

MIN_SAVING = 0.01  # smaller savings are not reported


@dataclass(frozen=True)
class _BestSaving:
    """The case of an operation in which a placement policy saves the largest fraction of time."""

    share: float
    operation: str
    policy: str
    case_text: str

    def __str__(self) -> str:
        return f"{self.operation} {format_percent(self.share)} with {self.policy} ({self.case_text})"


def find_policy_savings(profile: Profile) -> Iterator[Finding]:
    """Yields a finding with the largest savings by the placement policies of a simulated NIC."""
    savings = [best for scenario in ("application", "collective") for best in _best_by_operation(profile, scenario)]
    savings += _best_of_program(profile) + _best_of_pairs(profile)
    if not savings:
        return
    max_share = max(best.share for best in savings)
    reported = [best for best in sorted(savings, key=lambda best: -best.share) if best.share >= MIN_SAVING]
    if not reported:
        title, statement = "No policy saves time", f"No policy saves {format_percent(MIN_SAVING)} of the time anywhere."
    else:
        title = f"Bytes put into a cache save up to {format_percent(max_share)}"
        statement = f"The most time saved against policy {BASE_POLICY}: {join_and([str(best) for best in reported])}."
    numbers = {f"{best.operation}_saved": best.share for best in savings}
    yield Finding(topic="policies", title=title, statement=statement, numbers=numbers, weight=10 * max(max_share, 0.0))


def _best_by_operation(profile: Profile, scenario: str) -> list[_BestSaving]:
    rows = select_records(profile.records, scenario=scenario, metric="mean_time", source="sim")
    best_savings: dict[str, _BestSaving] = {}
    for operation, ranks, size in distinct_combinations(rows, "operation", "ranks", "size_bytes"):
        times = mean_times_by_policy(
            rows, scenario, "memory_slowdown", operation=operation, ranks=ranks, size_bytes=size
        )
        for policy, points in policy_savings(times).items():
            for slowdown, point in points.items():
                if operation not in best_savings or point.value > best_savings[operation].share:
                    case = f"{format_bytes(size)}, {ranks} ranks, {format_memory_speed(slowdown)}"
                    best_savings[operation] = _BestSaving(point.value, operation, policy, case)
    return list(best_savings.values())


def _best_of_program(profile: Profile) -> list[_BestSaving]:
    rows = select_records(profile.records, scenario="program", metric="time", source="sim")
    ranks = distinct_values(rows, "ranks")
    if not ranks:
        return []
    curves = policy_savings(mean_times_by_policy(rows, "program", "memory_slowdown", "time"))
    all_savings = [(point.value, policy, speed) for policy, points in curves.items() for speed, point in points.items()]
    case = f"{ranks[0]} ranks"
    return [
        _BestSaving(share, "the program", policy, f"{case}, {format_memory_speed(speed)}")
        for share, policy, speed in sorted(all_savings, reverse=True)[:1]
    ]


def _best_of_pairs(profile: Profile) -> list[_BestSaving]:
    records = profile.records
    if "policy" not in records.columns:
        return []
    rows = records.filter(pl.col("policy").is_not_null() & ~pl.col("scenario").is_in(CLUSTER_SCENARIOS))
    best: list[_BestSaving] = []
    for scenario in rows["scenario"].unique(maintain_order=True):
        cases = (
            (point.value, size, policy, case)
            for case, curves in savings_by_case(profile, scenario, "policy")
            for policy, points in curves.items()
            for size, point in points.items()
        )
        share, size, policy, case = max(cases, key=lambda one: one[0], default=(0.0, 0, "", {}))
        if policy:
            words = [format_bytes(size), *(str(case[name]) for name in ("state", "side") if case.get(name))]
            words += [format_memory_speed(case["memory_slowdown"])] if case.get("memory_slowdown") else []
            what = f"{scenario}'s {case['metric'].replace('_', ' ')}"
            best.append(_BestSaving(share, what, policy, ", ".join(words)))
    return best
