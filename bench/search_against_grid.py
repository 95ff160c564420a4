"""Does the search of `nearfield tune` find what trying everything finds?

Runs both for one MPI: the search within its budget, and every combination of the knobs' grids. Then the two winners
duel: resident on the same two cores at once, measured in turn, all patterns and sizes.

Criterion: the search's winner reaches at least 0.97 of the speed of the grid's.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from support import console, finish, parser, verdict

from nearfield import mpi
from nearfield.base.topology import Topology
from nearfield.rules.criterion import SEARCH_SIZES, search_cases
from nearfield.rules.gains import geometric_mean
from nearfield.rules.knobs import Settings, find_knobs
from nearfield.tune.model import candidate_settings
from nearfield.tune.paired_benchmark import PairedBenchmark, PairedComparison
from nearfield.tune.paired_runs import ResidentJob
from nearfield.tune.search import Deadline, Search

LIMIT = 0.97


def main(options: argparse.Namespace) -> dict[str, Any]:
    inst = mpi.choose_mpi(options.mpi)
    engine, topology = mpi.build_target(inst), Topology.of_this_machine()
    transport, _ = mpi.transport_or_reason(inst)
    knobs = find_knobs(inst.family, inst.version, transport)
    distance, cores = next(iter(topology.representative_pairs().items()))
    winners: dict[str, Settings] = {}
    with PairedBenchmark(inst, engine, topology, cores, knobs) as benchmark:
        for name in ("search", "grid"):
            search, start = Search(benchmark, lambda trial: None), time.monotonic()
            if name == "search":
                search.run(
                    candidate_settings(knobs, topology.cache_bytes(cores[0]), distance), Deadline(options.budget)
                )
            else:
                search.run_grid(Deadline(float("inf")))
            took = f"{len(search.trials)} tried in {time.monotonic() - start:.0f} s"
            search.rank_finalists(Deadline(options.rank_finalists))
            winners[name] = search.winner or {}
            console.print(f"{name}: {took}, winner {winners[name]}")

    def job(settings: Settings) -> ResidentJob:
        return ResidentJob(inst, engine, topology, cores, SEARCH_SIZES, knobs.environment(settings))

    with job(winners["grid"]) as grid, job(winners["search"]) as found:
        comparison = PairedComparison(grid, found, search_cases(SEARCH_SIZES), [], 0)
        for case in comparison.cases:
            grid.check_data(case)
            found.check_data(case)
        comparison.measure(options.pairs)
        mean = geometric_mean(comparison.gains().values())
    met = mean.value >= LIMIT
    verdict(met, f"the search's winner has {mean.value:.3f} ({mean.low:.3f} to {mean.high:.3f}) of the grid's speed")
    return {"met": met, "mpi": inst.name, "winners": winners, "ratio": [mean.value, mean.low, mean.high]}


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--mpi", metavar="NAME", help="which MPI (default: the one nearfield chooses)")
    made.add_argument("--budget", type=float, default=90.0, help="the search's seconds (default: those of `tune`)")
    made.add_argument("--play-off", type=float, default=36.0, help="seconds of either's play-off (default: the same)")
    made.add_argument("--pairs", type=int, default=15, help="pairs of times per case (default %(default)s)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
