"""Are long messages cut into pieces only where this keeps results on all ranks, and is the text of it proved?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from report_profiles import profile, row
from typer.testing import CliRunner

from nearfield.base.errors import UsageError
from nearfield.cli.verbs import app
from nearfield.rewrite import Analysis, analyze, driver
from nearfield.rewrite.frontend.callee_lookup import OtherFiles
from nearfield.rewrite.model.chunk_sizes import ChunkSizes, chunk_sizes_from_caches
from nearfield.rewrite.ranking import MessageCosts

ROWS = Path(__file__).parents[1] / "programs" / "rewrite_rows.c"
PIECES = ChunkSizes(64, 64)  # eight doubles
CALL = "MPI_Sendrecv(out, m, MPI_DOUBLE, up, 0, in, m, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);"
MAKE = "for (int i = 0; i < m; i++) out[i] = a[i] * 2;"
USE = "for (int i = 1; i < m; i++) b[i] = in[i] + in[i - 1];"
PARAMETERS = "int m, int n, double *restrict out, double *restrict in, double *restrict a, double *restrict b, "


def step(body: str) -> str:
    same = "static int same(int k) { return k; }"
    return f"#include <mpi.h>\n{same} void step({PARAMETERS}int up, int down) {{\n{body}\n}}\n"


def analysed(
    tmp_path: Path,
    arguments: list[str],
    text: str,
    alike: tuple[str, ...] = ("m",),
    others: OtherFiles = (),
    pieces: ChunkSizes = PIECES,
) -> Analysis:
    path = tmp_path / "program.c"
    path.write_text(text)
    only = frozenset({"cut", "strip-mine"})
    return analyze(
        path, arguments, transformation_names=only, chunk_sizes=pieces, assume_uniform=alike, other_files=others
    )


def test_a_message_goes_with_what_makes_and_what_uses_it(tmp_path: Path, arguments: list[str]) -> None:
    """Is each piece made before it is sent and used after it has arrived, at once (strip-mine) or later (cut)?"""
    found = {one.transformation: one for one in analysed(tmp_path, arguments, step(MAKE + CALL + USE)).patches}
    assert set(found) == {"strip-mine", "cut"}
    strips = found["strip-mine"].rewritten.split("} else {")[0]
    assert "if (m >= 9) {" in strips
    assert strips.index("out[i] =") < strips.index("MPI_Sendrecv(out + nearfield_at") < strips.index("b[i] =")
    assert strips.count("for (long nearfield_at = 0; nearfield_at < m; nearfield_at += 8)") == 1
    cut = found["cut"].rewritten.split("} else {")[0]
    order = [
        "MPI_Request",
        "out[i] =",
        "MPI_Irecv(in + nearfield_at",
        "MPI_Isend(out + nearfield_at",
        "MPI_Waitall(2",
        "b[i] =",
    ]
    places = [cut.index(words) for words in order]
    assert places == sorted(places)
    for patch in found.values():
        assert patch.rewritten.split("} else {")[1].count(CALL[:40]) == 1
        assert "m has the same value on all ranks, which all execute this exchange" in patch.assumptions


def test_only_what_a_piece_needs_goes_with_it(tmp_path: Path, arguments: list[str]) -> None:
    """Is a loop that needs the end of the message before its beginning left behind the pieces?"""
    backward = "for (int i = 0; i < m; i++) b[i] = in[m - 1 - i] + in[0];"
    found = analysed(tmp_path, arguments, step(MAKE + CALL + backward)).patches
    assert found
    for patch in found:
        assert patch.rewritten.split("} else {")[0].rindex("b[i]") > patch.rewritten.index("nearfield_at += 8")
    chain = "for (int i = 1; i < m; i++) out[i] = out[i - 1] + in[i];"  # sends what it then changes
    for patch in analysed(tmp_path, arguments, step(MAKE + CALL + chain)).patches:
        assert "out[i - 1]" in patch.rewritten


REFUSED = {
    "ranks": (MAKE + CALL + USE, (), "m may differ between ranks", "--assume-uniform m"),
    "counts": (MAKE + CALL.replace("out, m", "out, n") + USE, ("m", "n"), "sends n elements and receives m", ""),
    "tags": (MAKE + CALL.replace("up, 0", "up, 1") + USE, ("m",), "sends with tag 1 and receives with tag 0", ""),
    "any source": (MAKE + CALL.replace("down", "MPI_ANY_SOURCE") + USE, ("m",), "receives from any source", ""),
    "status": (
        "MPI_Status s;" + MAKE + CALL.replace("MPI_STATUS_IGNORE", "&s") + USE, ("m",), "the status of its message", "",
    ),
    "other side": (
        MAKE + CALL + USE + "MPI_Recv(in, m, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);", ("m",),
        "MPI_Recv in line 3 may be the other side", "",
    ),
    "other call": (
        MAKE + CALL + USE + "MPI_Message g; MPI_Mprobe(down, 7, MPI_COMM_WORLD, &g, MPI_STATUS_IGNORE);", ("m",),
        "MPI_Mprobe in line 3 may be the other side", "",
    ),
    "one side": (
        MAKE + "MPI_Send(out, m, MPI_DOUBLE, up, 0, MPI_COMM_WORLD);" + USE.replace("in[", "a["), ("m",),
        "only an MPI_Sendrecv by itself", "",
    ),
    "a cast of the call": (f"{MAKE}(void){CALL}{USE}", ("m",), "the call is not found again", ""),
    "any tag": (
        MAKE + CALL + USE + "MPI_Recv(in, m, MPI_DOUBLE, up, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);", ("m",),
        "MPI_Recv in line 3 may be the other side", "",
    ),
    "another count": (
        MAKE + CALL + USE + CALL.replace(" m,", " n,"), ("m", "n"),
        "MPI_Sendrecv in line 3 has another count, and may be the other side", "",
    ),
    "an unknown count": (
        MAKE + CALL.replace("in, m", "in, (int)a[0]") + USE, ("m",), "not known that it sends as many elements", "",
    ),
    "elements of another length": (
        MAKE + CALL.replace("in, m, MPI_DOUBLE", "in, m, MPI_FLOAT") + USE, ("m",),
        "not known that it sends as many elements", "",
    ),
    "elements of unknown length": (
        "MPI_Datatype t; MPI_Type_vector(n / 2, 1, -2, MPI_DOUBLE, &t); MPI_Type_commit(&t);" + MAKE
        + CALL.replace("m, MPI_DOUBLE", "1, t") + USE, ("m",), "not known that it sends as many elements", "",
    ),
    "a call among the arguments": (
        MAKE + CALL.replace("up, 0", "same(up), 0") + USE, ("m",), "its arguments call", "",
    ),
    "bytes": (MAKE + CALL.replace("_DOUBLE", "_BYTE") + USE, ("m",), "not one row of elements of out", ""),
    "an unknown place": (
        MAKE + CALL.replace("out,", "out + (int)a[0],") + USE, ("m",), "not one row of elements of out", "",
    ),
    "elements with gaps": (
        "MPI_Datatype t; MPI_Type_vector(2, 1, 3, MPI_DOUBLE, &t); MPI_Type_commit(&t);" + MAKE
        + CALL.replace("m, MPI_DOUBLE", "1, t") + USE, ("m",), "not one row of elements of out", "",
    ),
    "type": (
        MAKE + CALL.replace("(out,", "((void *)out,") + USE, ("m",), "is not written as a pointer to its elements", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_ranks_may_cut_otherwise_is_refused(name: str, tmp_path: Path, arguments: list[str]) -> None:
    """Is nothing cut if the other side of a message may not be, and does the note say why?"""
    body, alike, reason, assumption = REFUSED[name]
    found = analysed(tmp_path, arguments, step(body), alike)
    assert not found.patches
    assert any(reason in one.reason for one in found.missed), found.missed
    assert assumption in {one.assumption for one in found.missed}


def test_pieces_are_not_shorter_than_an_element(tmp_path: Path, arguments: list[str]) -> None:
    found = analysed(tmp_path, arguments, step(MAKE + CALL + USE), pieces=ChunkSizes(4, 64))
    assert not found.patches and "an element is longer than a piece" in found.missed[0].reason


def test_constants_of_a_whole_program_need_no_assumption(tmp_path: Path, arguments: list[str]) -> None:
    """Is a constant the same on all ranks, and are calls of other files, which may be the other side, reported?"""
    text = ROWS.read_text().replace("static void step(int rows, int cols,", "static void step(int rows,")
    text = text.replace("#include <mpi.h>", "#include <mpi.h>\n#define cols 40").replace("int cols = 40,", "")
    text = text.replace(", cols = argc > 2 ? atoi(argv[2]) : 40", "").replace("step(rows, cols, u", "step(rows, u")
    found = analysed(tmp_path, arguments, text, ("rows",))
    assert {one.transformation for one in found.patches} == {"strip-mine", "cut"}
    other = text.replace("static void step", "void talk(int);\nstatic void step").replace(
        "MPI_Finalize", "talk(0); MPI_Finalize"
    )
    talk = tmp_path / "talk.c"
    talk.write_text("#include <mpi.h>\nvoid talk(int to) { MPI_Send(&to, 1, MPI_INT, to, 0, MPI_COMM_WORLD); }\n")
    for others in ([], [(talk, arguments)]):
        found = analysed(tmp_path, arguments, other, ("rows",), others)
        assert not found.patches
        assert "other files may have the other side" in found.missed[0].reason
        assert found.missed[0].assumption == "--assume-uniform cols"


DAMAGES = {
    "the buffer": ("MPI_Sendrecv(out + nearfield_at", "MPI_Sendrecv(out"),
    "the length": ("m - nearfield_at < 8 ?", "m - nearfield_at < 9 ?"),
    "the count": ("nearfield_count, MPI_DOUBLE, up", "8, MPI_DOUBLE, up"),
    "the step": ("nearfield_at += 8", "nearfield_at += 4"),
    "the end": ("nearfield_at < m;", "nearfield_at < m - 1;"),
    "what makes a piece": ("i = nearfield_at;", "i = nearfield_at + 1;"),
    "requests": ("[2 * ((m - 1) / 8 + 1)]", "[2 * (m / 8)]"),
    "a request": ("nearfield_requests[nearfield_at / 8 * 2 + 1]", "nearfield_requests[nearfield_at / 8 * 2]"),
    "another wait": ("MPI_Waitall(2, &nearfield_requests", "MPI_Waitall(1, &nearfield_requests"),
    "a begin is repeated": ("MPI_Irecv(in", "for (int k = 0; k < 2; k++) MPI_Irecv(in"),
    "a begin has a condition": ("MPI_Isend(out", "if (m > 999) MPI_Isend(out"),
    "an exchange has a condition": ("MPI_Sendrecv(out + nearfield_at", "if (m > 999) MPI_Sendrecv(out + nearfield_at"),
    "a wait has a condition": ("MPI_Waitall(2, &nearfield_requests", "if (m > 999) MPI_Waitall(2, &nearfield_requests"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_pieces_are_not_proved(
    damage: str, tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does the second proof, on the text, find a mistake of what writes pieces?"""
    old, new = DAMAGES[damage]
    emit, damaged = driver.RegionEmitter.emit, []

    def emitted(self: object, *given: object) -> object:
        made = emit(self, *given)  # type: ignore[arg-type]
        if old in made.text:
            damaged.append(made.text)
        return replace(made, text=made.text.replace(old, new, 1))

    monkeypatch.setattr(driver.RegionEmitter, "emit", emitted)
    found = analysed(tmp_path, arguments, step(MAKE + CALL + USE))
    assert damaged and len(found.patches) == 2 - len(damaged)


