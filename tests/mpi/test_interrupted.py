"""However a probe is ended, is what was measured kept, can it be completed, and is nothing left running?

Ranks are held still by a signal where a test must come before they are done.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_runner import CORES, Running, list_processes, probe, restrict_to_cpus, start_probe

import nearfield
from nearfield.mpi import Installation, guard
from nearfield.mpi.shm import remove_stale_shm, snapshot_shm

pytestmark = [
    pytest.mark.skipif(len(CORES) < 2, reason="two ranks that spin need two cores"),
]
# The floor is measured first, then pollution, both as long; long messages keep both busy for a while.
SCENARIOS = ["--scenario", "pollution", "--scenario", "floor", "--sizes", "64,1K,4K,16K,64K,256K,1M,4M"]
WHILE = ["--quick", "--budget", "15", *SCENARIOS]  # 12 s for starting twice, 1.5 s a launch
FLOOR_BEGUN = '"progress","scenario":"floor"'
FLOOR_DONE = '"progress","scenario":"pollution"'


@pytest.fixture(autouse=True)
def two_cpus() -> Iterator[None]:
    """However big the machine, there is one pair, launched twice."""
    with restrict_to_cpus(CORES[:2]):
        yield


def done_scenarios(work: Path) -> dict[str, set[str]]:
    """File -> the scenarios it has measured to the end."""
    ended = {}
    for file in sorted(work.glob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
        ended[file.name] = {m["scenario"] for m in lines if m["type"] == "scenario_end" and not m["cut"]}
    return ended


def states(out: Path) -> list[str]:
    return [launch.state for launch in nearfield.load(out).run.launch]


def completes(out: Path) -> None:
    """`--resume` ends in a whole profile; what was done is not measured again, and what was not is measured once."""
    before = done_scenarios(out.with_name(out.name + ".launches"))
    done = probe("--resume", "--keep-samples", "--out", out)
    assert done.code == 0, done.err
    profile = nearfield.load(out)
    assert profile.run.complete
    assert set(profile.records["scenario"]) == {"pollution", "floor"}
    assert all(launch.seconds > 0 for launch in profile.run.launch)
    for launch in (f"pair-{CORES[0]}-{CORES[1]}.{number}" for number in (0, 1)):
        files = done_scenarios(out / "samples")
        ended = [name for file, names in files.items() if file.startswith(launch) for name in names]
        assert sorted(ended) == ["floor", "pollution"], files
    assert {file: names for file, names in before.items() if names}.items() <= done_scenarios(out / "samples").items()


def hold(running: Running) -> None:
    """Stops the ranks, whatever they do."""
    running.until("ranks", lambda: len(running.ranks()) == 2)
    for pid in running.ranks():
        os.kill(pid, signal.SIGSTOP)


def release(running: Running) -> None:
    for pid in running.ranks():
        os.kill(pid, signal.SIGCONT)


def test_a_build_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does Ctrl-C act while the engine is being built, though nearfield only waits then, and do the compilers end?"""
    monkeypatch.setenv("NEARFIELD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CCACHE_DISABLE", "1")  # A hit starts no compiler, and ccache may rewrite the paths looked for.

    def compilers() -> list[int]:
        return [
            process.pid
            for process in list_processes()
            if "cc1plus" in process.words[0] and str(tmp_path) in str(process)
        ]

    with start_probe(tmp_path / "out", "--quick") as running:
        running.until("a compiler", lambda: bool(compilers()))
        running.interrupt()
        assert running.finish(timeout_s=10).code == 130
        running.until("no compiler", lambda: not compilers(), 5)


@pytest.mark.turn(1)
def test_interrupt_saves_and_resume_completes(tmp_path: Path) -> None:
    """After one Ctrl-C, is there a valid profile that says that it is not whole, and does --resume complete it?"""
    out = tmp_path / "p"
    with start_probe(out, *WHILE) as running:
        running.until_written(FLOOR_DONE)
        hold(running)
        running.interrupt()
        running.until("stop file", (running.work / "stop").exists)
        release(running)
        done = running.finish()
    assert done.code == 130
    assert "the measurements are in" in done.words
    assert "--resume" in done.words
    profile = nearfield.load(out)
    assert not profile.run.complete
    assert states(out) == ["stopped", "pending"]
    assert "floor" in set(profile.records["scenario"])
    refused = probe("--quick", "--out", out)
    assert refused.code == 4
    assert "there is an interrupted probe" in refused.words
    completes(out)


