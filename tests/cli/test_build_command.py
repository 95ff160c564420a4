"""Does `nearfield build` leave nothing to be built on first use, and say truly what is there?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nearfield import mpi
from nearfield.base.errors import MpiError, UsageError
from nearfield.cli import app
from nearfield.cli.verbs.build import BuildProduct, _build_product, products_to_build
from nearfield.mpi import build


def test_afterwards_everything_is_there() -> None:
    """Is each product there that is said to be, and is that said of a second time?"""
    inst = mpi.choose_mpi(None)
    first = CliRunner().invoke(app, ["build", "--mpi", inst.name, "--json"])
    results = json.loads(first.stdout)
    assert first.exit_code == 0 and {one["state"] for one in results} <= {"built", "there already", "not possible"}
    assert all(Path(one["path"]).exists() for one in results if one["path"])
    assert all(
        mpi.is_built(inst, target) for target in (mpi.ENGINE_TARGET, mpi.HALO_TARGET, mpi.PROFILING_LAYER_TARGET)
    )
    again = CliRunner().invoke(app, ["build", "--mpi", inst.name])
    assert again.exit_code == 0 and ": built" not in again.stdout
    assert len(again.stdout.splitlines()) == len(results)


def test_no_target_is_forgotten() -> None:
    """Is every target that is built on first use built for some MPI, or by settings per pair?"""
    from nearfield.cli.verbs.build import OF_EACH_MPI, PER_PAIR

    assert {*OF_EACH_MPI, *(target for target, _ in PER_PAIR.values())} == set(build._SOURCE_FOLDERS_BY_TARGET)


@pytest.mark.parametrize(("error", "state"), [(UsageError("x is missing"), "not possible"), (MpiError("x"), "failed")])
def test_what_is_missing_is_no_failure(error: Exception, state: str) -> None:
    """Are an optional program that is missing and a build that fails distinguished, each with its reason?"""

    def make(say: object) -> Path:
        raise error

    result = _build_product(BuildProduct("a tool", None, lambda: False, make))
    assert (result.state, result.path) == (state, None) and str(error) in str(result)


def test_products_are_named_once() -> None:
    """Can each line be distinguished from the others?"""
    named = [(product.name, product.mpi) for product in products_to_build(mpi.find_usable_mpis())]
    assert len(named) == len(set(named)) and {inst.name for inst in mpi.find_usable_mpis()} <= {mpi for _, mpi in named}
