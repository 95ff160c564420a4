"""Does what `run` preloads reach the ranks on other nodes, and is it known where it does?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nearfield.base import all_nodes

LIBRARY = "/somewhere/libnearfield_collectives.so"
ENV = {"LD_PRELOAD": LIBRARY, "NEARFIELD_HEAP": "x=1", "HOME": "/root"}


def test_open_mpi_is_given_the_list_of_variables() -> None:
    """Does the list have what nearfield sets, after what the user has listed?"""
    assert all_nodes.open_mpi_forwarding_variable(["/usr/bin/mpirun", "-n", "4", "./app"], ENV) == {
        all_nodes.FORWARDING_VARIABLE: "LD_PRELOAD;NEARFIELD_HEAP=x=1"
    }
    listed = {**ENV, all_nodes.FORWARDING_VARIABLE: "OMP_NUM_THREADS;NEARFIELD_HEAP=x=0"}  # the value has changed since
    assert all_nodes.open_mpi_forwarding_variable(["mpiexec"], listed) == {
        all_nodes.FORWARDING_VARIABLE: "OMP_NUM_THREADS;LD_PRELOAD;NEARFIELD_HEAP=x=1"
    }


BY_MCA = ["mpirun", "--mca", "mca_base_env_list", "A", "./app"]


@pytest.mark.parametrize("argv", [["mpirun", "-x", "A", "./app"], BY_MCA, ["./app"], ["bash", "job.sh"]])
def test_a_command_that_forwards_by_itself_or_is_no_launcher_is_left_alone(argv: list[str]) -> None:
    assert all_nodes.variables_for_all_nodes(argv, ENV) == {}


@pytest.mark.parametrize(
    ("kind", "said", "reaches"),
    [("nfs4", "", True), ("ext4", "", False), ("", "", False), ("ext4", "1", True), ("nfs4", "0", False)],
)
def test_all_nodes_have_what_is_on_a_shared_file_system(
    monkeypatch: pytest.MonkeyPatch, kind: str, said: str, reaches: bool
) -> None:
    """Is the library expected on all nodes only if they share its file system or the user says so?"""
    monkeypatch.setattr(all_nodes, "file_system_of_file", lambda file: kind)
    env = {**ENV, **({all_nodes.ALL_NODES_VARIABLE: said} if said else {})}
    added = all_nodes.variables_for_all_nodes(["srun", "./app"], env)
    assert added.get("NEARFIELD_COLLECTIVES", "") == ("all_nodes=1" if reaches else "")


def test_all_nodes_must_get_the_variables() -> None:
    """If the command forwards variables, is the library expected on all nodes only if those it needs are among them?"""
    env = {**ENV, all_nodes.ALL_NODES_VARIABLE: "1"}
    assert not all_nodes.loads_on_all_nodes(["mpirun", "-x", "LD_PRELOAD", "./app"], env)
    assert all_nodes.loads_on_all_nodes(["mpirun", "-x", "LD_PRELOAD", "-x", "NEARFIELD_COLLECTIVES", "./app"], env)


def test_settings_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_nodes, "file_system_of_file", lambda file: "lustre")
    env = {**ENV, "NEARFIELD_COLLECTIVES": "summary=1"}
    assert all_nodes.variables_for_all_nodes(["mpirun"], env)["NEARFIELD_COLLECTIVES"] == "summary=1,all_nodes=1"


def test_the_file_system_of_a_file_is_found(tmp_path: Path) -> None:
    assert all_nodes.file_system_of_file("/proc/self/status") == "proc"
    assert all_nodes.file_system_of_file(str(tmp_path)) not in ("", "proc")
