"""Does each process of a job take the rules of its own node, from the library that a site preloads?"""

from __future__ import annotations

import json
import os
from pathlib import Path

import mpi_program
import pytest
from tuning import rules_for

from nearfield import mpi
from nearfield.apply import site
from nearfield.mpi import Installation
from nearfield.mpi.process import FinishedLaunch
from nearfield.rules.knobs import find_knobs

CORES = len(os.sched_getaffinity(0))
# A parameter of each MPI: its name, value and variable. The MPICH of Debian has none: UCX carries its messages.
PARAMETERS = {
    "openmpi-4": ("eager_limit", 16896, "OMPI_MCA_btl_vader_eager_limit"),
    "openmpi-5": ("eager_limit", 16896, "OMPI_MCA_btl_sm_eager_limit"),
    "mpich-5": ("cma_threshold", 65536, "MPIR_CVAR_CH4_IPC_CMA_P2P_THRESHOLD"),
    "intel": ("fwd_size", 32768, "I_MPI_SHM_CELL_FWD_SIZE"),
}


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi_program.built(inst, "site_job.cpp", programs)


class Cluster:
    """A site with rules for one MPI, and its jobs of two ranks."""

    def __init__(self, inst: Installation, programs: Path, folder: Path) -> None:
        self.inst, self.programs, self.prefix = inst, programs, folder / "site"
        carrier, reason = mpi.transport_or_reason(inst)
        assert carrier, reason
        known = next((one for begin, one in PARAMETERS.items() if inst.name.startswith(begin)), ("", 0, "HOME"))
        name, value, self.variable = known
        self.value = str(value)
        names = {knob.name for knob in find_knobs(inst.family, inst.version, carrier).knob}
        parameters = {name: value} if name else {}
        parameters |= {"shared_heap": "on"} if "shared_heap" in names else {}
        (self.rules,) = site.install_site(self.prefix, [rules_for(inst, carrier, parameters)])
        self.file = self.prefix / site.RULES_FOLDER / self.rules.name

    def run(self, *words: str, **variables: str) -> FinishedLaunch:
        program = mpi_program.built(self.inst, "site_job.cpp", self.programs)
        env = {"LD_PRELOAD": str(self.prefix / site.LIBRARY_PATH), **variables}
        command = [str(program), self.variable, *words]
        done = mpi.run(self.inst, command, 2, oversubscribe=CORES < 2, timeout_s=60, env=env)
        assert done.has_succeeded, done.stdout + done.stderr
        assert done.stdout.count("data right") == 2
        return done

    def is_tuned(self, done: FinishedLaunch) -> bool:
        """Returns whether both ranks had the value of the rules; an MPI without parameters says nothing of that. Fails
        if only one had it."""
        count = done.stdout.count(f"value {self.value} ")
        assert count in (0, 2)
        return self.value != "0" and count == 2

    def log_without_heap(self) -> dict[str, object]:
        """Returns the line of the log for a job in which the heap copied nothing."""
        (line,) = self.log()
        assert self.user_copies(line) == 0
        return line

    def user_copies(self, line: dict[str, object]) -> int:
        ways = line["first_rank_copied"]
        assert isinstance(ways, dict)
        return sum(count for way, (count, _) in ways.items() if way.startswith("user"))

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def log(self) -> list[dict[str, object]]:
        """Returns what the log says of the last job."""
        path = self.prefix / "log.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("")
        return lines


def ours(done: FinishedLaunch) -> list[str]:
    """Returns what the library said."""
    return [line for line in done.stderr.splitlines() if line.startswith("nearfield: ")]


@pytest.fixture
def cluster(installation: Installation, programs: Path, tmp_path: Path) -> Cluster:
    made = Cluster(installation, programs, tmp_path)
    site.write_setting(made.prefix, site.LOG_KEY, str(made.prefix / "log.jsonl"))
    site.create_log_file(made.prefix / "log.jsonl")
    return made


def test_a_job_takes_the_rules_of_the_node(cluster: Cluster) -> None:
    """Are the variables set before MPI reads them, is the heap used if the rules say so, and does one line of the log
    say which rules there were, also if the ranks have children?"""
    done = cluster.run("fork", NEARFIELD_VERBOSE="1")
    assert cluster.is_tuned(done) or cluster.value == "0"
    (line,) = ours(done)
    assert cluster.rules.name in line
    (logged,) = cluster.log()
    assert (logged["rules"], logged["ranks"], logged["mpi"]) == (cluster.rules.name, 2, cluster.rules.mpi)
    if cluster.rules.heap is not None:
        assert cluster.user_copies(logged) > 0
    assert not ours(cluster.run())


