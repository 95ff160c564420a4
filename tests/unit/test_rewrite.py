"""Do the analysis and the patches of `nearfield rewrite` find what is legal, refuse what is not, and say why?"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import islpy as isl
import pytest
from rewriting import EXCHANGE, HEAD, SWEEP, analyse_c, names, step
from typer.testing import CliRunner

from nearfield.base.errors import UsageError
from nearfield.cli.verbs import app
from nearfield.rewrite import analyze, driver
from nearfield.rewrite.applying import apply_patches, select_best_patches
from nearfield.rewrite.check.validate import NotEquivalent, Validator
from nearfield.rewrite.model import legality
from nearfield.rewrite.model.polyhedral import PolyhedralModel

LISTING = Path(__file__).parents[1] / "programs" / "listing1.c"


# ---- listing 1


def test_listing_1_becomes_listings_2_and_3(arguments: list[str]) -> None:
    """Does the tool find, without help, what the paper made by hand, and overlap besides?"""
    found = analyze(LISTING, arguments)
    made = {patch.transformation: patch for patch in found.patches}
    assert set(made) == {"warm-send", "late-receive", "reverse", "overlap"}
    assert not found.missed
    opt1 = made["warm-send"].rewritten.split("for (unsigned iter")[1].split("MPI_Sendrecv")
    assert "for (unsigned i = 0; i < 1; ++i)" in opt1[0]
    assert "for (unsigned i = 1; i < ROWS - 1; ++i)" in opt1[1]
    opt2 = made["reverse"].rewritten.split("for (unsigned iter")[1].split("MPI_Sendrecv")
    assert "for (unsigned i = ROWS - 2; i-- > 0;)" in opt2[0]
    assert "for (unsigned i = ROWS - 2; i < ROWS - 1; ++i)" in opt2[1]
    assert all("A = tmp; tmp = swapped;" in patch.rewritten for patch in found.patches)
    assert all(any("ROWS >= 3" in one for one in patch.assumptions) for patch in found.patches)


def test_an_order_that_is_not_proved_gives_way_to_the_one_it_replaced(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Are rows alone gone through backwards where the text with rows and columns backwards fails its second proof?"""
    whole = Validator.check_equivalence

    def check(self: Validator, *given: Any) -> None:
        if self._emitted.text.count("-- > 0") > 1:
            raise NotEquivalent("it has been made to fail")
        whole(self, *given)

    monkeypatch.setattr(Validator, "check_equivalence", check)
    made = {patch.transformation: patch.rewritten for patch in analyze(LISTING, arguments).patches}
    assert made["reverse"].count("-- > 0") == 1


def test_an_order_that_breaks_degenerate_sizes_is_guarded(tmp_path: Path, arguments: list[str]) -> None:
    """Does code whose sizes come at run time keep the original for those that the new order breaks?"""
    found = analyse_c(tmp_path, arguments, step(EXCHANGE + SWEEP + "b[i * m + j] = a[i * m + j] + a[(i + 1) * m + j];"))
    guarded = next(patch for patch in found.patches if patch.transformation == "warm-send")
    assert "if (n >= 4) {" in guarded.rewritten
    assert guarded.rewritten.split("} else {")[1].count("MPI_Sendrecv") == 1


def test_constants_that_break_the_order_give_no_patch(tmp_path: Path, arguments: list[str]) -> None:
    """Is there no patch that the compiler would refuse, or that only its 'else' would execute?"""
    text = LISTING.read_text().replace("#define ROWS 32", "#define ROWS 2")
    assert not analyse_c(tmp_path, arguments, text).patches


# ---- refusals

