"""Does `nearfield run --explain` say what happened to the messages of a real program?"""

import os
import re
from pathlib import Path

import mpi_program
import pytest
from tuning import nearfield, rules_for, write

from nearfield import mpi
from nearfield.mpi import Installation, launch_command


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_program_is_explained(installations: list[Installation], programs: Path, tmp_path: Path) -> None:
    """Of messages from the heap and from elsewhere, are the right ones counted, for the rank that copied them; is
    nothing left behind, and what -v says in place?"""
    inst = installations[0]
    carrier, reason = mpi.transport_or_reason(inst)
    assert carrier, reason
    rules = write(tmp_path, rules_for(inst, carrier, {"shared_heap": "on", "cooperative_copy": "never"}))
    program = mpi_program.built(inst, "explained.cpp", programs)
    argv, env = launch_command(inst, [str(program), *["heap"] * 8, "static"], 2)
    (tmp_path / "scratch").mkdir()
    env["TMPDIR"] = str(tmp_path / "scratch")
    done = nearfield("run", "-v", "--explain", "--rules", rules, "--", *argv, env=env)
    assert done.code == 0, done.err
    assert "LD_PRELOAD = " in done.err and "the shared heap copies past the caches messages of" in done.err
    (rank_0,) = [line for line in done.err.splitlines() if line.startswith("0 ")]
    # The block's pages are shared from the second message on, or a little later: its owner does that in its next call.
    direct, static, private = (int(count) for count in re.findall(r"(\d+) \(\d+ MiB\)", rank_0))
    assert static == 1 and direct + private == 8 and direct >= 4
    assert "came from memory outside the heap" in done.err
    assert done.err.index("nearfield: MPI took ") < done.err.index("came from memory"), "the ceiling comes first"
    assert not list((tmp_path / "scratch").glob("nearfield-*"))