@pytest.mark.families
def test_what_the_user_sets_stays(cluster: Cluster) -> None:
    """Has a variable of the user precedence over the rules, and does NEARFIELD_OFF leave the program alone?"""
    if cluster.value != "0":
        assert cluster.run(**{cluster.variable: "16384"}).stdout.count("value 16384 ") == 2
        cluster.log()
    done = cluster.run(NEARFIELD_OFF="1", NEARFIELD_VERBOSE="1")
    assert not cluster.is_tuned(done) and not ours(done)
    assert not cluster.log()


@pytest.mark.families
@pytest.mark.parametrize(
    "line, why", [("processor", "another processor"), ("cache_bytes", "other caches"), ("distances", "other distances")]
)
def test_another_node_is_refused_in_one_line(cluster: Cluster, line: str, why: str) -> None:
    """Does a node of another type get the MPI's defaults, and is that said once, with what differs?"""
    cluster.edit(f"{line} = ", f"{line} = 7 ")
    done = cluster.run()
    assert not cluster.is_tuned(done)
    (said,) = ours(done)
    assert why in said and cluster.rules.name in said and "NEARFIELD_OFF=1" in said
    logged = cluster.log_without_heap()
    assert logged["rules"] is None and why in str(logged["reason"])


@pytest.mark.families
def test_rules_of_another_mpi_are_not_taken(cluster: Cluster) -> None:
    cluster.edit("mpi = ", "mpi = another-")
    (said,) = ours(cluster.run())
    assert "none for this MPI" in said


@pytest.mark.families
def test_files_that_others_can_change_are_not_used(cluster: Cluster) -> None:
    """Are rules ignored that another user could have written, and damaged ones? Is that one line?"""

    def refused(path: Path, mode: int, why: str) -> None:
        before = path.stat().st_mode
        path.chmod(mode)
        (said,) = ours(cluster.run())
        path.chmod(before)
        assert why in said and "no rules for" in said
        cluster.log_without_heap()

    refused(cluster.file, 0o666, "others than its owner")
    refused(cluster.file.parent, 0o777, "others than the owner")
    text = cluster.file.read_text()
    for wrong in ("set LD_AUDIT = /tmp/x.so\n", "set UCX_MODULE_DIR = /tmp\n", "heap = report=/tmp\n", "nonsense\n"):
        cluster.file.write_text(text + wrong)
        (said,) = ours(cluster.run())
        assert f"line {len(text.splitlines()) + 1} is not understood" in said
        cluster.log_without_heap()


@pytest.mark.families
def test_the_switch_works_in_spite_of_mistakes(cluster: Cluster) -> None:
    """Does `off` count though another line is wrong, and is everything off if site.conf cannot be trusted?"""
    conf = cluster.prefix / site.SETTINGS_FILE
    conf.write_text(f"nonsense\n{conf.read_text()}\noff = until Monday\n")
    (said,) = ours(cluster.run())
    assert "line 1 is not understood" in said
    assert "until Monday" in str(cluster.log_without_heap()["reason"])
    conf.chmod(0o666)
    done = cluster.run()
    assert not cluster.is_tuned(done) and "site.conf is not used" in ours(done)[0]


@pytest.mark.families
def test_own_commands_do_without_the_rules_of_the_site(cluster: Cluster) -> None:
    """Do the ranks that nearfield starts get no rules, even if something preloads the library for them?"""
    done = cluster.run(NEARFIELD_SITE="0", NEARFIELD_VERBOSE="1")
    assert not cluster.is_tuned(done) and not ours(done) and not cluster.log()


@pytest.mark.families
def test_the_site_switches_all_off(cluster: Cluster) -> None:
    """Does one line of site.conf end it for all jobs, silently, with its reason in the log?"""
    site.write_setting(cluster.prefix, site.OFF_KEY, "until Monday")
    done = cluster.run(NEARFIELD_VERBOSE="1")
    assert not cluster.is_tuned(done) and not ours(done)
    logged = cluster.log_without_heap()
    assert "until Monday" in str(logged["reason"])


@pytest.mark.families
def test_settings_of_nearfield_run_come_first(cluster: Cluster) -> None:
    """Do rules that came with the environment keep the site's away?"""
    done = cluster.run(NEARFIELD_HEAP="on=1", NEARFIELD_VERBOSE="1")
    assert not cluster.is_tuned(done) and not ours(done)
    assert not cluster.log()
