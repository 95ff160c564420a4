"""The programs of these tests are built once for all processes that run them."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Returns the folder of the tests' programs, which the processes of pytest-xdist share."""
    if worker_id == "master":
        return tmp_path_factory.mktemp("programs")
    shared = tmp_path_factory.getbasetemp().parent / "programs"
    shared.mkdir(exist_ok=True)
    return shared
