"""Do messages and collectives take as long as in SimGrid's SMPI, where memory takes no time?

Both get the same LogGP-like numbers, those of power5-redstorm: what a send and an arrived message cost a core, one
latency, one bandwidth of every NIC. What only one of them knows is off: here the gap between messages, the cost of
posting and the caches; there its factors on latency and bandwidth, TCP's window, cross traffic, the limits between its
protocols, and the time of computing. SMPI runs its own algorithm of the name that MPICH 1.2.7 would choose, as its
selector "mpich" is that of MPICH 3 and chooses others.

A NIC here sends one message after the other, as in LogGP; SMPI does so if bytes are part of what a send takes
("queued"). As a network that shares bandwidth among all messages of a NIC, it makes trees of long messages slower
("shared"). An alltoall that sends everything at once is compared with that: there the core goes on calling while its
NIC sends, which "queued" cannot say, and when all is there does not depend on the order. A scatter alone is in SMPI
only as Open MPI has it.

Criterion: within 5 % in every case. Needs SimGrid with SMPI: apt-get install libsimgrid-dev (smpicc, smpirun).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from support import console, finish, new_table, parser, verdict
from support.simulated import collective

from nearfield.base.errors import MeasurementError
from nearfield.base.units import format_bytes, format_ns
from nearfield.machine import load_machine
from nearfield.machine.native import to_native

LIMIT = 0.05
# operation, ranks, bytes, SMPI's name of the algorithm
CASES = [("bcast", 2, size, "binomial_tree") for size in (1, 1 << 10, 1 << 16, 1 << 20)]  # one message
CASES += [("bcast", ranks, 1 << 10, "binomial_tree") for ranks in (16, 24, 64)]
CASES += [("bcast", 16, 1 << 15, "scatter_rdb_allgather"), ("bcast", 64, 1 << 15, "scatter_rdb_allgather")]
CASES += [("bcast", 16, 1 << 20, "scatter_LR_allgather"), ("bcast", 64, 1 << 20, "scatter_LR_allgather")]
CASES += [("allgather", 16, 1 << 12, "rdb"), ("allgather", 64, 1 << 12, "rdb"), ("allgather", 64, 1 << 15, "ring")]
CASES += [("allgather", 24, 1 << 10, "bruck"), ("allgather", 24, 1 << 15, "ring")]
CASES += [("allreduce", ranks, 1 << 10, "rdb") for ranks in (16, 24, 64)]
CASES += [("allreduce", ranks, 1 << 16, "rab_rdb") for ranks in (16, 24, 64)]
CASES += [("alltoall", ranks, 1 << 7, "bruck") for ranks in (16, 24, 64)]
CASES += [("alltoall", 16, 1 << 12, "basic_linear"), ("alltoall", 64, 1 << 12, "basic_linear")]
CASES += [("alltoall", 16, 1 << 16, "pair"), ("alltoall", 64, 1 << 16, "pair")]


def plain_machine() -> Any:
    made = to_native(load_machine("power5-redstorm"))
    made.messaging.receive_ns = made.nic.post_ns = made.network.gap_ns = 0
    return made


def ours_ns(machine: Any, operation: str, ranks: int, size: int) -> float:
    return collective(machine, operation, size, ranks, [], [1.0], 1, memory_effects=False)["time"]


class Smpi:
    """A program compiled for SMPI, and the platform that it runs on."""

    def __init__(self, machine: Any, folder: Path) -> None:
        self._folder = folder
        max_ranks = max(ranks for _, ranks, _, _ in CASES)
        (folder / "hosts").write_text("".join(f"n{number}\n" for number in range(max_ranks)))
        half_latency_ns = (machine.network.latency_ns + machine.nic.dma_ns) / 2  # a way is up one link and down another
        bandwidth = machine.nic.gb_per_s * 1e9
        for way, bytes_per_s in {"shared": bandwidth, "queued": 1e18}.items():
            (folder / f"{way}.xml").write_text(
                "<?xml version='1.0'?>\n"
                '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
                '<platform version="4.1">\n'
                f'  <cluster id="c" prefix="n" suffix="" radical="0-{max_ranks - 1}" speed="1Gf" bw="{bytes_per_s}Bps" '
                f'lat="{half_latency_ns}ns" sharing_policy="SPLITDUPLEX"/>\n'
                "</platform>\n"
            )
        run(["smpicc", "-O1", Path(__file__).with_suffix(".c"), "-o", folder / "program", "-lm"])
        send_s, match_s = machine.messaging.send_ns * 1e-9, machine.messaging.match_ns * 1e-9
        self._send = {"shared": f"0:{send_s}:0", "queued": f"0:{send_s}:{1 / bandwidth}"}
        self._settings = {
            "network/model": "CM02",
            "network/latency-factor": 1,
            "network/bandwidth-factor": 1,
            "network/weight-S": 0,
            "network/TCP-gamma": 0,
            "network/crosstraffic": 0,
            "smpi/or": f"0:{match_s}:0",
            "smpi/async-small-thresh": 1 << 30,  # data leave before there is a receive, at every size
            "smpi/send-is-detached-thresh": 1 << 30,
            "smpi/simulate-computation": "no",
        }

    def time_ns(self, operation: str, ranks: int, size: int, algorithm: str, way: str) -> float:
        chosen = {"smpi/os": self._send[way], "smpi/ois": self._send[way], f"smpi/{operation}": algorithm}
        configuration = [f"--cfg={name}:{value}" for name, value in (self._settings | chosen).items()]
        where = ["-platform", self._folder / f"{way}.xml", "-hostfile", self._folder / "hosts"]
        output = run(["smpirun", "-np", ranks, *where, *configuration, self._folder / "program", operation, size])
        found = re.findall(r"^(\d+\.\d+)$", output, re.MULTILINE)
        if len(found) != 1:
            raise MeasurementError(f"SMPI said nothing of {operation} on {ranks} ranks:\n{output}")
        return float(found[0])


def run(command: list[Any]) -> str:
    words = list(map(str, command))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MeasurementError(f"{words[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main(_: argparse.Namespace) -> dict[str, Any]:
    missing = [tool for tool in ("smpicc", "smpirun") if not shutil.which(tool)]
    if missing:
        verdict(None, f"SimGrid's {' and '.join(missing)} are not here; Debian: apt-get install libsimgrid-dev")
        return {"met": None}
    machine = plain_machine()
    words, numbers = "operation,SMPI's algorithm", "ranks,bytes,here,queued,difference,shared,difference"
    table = new_table("time without memory effects", words, numbers)
    cases = []
    with tempfile.TemporaryDirectory(prefix="nearfield-smpi-") as name:
        smpi = Smpi(machine, Path(name))
        for operation, ranks, size, algorithm in CASES:
            case: dict[str, Any] = {"operation": operation, "ranks": ranks, "size_bytes": size}
            case["ours_ns"] = ours_ns(machine, operation, ranks, size)
            cells = [operation, algorithm, str(ranks), format_bytes(size), format_ns(case["ours_ns"])]
            for way in ("queued", "shared"):
                case[way] = smpi.time_ns(operation, ranks, size, algorithm, way)
                cells += [format_ns(case[way]), f"{case['ours_ns'] / case[way] - 1:+.1%}"]
            case["difference"] = case["ours_ns"] / case["shared" if algorithm == "basic_linear" else "queued"] - 1
            cases.append(case)
            table.add_row(*cells)
    console.print(table)
    worst = max(cases, key=lambda case: abs(case["difference"]))
    met = abs(worst["difference"]) <= LIMIT
    within = sum(abs(case["difference"]) <= LIMIT for case in cases)
    which = f"{worst['operation']} of {format_bytes(worst['size_bytes'])} on {worst['ranks']} ranks"
    verdict(
        met, f"{within} of {len(cases)} cases within {LIMIT:.0%}; the farthest {worst['difference']:+.1%} ({which})"
    )
    return {"met": met, "cases": cases}


if __name__ == "__main__":
    sys.exit(finish(main, parser(__doc__).parse_args()))
