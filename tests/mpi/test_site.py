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
from nearfield.mpi.process import Finished

CORES = len(os.sched_getaffinity(0))
VARIABLE = {"openmpi-4": "OMPI_MCA_btl_vader_eager_limit", "openmpi-5": "OMPI_MCA_btl_sm_eager_limit"}


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi_program.built(inst, "site_job.cpp", programs)


class Cluster:
    """A site with rules for one MPI, and its jobs of two ranks."""

    def __init__(self, inst: Installation, programs: Path, folder: Path) -> None:
        self.inst, self.programs, self.prefix = inst, programs, folder / "site"
        carrier, reason = mpi.transport_or_reason(inst)
        assert carrier, reason
        self.variable = next((name for begin, name in VARIABLE.items() if inst.name.startswith(begin)), "")
        parameters = {"shared_heap": "on"} | ({"eager_limit": 16896} if self.variable else {})
        if inst.name.startswith("mpich-4.0"):
            parameters = {}  # carried by UCX, for which rules have other names
        (self.rules,) = site.install(self.prefix, [rules_for(inst, carrier, parameters)])
        self.file = self.prefix / site.RULES / self.rules.name

    def run(self, *words: str, **variables: str) -> Finished:
        program = mpi_program.built(self.inst, "site_job.cpp", self.programs)
        env = {"LD_PRELOAD": str(self.prefix / site.LIBRARY), **variables}
        command = [str(program), self.variable or "HOME", *words]
        done = mpi.run(self.inst, command, 2, oversubscribe=CORES < 2, timeout_s=60, env=env)
        assert done.ok, done.stdout + done.stderr
        assert done.stdout.count("data right") == 2
        return done

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def log(self) -> list[dict[str, object]]:
        """Returns what the log says of the last job."""
        path = self.prefix / "log.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.unlink()
        return lines


def ours(done: Finished) -> list[str]:
    """Returns what the library said."""
    return [line for line in done.stderr.splitlines() if line.startswith("nearfield: ")]


@pytest.fixture
def cluster(installation: Installation, programs: Path, tmp_path: Path) -> Cluster:
    made = Cluster(installation, programs, tmp_path)
    site.set_setting(made.prefix, site.LOG, str(made.prefix / "log.jsonl"))
    return made


def test_a_job_takes_the_rules_of_its_node(cluster: Cluster) -> None:
    """Are the variables set before MPI reads them, is the heap used if the rules say so, and does one line of the log
    say which rules there were, also if the ranks have children?"""
    done = cluster.run("fork", NEARFIELD_VERBOSE="1")
    if cluster.variable:
        assert done.stdout.count("value 16896") == 2
    (line,) = ours(done)
    assert cluster.rules.name in line
    (logged,) = cluster.log()
    assert (logged["rules"], logged["ranks"], logged["mpi"]) == (cluster.rules.name, 2, cluster.rules.mpi)
    if cluster.rules.heap is not None and cluster.inst.family != "intel":
        ways = logged["first_rank_copied"]
        assert isinstance(ways, dict) and sum(n for way, (n, _) in ways.items() if way.startswith("user")) > 0
    assert not ours(cluster.run())


@pytest.mark.families
def test_what_the_user_sets_stays(cluster: Cluster) -> None:
    """Has a variable of the user precedence over the rules, and does NEARFIELD_OFF leave the program alone?"""
    if cluster.variable:
        assert cluster.run(**{cluster.variable: "8192"}).stdout.count("value 8192") == 2
        cluster.log()
    done = cluster.run(NEARFIELD_OFF="1", NEARFIELD_VERBOSE="1")
    assert "value 16896" not in done.stdout and not ours(done)
    assert not (cluster.prefix / "log.jsonl").exists()


@pytest.mark.families
@pytest.mark.parametrize(
    "line, why", [("processor", "another processor"), ("cache_bytes", "other caches"), ("distances", "other distances")]
)
def test_another_node_is_refused_in_one_line(cluster: Cluster, line: str, why: str) -> None:
    """Does a node of another type get the MPI's defaults, and is that said once, with what differs?"""
    cluster.edit(f"{line} = ", f"{line} = 7 ")
    done = cluster.run()
    assert "value 16896" not in done.stdout
    (said,) = ours(done)
    assert why in said and cluster.rules.name in said and "NEARFIELD_OFF=1" in said
    (logged,) = cluster.log()
    assert logged["rules"] is None and why in str(logged["reason"])


@pytest.mark.families
def test_rules_of_another_mpi_are_not_taken(cluster: Cluster) -> None:
    cluster.edit("mpi = ", "mpi = another-")
    (said,) = ours(cluster.run())
    assert "none for this MPI" in said


@pytest.mark.families
def test_files_that_others_can_change_are_not_used(cluster: Cluster) -> None:
    """Are rules ignored that another user could have written, and damaged ones, each with one line?"""
    cluster.file.chmod(0o666)
    said = ours(cluster.run())
    assert len(said) == 2 and "others than its owner" in said[0] and "no rules" in said[1]
    cluster.file.chmod(0o644)
    for wrong in ("set LD_AUDIT = /tmp/x.so\n", "set OMPI_MCA_mca_base_component_path = /tmp\n", "nonsense\n"):
        text = cluster.file.read_text()
        cluster.file.write_text(text + wrong)
        said = ours(cluster.run())
        assert len(said) == 2 and f"line {len(text.splitlines()) + 1} is not understood" in said[0]
        cluster.file.write_text(text)


@pytest.mark.families
def test_the_site_switches_all_off(cluster: Cluster) -> None:
    """Does one line of site.conf end it for all jobs, silently, with its reason in the log?"""
    site.set_setting(cluster.prefix, site.OFF, "until Monday")
    done = cluster.run(NEARFIELD_VERBOSE="1")
    assert "value 16896" not in done.stdout and not ours(done)
    (logged,) = cluster.log()
    assert "until Monday" in str(logged["reason"])


@pytest.mark.families
def test_settings_of_nearfield_run_come_first(cluster: Cluster) -> None:
    """Do rules that came with the environment keep the site's away?"""
    done = cluster.run(NEARFIELD_HEAP="on=1", NEARFIELD_VERBOSE="1")
    assert "value 16896" not in done.stdout and not ours(done)
    assert not (cluster.prefix / "log.jsonl").exists()
