"""Is what is known to be stale removed, and nothing else that looks like the files of killed jobs?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from old_files import HOUR_S, make_old
from tuning import in_process

from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.base.owned_folder import OWNER_FILE_NAME
from nearfield.mpi import leftovers
from nearfield.mpi.leftovers import Leftover, find_leftovers

IS_ROOT = os.geteuid() == 0
OWNS_A_FOLDER = (
    "import sys; from nearfield.base.owned_folder import OwnedFolder\n"
    "with OwnedFolder('nearfield-tune-', sys.argv[1]) as name: print(name, flush=True); sys.stdin.read()"
)


class Place:
    """A folder for temporary files and one that stands for /dev/shm, both on a tmpfs."""

    def __init__(self, folder: Path) -> None:
        self.temporary, self.shm = folder / "tmp", folder / "shm"
        for one in (self.temporary, self.shm):
            one.mkdir()

    def sweep(self, *, remove: bool = False) -> dict[str, Leftover]:
        return {
            str(one.path.relative_to(self.temporary.parent)): one
            for one in find_leftovers([self.temporary], self.shm, remove=remove)
        }

    def verdicts(self, *, remove: bool = False) -> dict[str, str]:
        return {name: one.verdict for name, one in self.sweep(remove=remove).items()}

    def session(self, name: str, *files: str) -> Path:
        folder = self.temporary / name
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(bytes(4096))
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Place(Path(folder))


def ended_pid() -> int:
    """Returns the id of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


def test_segments_are_known_by_their_names(place: Place) -> None:
    """Are stale segments of all MPIs found, and is no other file of the user even listed?"""
    stale = ["sm_segment.host.0.1.0", "vader_segment.host.0.1.0", "mpich_shm_ab_0", "ucx_shm_posix_1f", "Intel_MPI_x"]
    for name in [*stale, "my_data", "sem.something", "notes"]:
        (place.shm / name).write_bytes(bytes(8192))
    (place.shm / "sm_segment.link").symlink_to(place.shm / "my_data")
    make_old(place.shm)
    assert place.verdicts() == {f"shm/{name}": "stale" for name in stale}
    assert all(one.size_bytes >= 8192 and one.age_s > HOUR_S - 60 for one in place.sweep().values())
    assert place.verdicts(remove=True) == {f"shm/{name}": "stale" for name in stale}
    assert sorted(one.name for one in place.shm.iterdir()) == ["my_data", "notes", "sem.something", "sm_segment.link"]


def test_what_is_young_or_in_use_stays(place: Place) -> None:
    """Does a job that starts right now keep its files, and one that has run for long?"""
    for name in ("young", "used"):
        (place.shm / f"sm_segment.{name}").write_bytes(bytes(8192))
    make_old(place.shm / "sm_segment.used")
    with (place.shm / "sm_segment.used").open("rb"):
        found = place.sweep(remove=True)
    assert {name: one.verdict for name, one in found.items()} == {
        "shm/sm_segment.used": "in use",
        "shm/sm_segment.young": "young",
    }
    assert f"process {os.getpid()} (" in found["shm/sm_segment.used"].reason
    assert len(list(place.shm.iterdir())) == 2
    make_old(place.shm / "sm_segment.young", leftovers.MIN_STALE_AGE_S - 30)
    assert place.verdicts()["shm/sm_segment.young"] == "young"
    make_old(place.shm / "sm_segment.young", leftovers.MIN_STALE_AGE_S + 1)
    assert place.verdicts()["shm/sm_segment.young"] == "stale"


