"""Does `rewrite --verify` pass what is the same and refuse what is not, and does `--measure` see a gain where there is
one and only there?"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nearfield import mpi, rewrite
from nearfield.base.errors import MeasurementError, UsageError
from nearfield.base.paired import MIN_PAIRS
from nearfield.cli.verbs import app
from nearfield.mpi import Installation
from nearfield.rewrite import Analysis, Patch
from nearfield.rewrite.check import verify
from nearfield.rewrite.check.build import CompileError, Program
from nearfield.rewrite.check.measure import _gain_from_times, _RunTimes, measure_gain
from nearfield.rewrite.check.verify import Verifier

pytestmark = pytest.mark.turn(1)

SOURCE = Path(__file__).parents[1] / "programs" / "rewrite_stencil.c"
ORIGINAL = SOURCE.read_text()
EXCHANGE = next(line for line in ORIGINAL.splitlines(keepends=True) if "MPI_Sendrecv(" in line)
NEST = "".join(ORIGINAL.partition(EXCHANGE)[2].splitlines(keepends=True)[:2])
SWEEP = "for (int i = 1; i < n - 1; i++)"
POST = """\
    MPI_Request requests[2];
    MPI_Irecv(u, n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(u + n, n, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &requests[1]);
"""
WAIT = "    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);\n"
INNER = NEST.replace(SWEEP, "for (int i = 2; i < n - 1; i++)")
FIRST = NEST.replace(SWEEP, "for (int i = 1; i < 2; i++)")


def rewritten(*parts: str) -> str:
    """Returns the program with these parts in place of the exchange and the nest after it."""
    assert EXCHANGE + NEST in ORIGINAL
    return ORIGINAL.replace(EXCHANGE + NEST, "".join(parts))


OVERLAPPED = rewritten(POST, INNER, WAIT, FIRST)


@pytest.fixture(scope="module")
def inst() -> Installation:
    """Returns one MPI, of the family that starts fastest if it is there; what verify sees depends on none."""
    found = mpi.find_usable_mpis()
    return next((one for one in found if one.family == "mpich"), found[0])


@pytest.fixture(scope="module")
def verifier(inst: Installation) -> Iterator[Verifier]:
    with Verifier(Program(SOURCE), ORIGINAL, inst, rank_counts=(2,)) as made:
        yield made


def test_a_right_rewrite_is_verified(inst: Installation) -> None:
    program = Program(SOURCE, arguments_by_run=(("3",), ("4",)))
    with Verifier(program, ORIGINAL, inst, rank_counts=(1, 2)) as made:
        verdict = made.verify(OVERLAPPED)
    assert verdict.is_equivalent, verdict
    assert (verdict.num_runs, verdict.notes) == (4, ())
    assert verdict.num_messages == 3 + 2 * 3 + 4 + 2 * 4
    assert "-ffp-contract=off" in str(verdict)


WRONG = {
    "a row is read before it has arrived": (rewritten(POST, NEST, WAIT), "array v"),
    "a row is lost": (rewritten(POST, INNER, WAIT), "differs"),
    "a sent row is written to too early": (
        rewritten(POST, "    u[n + 1] += 1;\n    u[n + 1] -= 1e-9;\n", INNER, WAIT, FIRST),
        "wrote to the buffer of a send with tag 0",
    ),
    "a row is written to while it is received": (
        rewritten(POST, "    u[3] = 1;\n", INNER, WAIT, FIRST),
        "wrote to the buffer of a receive with tag 0",
    ),
    "one element is not sent": (
        rewritten(EXCHANGE.replace("u + n, n,", "u + n, n - 1,"), NEST),
        "rank 0 sends 1520 bytes to rank 1 with tag 0, not 1600",
    ),
    "a static variable differs in the end": (
        ORIGINAL.replace("v[i][j] * t", "v[i][j] * (t + 1e-15 * (t > 8))"),
        "static",
    ),
    "it prints something else": (ORIGINAL.replace("after %g s", "after %g  s"), "rank 0 prints"),
    "it writes another file": (ORIGINAL.replace("N * N, file", "N, file"), "the file rank-0 differs"),
    "it crashes": (ORIGINAL.replace("free(u);", "free(u); *(volatile int*)0 = 1;"), "it fails with exit code"),
    "its exit code is another": (ORIGINAL.replace("return 0;\n}\n", "return 3;\n}\n"), "exit code"),
    "it does not compile": (ORIGINAL.replace("free(u);", "free(uu);"), "it does not compile: rewrite_stencil.c:"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rewrite_is_refused(verifier: Verifier, name: str) -> None:
    text, says = WRONG[name]
    assert text != ORIGINAL
    verdict = verifier.verify(text)
    assert not verdict.is_equivalent
    assert says in verdict.problem


# The program with zeros everywhere: whatever the order, all values are right.
ZEROS = ORIGINAL.replace("u[i] = i * 0.37 + rank;", "u[i] = 0;").replace(
    "#include <stdlib.h>", "#include <stdlib.h>\n#include <string.h>"
)
HIDDEN = {
    "a row is read before it has arrived": POST + NEST + WAIT,
    "a row is read after it was overwritten": EXCHANGE + "    u[n + 1] = 0;\n" + NEST,
    "two writes change places": EXCHANGE
    + NEST.replace("v[i][j] =", "v[i][j] = w[i * n + j] =").replace("= 0.25", "= 0.0"),
    "memory is copied twice": EXCHANGE + "    memcpy(u + 8, u + 16, 64);\n" + NEST,
}


def test_a_wrong_order_is_refused_although_all_values_are_right(inst: Installation) -> None:
    """Is it noticed which write a read saw, where both wrote the same value?"""
    with Verifier(Program(SOURCE), ZEROS, inst, rank_counts=(2,)) as made:
        assert made.verify(ZEROS.replace(EXCHANGE + NEST, POST + INNER + WAIT + FIRST)).is_equivalent
        for name, wrong in HIDDEN.items():
            verdict = made.verify(ZEROS.replace(EXCHANGE + NEST, wrong))
            assert "has the same values, but reads saw other writes of it" in verdict.problem, name


def test_which_bytes_a_message_has_is_known(inst: Installation) -> None:
    """Is a message of a derived type one of its own bytes only? The element between them may be read at any time."""
    column = "    MPI_Datatype two;\n    MPI_Type_vector(2, 1, 2, MPI_DOUBLE, &two);\n    MPI_Type_commit(&two);\n"
    receive = "    MPI_Irecv(u, 1, two, down, 0, MPI_COMM_WORLD, &r);\n"
    send = "    MPI_Send(u + n, 1, two, up, 0, MPI_COMM_WORLD);\n"
    wait = "    MPI_Wait(&r, MPI_STATUS_IGNORE);\n"
    reads = {at: f"    w[{at}] = u[{at}];\n" for at in (1, 2)}
    before = ORIGINAL.replace(EXCHANGE, f"{column}    MPI_Request r;\n{receive}{send}{wait}{reads[1]}{reads[2]}")
    between, early = (
        before.replace(wait + reads[1] + reads[2], text)
        for text in (reads[1] + wait + reads[2], reads[2] + wait + reads[1])
    )
    with Verifier(Program(SOURCE), before, inst, rank_counts=(2,)) as made:
        assert made.verify(between).is_equivalent
        assert not made.verify(early).is_equivalent


def test_a_rewrite_that_needs_buffered_sends_hangs_and_is_ended(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does a version that only works because MPI buffers short messages count as one that hangs?"""
    monkeypatch.setattr(verify, "MIN_HANG_LIMIT_S", 1.0)
    send = "    MPI_Send(u + n, n, MPI_DOUBLE, up, 0, MPI_COMM_WORLD);\n"
    receive = "    MPI_Recv(u, n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
    assert "it hangs" in verifier.verify(rewritten(send, receive, NEST)).problem


def test_what_the_original_leaves_to_chance_is_not_compared(inst: Installation) -> None:
    """Is a version refused because of a number that differs in each run? It must not be, and the note says so."""
    text = ORIGINAL.replace("MPI_Init(", 'int getpid(void);\n  printf("%d\\n", getpid());\n  MPI_Init(')
    with Verifier(Program(SOURCE), text, inst, rank_counts=(2,)) as made:
        verdict = made.verify(text.replace(EXCHANGE + NEST, POST + INNER + WAIT + FIRST))
    assert verdict.is_equivalent
    assert any("what it prints" in note for note in verdict.notes)


def test_nothing_is_proved_without_messages(inst: Installation) -> None:
    with Verifier(Program(SOURCE, arguments_by_run=(("0",),)), ORIGINAL, inst, rank_counts=(2,)) as made:
        assert "no run sent a message" in made.verify(OVERLAPPED).problem


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ORIGINAL.replace("N 20", "N nothing"), "does not compile"),
        (ORIGINAL.replace("MPI_Finalize();", "abort();"), "does not run"),
    ],
)
def test_an_original_that_cannot_be_run_is_an_error(inst: Installation, text: str, says: str) -> None:
    with Verifier(Program(SOURCE), text, inst, rank_counts=(2,)) as made, pytest.raises(UsageError, match=says):
        made.verify(text.replace("t = 0", "t = 1"))


