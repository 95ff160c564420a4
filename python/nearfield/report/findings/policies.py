"""What it would save to have a NIC put incoming bytes into a cache, by simulated collective and application (S4)."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield.profile import Profile
from nearfield.report.evidence import OF_CLUSTERS, pick
from nearfield.report.findings.finding import Finding
from nearfield.report.measures import BASE_POLICY, mean_times, saved
from nearfield.report.words import listed, memory_speed, percent
from nearfield.units import format_bytes

LEAST = 0.01  # less is not told


@dataclass(frozen=True)
class _Best:
    """The case in which an operation gains most."""

    share: float
    operation: str
    policy: str
    ranks: int
    size_bytes: int
    slowdown: str

    def __str__(self) -> str:
        case = f"{format_bytes(self.size_bytes)}, {self.ranks} ranks, {memory_speed(self.slowdown)}"
        return f"{self.operation} {percent(self.share)} with {self.policy} ({case})"


def policies(profile: Profile) -> list[Finding]:
    found = [best for scenario in OF_CLUSTERS for best in _best(profile, scenario)]
    if not found:
        return []
    top = max(best.share for best in found)
    gains = [best for best in sorted(found, key=lambda best: -best.share) if best.share >= LEAST]
    if not gains:
        title, statement = "No policy saves time", f"No policy saves {percent(LEAST)} of the time anywhere."
    else:
        title = f"Bytes put into a cache save up to {percent(top)}"
        statement = f"The most time saved against policy {BASE_POLICY}: {listed([str(best) for best in gains])}."
    numbers = {f"{best.operation}_saved": best.share for best in found}
    return [Finding(topic="policies", title=title, statement=statement, numbers=numbers, weight=10 * max(top, 0.0))]


def _best(profile: Profile, scenario: str) -> list[_Best]:
    """Returns the best case of each operation."""
    rows = pick(profile.records, scenario=scenario, metric="mean_time", source="sim")
    best: dict[str, _Best] = {}
    keys = ("operation", "ranks", "size_bytes")
    for operation, ranks, size in rows.select(keys).unique(maintain_order=True).iter_rows() if rows.height else ():
        times = mean_times(rows, scenario, "memory_slowdown", operation=operation, ranks=ranks, size_bytes=size)
        for policy, points in saved(times).items():
            for slowdown, point in points.items():
                if operation not in best or point.value > best[operation].share:
                    best[operation] = _Best(point.value, operation, policy, ranks, size, slowdown)
    return list(best.values())
