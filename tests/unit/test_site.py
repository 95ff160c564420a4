"""Is what `nearfield site` installs what the library reads, and does it say what each node takes?"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tuning import in_process, rules_for, write

from nearfield import _native
from nearfield.apply import site
from nearfield.apply.site import LIBRARY_PATH, NodeRules, make_node_rules, read_site
from nearfield.base import shared_heap
from nearfield.base.topology import Topology, format_pu_ranges
from nearfield.mpi import Installation
from nearfield.rules.applicability import make_machine_table
from nearfield.rules.knobs import read_all_knob_files

TOPOLOGIES = Path(__file__).parents[1] / "topologies"
SYNTHETIC = {
    path.stem: line.removeprefix("synthetic: ")
    for path in sorted(TOPOLOGIES.glob("*.machine"))
    if (line := path.read_text().splitlines()[1]).startswith("synthetic: ")
}
OPENMPI = Installation("openmpi-5.0.11", "openmpi", "5.0.11", Path("/"), Path("/"), Path("/"), "made up")


def rules_file(folder: Path, *, shared_heap: str = "on") -> Path:
    folder.mkdir(exist_ok=True)
    parameters = {"eager_limit": 16896, **({"shared_heap": "on"} if shared_heap == "on" else {})}
    return write(folder, rules_for(OPENMPI, "ob1 / sm", parameters))


def installed(prefix: Path, *rules: Path) -> NodeRules:
    done = in_process("site", prefix, *rules)
    assert done.code == 0, done.err
    (one,) = read_site(prefix).rules
    return one


def describe_by_files(topology: Topology, root: Path, model: str) -> None:
    """Writes what the kernel reports of CPU 0 of a machine, as far as node types depend on it."""
    cpu = root / "sys/devices/system/cpu/cpu0"
    for folder in ("topology", "cache"):
        (cpu / folder).mkdir(parents=True)
    first = topology.pus[0]

    def with_first(sets: list[tuple[int, ...]]) -> tuple[int, ...]:
        return min((one for one in sets if first in one), key=len, default=())

    (root / "sys/devices/system/cpu/online").write_text(format_pu_ranges(topology.pus) + "\n")
    (cpu / "topology/core_cpus_list").write_text(format_pu_ranges(with_first(topology.cores)) + "\n")
    (cpu / "topology/package_cpus_list").write_text(format_pu_ranges(with_first(topology.packages)) + "\n")
    if numa := with_first(topology.numa_nodes):
        (cpu / "node0").mkdir()
        (root / "sys/devices/system/node/node0").mkdir(parents=True)
        (root / "sys/devices/system/node/node0/cpulist").write_text(format_pu_ranges(numa) + "\n")
    caches = [one for one in topology.caches if first in one.pus]
    for number, cache in enumerate(sorted(caches, key=lambda one: one.level)):
        folder = cpu / f"cache/index{number}"
        folder.mkdir()
        (folder / "level").write_text(f"{cache.level}\n")
        (folder / "type").write_text(f"{cache.kind.capitalize()}\n")
        (folder / "size").write_text(f"{cache.size_bytes >> 10}K\n")
        (folder / "shared_cpu_list").write_text(format_pu_ranges(cache.pus) + "\n")
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(f"processor\t: 0\nmodel name\t:  {model} \nflags\t: fpu\n")


def test_this_node_has_the_type_that_hwloc_sees() -> None:
    """Do the library, which reads a few files, and `tune`, which asks hwloc, agree on this machine?"""
    topology = Topology.of_this_machine()
    machine = make_machine_table(topology, topology.cache_bytes(topology.pus[0]))
    here = _native.node_type()
    assert here.processor == " ".join(machine.cpu_model.split())
    assert list(here.cache_bytes) == machine.cache_bytes
    if topology.pus == sorted(int(path.name[3:]) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*")):
        assert list(here.distances) == machine.distances  # else this process may use a part of the node only


@pytest.mark.parametrize("name", SYNTHETIC)
def test_other_nodes_have_the_type_that_hwloc_sees(name: str, tmp_path: Path) -> None:
    """From the files that the kernel would have there, does the library find the distances that hwloc finds?"""
    topology = Topology.from_synthetic(SYNTHETIC[name])
    describe_by_files(topology, tmp_path, "Some   CPU @ 2 GHz")
    found = _native.node_type(str(tmp_path))
    assert found.processor == "Some CPU @ 2 GHz"
    assert list(found.distances) == topology.distances()
    assert list(found.cache_bytes) == topology.cache_bytes(topology.pus[0])


def test_what_is_installed_is_read_again(tmp_path: Path) -> None:
    """Are the rules written that were tuned, with the library, and replaced by a second installation?"""
    prefix = tmp_path / "site"
    one = installed(prefix, rules_file(tmp_path / "a"))
    assert one.variables == {"OMPI_MCA_btl_sm_eager_limit": "16896"} and one.heap == "on=1"
    assert one.describe_node_difference() == ""
    assert (prefix / LIBRARY_PATH).read_bytes() == shared_heap.heap_library_path().read_bytes()
    (prefix / "site.conf").write_text("# mine\nlog = /var/log/x\n")
    one = installed(prefix, rules_file(tmp_path / "a", shared_heap="off"))
    assert one.heap is None
    assert (prefix / "site.conf").read_text() == "# mine\nlog = /var/log/x\n"


def test_defaults_that_are_best_are_rules_too(tmp_path: Path) -> None:
    """Does a node type whose tune found nothing better count as known, so that nobody is warned there?"""
    (tmp_path / "a").mkdir()
    one = installed(tmp_path / "site", write(tmp_path / "a", rules_for(OPENMPI, "ob1 / sm", {})))
    assert not one.variables and one.heap is None
    assert "the defaults are best" in in_process("site", tmp_path / "site").out


def test_rules_of_two_node_types_have_two_files() -> None:
    """Do nodes with the same processor, but other distances, get rules of their own?"""
    rules = rules_for(OPENMPI, "ob1 / sm", {"eager_limit": 16896})
    machine = rules.machine.model_copy(update={"distances": ["same-core", "same-node"]})
    other = rules.model_copy(update={"machine": machine})
    assert make_node_rules(rules).name != make_node_rules(other).name
    assert make_node_rules(other).describe_node_difference() == "cores at other distances"


def test_what_may_be_set_is_the_same_in_the_library() -> None:
    """Are the variables that `site` writes those that the library accepts, and is each MPI's parameter among them, but
    for UCX's thresholds, which nodes of one job must agree on?"""
    source = (Path(__file__).parents[2] / "src/preload/heap/site_rules.cpp").read_text()
    (listed,) = re.findall(r"allowed_variables\[\] = \{(.*?)\}", source, re.DOTALL)
    assert tuple(re.findall(r'"(\w+)"', listed)) == site.ALLOWED_VARIABLES
    variables = [knob.variable for file in read_all_knob_files() for knob in file.knob if knob.carrier == "mpi"]
    refused = [one for one in variables if not site._is_allowed_variable(one)]
    assert refused == ["UCX_RNDV_THRESH", "UCX_ZCOPY_THRESH"]
    assert not any(
        map(site._is_allowed_variable, ("LD_AUDIT", "UCX_MODULE_DIR", "OMPI_MCA_smsc_x", "MPIR_CVAR_CH4_NETMOD"))
    )


