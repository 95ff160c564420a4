"""Checks single copy: whether a process may read another process's memory by process_vm_readv, as MPIs do for large
messages."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nearfield.base import own_command
from nearfield.base.files import read_small_file
from nearfield.doctor.check import Check
from nearfield.doctor.confinement import describe_permissions

SECRET_TEXT = "nearfield"
# How MPIs behave where single copies fail.
_SYMPTOMS_TEXT = (
    "Open MPI 4 copies every message inside a node twice and reports this each time, Open MPI 5 does so silently, "
    "and MPICH "
    "5 aborts"
)

# Script of a child process that holds a buffer. With "permit", allows all processes to read the buffer, as MPIs do
# under Yama's ptrace_scope 1.
_HOLDER_SCRIPT = f"""
import ctypes, os, sys
if sys.argv[1] == "permit":
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER, PR_SET_PTRACER_ANY
buffer = ctypes.create_string_buffer(b"{SECRET_TEXT}")
print(os.getpid(), ctypes.addressof(buffer), flush=True)
sys.stdin.read()
"""

# Script of a child process that reads the buffer by process_vm_readv and prints the data, or exits with the error.
_READER_SCRIPT = f"""
import ctypes, os, sys
class Range(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]
pid, address = map(int, sys.argv[1:])
buffer = ctypes.create_string_buffer({len(SECRET_TEXT)})
local, remote = Range(ctypes.addressof(buffer), {len(SECRET_TEXT)}), Range(address, {len(SECRET_TEXT)})
libc = ctypes.CDLL(None, use_errno=True)
one = ctypes.c_ulong(1)
n = libc.process_vm_readv(pid, ctypes.byref(local), one, ctypes.byref(remote), one, ctypes.c_ulong(0))
sys.exit(os.strerror(ctypes.get_errno())) if n < 0 else print(buffer.raw.decode())
"""

_KCMP_NUMBER_BY_ARCHITECTURE = {"x86_64": 312, "aarch64": 272}  # architecture -> number of the system call kcmp

# Script of a child process that compares the address spaces of two processes by kcmp, as Open MPI 5 does before it
# reads.
_COMPARER_SCRIPT = """
import ctypes, os, sys
number, pid = map(int, sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(number, os.getpid(), pid, 1, ctypes.c_ulong(0), ctypes.c_ulong(0)) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
"""


def single_copy() -> Check:
    """Checks process_vm_readv between two child processes, which are siblings like the ranks of a node."""
    name, scope = "single copy (CMA)", read_small_file("/proc/sys/kernel/yama/ptrace_scope")
    yama = "no Yama" if scope is None else f"yama/ptrace_scope {scope}"
    refused = find_sibling_read_failure(permit=False)
    if not refused and (comparison := find_kcmp_failure()):
        found = f"process_vm_readv works; kcmp does not ({comparison}); {yama}; {describe_permissions()}"
        means = "Open MPI 5 checks its permission by kcmp, and copies every message inside a node twice"
        return Check(name, "limited", found, means, _remedy())
    if not refused:
        return Check(name, "ok", f"process_vm_readv works; {yama}", "large messages can cross in one copy")
    if not find_sibling_read_failure(permit=True):
        found = f"process_vm_readv works only when the other process permits it; {yama}"
        means = "an MPI that does not request it (PR_SET_PTRACER) copies twice"
        return Check(name, "limited", found, means, "As root: sysctl kernel.yama.ptrace_scope=0.")
    return Check(name, "missing", f"{refused}; {yama}; {describe_permissions()}", _SYMPTOMS_TEXT, _remedy())


def find_sibling_read_failure(*, permit: bool) -> str:
    """Lets one child process read a buffer of another by process_vm_readv. Returns the reason for a failure, or "".
    With `permit`, the owner of the buffer allows the access."""
    return sibling_read_failure_in(None, permit=permit)


def sibling_read_failure_in(environment: Mapping[str, str] | None, *, permit: bool) -> str:
    """Does the same as `find_sibling_read_failure`, with child processes that start in `environment`."""
    with start_sibling(_HOLDER_SCRIPT, permit=permit, environment=environment) as (pid, address):
        return find_read_failure(pid, address, environment)


def _remedy() -> str:
    return (
        f"Load the shared heap ({own_command.command_line('run')}), which needs no permission. Or, as root: sysctl "
        "kernel.yama.ptrace_scope=0; in a container: --cap-add SYS_PTRACE."
    )


def find_kcmp_failure() -> str:
    """Lets one child process compare itself with another by kcmp. Returns the reason for a failure, or "" on success or
    if the number of the system call is unknown on this architecture."""
    if not (number := _KCMP_NUMBER_BY_ARCHITECTURE.get(platform.machine())):
        return ""
    with start_sibling(_HOLDER_SCRIPT, permit=True) as (pid, _):
        command = [sys.executable, "-c", _COMPARER_SCRIPT, str(number), str(pid)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30, check=False)
    return done.stderr.strip() if done.returncode else ""


def find_read_failure(pid: int, address: int, environment: Mapping[str, str] | None = None) -> str:
    """Starts a child process that reads SECRET_TEXT from process `pid` by process_vm_readv. Returns the reason for a
    failure, or ""."""
    command = [sys.executable, "-c", _READER_SCRIPT, str(pid), str(address)]
    reader = subprocess.run(
        command, env=environment, capture_output=True, text=True, errors="replace", timeout=30, check=False
    )
    if reader.returncode != 0:
        return reader.stderr.strip() or "the reading process died"
    return "" if reader.stdout.strip() == SECRET_TEXT else "process_vm_readv delivered wrong bytes"


@contextmanager
def start_sibling(
    script: str, *, permit: bool, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[int, int]]:
    """Starts a child process with the Python script. Yields the two numbers that it prints, its process id first. Ends
    the child by closing its standard input."""
    command = [sys.executable, "-c", script, "permit" if permit else "plain"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        assert process.stdin and process.stdout
        words = process.stdout.readline().split()
        if len(words) != 2:
            raise OSError(0, f"a second Python process did not start ({sys.executable})")
        yield int(words[0]), int(words[1])
        process.stdin.close()


def copy_devices() -> Check:
    """Checks for the kernel modules XPMEM and KNEM, which some MPIs prefer to process_vm_readv."""
    name = "XPMEM, KNEM"
    devices = [path for path in ("/dev/xpmem", "/dev/knem") if Path(path).exists()]
    usable = [path for path in devices if os.access(path, os.R_OK | os.W_OK)]
    if usable:
        return Check(name, "ok", ", ".join(usable), "MPIs built for them copy with fewer system calls")
    if devices:
        found = f"{', '.join(devices)} without permission"
        return Check(name, "limited", found, "MPIs built for them fall back", "Let your group read and write them.")
    return Check(name, "ok", "neither device is there", "nothing needs them where single copy (CMA) works")
