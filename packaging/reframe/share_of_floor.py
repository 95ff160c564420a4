"""A ReFrame test: which share of the speed that the caches allow does the MPI of a node reach?

    reframe -c packaging/reframe/share_of_floor.py -r -S nearfield=/opt/venv/bin/nearfield \\
            -S references=/opt/nearfield/references.json

The test measures ping-pongs, and the floor below them (a flag and one copy between the same two cores), at 64 B,
4 KiB, 64 KiB and 1 MiB for each distance of cores. The performance variables are percentages of the floor, such as
`shared-l3 64KiB`. Both are measured on the same cores in the same minute, so the percentage depends on the MPI and its
settings far more than on the clock.

`references` names a JSON file of what was measured on a good day: {processor: {variable: percent}}, with the name of
the processor as nearfield prints it. A variable that is lower by more than `max_loss` fails, and so does one that has a
reference and cannot be measured. Without a reference for this processor nothing fails, and the numbers are reported.
"""

import json
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher
from reframe.core.builtins import deferrable, run_before, sanity_function, variable

SIZES = {64: "64B", 4096: "4KiB", 65536: "64KiB", 1048576: "1MiB"}
PROFILE, FINDINGS = "profile", "findings.json"
TITLE = "Share of the floor by size"  # of the finding that has the shares


@rfm.simple_test
class ShareOfFloor(rfm.RunOnlyRegressionTest):
    """Percent of the floor that ping-pongs inside one node reach, by distance and size."""

    nearfield = variable(str, value="nearfield")
    mpi = variable(str, value="")  # as `nearfield mpi` names it; empty: the default one
    references = variable(str, value="")
    max_loss = variable(float, value=0.1)

    descr = "percent of the floor of messages inside a node"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 1
    exclusive_access = True
    time_limit = "5m"

    @run_before("run")
    def set_command(self):
        """Sets the command. nearfield starts the ranks itself, so ReFrame's launcher must not start several of it."""
        self.job.launcher = getlauncher("local")()
        self.executable = self.nearfield
        self.executable_opts = [
            "probe", "--quick", "--scenario", "floor,pingpong", "--filter", "pingpong:state=reused",
            "--sizes", ",".join(map(str, SIZES)), "--overwrite", "-o", PROFILE,
        ]  # fmt: skip
        self.executable_opts += ["--mpi", self.mpi] if self.mpi else []
        self.postrun_cmds = [f"{self.nearfield} report {PROFILE} --json > {FINDINGS}"]
        self.keep_files = [FINDINGS]

    @sanity_function
    def is_complete(self):
        """Checks that the profile is complete, and has a share for some distance and for all that have a reference."""
        return sn.all([
            sn.assert_true(self.findings()["complete"], "the profile is incomplete"),
            sn.assert_true(self.shares(), "no share of the floor: the times were too unstable, see the report"),
            sn.assert_eq(set(self.expected()) - set(self.shares()), set(), "some shares were too unstable"),
        ])  # fmt: skip

    @run_before("performance")
    def set_variables(self):
        """Sets a performance variable for each distance and size, and the references for this processor."""
        expected = self.expected()
        self.perf_variables = {
            name: sn.make_performance_function(self.percent(name), "%") for name in self.shares()
        }  # fmt: skip
        self.reference = {
            "*": {name: (expected.get(name, 0), -self.max_loss if name in expected else None, None, "%")
                  for name in self.perf_variables}
        }  # fmt: skip

    @deferrable
    def percent(self, name):
        return 100 * self.shares()[name]

    def expected(self):
        """Returns the references for this processor, by name of the performance variable."""
        known = json.loads(Path(self.references).read_text()) if self.references else {}
        return known.get(self.findings()["machine"], {})

    def findings(self):
        """Returns what `nearfield report --json` printed."""
        return json.loads((Path(self.stagedir) / FINDINGS).read_text())

    def shares(self):
        """Returns the shares by name of the performance variable."""
        found = [one["numbers"] for one in self.findings()["finding"] if one["title"] == TITLE]
        return {
            f"{numbers['distance']} {SIZES[size]}": numbers[f"share_to_{size}"]
            for numbers in found for size in SIZES if f"share_to_{size}" in numbers
        }  # fmt: skip
