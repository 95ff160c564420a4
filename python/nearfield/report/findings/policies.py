"""Finds the time saved if a NIC delivers incoming bytes to a cache instead of memory, by simulated collective,
application (S4) and two-rank scenario."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes
from nearfield.base.words import join_and
from nearfield.profile import Profile
from nearfield.profile.curves import CLUSTER_SCENARIOS, distinct_combinations, distinct_values, pick
from nearfield.report.derived_metrics import BASE_POLICY, mean_times, policy_savings, savings_by_case
from nearfield.report.findings.finding import Finding
from nearfield.report.formatting import memory_speed, percent

MIN_SAVING = 0.01  # smaller savings are not reported


@dataclass(frozen=True)
class _Best:
    """The case of an operation with the largest fraction of time saved."""

    share: float
    operation: str
    policy: str
    case: str

    def __str__(self) -> str:
        return f"{self.operation} {percent(self.share)} with {self.policy} ({self.case})"


def find_policy_savings(profile: Profile) -> Iterator[Finding]:
    """Yields a finding with the largest savings of a simulated NIC's delivery policies."""
    found = [best for scenario in ("application", "collective") for best in _best(profile, scenario)]
    found += _best_of_program(profile) + _best_of_pairs(profile)
    if not found:
        return
    top = max(best.share for best in found)
    gains = [best for best in sorted(found, key=lambda best: -best.share) if best.share >= MIN_SAVING]
    if not gains:
        title, statement = "No policy saves time", f"No policy saves {percent(MIN_SAVING)} of the time anywhere."
    else:
        title = f"Bytes put into a cache save up to {percent(top)}"
        statement = f"The most time saved against policy {BASE_POLICY}: {join_and([str(best) for best in gains])}."
    numbers = {f"{best.operation}_saved": best.share for best in found}
    yield Finding(topic="policies", title=title, statement=statement, numbers=numbers, weight=10 * max(top, 0.0))


def _best(profile: Profile, scenario: str) -> list[_Best]:
    rows = pick(profile.records, scenario=scenario, metric="mean_time", source="sim")
    best: dict[str, _Best] = {}
    for operation, ranks, size in distinct_combinations(rows, "operation", "ranks", "size_bytes"):
        times = mean_times(rows, scenario, "memory_slowdown", operation=operation, ranks=ranks, size_bytes=size)
        for policy, points in policy_savings(times).items():
            for slowdown, point in points.items():
                if operation not in best or point.value > best[operation].share:
                    case = f"{format_bytes(size)}, {ranks} ranks, {memory_speed(slowdown)}"
                    best[operation] = _Best(point.value, operation, policy, case)
    return list(best.values())


def _best_of_program(profile: Profile) -> list[_Best]:
    rows = pick(profile.records, scenario="program", metric="time", source="sim")
    ranks = distinct_values(rows, "ranks")
    if not ranks:
        return []
    curves = policy_savings(mean_times(rows, "program", "memory_slowdown", "time"))
    every = [(point.value, policy, speed) for policy, points in curves.items() for speed, point in points.items()]
    case = f"{ranks[0]} ranks"
    return [_Best(share, "the program", policy, f"{case}, {memory_speed(speed)}") for share, policy, speed in
            sorted(every, reverse=True)[:1]]  # fmt: skip


def _best_of_pairs(profile: Profile) -> list[_Best]:
    records = profile.records
    if "policy" not in records.columns:
        return []
    rows = records.filter(pl.col("policy").is_not_null() & ~pl.col("scenario").is_in(CLUSTER_SCENARIOS))
    best: list[_Best] = []
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
            words += [memory_speed(case["memory_slowdown"])] if case.get("memory_slowdown") else []
            what = f"{scenario}'s {case['metric'].replace('_', ' ')}"
            best.append(_Best(share, what, policy, ", ".join(words)))
    return best