def test_interrupt_before_anything_is_measured(tmp_path: Path) -> None:
    """Is a Ctrl-C right at the start an end without a profile, and without anything in the way of the next?"""
    with start_probe(tmp_path / "p", *WHILE) as running:
        running.until("work folder", running.work.exists)
        hold(running)
        running.interrupt()
        running.until("stop file", (running.work / "stop").exists)
        running.interrupt()
        done = running.finish()
    assert done.code == 130
    assert "stopped before anything was measured" in done.words
    assert not list(tmp_path.iterdir())


def test_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    """If ranks do not react, does a second Ctrl-C end them, and keep what was measured all the same?"""
    out = tmp_path / "p"
    with start_probe(out, *WHILE) as running:
        running.until_written(FLOOR_DONE)
        hold(running)
        running.interrupt()
        running.until("stop file", (running.work / "stop").exists)
        assert len(running.ranks()) == 2
        running.interrupt()
        done = running.finish(20)
        assert not running.ranks()
    assert done.code == 130
    assert states(out) == ["stopped", "pending"]
    assert "floor" in set(nearfield.load(out).records["scenario"])


@pytest.mark.turn(0)
def test_killed_rank_is_reported_and_resume_completes(tmp_path: Path) -> None:
    """If a rank is killed, is the rest measured and saved, the launch named as failed, and completed by --resume?"""
    out = tmp_path / "p"
    before = snapshot_shm()
    with start_probe(out, *WHILE) as running:
        running.until_written(FLOOR_DONE)
        os.kill(max(running.ranks()), signal.SIGKILL)
        done = running.finish()
    assert done.code == 5
    assert "1 of 2 launches failed" in done.words
    assert "signal 9" in done.words.lower() or "killed" in done.words.lower()
    assert f"--resume --out {out}" in done.words
    assert states(out) in (["failed", "complete"], ["failed", "stopped"])  # by the budget, on a busy machine
    assert not nearfield.load(out).run.complete
    assert not left_in_shm(before)
    completes(out)


def left_in_shm(before: set[str]) -> list[str]:
    """Removes and returns the files that the probe should have removed."""
    return remove_stale_shm(before)


@pytest.mark.families
def test_killed_probe_leaves_nothing_running(installation: Installation, tmp_path: Path) -> None:
    """If nearfield itself is killed, do the ranks end, and go their files in /dev/shm and in the temporary folder?"""
    before = snapshot_shm()
    with start_probe(tmp_path / "p", *WHILE, "--mpi", installation.name) as running:
        running.until_written(FLOOR_BEGUN)
        assert len(running.ranks()) == 2
        (watcher,) = [p.pid for p in list_processes() if p.parent == running.process.pid and guard.__file__ in p.words]
        running.process.kill()
        running.until("ranks end", lambda: not running.ranks(), 20)
        running.until("the guard is done", lambda: watcher not in [p.pid for p in list_processes()], 20)
        assert not left_in_shm(before)
        assert not list(running.scratch.iterdir())
    assert not (tmp_path / "p").exists()
    assert (tmp_path / "p.launches" / "request.json").exists(), "what was measured can be resumed"


@pytest.mark.turn(1)
def test_killed_probe_can_be_resumed(tmp_path: Path) -> None:
    """After a kill, does a new probe refuse to throw the work away, and --resume complete it?"""
    out = tmp_path / "p"
    with start_probe(out, *WHILE) as running:
        running.until_written(FLOOR_DONE)
        hold(running)  # or pollution might be done before the ranks are ended
        running.process.kill()
        running.process.wait()
        running.until("ranks end", lambda: not running.ranks(), 20)
        refused = probe("--quick", "--out", out)
        assert refused.code == 4
        assert "there is an interrupted probe" in refused.words
    completes(out)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=8m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(["mount", *options], capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.turn(0)
def test_full_disk_is_an_error_that_can_be_mended(small_disk: Path) -> None:
    """If the disk fills up while measuring, is that said with exit code 4, and can --resume complete it?"""
    out = small_disk / "p"
    with start_probe(out, *WHILE) as running:
        running.until_written(FLOOR_DONE)
        filler = small_disk / "filler"
        fill(filler)
        done = running.finish()
        assert not running.ranks()
    assert done.code == 4
    assert "No space left" in done.words or "no space left" in done.words
    filler.unlink()
    completes(out)


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as out:
        try:
            while True:
                out.write(bytes(4096))
        except OSError:
            pass
    assert shutil.disk_usage(file.parent).free == 0
