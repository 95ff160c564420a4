"""Do processes with a shared heap reach one another's memory where the kernel forbids it, and nobody else's?"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from heap_peers import Peer, Peers, environment

from nearfield.base import all_nodes, job_key

KEY, OTHER_KEY = "0123456789abcdef" * 2, "fedcba9876543210" * 2
KiB, MiB = 1 << 10, 1 << 20
USER_NAMESPACE = ["unshare", "--user", "--map-current-user"]
PLACES = ["filter", "user namespaces"]


def command(place: str, programs: Path) -> Sequence[object]:
    """Returns the command that starts a program where it may not read another process's memory."""
    if place == "filter":
        return [programs / "filtered", "refuse"]
    refused = subprocess.run([*USER_NAMESPACE, "true"], capture_output=True, text=True)
    if refused.returncode:
        pytest.skip(f"user namespaces are not allowed here: {refused.stderr.strip()}")
    return USER_NAMESPACE


@pytest.fixture(params=PLACES)
def two(request: pytest.FixtureRequest, heap_ranks: Peers, heap_programs: Path) -> tuple[Peer, Peer]:
    """Returns the owner of memory and a reader, which have one key."""
    prefix = command(request.param, heap_programs)
    return heap_ranks.start(prefix=prefix, key=KEY), heap_ranks.start(prefix=prefix, key=KEY)


def sockets_of(pid: int) -> list[str]:
    """Returns the names of a process's service; the kernel lists them without the zero that they begin with."""
    return re.findall(rf"@(nearfield-heap-\d+-{pid})\n", Path("/proc/net/unix").read_text())


def test_messages_come_from_the_owner_and_then_from_shared_pages(two: tuple[Peer, Peer], heap_ranks: Peers) -> None:
    """Is a message right that the owner sends, and do later ones come from shared pages, in user space?"""
    owner, reader = two
    block = owner.take_filled(MiB, 5)
    for _ in range(2):
        assert reader.request("get", owner.pid, block, MiB, 5) == f"{MiB} right"
    heap_ranks.share(owner, reader, block, MiB)
    for _ in range(3):
        assert reader.request("get", owner.pid, block, MiB, 5) == f"{MiB} right"
    assert reader.request("put", owner.pid, block, MiB, 7) == str(MiB)
    assert owner.request("check", block, MiB, 7) == "right"
    report = heap_ranks.report(reader)
    assert report.in_user_space >= 4
    assert 2 <= report.messages("owner") < 20


@pytest.mark.parametrize("size", [1, 65535, 65536, 65537, 3 * MiB + 11])
def test_lengths_around_a_packet_arrive(two: tuple[Peer, Peer], size: int) -> None:
    """Are reads and writes of private memory right if they fill packets exactly, and if they do not?"""
    owner, reader = two
    block = owner.take_filled(4 * MiB, 1)
    assert reader.request("get", owner.pid, block + 3, size, 1) == f"{size} right"
    assert reader.request("put", owner.pid, block + 5, size, 2) == str(size)
    assert owner.request("check", block + 5, size, 2) == "right"
    assert owner.request("check", block, 5, 1) == "right"
    assert owner.request("check", block + 5 + size, 4 * MiB - 5 - size, 1) == "right"


def test_addresses_that_are_not_mapped_are_errors(two: tuple[Peer, Peer]) -> None:
    """Is EFAULT returned for memory that is not there, in either direction, and does the service go on?"""
    owner, reader = two
    block = owner.take_filled(MiB, 1)
    for _ in range(2):
        assert reader.request("get", owner.pid, 4096, 8192, 1) == "EFAULT"
        assert reader.request("put", owner.pid, 4096, 300 * KiB, 1) == "EFAULT"
        assert reader.request("get", owner.pid, block, MiB, 1) == f"{MiB} right"


def test_threads_of_one_reader_take_turns(two: tuple[Peer, Peer]) -> None:
    """Are the messages of threads right that read from one owner at the same time, while others read from it, too?"""
    owner, reader = two
    block = owner.take_filled(MiB, 4)
    for _ in range(4):
        reader.request("follow", owner.pid, block, 128 * KiB, 4)
    for _ in range(50):
        assert owner.request("get", owner.pid, block, 256 * KiB, 4) == f"{256 * KiB} right"
    assert set(reader.request("stop").split(", ")) == {"right"}


def test_an_owner_that_dies_is_an_error_and_leaves_nothing(two: tuple[Peer, Peer], heap_ranks: Peers) -> None:
    """Does a reader get an error when the owner is killed, at once and without a hang, and is no socket left?"""
    owner, reader = two
    block = owner.take_filled(MiB, 1)
    assert reader.request("get", owner.pid, block, MiB, 1) == f"{MiB} right"
    heap_ranks.kill(owner)
    assert reader.request("get", owner.pid, block, MiB, 1) in ("ESRCH", "EPERM")
    assert reader.request("get", owner.pid, block, MiB, 1) in ("ESRCH", "EPERM")


def test_readers_that_are_killed_do_not_stop_the_service(heap_ranks: Peers, heap_programs: Path) -> None:
    """Are others served while a stopped reader takes nothing out of its socket, and after readers were killed?"""
    prefix = command("filter", heap_programs)
    owner, other = (heap_ranks.start(prefix=prefix, key=KEY) for _ in range(2))
    block = owner.take_filled(16 * MiB, 1)
    for number in range(5):
        reader = heap_ranks.start(prefix=prefix, key=KEY)
        reader.request("follow", owner.pid, block, 16 * MiB, 1)
        time.sleep(0.01 * number)
        os.kill(reader.pid, signal.SIGSTOP)
        assert other.request("get", owner.pid, block, MiB, 1) == f"{MiB} right"
        heap_ranks.kill(reader)
        assert other.request("get", owner.pid, block, MiB, 1) == f"{MiB} right"


