"""Checks whether the kernel permits what the shared heap needs."""

from __future__ import annotations

import os
import subprocess
import sys

from nearfield.base import job_key
from nearfield.base.errors import NearfieldError
from nearfield.base.files import read_bracketed_choice, read_small_file
from nearfield.doctor import copying, kernel, memory
from nearfield.doctor.check import Check

# Script of a child process that holds a memfd, as a heap does, and prints its process id and descriptor.
_HOLDER_SCRIPT = """
import ctypes, os, sys
if sys.argv[1] == "permit":
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER, PR_SET_PTRACER_ANY
print(os.getpid(), os.memfd_create("nearfield-doctor"), flush=True)
sys.stdin.read()
"""

# Script of a child process that opens the memfd of the other, and prints the methods that succeeded.
_FETCHER_SCRIPT = """
import ctypes, os, sys
pid, file = map(int, sys.argv[1:])
call = ctypes.CDLL(None, use_errno=True).syscall
process = call(434, pid, 0)  # pidfd_open; both have one number on all machines
if process >= 0 and call(438, process, file, 0) >= 0:
    print("pidfd_getfd")
try:
    os.open(f"/proc/{pid}/fd/{file}", os.O_RDWR)
    print("/proc/PID/fd")
except OSError:
    pass
"""

_HEAP_OFF_TEXT = "the heap is then inactive: programs run as in the baseline"
_YAMA_REMEDY = "As root: sysctl kernel.yama.ptrace_scope=0. In a container: --cap-add SYS_PTRACE."


def shared_heap() -> Check:
    """Checks whether messages between two child processes can be copied in user space, and from huge pages."""
    name = "shared heap"
    if problem := _library_problem():
        return Check(name, "missing", problem, f"tuning cannot use it; {_HEAP_OFF_TEXT}", "Reinstall nearfield.")
    if read_small_file("/proc/sys/vm/overcommit_memory") == "2":
        found = "memory is accounted for strictly (vm.overcommit_memory = 2)"
        return Check(name, "missing", found, _HEAP_OFF_TEXT, "As root: sysctl vm.overcommit_memory=0.")
    try:
        os.close(os.memfd_create("nearfield-doctor"))
    except OSError as error:
        remedy = "Linux 3.17 or newer has it, unless a sandbox forbids it."
        return Check(name, "missing", f"no memfd: {error.strerror}", _HEAP_OFF_TEXT, remedy)
    permitted = _available_methods(permit=False)
    ways = permitted or _available_methods(permit=True)
    yama = f"yama/ptrace_scope {read_small_file('/proc/sys/kernel/yama/ptrace_scope') or 'absent'}"
    if not ways:
        found = f"one process may not map another's memory; {yama}"
        if not _can_owner_copy():
            return Check(name, "missing", found, "the kernel copies long messages, as in the baseline", _YAMA_REMEDY)
        found = f"memfd, by a request to its owner, since {found}"
        means = "messages in shared pages can be copied once, in user space; all others are copied twice"
        return Check(name, "limited", found, means, _YAMA_REMEDY)
    pages, huge = _huge_page_support()
    found = f"memfd, {', '.join(ways)}; {yama}; {pages}"
    if not permitted:
        means = "only processes that permit it share their heap, which MPIs that copy by the kernel do as a rule"
        return Check(name, "limited", found, means, _YAMA_REMEDY)
    means = f"long messages can be copied once, in user space, from {'huge' if huge else 'small'} pages"
    return Check(name, "ok", found, means)


def _library_problem() -> str:
    """Returns the reason why the heap's library cannot be loaded; "" if it can."""
    try:
        from nearfield.base.shared_heap import heap_library_path

        file = heap_library_path()
    except (ImportError, NearfieldError) as error:
        return str(error)
    return "" if os.access(file, os.R_OK) else f"{file} is not there"


def _available_methods(*, permit: bool) -> list[str]:
    """Returns the methods by which one child process can map another's memfd and read its memory; empty if it may
    not."""
    with copying.start_sibling(_HOLDER_SCRIPT, permit=permit) as (pid, file):
        fetcher = [sys.executable, "-c", _FETCHER_SCRIPT, str(pid), str(file)]
        done = subprocess.run(fetcher, capture_output=True, text=True, errors="replace", timeout=30, check=False)
    if not done.stdout or copying.find_sibling_read_failure(permit=permit):
        return []
    return [*done.stdout.splitlines(), "process_vm_readv"]


def _can_owner_copy() -> bool:
    """Returns whether one child process can read another's memory if both have a heap, because the owner then copies on
    request."""
    from nearfield.base import shared_heap as heap

    environment = {**os.environ, **heap.heap_preload_variables(os.environ), heap.HEAP_VARIABLE: "at_start=1"}
    environment |= job_key.make_key_variable(environment)
    return not copying.sibling_read_failure_in(environment, permit=False)


def _huge_page_support() -> tuple[str, bool]:
    """Returns a text on the huge pages that the heap can use, and whether it can use any."""
    collapsed, on_request = (
        memory.shared_huge_page_result(advice) for advice in (kernel.MADV_COLLAPSE, kernel.MADV_HUGEPAGE)
    )
    setting = read_bracketed_choice(memory.THP_FOLDER / "shmem_enabled") or "absent"
    found = f"huge pages: MADV_COLLAPSE {collapsed}, on request {on_request} (shmem_enabled {setting})"
    return found, "yes" in (collapsed, on_request)
