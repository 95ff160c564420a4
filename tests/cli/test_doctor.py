"""Does the doctor try things for real, say why when they fail, and never end in a traceback?

What a check finds depends on the machine; these tests assert what must hold on every Linux.
"""

import io
import json
import os
import subprocess
import sys

import pytest
import typer
from old_files import make_old
from rich.console import Console
from typer.testing import CliRunner

from nearfield.base.cpu_load import measure_cpu_utilization
from nearfield.base.errors import UsageError
from nearfield.cli.verbs.doctor import checks_table, command, verdict_line
from nearfield.doctor import (
    CHECKS,
    Check,
    confinement,
    copying,
    counters,
    examine,
    host,
    kernel,
    memory,
    processor,
    shared_files,
    shared_heap,
)
from nearfield.mpi import leftovers


@pytest.fixture(scope="module")
def checks() -> dict[str, Check]:
    """One real examination of this machine, by the name of the function."""
    return dict(zip((check.__name__ for check in CHECKS), examine(), strict=True))


@pytest.mark.parametrize("name", [check.__name__ for check in CHECKS])
def test_every_check_says_what_it_found_and_what_to_do(name, checks):
    """Is there always a finding and its meaning, and a remedy exactly when something is wrong?"""
    check = checks[name]
    assert check.status in ("ok", "limited", "missing")
    assert check.found and check.means
    assert bool(check.remedy) == (check.status != "ok"), check
    assert not (check.blocks and check.status == "ok")


def test_names_are_unique(checks):
    """Can a script pick a check by its name?"""
    assert len({check.name for check in checks.values()}) == len(CHECKS)


def test_a_check_that_fails_does_not_end_the_examination():
    """Does an unreadable kernel file become a finding with its reason?"""

    def broken_kernel_file() -> Check:
        raise PermissionError(13, "Permission denied", "/proc/secret")

    def bad_environment() -> Check:
        raise UsageError("hwloc describes another machine", "Unset it.")

    def fine() -> Check:
        return Check("fine", "ok", "all", "nothing to do")

    first, second, third = examine((broken_kernel_file, bad_environment, fine))
    assert (first.name, first.status) == ("broken kernel file", "missing")
    assert "/proc/secret" in first.found
    assert (second.found, second.remedy) == ("hwloc describes another machine", "Unset it.")
    assert third.status == "ok"


def test_software_events_count_faults(checks):
    """Do touched pages appear in the counter that the check trusts?"""
    if checks["software_events"].status != "ok":
        pytest.skip(checks["software_events"].found)
    if "perf_event too" not in checks["software_events"].found:
        pytest.skip("perf_event_open is not permitted here")
    size = 64 * os.sysconf("SC_PAGESIZE")
    with (
        kernel.open_perf_event(kernel.PERF_TYPE_SOFTWARE, kernel.PERF_PAGE_FAULTS) as fd,
        kernel.map_aligned_memory(size, is_shared=False) as address,
    ):
        before = kernel.read_perf_count(fd)
        kernel.touch_pages(address, size)
        assert 1 <= kernel.read_perf_count(fd) - before <= 64 + 8, "at most one fault a page, and a few of Python's"


def test_an_unknown_counter_is_refused_with_a_reason():
    """Does a hardware event that nobody has come back as cause and remedy?"""
    cause, remedy = counters._find_refusal_reason(config=0xFFFF)
    assert cause and remedy


@pytest.mark.parametrize("shared", [False, True])
def test_a_mapping_is_aligned_and_real(shared):
    """Is the memory that huge pages are tried on aligned to them, writable, and gone afterwards?"""
    size = memory.read_huge_page_bytes()
    with kernel.map_aligned_memory(size, is_shared=shared) as address:
        assert address % size == 0
        kernel.touch_pages(address, size)
        assert kernel.huge_page_bytes_mapped_at(address) in (0, size)
    assert kernel.huge_page_bytes_mapped_at(address) == 0


def test_advice_to_unmapped_memory_is_an_error_with_errno():
    """Do failing system calls arrive as OSError?"""
    with pytest.raises(OSError, match="Cannot allocate|Invalid"):
        kernel.madvise(0, memory.read_huge_page_bytes(), kernel.MADV_HUGEPAGE)


def test_shared_huge_pages_name_the_kernel(checks):
    """Is the kernel version there, on which MADV_COLLAPSE depends?"""
    assert os.uname().release in checks["shared_huge_pages"].found


def test_a_failing_read_of_another_process_has_a_reason():
    """Does process_vm_readv from an address that is not mapped say so?"""
    with copying.start_sibling(copying._HOLDER_SCRIPT, permit=True) as (pid, _):
        assert copying.find_read_failure(pid, 0) in (
            "Bad address",
            "Operation not permitted",
            "Function not implemented",
        )


