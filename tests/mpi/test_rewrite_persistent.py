"""Do programs with persistent requests do the same as before, bit by bit, and with the same reads?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nearfield import mpi
from nearfield.rewrite import analyze
from nearfield.rewrite.check.build import Program, mpi_include_folders
from nearfield.rewrite.check.verify import Verifier

SOURCE = Path(__file__).parents[1] / "programs" / "rewrite_persistent.c"


@pytest.mark.parametrize("family", ["openmpi", "mpich"])
def test_a_program_with_persistent_requests_does_the_same(family: str) -> None:
    """Are guarded, blocking and nonblocking messages the same on 1, 2 and 4 ranks, also if the loop is not executed?"""
    inst = next((one for one in mpi.find_usable_mpis() if one.family == family), None)
    if inst is None:
        pytest.skip(f"no MPI of the family {family}")
    found = analyze(
        SOURCE, [f"-I{folder}" for folder in mpi_include_folders(inst)], transformation_names=frozenset({"persistent"})
    )
    (patch,) = found.patches
    assert patch.rewritten.count("_init(") == patch.rewritten.count("MPI_Request_free") == 8
    with Verifier(
        Program(SOURCE, arguments_by_run=(("3",), ("0",))), patch.original, inst, rank_counts=(1, 2, 4)
    ) as verifier:
        verdict = verifier.verify(patch.rewritten)
        assert verdict.is_equivalent, verdict
        assert verdict.num_runs == 6 and not verdict.notes
        wrong = patch.rewritten.replace("MPI_Recv_init(u, n, MPI_DOUBLE, down", "MPI_Recv_init(v, n, MPI_DOUBLE, down")
        assert wrong != patch.rewritten and not verifier.verify(wrong).is_equivalent
