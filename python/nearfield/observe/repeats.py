"""Combines replays of one program that differ only in when its ranks start.

Ranks of a node share caches, whose contents depend on the order in which the ranks access memory. With another order,
the time of a replay differs by some per cent. So the replays with different starts (ReplayOptions::start_seed in
src/sim/run/replay/program.hpp) are samples, and their means have confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from nearfield.base.estimates import Estimate, estimate_mean
from nearfield.observe.replay import CallSite, Cluster, Replay, TimesByPolicy
from nearfield.observe.replay_profile import memory_traffic_counts


@dataclass(frozen=True)
class RepeatedReplay:
    """Replays of a program on one cluster: a single one, in which all ranks start together, or several, in which they
    start at random times. All methods return means over the replays."""

    replays: tuple[Replay, ...]

    @property
    def cluster(self) -> Cluster:
        return self.replays[0].cluster

    @property
    def has_intervals(self) -> bool:
        """Returns whether there are several replays. The intervals of a single one have no width."""
        return len(self.replays) > 1

    def time_ns(self) -> TimesByPolicy:
        """Returns the time of the slowest rank in ns, by policy and memory slowdown."""
        return _mean_times([one.time_ns() for one in self.replays])

    def rank_times(self) -> list[TimesByPolicy]:
        """Returns for each rank the time in MPI calls and between them."""
        of_replays = [one.rank_times() for one in self.replays]
        return [_mean_times(of_rank) for of_rank in zip(*of_replays, strict=True)]

    def computing_ns(self) -> TimesByPolicy:
        """Returns the time between MPI calls in ns, summed over ranks, by policy and memory slowdown."""
        return _mean_times([one.computing_ns() for one in self.replays])

    def call_sites(self) -> list[CallSite]:
        """Returns the call sites in descending order of their time under the base policy."""
        of_replays = [{(site.name, site.line): site for site in one.call_sites()} for one in self.replays]
        sites = [
            replace(site, time_ns=_mean_times([sites[key].time_ns for sites in of_replays]))
            for key, site in of_replays[0].items()
        ]
        return sorted(sites, key=lambda site: -site.time_ns[0][0])

    def memory_traffic_counts(self) -> dict[str, list[int]]:
        """Returns the counts of all nodes' memory that are not 0 in every replay, by name, then by policy."""
        of_replays = [memory_traffic_counts(one.replayed.memory) for one in self.replays]
        none = [0] * len(self.cluster.policies)
        names = dict.fromkeys(name for counts in of_replays for name in counts)
        return {
            name: [round(fmean(of_policy)) for of_policy in zip(*(c.get(name, none) for c in of_replays), strict=True)]
            for name in names
        }

    def estimate_time(self, policy: int, speed: int) -> Estimate:
        """Returns the time of the slowest rank in ns."""
        return self._estimate_mean(lambda times: times[policy][speed])

    def estimate_saving(self, policy: int, speed: int) -> Estimate:
        """Returns the fraction of the base policy's time that a policy saves. Within one replay, both policies have the
        same order of accesses, so that the saving scatters less than the times do."""
        return self._estimate_mean(lambda times: 1 - times[policy][speed] / times[0][speed] if times[0][speed] else 0.0)

    def _estimate_mean(self, value_of: Callable[[TimesByPolicy], float]) -> Estimate:
        return estimate_mean([value_of(one.time_ns()) for one in self.replays])


def _mean_times(samples: Sequence[TimesByPolicy]) -> TimesByPolicy:
    return [[fmean(values) for values in zip(*of_policy, strict=True)] for of_policy in zip(*samples, strict=True)]