REFUSED = {
    "alias": (
        step(EXCHANGE + SWEEP + "b[i * m + j] = a[i * m + j];", "int n, int m, double *a, double *b, int up, int down"),
        "a and b may overlap",
        "--assume-noalias a,b",
    ),
    "rows": (
        step(
            "MPI_Sendrecv(&a[1][0], m, MPI_DOUBLE, up, 0, &a[0][0], m, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, "
            "MPI_STATUS_IGNORE);\n" + SWEEP + "b[i][j] = a[i][j];",
            "int n, int m, double **a, double **b, int up, int down",
        ),
        "the rows of a may overlap",
        "--assume-noalias a",
    ),
    "indirect": (
        step(EXCHANGE + SWEEP + "a[k[i]] = b[i * m + j];", "int n, int m, double *restrict a, double *restrict b, int "
             "*restrict k, int up, int down"),
        "the index k[i] is not affine",
        "",
    ),
    "unknown call": (
        step(EXCHANGE + "extern double f(double *);\n" + SWEEP + "b[i * m + j] = f(a);"),
        "a variable is declared",
        "",
    ),
    "unknown function": (
        "double f(double *);\n" + step(EXCHANGE + SWEEP + "b[i * m + j] = f(a);"),
        "it calls f, whose effects are not known",
        "",
    ),
    "timer": (
        step("double t;\n" + EXCHANGE + "t = MPI_Wtime();\n" + SWEEP + "b[i * m + j] = a[i * m + j];"),
        "it takes the time",
        "",
    ),
    "goto": (step(EXCHANGE + SWEEP + "{ if (a[i] < 0) goto out; }\nout:;"), "goto", ""),
    "chain": (
        step(EXCHANGE + SWEEP + "a[i * m + j] += a[(i + 1) * m + j] + a[(i - 1) * m + j];"),
        "",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in REFUSED if name != "chain"])
def test_refusals_name_the_reason_and_the_assumption(name: str, tmp_path: Path, arguments: list[str]) -> None:
    """Does what cannot be proved stay as it is, with a true reason and the one assumption that would do?"""
    text, reason, assumption = REFUSED[name]
    found = analyse_c(tmp_path, arguments, text)
    assert not found.patches
    assert any(reason in one.reason for one in found.missed), found.missed
    assert assumption in {one.assumption for one in found.missed}


def test_an_assumption_is_taken_and_written_down(tmp_path: Path, arguments: list[str]) -> None:
    """Does --assume-noalias give a patch that checks the assumption, or names it in a comment where it cannot?"""
    found = analyse_c(tmp_path, arguments, REFUSED["alias"][0], assume_noalias=("a", "b"))
    assert names(found) >= {"warm-send", "overlap"}
    for patch in found.patches:
        assert "(const char *)(a + 2 * m) <= (const char *)(b + 1 * m)" in patch.rewritten
        assert "a and b do not overlap, which the code checks" in patch.assumptions
    found = analyse_c(tmp_path, arguments, REFUSED["rows"][0], assume_noalias=("a", "b"))
    assert names(found) >= {"warm-send", "overlap"}
    assert all("needs that the rows of a do not overlap" in patch.rewritten for patch in found.patches)


# ---- dependences: each kind forbids something, and is missed if the analysis loses it