def test_single_copy_agrees_with_trying_it(checks):
    """Is ok said only when a sibling could really be read, and Open MPI 5's question is allowed?"""
    refused = copying.find_sibling_read_failure(permit=False) or copying.find_kcmp_failure()
    assert (checks["single_copy"].status == "ok") == (refused == "")


@pytest.mark.parametrize(
    ("module", "name", "instead", "words"),
    [
        (
            shared_heap,
            "read_small_file",
            lambda path: "2" if "overcommit" in str(path) else None,
            "vm.overcommit_memory = 2",
        ),
        (shared_heap, "_library_problem", lambda: "the library is not there", "the library is not there"),
        (os, "memfd_create", lambda name: os.open("/nothing/there", os.O_RDONLY), "no memfd: No such file"),
        (shared_heap, "_available_methods", lambda permit: [], "by a request to its owner"),
        (shared_heap, "_available_methods", lambda permit: ["a way"] if permit else [], "a way"),
    ],
)
def test_a_shared_heap_that_cannot_be_has_a_reason(monkeypatch, module, name, instead, words):
    """Is whatever the heap misses named, with what to do about it?"""
    monkeypatch.setattr(module, name, instead)
    check = shared_heap.shared_heap()
    assert check.status != "ok" and words in check.found and check.remedy and not check.blocks


def test_another_heap_is_really_fetched(checks):
    """Does a heap count as possible only if process_vm_readv works between siblings, as the heap asks for it?"""
    refused = copying.find_sibling_read_failure(permit=False)
    assert (checks["shared_heap"].status == "ok") == (refused == "")


def test_memory_of_ended_jobs_is_counted(monkeypatch, tmp_path):
    """Does the check name the command that removes what killed jobs left, and count nothing else?"""
    shm = tmp_path / "shm"
    shm.mkdir()
    monkeypatch.setattr(shared_files, "SHM_FOLDER", shm)
    monkeypatch.setattr(shared_files, "find_leftovers", lambda: leftovers.find_leftovers([], shm))
    assert shared_files.ended_jobs().status == "ok"
    for name in ("sm_segment.host.0.1.0", "sm_segment.young", "notes"):
        (shm / name).write_bytes(bytes(2 << 20))
    make_old(shm / "sm_segment.host.0.1.0")
    check = shared_files.ended_jobs()
    if leftovers.find_leftovers([], shm)[0].verdict == "cannot tell":
        pytest.skip("the file system of temporary files does not say who uses them")
    assert check.status == "limited" and "1 file or folder, 2 MiB" in check.found and "doctor --sweep" in check.remedy


def test_a_small_dev_shm_is_compared_with_the_ranks(monkeypatch):
    """Is room for a few ranks not enough for many?"""
    free = 300 << 20
    room = type("Room", (), {"f_bavail": free, "f_frsize": 1, "f_blocks": free})
    monkeypatch.setattr(os, "statvfs", lambda path: room)
    for ranks, status in ((2, "ok"), (64, "limited")):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, ranks=ranks: set(range(ranks)))
        check = shared_files.dev_shm()
        assert check.status == status and f"300 of 300 MiB free for {ranks} ranks" in check.found


@pytest.mark.parametrize(
    ("folder", "kind", "free", "words"),
    [
        ("/tmp", "ext4", 1 << 30, ""),
        ("/scratch", "lustre", 1 << 30, "are accessed over the network"),
        ("/home/a", "nfs4", 1 << 30, "are accessed over the network"),
        ("/tmp", "tmpfs", 1 << 20, "fail to make their session folder"),
        (f"/scratch/{'x' * 90}", "xfs", 1 << 30, "too long"),
    ],
)
def test_folders_that_launchers_cannot_use(monkeypatch, tmp_path, folder, kind, free, words):
    """Is a folder for temporary files that is remote, full or has a long path named as the cause?"""
    monkeypatch.setattr(shared_files.tempfile, "gettempdir", lambda: folder)
    monkeypatch.setattr(shared_files, "file_system_of_device", lambda device: kind)
    root = shared_files.Path("/").stat()
    monkeypatch.setattr(shared_files.Path, "stat", lambda path: root)
    monkeypatch.setattr(os, "statvfs", lambda path: type("Room", (), {"f_bavail": free, "f_frsize": 1}))
    check = shared_files.temporary_folder()
    assert (check.status, words in check.means) == ("limited" if words else "ok", True)


