"""Does the fuzzer (tests/fuzz_rewrite.py) find no wrong variant, does it have programs of all forms, and does its
harness notice each way in which a variant can be wrong?"""

import re

import injected
import pytest
from random_programs import RandomProgram, random_program
from rewrite_fuzz import fuzz
from rewrite_variants import Candidate, compare_variants

from nearfield import mpi
from nearfield.mpi import Installation

PROGRAMS = [random_program(seed) for seed in range(200)]


@pytest.fixture(scope="module")
def inst() -> Installation:
    """Returns the MPI beside this Python: its ranks yield where there are more than processors."""
    return mpi.choose_mpi()


@pytest.mark.turn(1)
def test_every_legal_variant_of_random_programs_does_as_the_original() -> None:
    """Does the analysis find orders that are wrong? These are 20 programs; tests/fuzz_rewrite.py takes thousands."""
    found = mpi.find_usable_mpis()
    fastest = next((one for one in found if one.family == "mpich"), found[0])
    outcome = fuzz(range(20), fastest, (1, 2))
    assert not outcome.crashes and not outcome.mismatches, outcome
    assert set(outcome.variants) >= {"overlap", "warm-send", "late-receive", "reverse"}


@pytest.mark.parametrize("file", ["rewrite", "hostile"])
def test_injected_bugs_are_still_bugs(file: str) -> None:
    """Is the text that tests/injected_bugs replaces still there? `fuzz_rewrite.py` and `fuzz_hostile.py --bugs` need
    it."""
    for bug in injected.bugs_of(file).values():
        compile(injected.inject(bug), bug["file"], "exec")


def with_text(pattern: str) -> RandomProgram:
    """Returns the first program with at most one wait in which the pattern is found."""
    return next(one for one in PROGRAMS if re.search(pattern, one.text) and one.text.count("MPI_Wait") < 2)


def test_programs_differ_and_have_all_forms() -> None:
    texts = [program.text for program in PROGRAMS]
    assert len(set(texts)) > 0.98 * len(texts)
    for form in (
        "MPI_Sendrecv",
        "MPI_Isend",
        "MPI_Send(",
        "if (rank > 0)",
        "MPI_Type_vector",
        "[ny][nz]",
        "AT(i, j, k)",
        "total",
        "other",
        "static void part",
    ):
        assert any(form in text for text in texts), form


def test_the_harness_notices_what_a_wrong_variant_does(inst: Installation) -> None:
    """Is each of these found, and none that is the same?"""
    posted = with_text(r"MPI_Irecv\(&a.*\n.*\n    MPI_Waitall\(2.*\n    for \(int i = 1;(.*\n)*? +b.* = .*a\[")
    wait = next(line for line in posted.text.splitlines(keepends=True) if "MPI_Waitall(2" in line)
    late = posted.text.replace(wait, "", 1).replace("\n  }\n}", f"\n{wait}  }}\n}}")
    swept = with_text(r"= 1; i < nx - 1; i\+\+")
    sent = with_text(r"\n    MPI_Sendrecv\(")
    left = "    MPI_Request left; MPI_Isend(out, 0, MPI_INT, rank, 9, comm, &left);\n"
    wrong = {
        "late wait": (posted, late),
        "lost row": (swept, swept.text.replace("= 1; i < nx - 1", "= 2; i < nx - 1")),
        "lost last row": (swept, swept.text.replace("i < nx - 1; i++", "i < nx - 2; i++")),
        "behind the end": (
            swept,
            swept.text.replace("step++) {", "step++) { b == 0 ? 0 : (*(char*)((char*)out - 9) = 1);"),
        ),
        "left message": (sent, sent.text.replace("step++) {\n", "step++) {\n" + left)),
        "crash": (sent, sent.text.replace("step++) {", "step++) { *(volatile int*)0 = 1;")),
        "hang": (
            sent,
            sent.text.replace(
                "comm, MPI_STATUS_IGNORE",
                "comm, MPI_STATUS_IGNORE); MPI_Recv(in, 1, MPI_INT, rank, 99, comm, MPI_STATUS_IGNORE",
            ),
        ),
    }
    assert all(text != program.text for program, text in wrong.values())
    candidates = [Candidate(program, (("same", program.text), (name, text))) for name, (program, text) in wrong.items()]
    cases, mismatches = compare_variants(candidates, inst, (2,), patience_s=3)
    assert {mismatch.variant for mismatch in mismatches} == set(wrong)
    assert cases == len(wrong) * 2 * 14  # of a run without the wrong ones
    says = {mismatch.variant: mismatch.says for mismatch in mismatches}
    assert "before it was done" in says["late wait"] or "array" in says["late wait"]
    assert "left over" in says["left message"]
    assert "signal 14" in says["hang"]
