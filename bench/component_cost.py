"""What does giving each pair of ranks its own parameters cost a short message?

Under Open MPI 4 through the component, under MPICH through the shim: two rules, the pair's own with the limits that
stock has, so that nothing differs but what lies between. Stock and this are resident on the same two cores at once and
measured in turn; an 8-byte half round trip each.

Criterion: less than 50 ns, by the upper end of the interval.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from support import console, finish, parser, verdict

from nearfield import _native, mpi
from nearfield.apply import per_pair
from nearfield.base.errors import MpiError
from nearfield.base.topology import Topology
from nearfield.mpi import Installation
from nearfield.rules.applicability import make_machine_table
from nearfield.rules.knobs import KnobFile, find_knobs
from nearfield.rules.schema import MpiTable, Rules, RuleTable, TriedTable
from nearfield.tune.paired_runs import ResidentJob, measure_interleaved_pairs

LIMIT_NS = 50.0
CASE = ("pingpong", 8)
# A rule for a distance that this pair does not have; the pair's own rule repeats the stock settings.
OTHER_SETTINGS = {"openmpi": {"eager_limit": 8192}, "mpich": {"cma_threshold": 1 << 20}}


def main(options: argparse.Namespace) -> dict[str, Any]:
    results = []
    for inst in mpi.find_usable_mpis():
        transport, _ = mpi.transport_or_reason(inst)
        knobs = find_knobs(inst.family, inst.version, transport)
        if knobs.per_pair:
            results.append(measure(inst, knobs, options.pairs))
    known = [r["met"] for r in results]
    met = all(known) if known else None
    verdict(met, "; ".join(f"{r['mpi']} {r['ns'][1]:.1f} to {r['ns'][2]:.1f} ns" for r in results) or "no such MPI")
    return {"met": met, "mpis": results}


def measure(inst: Installation, knobs: KnobFile, count: int) -> dict[str, Any]:
    topology = Topology.of_this_machine()
    distance, cores = next(iter(topology.representative_pairs().items()))
    environment = per_pair.per_pair_environment(two_rules(inst, knobs, topology, distance), inst, os.environ)
    if knobs.per_pair == "shim":
        environment["NEARFIELD_PAIR_CLASSES"] = f"0-1:{distance}"
    engine = mpi.build_target(inst)
    with (
        ResidentJob(inst, engine, topology, cores, [CASE[1]], {}) as stock,
        ResidentJob(inst, engine, topology, cores, [CASE[1]], environment) as ours,
    ):
        for job in (stock, ours):
            job.check_data(CASE)
        found = measure_interleaved_pairs(stock, ours, CASE, count)
    difference = _native.median_estimate([pair.other_ns - pair.baseline_ns for pair in found])
    stock_ns = _native.quantile([pair.baseline_ns for pair in found], 0.5)
    interval = (difference.value, difference.low, difference.high)
    console.print(
        f"{inst.name}: stock {stock_ns:.0f} ns, {knobs.per_pair} adds {interval[0]:.1f} ns "
        f"({interval[1]:.1f} to {interval[2]:.1f}, n = {count})"
    )
    return {"mpi": inst.name, "stock_ns": stock_ns, "ns": interval, "met": interval[2] < LIMIT_NS}


def two_rules(inst: Installation, knobs: KnobFile, topology: Topology, distance: str) -> Rules:
    if inst.family not in OTHER_SETTINGS:
        raise MpiError(f"no rules are made up for {inst.family}")
    other = "same-core" if distance != "same-core" else "same-node"
    own = {"cma_threshold": int(knobs["cma_threshold"].default) * 2} if inst.family == "mpich" else {}
    given = {distance: own, other: OTHER_SETTINGS[inst.family]}
    return Rules(
        schema_version=1, nearfield="", created="", command="", seconds=0.0, host="",
        mpi=MpiTable(family=inst.family, version=inst.version, transport=knobs.transport),
        machine=make_machine_table(topology, topology.cache_bytes(topology.pus[0])),
        tried=TriedTable(measured=0, left=0),
        rule=[
            RuleTable(distance=d, pair="0-1", parameters=p, memory_per_rank_bytes=0, at_ranks_per_node=2)
            for d, p in given.items()
        ],
    )  # fmt: skip


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--pairs", type=int, default=401, help="pairs of times (default %(default)s)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
