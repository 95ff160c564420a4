"""Runs the verbs that tune and apply as a user does; makes small rules files."""

import io
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from cli_runner import Ended

from nearfield import cli
from nearfield.base.topology import Topology
from nearfield.mpi import Installation
from nearfield.rules.applicability import make_machine_table
from nearfield.rules.schema import FORMAT_VERSION, MpiTable, Rules, RuleTable, TriedTable, save_rules

NEARFIELD = [sys.executable, "-c", "from nearfield.cli import main; main()"]


def nearfield(*arguments: object, timeout_s: float = 170, **more: Any) -> Ended:
    """Runs a verb with its arguments to its end."""
    command = [*NEARFIELD, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL, **more)
    assert "Traceback" not in done.stderr, done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def in_process(*arguments: object) -> Ended:
    """Does the same in this process: where most of the time would go into starting Python and importing data frames."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code = 0
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    words = ["-c", *map(str, arguments)]
    try:
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            mock.patch.object(sys, "argv", words),
            mock.patch.dict(os.environ),  # which a command changes for what it starts
        ):
            cli.main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return Ended(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


def rules_for(inst: Installation, transport: str, parameters: dict[str, Any], **more: Any) -> Rules:
    """Returns rules of this machine with one set of parameters."""
    topology = Topology.of_this_machine()
    rule = RuleTable(
        distance=topology.distances()[-1],
        pair="0-1",
        parameters=parameters,
        memory_per_rank_bytes=0,
        at_ranks_per_node=2,
    )
    values: dict[str, Any] = {
        "schema_version": FORMAT_VERSION, "nearfield": "0", "created": "2026-01-02T00:00:00+00:00",
        "command": "nearfield tune", "seconds": 1.0, "host": os.uname().nodename,
        "tried": TriedTable(measured=1, left=0), "rule": [rule],
        "mpi": MpiTable(family=inst.family, version=inst.version, transport=transport),
        "machine": make_machine_table(topology, topology.cache_bytes(topology.pus[0])),
    }  # fmt: skip
    return Rules(**{**values, **more})


def write(folder: Path, rules: Rules) -> Path:
    path = folder / "rules.toml"
    save_rules(rules, path)
    return path
