"""Small simulations of collectives on POWER5, as tests run them."""

from pathlib import Path

from typer.testing import CliRunner

from nearfield.base.errors import NearfieldError
from nearfield.base.progress import ignore_progress
from nearfield.cli import app
from nearfield.machine import load_machine
from nearfield.measure.row import Row
from nearfield.measure.sim import pool
from nearfield.measure.sim.operations import OperationRequest
from nearfield.measure.sim.session import RequestOutcome, add_to_profile
from nearfield.measure.sim.store import simulate_rows

SMALL = ["--nodes", "8", "--ranks-per-node", "1", "--sizes", "4K,16K", "--repetitions", "2", "--jobs", "1"]


def run(*arguments: str) -> str:
    """Returns what the command prints. Raises NearfieldError as a user would see it."""
    result = CliRunner().invoke(app, ["simulate", *arguments])
    if isinstance(result.exception, NearfieldError):
        raise result.exception
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def request(**changed) -> OperationRequest:
    defaults = {
        "machine": load_machine("power5-redstorm"),
        "names": ("bcast",),
        "sizes": (4096, 16384),
        "nodes": (8,),
        "policies": ("payload-l3",),
        "repetitions": 2,
    }
    return OperationRequest(**(defaults | changed))


def rows_of(operations: OperationRequest, jobs: int = 1) -> list[Row]:
    return simulate_rows(operations.cases(), pool.make_runner_on_cores(jobs))


def add_records(
    operations: OperationRequest, out: Path, runner: pool.CaseRunner | None = None, command: str = ""
) -> RequestOutcome:
    return add_to_profile(
        operations.machine, operations.cases(), runner or pool.make_runner_on_cores(1), ignore_progress, out, command
    )
