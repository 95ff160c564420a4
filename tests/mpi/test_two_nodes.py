"""Launches that span two nodes with host names of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import mpi_program
import pytest
from two_nodes import NODES, TwoNodes

from nearfield.mpi import Installation

_LAUNCH = """
import dataclasses, json, sys
from nearfield import mpi
name, exe, hosts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
done = mpi.run(mpi.choose_mpi(name), [exe], 2, hosts=[tuple(h) for h in hosts], timeout_s=30)
print(json.dumps(dataclasses.asdict(done)))
"""


@pytest.mark.parametrize("order", [NODES, NODES[::-1]], ids=["a-b", "b-a"])
def test_ranks_on_two_nodes(
    installation: Installation, nodes: TwoNodes, programs: Path, order: tuple[str, str]
) -> None:
    """Does `hosts` start a rank on each node, in the order given, and do their messages cross the cable?"""
    exe = mpi_program.built(installation, "trial.cpp", programs)
    before = [nodes.bytes_sent(node) for node in NODES]
    hosts = json.dumps([[node, 1] for node in order])
    command = nodes.on("nodea", [sys.executable, "-c", _LAUNCH, installation.name, str(exe), hosts])
    child = subprocess.run(command, env={**os.environ, **nodes.env}, capture_output=True, text=True, timeout=90)
    assert child.returncode == 0, child.stderr
    done = json.loads(child.stdout)
    assert done["exit_code"] == 0, done["stdout"] + done["stderr"]
    ranks = sorted(line.split(" got ")[0] for line in done["stdout"].splitlines())
    assert ranks == [f"rank {rank} of 2 on {node}" for rank, node in enumerate(order)]
    sent = [nodes.bytes_sent(node) - start for node, start in zip(NODES, before, strict=True)]
    assert min(sent) > 1 << 20, "the long message did not cross the cable in both directions"