def test_own_folders_are_those_that_a_killed_nearfield_held(place: Place) -> None:
    """Is a folder of nearfield in use while its owner lives, stale after a kill, and gone after an ordinary end? And is
    one without its owner's file, which may be anybody's work, never removed?"""
    command = [sys.executable, "-c", OWNS_A_FOLDER, place.temporary]
    owners = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    folders = [Path(one.stdout.readline().strip()) for one in owners if one.stdout]
    work = place.session("nearfield-work", "sources/hwloc.sm", "sources/main.c")
    for folder in (*folders, work):
        (folder / "plan").write_text("x")
        make_old(folder)
    names = [f"tmp/{folder.name}" for folder in folders]
    assert place.verdicts(remove=True) == {**dict.fromkeys(names, "in use"), "tmp/nearfield-work": "cannot tell"}
    owners[0].send_signal(signal.SIGKILL)
    owners[1].communicate()
    owners[0].communicate()
    assert place.verdicts(remove=True) == {names[0]: "stale", "tmp/nearfield-work": "cannot tell"}
    assert list(place.temporary.iterdir()) == [work] and (work / "sources/main.c").exists()


def test_session_folders(place: Place) -> None:
    """Of Open MPI's folders: is each launcher's judged by itself, by the files that a live one has open?"""
    pid, uid = ended_pid(), os.getuid()
    stale = [
        place.session(f"ompi.{pid}", "hwloc.sm", "1/pmix-gds-shmem2.vm.jobdata"),
        place.session(f"ompi.host.{uid}/pid.{pid}", "hwloc.sm", "contact.txt", "pmix_dstor_ds21_1/smdataseg-1-0"),
        place.session(f"prte.host.{pid}.{uid}", "hwloc.sm"),
    ]
    silent = [place.session(f"ompi.host.{uid}/jf.77"), place.session(f"ompi.host.{uid}/pid.{pid}0", "contact.txt")]
    used = place.session(f"ompi.{pid}1", "hwloc.sm", "other")
    theirs = [place.session(name, "hwloc.sm") for name in ("ompi.git", "ompi.5.0.11-src", "prte.x", "ompi")]
    os.mkfifo(stale[0] / "debugger_attach_fifo")
    outside = place.temporary / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    (stale[1] / "link").symlink_to(outside)
    make_old(place.temporary)
    with (used / "other").open("rb"):
        found = place.sweep(remove=True)
    expected = {**dict.fromkeys(stale, "stale"), **dict.fromkeys(silent, "cannot tell"), used: "in use"}
    assert {str(folder.relative_to(place.temporary.parent)): what for folder, what in expected.items()} == {
        name: one.verdict for name, one in found.items()
    }
    assert all(f"process {pid} of its name has ended" in found[f"tmp/{one.relative_to(place.temporary)}"].reason
               for one in stale)  # fmt: skip
    assert not any(folder.exists() for folder in stale)
    assert all(folder.exists() for folder in (*silent, used, *theirs, outside / "kept"))


def test_the_folder_of_a_live_launcher_stays(place: Place) -> None:
    """If the process of the name lives, and is not one that got the number later, is the folder not removed, though no
    file of it is open?"""
    folder = place.session(f"ompi.{os.getpid()}", "hwloc.sm")
    assert place.verdicts(remove=True) == {f"tmp/{folder.name}": "cannot tell"}
    make_old(folder, 10 * 365 * 24 * HOUR_S)
    assert place.verdicts() == {f"tmp/{folder.name}": "stale"}, "this process began later than the folder was made"


def test_a_folder_that_changes_is_young(place: Place) -> None:
    folder = place.session(f"ompi.{ended_pid()}", "hwloc.sm", "1/0/file")
    make_old(folder)
    (folder / "1/0/file").write_text("x")
    assert place.verdicts(remove=True) == {f"tmp/{folder.name}": "young"}