def test_an_interrupt_leaves_nothing_behind(
    inst: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def interrupt(line: str) -> None:
        if line.startswith("running the original"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Verifier(Program(SOURCE), ORIGINAL, inst, progress=interrupt) as made:
        made.verify(OVERLAPPED)
    assert not list(tmp_path.iterdir())


def test_measure_sees_a_gain(inst: Installation) -> None:
    """Is a message that comes 10 ms earlier a gain, in the whole and in messages?"""
    late = ORIGINAL.replace(EXCHANGE, "    if (rank) { int usleep(unsigned); usleep(10000); }\n" + EXCHANGE)
    program = Program(SOURCE, ("-O3",))
    gain = measure_gain(program, late, ORIGINAL, inst, budget_s=0)
    assert gain.num_pairs == MIN_PAIRS
    assert gain.total_speedup.value > 1 and gain.message_speedup is not None
    with pytest.raises(CompileError, match="uu"):
        measure_gain(program, ORIGINAL, ORIGINAL.replace("free(u)", "free(uu)"), inst)
    with pytest.raises(MeasurementError, match="failed"):
        measure_gain(program, ORIGINAL, ORIGINAL.replace("free(u);", "free(u); abort();"), inst)


def test_a_gain_is_supported_only_by_the_interval() -> None:
    def supports(before: list[float], after: list[float], messages_after: list[float] | None = None) -> bool:
        rest = messages_after or before
        times = [_RunTimes(b, b) for b in before], [_RunTimes(a, m) for a, m in zip(after, rest, strict=True)]
        return _gain_from_times(times, 2).is_supported

    steady, noisy = [1.0] * 8, [0.6, 1.3, 0.7, 1.2, 0.8, 1.4, 0.9, 1.1]
    assert supports(steady, [0.9] * 8)
    assert not supports(steady, noisy), "a median below 1 is no gain if the interval holds 1"
    assert not supports(steady, [0.995] * 8), "half a percent does not count"
    assert supports(steady, steady, [0.5] * 8), "faster communication is a gain though the whole does not show it"
    assert not supports(steady, [1.2] * 8, [0.5] * 8), "it is none if the whole is slower"


def test_the_verb_writes_what_is_verified_and_nothing_else(
    inst: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Is a wrong patch passed over for the next one of its place, and said to be wrong?"""
    file = tmp_path / SOURCE.name
    file.write_text(ORIGINAL)
    texts = {"early": rewritten(POST, NEST, WAIT), "overlap": OVERLAPPED}
    patches = [Patch(file, ORIGINAL, text, "main", name, "tested", (29, 31)) for name, text in texts.items()]
    arguments = ["rewrite", str(file), "--verify", "--apply", "--ranks", "2", "--run", "3", "--mpi", inst.name]
    monkeypatch.setattr(rewrite, "analyze", lambda *_, **__: Analysis(file, patches[:1]))
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, file.read_text()) == (0, ORIGINAL)
    assert "the rewritten program is not the same" in done.output.replace("\n", " ")
    monkeypatch.setattr(rewrite, "analyze", lambda *_, **__: Analysis(file, list(patches)))
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, file.read_text()) == (0, OVERLAPPED)
    assert CliRunner().invoke(app, [*arguments, "--ranks", "two"]).exit_code != 0
