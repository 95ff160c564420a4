"""Does `nearfield rewrite --commit-message` say what changes, why, what is measured, and what is assumed?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner

from nearfield.cli.verbs import app
from nearfield.rewrite.commit_message import LINE_WIDTH, SUBJECT_BY_TRANSFORMATION, commit_message
from nearfield.rewrite.model.schedules import TRANSFORMATION_NAMES as SCHEDULES
from nearfield.rewrite.patch import Patch
from nearfield.rewrite.placement import PLACEMENT_NAMES as PLACEMENTS

LISTING = Path(__file__).parents[1] / "programs" / "listing1.c"
PATCH = Patch(
    Path("stencil.c"), "a;\nb;\n", "b;\na;\n", "step", "overlap", "computes while messages travel", (1, 2), ["n >= 3"]
)


def test_every_transformation_has_a_subject() -> None:
    assert set(SUBJECT_BY_TRANSFORMATION) == {*SCHEDULES, *PLACEMENTS}


def test_the_message_has_a_short_subject_and_says_what_is_assumed() -> None:
    subject, blank, *rest = commit_message([PATCH]).splitlines()
    assert subject == "Compute in step while messages travel" and not blank
    assert all(len(line) <= LINE_WIDTH for line in rest)
    text = " ".join(rest)
    assert "stencil.c, lines 1 to 2 (step), overlap: computes while messages travel" in text
    assert "- n >= 3" in rest and "- no call of MPI fails" in text


def test_the_file_is_named_where_the_function_is_too_long() -> None:
    subject = commit_message([replace(PATCH, function="f" * LINE_WIDTH)]).splitlines()[0]
    assert subject == "Compute in stencil.c while messages travel"


def test_what_was_not_run_is_not_claimed() -> None:
    text = commit_message([PATCH])
    assert "Measured: nothing." in text and "none, this is not verified" in text


def test_the_measured_gain_has_an_interval_and_verifies_nothing() -> None:
    gain = "a gain: in total 1.20x as fast, 1.10x to 1.30x"
    text = commit_message([replace(PATCH, checks=[gain], measured_checks=[gain])])
    assert f"Measured: {gain}." in text and "none, this is not verified" in text
    text = commit_message([replace(PATCH, checks=["verified: the same bits"])])
    assert "Runs of both versions: verified: the same bits." in text and "Measured: nothing." in text


def test_several_places_have_one_message() -> None:
    text = commit_message([PATCH, replace(PATCH, changed_lines=(9, 12), assumptions=["m >= 3"])])
    assert text.startswith("Move messages at 2 places of stencil.c\n")
    assert "lines 9 to 12" in text and "- m >= 3" in text and text.count("- n >= 3") == 1


def test_the_command_writes_the_message_of_the_printed_patch(tmp_path: Path) -> None:
    file = tmp_path / "message.txt"
    done = CliRunner().invoke(app, ["rewrite", str(LISTING), "--only", "overlap", "--commit-message", str(file)])
    assert done.exit_code == 0
    assert file.read_text().startswith("Compute in main while messages travel\n\nlisting1.c, lines ")


def test_no_message_is_written_without_a_patch(tmp_path: Path) -> None:
    source, file = tmp_path / "empty.c", tmp_path / "message.txt"
    source.write_text("#include <mpi.h>\nint nothing(void) { return 0; }\n")
    done = CliRunner().invoke(app, ["rewrite", str(source), "--commit-message", str(file)])
    assert done.exit_code == 0 and not file.exists()
