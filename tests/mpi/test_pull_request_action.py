"""Does the script of the GitHub action run a real program, and write comment and outputs whatever comes out?"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from test_run import no_single_copy
from tuning import write

from nearfield import mpi
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.mpi import Installation, launch_command

pytestmark = pytest.mark.turn(0)

ROOT = Path(__file__).parents[2]
MEASURE = ROOT / "packaging/github-action/measure"
PROFILE = ROOT / "tests/data/leo3-simulated"


def measured(folder: Path, environment: dict[str, str], **inputs: object) -> subprocess.CompletedProcess[str]:
    """Runs the script with these inputs of the action."""
    set_by_github = {"GITHUB_OUTPUT": folder / "outputs", "GITHUB_STEP_SUMMARY": folder / "summary"}
    variables = {name: str(value) for name, value in {**set_by_github, **inputs}.items()}
    return subprocess.run(
        [MEASURE, sys.prefix, folder / "results"], capture_output=True, text=True, timeout=350, cwd=folder,
        env={**os.environ, **environment, **variables}, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def outputs(folder: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (folder / "outputs").read_text().splitlines())


@pytest.mark.families
@pytest.mark.timeout(400)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_program_is_compared_and_advised(installation: Installation, tmp_path: Path) -> None:
    """Is the program built first, are both verbs run on it, and does the summary have the comment?"""
    rules = write(tmp_path, no_single_copy(installation))
    argv, environment = launch_command(installation, [str(mpi.build_target(installation)), "--transport-probe"], 2)
    done = measured(
        tmp_path, environment, COMMAND=shlex.join(argv), BUILD="nearfield --version > built", RULES=rules,
        PROFILE=PROFILE, RUNS=2, FAIL_IF_SLOWER="5%",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = outputs(tmp_path)
    assert found["compare-exit-code"] == str(NOT_DECIDED_EXIT_CODE) and found["advise-exit-code"] in (
        "0",
        str(NOT_DECIDED_EXIT_CODE),
    )
    text = Path(found["comment"]).read_text()
    assert "a verdict needs at least 6 runs of each" in text and "**not decided**" in text
    assert "nearfield advise` ended" not in text and "What was examined" in text, done.stderr
    assert (tmp_path / "summary").read_text() == text and (tmp_path / "built").read_text().startswith("nearfield ")
    assert Path(found["sarif"]).is_file()


def test_a_program_that_fails_gets_a_comment(tmp_path: Path) -> None:
    """Does the comment say what failed, and does the step go on to write it?"""
    done = measured(
        tmp_path, {}, COMMAND="no-such-program 'two words'", RULES=tmp_path / "none.toml", PROFILE=PROFILE, RUNS=2
    )
    assert done.returncode == 0, done.stderr
    found = outputs(tmp_path)
    assert found["compare-exit-code"] not in ("0", "1", "6") and "sarif" not in found
    text = Path(found["comment"]).read_text()
    assert text.count("**Cannot tell**: `nearfield") == 2 and "no-such-program" in text


def test_a_build_that_fails_ends_the_step(tmp_path: Path) -> None:
    done = measured(tmp_path, {}, COMMAND="true", BUILD="false | true", RULES="none.toml", PROFILE=PROFILE)
    assert done.returncode == 1 and not (tmp_path / "results/comment.md").exists()
