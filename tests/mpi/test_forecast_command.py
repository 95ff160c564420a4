"""Do `nearfield forecast`, the log of `nearfield run` and the gate of `nearfield compare` end as a script expects?"""

import json
from pathlib import Path

import pytest
from cli_runner import Ended
from test_observe_mpi import compiled, wrapper
from tuning import nearfield, rules_for, write

from nearfield import mpi
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.base.paired import Gain
from nearfield.cli.verbs.compare import gate_exit_code
from nearfield.mpi import Installation, launch_command

pytestmark = pytest.mark.turn(0)

OPEN_MPI = Installation("openmpi-5.0.11", "openmpi", "5.0.11", Path("/"), Path("/"), Path("/"), "made up")


def short_run(inst: Installation, programs: Path) -> tuple[list[str], dict[str, str]]:
    """Returns the command of a program that ends within milliseconds, and its environment."""
    compiler = wrapper(inst, "c")
    assert compiler
    return launch_command(inst, [str(compiled(inst, compiler, "forecast_sizes.c", programs))], 2)


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi.build_target(inst, mpi.FORECAST_TARGET)


@pytest.mark.families
def test_a_short_run_is_not_decided(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """Is what was recorded reported, with the reason why it proves nothing, as data and with an exit code of its own;
    and is the record stored where that is requested?"""
    argv, env = short_run(installation, programs)
    out = tmp_path / "kept"
    done = nearfield("forecast", "--json", "--out", out, "--", *argv, env=env)
    assert done.code == NOT_DECIDED_EXIT_CODE, done.err
    result = json.loads(done.out[done.out.index("{") :])
    reasons = " ".join(result["undecided"])
    assert not result["decided"] and ("too short" in reasons or "had no core" in reasons), (
        "the latter where much else runs"
    )
    assert len(result["per_rank"]) == result["ranks"] == len(list(out.glob("*.rank"))) == 2
    assert {"MPI_Sendrecv", "MPI_Allreduce"} <= {call["name"] for call in result["calls"]}
    assert {one["means"] for one in result["ceilings"]} == {
        "rules and shared heap",
        "direct collectives",
        "halo library",
    }
    taken = nearfield("forecast", "--out", out, "--", *argv, env=env)
    assert taken.code == 2 and "is not empty" in taken.words


def test_a_failing_program_keeps_the_exit_code(installations: list[Installation]) -> None:
    """Is a command that fails before MPI begins reported as that, and not as a program that cannot be recorded?"""
    argv, env = launch_command(installations[0], ["sh", "-c", "exit 9"], 1)
    done = nearfield("forecast", "--", *argv, env=env)
    assert done.code == 9 and "exit code 9 before any rank called MPI" in done.words and done.out == ""


def test_each_job_leaves_a_line(installations: list[Installation], programs: Path, tmp_path: Path) -> None:
    """By --log and by the variable: is a line added, also for a job that fails and for one whose MPI nobody knows, and
    is nothing printed of it?"""
    argv, env = short_run(installations[0], programs)
    rules, log = write(tmp_path, rules_for(OPEN_MPI, "ob1 / sm", {})), tmp_path / "jobs.jsonl"

    def run(*words: str, **more: str) -> Ended:
        return nearfield("run", "--force", "--rules", rules, *words, env={**env, **more})

    assert run("--log", str(log), "--", *argv).code == 0
    assert run("--", *argv, "exit", NEARFIELD_LOG=str(log)).code != 99
    assert run("--log", str(log), "--", "sh", "-c", "exit 3").code == 3
    first, second, third = (json.loads(line) for line in log.read_text().splitlines())
    assert first["ranks"] == 2 and first["exit_code"] == 0 and 0 < first["mpi_share"] <= 1
    assert first["rules"] == str(rules) and argv[-1] in first["command"] and len(first["ceilings"]) == 3
    assert second["ranks"] == 2 and not second["decided"]
    assert third["exit_code"] == 3 and third["decided"] is False and "ranks" not in third
    unwritable = run("--log", str(tmp_path / "none" / "log"), "--", *argv)
    assert unwritable.code == 0 and "no line was added to" in unwritable.words


@pytest.mark.parametrize(
    ("gain", "code"),
    [
        (Gain(1.1, 1.05, 1.2, 10), 0),
        (Gain(0.99, 0.97, 1.0, 10), NOT_DECIDED_EXIT_CODE),
        (Gain(0.985, 0.981, 1.3, 10), 0),
        (Gain(0.9, 0.85, 0.97, 10), 1),
        (Gain(1.1, 1.05, 1.2, 5), NOT_DECIDED_EXIT_CODE),
    ],
)
def test_the_gate_of_compare_fails_closed(gain: Gain, code: int) -> None:
    """Is tuned let through only if its interval is above the limit of 2 %, and are few or noisy runs no success?"""
    assert gate_exit_code(gain, 0.02) == code