def test_pieces_are_those_of_a_machines_caches(arguments: list[str]) -> None:
    """Is a piece a quarter of a core's own cache, for messages beyond the last level; and does a measured cut rank?"""
    rows = [
        row("cut", "time", 4e6, size_bytes=64 << 20, piece_bytes=0),
        row("cut", "time", 2e6, size_bytes=64 << 20, piece_bytes=64 << 10),
    ]
    made = profile(rows)
    caches = made.machine.data_caches
    min_sharers = min(one.shared_by for one in caches)
    own = max(one.size_bytes for one in caches if one.shared_by == min_sharers)
    assert chunk_sizes_from_caches(made) == ChunkSizes(own // 4, caches[-1].size_bytes)
    known = MessageCosts(made).expected_gain_of_chunking(32 << 20, 64 << 10).message_times
    assert known and known.speedup.value == pytest.approx(2) and known.time_before.value == pytest.approx(2e6)
    assert "no stable records of cut" in str(MessageCosts(made).expected_gain_of_chunking(8 << 20, 64 << 10)), (
        "8 times as short"
    )
    assert MessageCosts(made).expected_gain_of_chunking(32 << 20, 1 << 10).message_times is None, (
        "pieces of another length"
    )


def test_cutting_needs_to_know_the_length_of_pieces(tmp_path: Path) -> None:
    """Does --only cut without a size or a profile say what is missing, and does --piece do?"""
    done = CliRunner().invoke(app, ["rewrite", str(ROWS), "--only", "cut"])
    assert isinstance(done.exception, UsageError) and "--piece" in str(done.exception.remedy)
    words = ["rewrite", str(ROWS), "--only", "cut", "--piece", "4KiB", "--assume-uniform", "rows,cols"]
    done = CliRunner().invoke(app, words)
    assert "nearfield_at += 512" in done.output