@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_the_umask_does_not_matter(tmp_path: Path, umask: int) -> None:
    """Can all users read what is installed, and only the owner change it, whatever the administrator's umask is?"""
    before = os.umask(umask)
    try:
        installed(tmp_path / "site", rules_file(tmp_path / "a"))
    finally:
        os.umask(before)
    assert read_site(tmp_path / "site").problems == []


@pytest.mark.parametrize("path, mode", [("rules.d", 0o775), ("lib", 0o777), ("site.conf", 0o666), ("rules.d", 0o700)])
def test_what_others_can_change_is_a_problem(tmp_path: Path, path: str, mode: int) -> None:
    """Does the command report what the library would not use, or what users could not read?"""
    prefix = tmp_path / "site"
    installed(prefix, rules_file(tmp_path / "a"))
    (prefix / path).chmod(mode)
    done = in_process("site", prefix)
    assert done.code == 4 and str(prefix / path) in done.words


def test_of_two_patch_versions_the_newer_one_is_installed(tmp_path: Path) -> None:
    for version in ("5.0.3", "5.0.11"):
        (tmp_path / version).mkdir()
        inst = replace(OPENMPI, version=version)
        write(tmp_path / version, rules_for(inst, "ob1 / sm", {"eager_limit": 16896 if version == "5.0.11" else 66048}))
    done = in_process("site", tmp_path / "site", tmp_path / "5.0.3/rules.toml", tmp_path / "5.0.11/rules.toml")
    assert done.code == 0 and "5.0.3/rules.toml is left out" in done.words
    assert read_site(tmp_path / "site").rules[0].variables == {"OMPI_MCA_btl_sm_eager_limit": "16896"}


