"""How a launch ended, in words: what the launcher itself said, once, and what to do."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from nearfield.base.errors import MeasurementError
from nearfield.measure.live.launch import LaunchJob, LaunchResult, _read_result
from nearfield.measure.live.layout import RankGroup, RankPlace, read_hostfile
from nearfield.mpi import FinishedLaunch

HERE = socket.gethostname()


def ending(stderr: str, folder: Path, hosts: tuple[str, str] = ("", ""), *, timed_out: bool = False) -> LaunchResult:
    """Returns the ending of a launch whose ranks wrote nothing to their output."""
    (folder / "out.jsonl").write_text("")
    job = LaunchJob(
        RankGroup(("pair",), tuple(RankPlace(cpu, host) for cpu, host in enumerate(hosts))), 0, {"pingpong": 1.0}
    )
    finished = FinishedLaunch(("mpirun", "-np", "2", "my engine"), 255, 0.1, timed_out, "", stderr)
    return _read_result(job, folder / "out.jsonl", finished)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("ssh: Could not resolve hostname nodec: Name or service not known", "getent hosts nodec"),
        ("root@nodec: Permission denied (publickey,password).", "ssh nodec true"),
        ("ssh: connect to host nodec port 22: Connection refused", "start sshd there"),
        ("[mpiexec] HYDU_create_process: execvp error on file /usr/bin/ssh", "install ssh"),
        ("something else went wrong", "ssh nodec true"),
    ],
)
def test_a_host_that_cannot_be_reached_ends_the_probe(said: str, remedy: str, tmp_path: Path) -> None:
    """Is it an error, which ends the other launches, too, with ssh's own words, the hosts and a remedy?"""
    with pytest.raises(MeasurementError) as caught:
        ending(f"-----\n{said}\n-----\nORTE was unable to start\n", tmp_path, (HERE, "nodec"))
    assert caught.value.message == f"no rank could be started on {HERE}, nodec: {said}"
    assert remedy in caught.value.remedy


def test_the_message_of_a_rank_comes_before_that_of_the_launcher(tmp_path: Path) -> None:
    """If a rank said why it ended, is that reported, whatever a launcher warns of in words like those of ssh?"""
    warned = "[a:1] plm:ssh: setpgid(7,7) failed in parent with errno=Permission denied(13)"
    with pytest.raises(MeasurementError) as caught:
        ending(f"{warned}\nnearfield-probe: binding: cannot bind to CPU 1000\n", tmp_path, (HERE, "nodec"))
    assert caught.value.message == "cannot bind to CPU 1000"


def test_the_message_of_a_rank_comes_before_a_silence(tmp_path: Path) -> None:
    """If the launcher hung after a rank had said why it ended, is that reported, and not how long it was silent?"""
    with pytest.raises(MeasurementError, match="cannot bind to CPU 1000"):
        ending("nearfield-probe: binding: cannot bind to CPU 1000\n", tmp_path, timed_out=True)
    assert ending("", tmp_path, timed_out=True).reason == ""  # the watcher's words, of which there are none here


def test_a_silent_launch_reports_the_command(tmp_path: Path) -> None:
    """Does it tell how it was started, so that a person can see the cause by hand?"""
    reason = "exit code 255: it wrote nothing, and was started as: mpirun -np 2 'my engine'"
    assert ending("", tmp_path).reason == reason
    with pytest.raises(MeasurementError) as caught:
        ending("", tmp_path, (HERE, "nodec"))
    assert "was started as: mpirun" in caught.value.message


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_localhost_is_this_machine(name: str, tmp_path: Path) -> None:
    """Does localhost become the name by which its ranks are checked?"""
    file = tmp_path / "hosts"
    file.write_text(f"{name} slots=2\nother\n")
    assert [node.host for node in read_hostfile(file, (0, 1, 2))] == [HERE, "other"]
