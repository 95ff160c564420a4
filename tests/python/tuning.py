"""Runs the verbs that tune and apply as a user does; makes small rules files."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from probing import Ended

from nearfield.mpi import Installation
from nearfield.topology import Topology
from nearfield.tune.rules import MpiTable, Rules, RuleTable, TriedTable, machine_table, save_rules

NEARFIELD = [sys.executable, "-c", "from nearfield.cli import main; main()"]


def nearfield(*arguments: object, timeout_s: float = 170, **more: Any) -> Ended:
    """Runs a verb with its arguments to its end."""
    command = [*NEARFIELD, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL, **more)
    assert "Traceback" not in done.stderr, done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def rules_for(inst: Installation, transport: str, parameters: dict[str, Any], **more: Any) -> Rules:
    """Returns rules of this machine with one set of parameters."""
    topology = Topology.live()
    rule = RuleTable(
        distance=topology.distances()[-1],
        pair="0-1",
        parameters=parameters,
        memory_per_rank_bytes=0,
        at_ranks_per_node=2,
    )
    values: dict[str, Any] = {
        "schema_version": 1, "nearfield": "0", "created": "2026-01-02T00:00:00+00:00", "command": "nearfield tune",
        "seconds": 1.0, "host": os.uname().nodename, "tried": TriedTable(measured=1, left=0), "rule": [rule],
        "mpi": MpiTable(family=inst.family, version=inst.version, transport=transport),
        "machine": machine_table(topology, topology.cache_bytes(topology.pus[0])),
    }  # fmt: skip
    return Rules(**{**values, **more})


def write(folder: Path, rules: Rules) -> Path:
    path = folder / "rules.toml"
    save_rules(rules, path)
    return path