@pytest.mark.skipif(not IS_ROOT, reason="giving files away needs root")
def test_files_of_others_are_never_removed(place: Place) -> None:
    """Not even by root, for whom the kernel would answer? Nor a folder with one file of somebody else?"""
    (place.shm / "sm_segment.theirs").write_bytes(bytes(8192))
    os.chown(place.shm / "sm_segment.theirs", 12345, 12345)
    mixed = place.session(f"ompi.{ended_pid()}", "hwloc.sm")
    os.chown(mixed / "hwloc.sm", 12345, 12345)
    make_old(place.shm)
    make_old(mixed)
    found = place.sweep(remove=True)
    assert found["shm/sm_segment.theirs"].verdict == "not yours" and found["shm/sm_segment.theirs"].owner == 12345
    assert found[f"tmp/{mixed.name}"].verdict == "cannot tell"
    assert (place.shm / "sm_segment.theirs").exists() and mixed.exists()


@pytest.mark.skipif(not IS_ROOT, reason="mounting /proc with hidepid needs root")
def test_a_process_that_hidepid_hides_is_not_taken_for_dead(place: Place) -> None:
    """Does the number of a process that this user may not see keep the folder from being removed?"""
    folder = place.session(f"ompi.{os.getppid()}", "hwloc.sm")
    make_old(folder)
    for path in (place.temporary.parent, place.temporary, folder, folder / "hwloc.sm"):
        os.chown(path, 12345, 12345)
    script = (
        "import sys; from pathlib import Path; from nearfield.mpi.leftovers import find_leftovers\n"
        "found = find_leftovers([Path(sys.argv[1])], Path('/nothing'), remove=True)\n"
        "print([(one.verdict, one.reason) for one in found])"
    )
    inner = 'mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid 12345 --regid 12345 --clear-groups "$@"'
    command = ["unshare", "--mount", "sh", "-c", inner, "sh", sys.executable, "-c", script, place.temporary]
    done = subprocess.run(command, capture_output=True, text=True)
    if "hidepid" in done.stderr or "ermission denied" in done.stderr:
        pytest.skip(done.stderr)
    expected = f"[('cannot tell', 'there is a process {os.getppid()}, which cannot be inspected')]"
    assert done.stdout.strip() == expected, done.stderr
    assert folder.exists()


def test_the_command(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does `doctor --sweep` remove nothing without --remove, only what is stale with it, and say by its exit code that
    something could not be judged? Does `doctor` count what is stale?"""
    monkeypatch.setattr(leftovers, "SHM_FOLDER", place.shm)
    monkeypatch.setattr(leftovers, "temporary_folders", lambda: [place.temporary])
    assert "no files of MPI jobs" in in_process("doctor", "--sweep").out
    (place.shm / "mpich_shm_1_0").write_bytes(bytes(1 << 20))
    folder = place.session(f"ompi.{ended_pid()}", "hwloc.sm")
    make_old(place.shm)
    make_old(folder)
    done = in_process("doctor", "--sweep")
    assert done.code == 0 and "2 stale files and folders" in done.out and "--sweep --remove" in done.out
    assert (place.shm / "mpich_shm_1_0").exists() and folder.exists()
    silent = place.session(f"ompi.host.{os.getuid()}/jf.1")
    done = in_process("doctor", "--sweep", "--remove", "--json")
    assert done.code == NOT_DECIDED_EXIT_CODE
    verdicts = {one["path"]: one["verdict"] for one in json.loads(done.out)["found"]}
    assert verdicts == {
        str(place.shm / "mpich_shm_1_0"): "stale", str(folder): "stale", str(silent): "cannot tell",
    }  # fmt: skip
    assert not list(place.shm.iterdir()) and not folder.exists() and silent.exists()
    assert in_process("doctor", "--remove").code == 2
    assert in_process("doctor", "--sweep", "--message", "x").code == 2


def test_the_owner_file_is_open_and_nothing_else_is_left(place: Place) -> None:
    """Does an owned folder go as a whole?"""
    from nearfield.base.owned_folder import OwnedFolder

    with OwnedFolder("nearfield-x-", place.temporary) as name:
        assert [one.name for one in Path(name).iterdir()] == [OWNER_FILE_NAME]
    assert not list(place.temporary.iterdir())