def test_a_forked_child_reads_by_itself(two: tuple[Peer, Peer]) -> None:
    """Does a child make its own connections, and do the parent's still work?"""
    owner, reader = two
    block = owner.take_filled(MiB, 3)
    assert reader.request("get", owner.pid, block, MiB, 3) == f"{MiB} right"
    child = reader.fork()
    assert child.request("get", owner.pid, block, MiB, 3) == "EPERM"
    assert reader.request("get", owner.pid, block, MiB, 3) == f"{MiB} right"
    assert owner.request("get", reader.pid, block, 1, 3).startswith(("1 ", "EFAULT"))


@pytest.mark.parametrize("key", ["", "short", OTHER_KEY])
def test_only_the_job_is_served(heap_ranks: Peers, heap_programs: Path, key: str) -> None:
    """Is a process refused that has no key, or another job's, and is a process without a key not served from?"""
    prefix = command("filter", heap_programs)
    owner, stranger = heap_ranks.start(prefix=prefix, key=KEY), heap_ranks.start(prefix=prefix, key=key)
    block = owner.take_filled(MiB, 1)
    assert stranger.request("get", owner.pid, block, MiB, 1) in ("EPERM", "ESRCH")
    assert owner.request("get", stranger.pid, stranger.take(MiB), MiB, 1) in ("EPERM", "ESRCH")
    assert len(sockets_of(owner.pid)) == 1
    assert len(sockets_of(stranger.pid)) == (1 if key == OTHER_KEY else 0)


# A client, as a user of the number in argv: requests 16 bytes, and prints what came in return.
_CLIENT = """
import os, socket, struct, sys
user, name, key, address = int(sys.argv[1]), sys.argv[2], sys.argv[3].encode(), int(sys.argv[4])
if user != os.geteuid(): os.setuid(user)
end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    end.connect(chr(0) + name)
    end.send(struct.pack("<32sIxxxxQQ", key, 0, address, 16))
    print(len(end.recv(100)))
except OSError:
    print("refused")
"""


@pytest.mark.parametrize(
    ("user", "key", "answer"), [(None, KEY, "24"), (None, OTHER_KEY, "0"), (65534, KEY, "0")], ids=str
)
def test_only_the_same_user_with_the_key_is_answered(
    heap_ranks: Peers, heap_programs: Path, user: int | None, key: str, answer: str
) -> None:
    """Does a client that knows the socket's name get memory only if the kernel says that it is this user, and only with
    the key?"""
    if user is not None and os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    owner = heap_ranks.start(prefix=command("filter", heap_programs), key=KEY)
    (name,) = sockets_of(owner.pid)
    words = [str(os.geteuid() if user is None else user), name, key, str(owner.take(MiB))]
    done = subprocess.run([sys.executable, "-c", _CLIENT, *words], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() in {answer, "refused" if answer == "0" else answer}, done.stderr


def test_a_socket_with_the_name_of_another_process_is_not_believed(heap_ranks: Peers, heap_programs: Path) -> None:
    """Is memory refused that somebody else offers under a rank's name?"""
    prefix = command("filter", heap_programs)
    reader, absent = heap_ranks.start(prefix=prefix, key=KEY), heap_ranks.start(prefix=prefix)  # which has no key
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as fake:
        fake.bind(f"\0nearfield-heap-{os.geteuid()}-{absent.pid}")
        fake.listen()
        assert reader.request("get", absent.pid, absent.take(MiB), 16, 1) == "EPERM"


def test_nothing_listens_where_the_kernel_copies(heap_ranks: Peers) -> None:
    """Is there no thread and no socket where process_vm_readv works?"""
    if Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
        pytest.skip("this test runs in a user namespace")
    owner, reader = heap_ranks.start(key=KEY), heap_ranks.start(key=KEY)
    block = owner.take_filled(MiB, 1)
    assert reader.request("get", owner.pid, block, MiB, 1) == f"{MiB} right"
    assert sockets_of(owner.pid) == []
    assert len(list(Path(f"/proc/{owner.pid}/task").iterdir())) == 1


def test_each_launch_draws_a_key() -> None:
    """Does each launch that loads the heap have another key, one that loads none have none, and is a key kept that is
    there already?"""
    loaded = {name: environment()[name] for name in ("LD_PRELOAD",)}
    drawn = [all_nodes.variables_for_all_nodes(["./app"], loaded)[job_key.JOB_KEY_VARIABLE] for _ in range(2)]
    assert drawn[0] != drawn[1]
    assert all(re.fullmatch(r"[0-9a-f]{32}", key) for key in drawn)
    assert job_key.make_key_variable({}) == {}
    assert job_key.make_key_variable({**loaded, job_key.JOB_KEY_VARIABLE: KEY}) == {}


def test_a_copy_onto_the_list_that_describes_it(heap_ranks: Peers, heap_programs: Path) -> None:
    """Is the list read before the copy overwrites it, as UCX does to find out whether it may read a process?"""
    prefix = command("filter", heap_programs)
    owner, reader = (heap_ranks.start(prefix=prefix, key=KEY) for _ in range(2))
    lists, other = {peer.take(64 * KiB) for peer in (owner, reader)}, {peer.take(64 * KiB) for peer in (owner, reader)}
    (at,), (further,) = lists, other  # the heaps of both begin at one address
    reader.request("list", at, at, 16)
    owner.request("list", at, further, 32)  # overwrites the reader's list by one that names more
    assert reader.request("get_by_list", owner.pid, at) == "16"