@pytest.mark.parametrize(
    ("limits", "status"),
    [([], "ok"), ([1 << 50], "ok"), ([1 << 50, 300 << 20], "limited")],
)
def test_the_smallest_memory_limit_counts(monkeypatch, tmp_path, limits, status):
    """Of this cgroup and its ancestors, for both versions, and not the number that stands for none?"""
    folders = [tmp_path / str(number) for number in range(len(limits) + 2)]
    for folder in folders:
        folder.mkdir()
    for number, (folder, limit) in enumerate(zip(folders, limits, strict=False)):
        (folder / ("memory.limit_in_bytes" if number % 2 else "memory.max")).write_text(f"{limit}\n")
    (folders[-2] / "memory.max").write_text("max\n")
    (folders[-1] / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    monkeypatch.setattr(confinement, "cgroup_folders", lambda controller: folders)
    assert confinement.memory_limit().status == status


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_namespaces_of_a_container_are_seen():
    """Are a user and a PID namespace named as what they are, and is the initial one not?"""
    script = "from nearfield.doctor.confinement import namespaces; print(namespaces().found)"
    for flags, words in (
        ([], "in the initial ones"),
        (["-U", "-r"], "in user namesp"),
        (["-p", "-f"], "in pid namesp"),
    ):
        if flags == [] and confinement.namespaces().status != "ok":
            continue  # the tests run in one themselves
        done = subprocess.run(["unshare", *flags, sys.executable, "-c", script], capture_output=True, text=True)
        assert words in done.stdout or "user and pid" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.cfs_quota_us": "400000", "cpu.cfs_period_us": "100000"}, 4.0),
        ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_quotas_of_both_cgroup_versions(files, quota, tmp_path):
    """Are processors computed from quota and period, and no limit distinguished from a limit?"""
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    assert processor._read_quota(tmp_path) == quota


def test_shares_of_time_are_shares():
    """Is busy time within [0, 1] for every PU that we may use?"""
    shares = measure_cpu_utilization(0.05)
    assert os.sched_getaffinity(0) <= shares.keys()
    assert all(0 <= busy <= 1 and 0 <= steal <= 1 for busy, steal in shares.values())


def test_compilers_are_tried(tmp_path):
    """Is a compiler that is absent, or too old for C++20, refused with its own first complaint?"""
    assert host.find_compile_failure("no-such-compiler") == "not found"
    old = tmp_path / "old-c++"
    old.write_text("#!/bin/sh\necho \"cc1plus: error: unrecognized option '-std=c++20'\" >&2\nexit 1\n")
    old.chmod(0o755)
    assert "-std=c++20" in host.find_compile_failure(str(old))


@pytest.mark.parametrize(
    ("built", "means"), [(True, "only MPIs whose measuring"), (False, "the measuring engine cannot")]
)
def test_no_compiler_blocks_only_what_is_not_built(monkeypatch, built, means):
    """Without a compiler, does it report what then cannot be done, and is it grave only if no engine was built
    before?"""
    monkeypatch.setattr(host, "find_compile_failure", lambda compiler: "not found")
    monkeypatch.setattr(host.mpi, "find_usable_mpis", lambda: [None])
    monkeypatch.setattr(host.mpi, "is_built", lambda installation: built)
    check = host.cxx_compiler()
    assert check.blocks != built and check.means.startswith(means)


def test_one_pu_makes_measuring_impossible():
    """Does a process that may use one PU only end with 1 and say which check is to blame?"""
    script = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        "from nearfield.doctor import examine, processor; from nearfield.cli.verbs.doctor import verdict_line\n"
        "checks = examine((processor.cores,)); assert checks[0].blocks; print(verdict_line(checks))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "Nothing can be measured" in run.stdout and "cores" in run.stdout


def test_the_table_shows_brackets():
    """Do findings such as "[madvise]" survive the markup of the table?"""
    out = io.StringIO()
    Console(file=out, width=100).print(checks_table([Check("pages", "ok", "always [madvise] never", "nothing")]))
    assert "[madvise]" in out.getvalue()


def test_people_and_scripts_read_the_same_words():
    """Is the status in the table the one that JSON has?"""
    for status in ("ok", "limited", "missing"):
        [row] = checks_table([Check("pages", status, "x", "y")]).rows
        assert row[0][0].plain.split()[-1] == status


def test_the_summary_names_the_limits():
    """Does the last line say whether to go on, and what will be missing?"""
    fine, limited = Check("a", "ok", "x", "y"), Check("counters", "missing", "x", "y", "z")
    assert "Measuring is possible" in verdict_line([fine, limited]) and "counters" in verdict_line([fine, limited])
    assert "1 of 2" in verdict_line([fine, limited])


def test_json_and_exit_code_agree():
    """Can a script decide by the exit code alone?"""
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, ["--json"])
    data = json.loads(result.stdout)
    assert [check["name"] for check in data["checks"]]
    assert result.exit_code == (0 if data["possible"] else 1)