def test_two_files_for_one_node_type_are_refused(tmp_path: Path) -> None:
    done = in_process("site", tmp_path / "site", rules_file(tmp_path / "a"), rules_file(tmp_path / "b"))
    assert done.code == 2 and "same MPI and type of node" in done.words


def test_the_switch_for_all(tmp_path: Path) -> None:
    """Do --off, --on and --log change their line and no other?"""
    prefix = tmp_path / "site"
    installed(prefix, rules_file(tmp_path / "a"))
    log = tmp_path / "jobs"
    assert "until Monday" in in_process("site", prefix, "--off", "until Monday", "--log", log).out
    assert read_site(prefix).settings == {"off": "until Monday", "log": str(log)}
    assert log.stat().st_mode & 0o777 == 0o622
    assert "switched off" not in in_process("site", prefix, "--on").out
    assert read_site(prefix).settings == {"log": str(log)}
    assert in_process("site", prefix, "--log", "").code == 0
    assert read_site(prefix).settings == {}
    assert in_process("site", prefix, "--log", "jobs.jsonl").code == 2
    assert in_process("site", prefix, "--off", " ").code == 2
    assert in_process("site", prefix, "--off", "x", "--on").code == 2
    assert in_process("site", tmp_path / "none", "--on").code == 2


@pytest.mark.parametrize(
    "damage",
    ["garbage\n", "mpi = openmpi 5.0\n", "unknown = 1\n", "mpi = a\nprocessor = b\ncache_bytes = x\ndistances = d\n"],
)
def test_damaged_rules_are_reported(tmp_path: Path, damage: str) -> None:
    """Is a file that processes will not use an error with its name, also as JSON?"""
    prefix = tmp_path / "site"
    name = installed(prefix, rules_file(tmp_path / "a")).name
    (prefix / "rules.d" / name).write_text(damage)
    done = in_process("site", prefix, "--json")
    assert done.code == 4 and name in done.err
    assert json.loads(done.out)["problems"]


def test_the_task_prolog_preloads_the_library(tmp_path: Path) -> None:
    """Does Slurm's prolog print one line, also after the folder was moved, and nothing if the user does not want it?"""
    prefix = tmp_path / "site"
    installed(prefix, rules_file(tmp_path / "a"))
    moved = prefix.rename(tmp_path / "moved")
    library = moved / LIBRARY_PATH

    def prolog(**variables: str) -> str:
        env = {"PATH": os.environ["PATH"], **variables}
        done = subprocess.run([moved / "share/task-prolog.sh"], env=env, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr
        return done.stdout

    asan = "export ASAN_OPTIONS=verify_asan_link_order=0\n"
    assert prolog() == f"export LD_PRELOAD={library}\n{asan}"
    assert prolog(NEARFIELD_OFF="0") == f"export LD_PRELOAD={library}\n{asan}"
    other = shared_heap.heap_library_path()
    assert prolog(LD_PRELOAD=str(other)) == f"export LD_PRELOAD={library}:{other}\n{asan}"
    for variables in (
        {"NEARFIELD_OFF": "1"},
        {"NEARFIELD_HEAP": ""},
        {"NEARFIELD_SITE": "0"},
        {"LD_PRELOAD": str(library)},
    ):
        assert prolog(**variables) == ""
    library.unlink()
    assert prolog() == ""


def test_own_commands_do_without_the_library_of_the_site() -> None:
    """Is it removed where nearfield measures or sets rules itself, unless the user has given it settings?"""
    site, other = f"/opt/site/{LIBRARY_PATH}", "/usr/lib/other.so"
    environment = {"LD_PRELOAD": f"{site}:{other}"}
    shared_heap.switch_site_rules_off(environment)
    assert environment == {"LD_PRELOAD": other, "NEARFIELD_SITE": "0"}
    shared_heap.switch_site_rules_off(environment)
    assert environment == {"LD_PRELOAD": other, "NEARFIELD_SITE": "0"}
    environment = {"LD_PRELOAD": site}
    shared_heap.switch_site_rules_off(environment)
    assert environment == {"NEARFIELD_SITE": "0"}
    environment = {"LD_PRELOAD": site, "NEARFIELD_HEAP": "from=4096"}
    shared_heap.switch_site_rules_off(environment)
    assert environment["LD_PRELOAD"] == site