KINDS = {
    # what follows the exchange reads what is received: it must not come before
    "RAW": (EXCHANGE + SWEEP + "b[i * m + j] = a[(n - 1) * m + j];", {"overlap", "late-receive", "warm-send"}),
    # what follows the exchange writes what is sent: it must not come before
    "WAR": (EXCHANGE + SWEEP + "a[m + j] = b[i * m + j];", {"overlap", "late-receive", "warm-send"}),
    # what follows the exchange writes what is received: it must not come before
    "WAW": (EXCHANGE + SWEEP + "a[(n - 1) * m + j] = b[i * m + j];", {"overlap", "late-receive", "warm-send"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_dependence_forbids(
    kind: str, tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is nothing moved across such a dependence, and would it be if the analysis lost this kind of dependence alone?"""
    body, forbidden = KINDS[kind]
    assert not names(analyse_c(tmp_path, arguments, step(body))) & forbidden

    def without(model: PolyhedralModel) -> isl.UnionMap:
        pairs = isl.UnionMap("{ }")
        for other, first, second in (
            ("RAW", model.writes, model.reads), ("WAR", model.reads, model.writes), ("WAW", model.writes, model.writes),
        ):  # fmt: skip
            if other != kind:
                pairs = pairs.union(first.apply_range(second.reverse()))
        return model.select_in_original_order(pairs.intersect_domain(model.instances).intersect_range(model.instances))

    monkeypatch.setattr(PolyhedralModel, "dependences", property(without))
    assert names(analyse_c(tmp_path, arguments, step(body))) & forbidden


def test_a_region_that_reaches_into_another_row_counts_there(tmp_path: Path, arguments: list[str]) -> None:
    """Does a message from the last element of a row on, into the next one, depend on both?"""
    text = step(EXCHANGE.replace("&a[(n - 1) * m], m", "&a[m - 1], 2") + SWEEP + "b[i * m + j] = a[i * m + j];")
    for patch in analyse_c(tmp_path, arguments, text).patches:
        before = patch.rewritten.split("MPI_Sendrecv")[0]
        assert "i = 1; i < 2" not in before  # row 1 has a received element


def test_an_index_beyond_a_row_is_one_of_the_next(tmp_path: Path, arguments: list[str]) -> None:
    """Does a loop that reads one element more than a row wait for the row behind it, which is received?"""
    beyond = "for (int i = 1; i < n - 1; i++)\n for (int j = 0; j <= m; j++)\n  b[i] += a[i * m + j];"
    assert not analyse_c(tmp_path, arguments, step(EXCHANGE + beyond)).patches
    assert analyse_c(tmp_path, arguments, step(EXCHANGE + beyond.replace("j <= m", "j < m"))).patches


def test_corners_keep_the_order_of_exchanges(tmp_path: Path, arguments: list[str]) -> None:
    """Is the second of two exchanges, which sends on what the first has received, never begun before that arrived?"""
    second = EXCHANGE.replace("&a[(n - 1) * m]", "&a[0]").replace("&a[m]", "&a[(n - 1) * m]")
    found = analyse_c(tmp_path, arguments, step(EXCHANGE + second + SWEEP + "b[i * m + j] = a[i * m + j];"))
    overlapped = [patch.rewritten for patch in found.patches if patch.transformation == "overlap"]
    assert overlapped
    for text in overlapped:
        assert text.index("MPI_Sendrecv") < text.index("MPI_Irecv")


# ---- validation of the text

DAMAGES = {
    "a bound": ("i < ROWS - 1;", "i < ROWS;"),
    "a start": ("i = 1;", "i = 2;"),
    "the body": ("(A[i+1][j] + A[i][j+1])", "(A[i+1][j] + A[i][j])"),
    "the message": ("&A[0][0], COLS", "&A[0][0], COLS-1"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_text_is_not_proved(
    damage: str, tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does the second proof, on the text, find a mistake of what writes it?"""
    old, new = DAMAGES[damage]
    emit = driver.RegionEmitter.emit

    def damaged(self: object, *given: object) -> object:
        made = emit(self, *given)  # type: ignore[arg-type]
        assert old in made.text
        return replace(made, text=made.text[::-1].replace(old[::-1], new[::-1], 1)[::-1])

    monkeypatch.setattr(driver.RegionEmitter, "emit", damaged)
    found = analyze(LISTING, arguments, transformation_names=frozenset({"warm-send"}))
    assert not found.patches
    assert "could not be proved" in found.missed[0].reason


@pytest.mark.parametrize(
    ("old", "new"),
    [(r"(MPI_Irecv\([^,]*), COLS", r"\1, COLS - 1"), (r"(MPI_Isend.*)requests\[1\]", r"\1requests[0]")],
    ids=["a count", "a request"],
)
def test_a_damaged_begin_is_not_proved(
    old: str, new: str, tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does the second proof compare the calls that begin messages with the call that they replace?"""
    emit = driver.RegionEmitter.emit

    def damaged(self: object, *given: object) -> object:
        made = emit(self, *given)  # type: ignore[arg-type]
        text, count = re.subn(old, new, made.text)
        assert count
        return replace(made, text=text)

    monkeypatch.setattr(driver.RegionEmitter, "emit", damaged)
    found = analyze(LISTING, arguments, transformation_names=frozenset({"overlap"}))
    assert not found.patches
    assert "could not be proved" in found.missed[0].reason


def test_a_lost_else_is_not_proved(tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a guard without the original code in its 'else' noticed?"""
    monkeypatch.setattr(driver.RegionEmitter, "_original_text", lambda self: "")
    found = analyse_c(tmp_path, arguments, step(EXCHANGE + SWEEP + "b[i * m + j] = a[(i + 1) * m + j];"))
    assert names(found) <= {"overlap"}  # which needs no guard here
    assert all("else" not in patch.rewritten for patch in found.patches)


# ---- hostile input


def test_hostile_files_are_refused_and_left_unchanged(tmp_path: Path, arguments: list[str]) -> None:
    """Does what is no readable C end in an error that says so?"""
    for name, content, said in (
        ("syntax.c", b"int main( {", "does not compile"),
        ("missing.c", b'#include "nowhere.h"\n', "nowhere.h"),
        ("latin1.c", b"/* \xe9 */\nint x;\n", "not UTF-8"),
        ("binary.c", bytes(range(256)), "not UTF-8"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(UsageError, match=said):
            analyze(path, arguments)
        assert path.read_bytes() == content
    with pytest.raises(UsageError, match="cannot be read"):
        analyze(tmp_path, arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEAD + "int f(a, n) double *a; int n; { return MPI_Send(a, n, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD); }\n",
        HEAD + "void f(double *a) { for (;;) { MPI_Barrier(MPI_COMM_WORLD); if (a[0] > 1) break; } }\n",
        HEAD
        + "void f(double *a, int n) { switch (n) { case 1: MPI_Send(a, n, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD); } }\n",
        step(EXCHANGE + SWEEP + "b[i * m + j] = a[i * m + j] / (m - m);"),
    ],
    ids=["empty", "K&R", "endless", "switch", "division"],
)
def test_odd_programs_do_not_crash(text: str, tmp_path: Path, arguments: list[str]) -> None:
    """Does odd C give an analysis?"""
    assert analyse_c(tmp_path, arguments, text).path.name == "program.c"


def test_templates_and_classes_do_not_crash(tmp_path: Path, arguments: list[str]) -> None:
    """Does C++ with templates give an analysis, a vector's elements a patch, and a new loop its variable's type?"""
    path = tmp_path / "program.cpp"
    loop = "for (int i = 1; i < n; ++i) b[i] = a[i] * 2;"
    call = "MPI_Sendrecv(&a[1], 1, MPI_DOUBLE, 0, 0, &a[0], 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);"
    path.write_text(
        "#include <mpi.h>\n#include <vector>\ntemplate <class T> T twice(T x) { return x + x; }\n"
        f"void f(int n) {{ std::vector<double> a(n), b(n); for (int t = 0; t < 3; ++t) {{ {call} {loop} }} }}\n"
        f"void g() {{ double a[9], b[9]; {call} {loop.replace('int i = 1', 'auto i = 1u').replace('n;', '9;')} }}\n"
    )
    found = analyze(path, arguments)
    assert names(found) >= {"warm-send", "overlap"}
    other = next(one for one in found.patches if one.function == "g" and one.transformation == "warm-send")
    assert "for (unsigned int i = 1; i < 2; ++i)" in other.rewritten  # an int would be another type


@pytest.mark.slow
def test_ten_thousand_lines_in_one_function(tmp_path: Path, arguments: list[str]) -> None:
    """Does a huge function end, with a patch or with reasons?"""
    text = step("".join(f"b[{number}] = a[{number}];\n" for number in range(10_000)) + EXCHANGE)
    found = analyse_c(tmp_path, arguments, text)
    assert found.patches or found.missed


# ---- the verb


@pytest.mark.slow
def test_the_diff_applies_and_apply_writes_the_same(tmp_path: Path) -> None:
    """Is what is printed a diff that git applies, and does --apply write the same file?"""
    path = tmp_path / "listing1.c"
    shutil.copy(LISTING, path)
    done = CliRunner().invoke(app, ["rewrite", str(path), "--json"])
    assert done.exit_code == 0
    patch = json.loads(done.stdout)["patches"][0]
    (tmp_path / "a.diff").write_text(patch["diff"])
    subprocess.run(["git", "apply", "--unsafe-paths", "--directory=/", "a.diff"], cwd=tmp_path, check=True)
    by_git = path.read_text()
    shutil.copy(LISTING, path)
    refused = CliRunner().invoke(app, ["rewrite", str(path), "--apply"])
    assert refused.exit_code != 0 and path.read_text() == LISTING.read_text(), "nobody has verified it"
    done = CliRunner().invoke(app, ["rewrite", str(path), "--apply", "--unverified"])
    assert done.exit_code == 0 and "Not verified: no run has compared" in done.output
    assert path.read_text() == by_git != LISTING.read_text()


def test_a_long_patch_is_only_a_note(tmp_path: Path) -> None:
    """Is a patch that makes code more than three times as long printed only with an option that names it?"""
    path = tmp_path / "long.c"
    text = (
        "#include <mpi.h>\nvoid step(double *restrict u, double *restrict v, double *restrict w, int n, int up) {\n"
        "#pragma omp parallel for\n  for (int i = 1; i <= n; i++) v[i] = w[i] + u[i];\n"
        "  MPI_Sendrecv(v + n, 1, MPI_DOUBLE, up, 0, u, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n}\n"
    )
    path.write_text(text)
    done = CliRunner().invoke(app, ["rewrite", str(path), "--apply", "--unverified"])
    assert "not printed: warm-send, overlap: more than 3 times as long" in done.output.replace("\n", " ")
    assert path.read_text() == text and "+++" not in done.output
    CliRunner().invoke(app, ["rewrite", str(path), "--apply", "--unverified", "--only", "overlap"])
    assert "MPI_Waitall" in path.read_text()


def test_patches_of_several_places_are_applied_together(tmp_path: Path, arguments: list[str]) -> None:
    """Are two places of a file rewritten at once, each by its best variant?"""
    one = step(EXCHANGE + SWEEP + "b[i * m + j] = a[i * m + j];")
    text = one + one.removeprefix(HEAD).replace("step", "other")
    found = analyse_c(tmp_path, arguments, text)
    chosen = select_best_patches(found.patches)
    assert [patch.function for patch in chosen] == ["step", "other"]
    whole = apply_patches(chosen)
    assert whole.count("} else {") == 2
    assert not analyse_c(tmp_path, arguments, whole, transformation_names=frozenset({"cut"})).patches


def test_wrong_options_are_errors(tmp_path: Path) -> None:
    """Do a wrong transformation and a wrong function name end with a message that helps?"""
    done = CliRunner().invoke(app, ["rewrite", str(LISTING), "--only", "overlapp"])
    assert isinstance(done.exception, UsageError)
    assert "overlap" in str(done.exception)
    done = CliRunner().invoke(app, ["rewrite", str(LISTING), "--function", "nowhere"])
    assert isinstance(done.exception, UsageError)


def test_notes_are_sarif(tmp_path: Path) -> None:
    """Does the log have a result with a fix for each patch?"""
    file = tmp_path / "log.sarif"
    assert CliRunner().invoke(app, ["rewrite", str(LISTING), "--sarif", str(file)]).exit_code == 0
    results = json.loads(file.read_text())["runs"][0]["results"]
    rules = {f"rewrite-{name}" for name in ("warm-send", "late-receive", "reverse", "overlap")}
    assert {one["ruleId"] for one in results} == rules
    assert all(one["fixes"] for one in results)


def test_the_second_proof_stands_alone(tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the proof on the text refuse an illegal order that the first proof lets pass?"""
    monkeypatch.setattr(PolyhedralModel, "reachable_from", lambda self, start, along: isl.UnionSet("{ }"))
    monkeypatch.setattr(legality, "find_violations", lambda model, order: iter(()))
    found = analyse_c(tmp_path, arguments, step(KINDS["RAW"][0]))
    assert not found.patches
    assert "breaks a dependence" in found.missed[0].reason
