"""Do we see machines as they are, and is every pair of PUs at the distance that a person would give it?

Big machines come from tests/topologies (a file there is a test here) and from hwloc's synthetic strings.
"""

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from nearfield.base.errors import UsageError
from nearfield.base.topology import CORE_DISTANCES, Topology, format_pu_ranges
from nearfield.cli.verbs.topology import command, load
from nearfield.ui.topology_view import matrix_rows, render_topology

MACHINES = Path(__file__).parents[1] / "topologies"
ZEN = "package:2 numa:4 l3:2 l2:8 core:1 pu:2"


@dataclass(frozen=True)
class Machine:
    """A file of tests/topologies: comment, source, and what must be printed."""

    name: str
    kind: str
    source: str
    expected: str

    def load(self) -> Topology:
        if self.kind == "xml":
            return Topology.from_xml(MACHINES / self.source)
        return Topology.from_synthetic(self.source)


def read_machine(path: Path) -> Machine:
    _, source, expected = path.read_text(encoding="utf-8").split("\n", 2)
    kind, _, text = source.partition(": ")
    return Machine(path.stem, kind, text, expected)


ALL = [read_machine(path) for path in sorted(MACHINES.glob("*.machine"))]
each_machine = pytest.mark.parametrize("machine", ALL, ids=lambda machine: machine.name)


def printed(topology: Topology) -> str:
    out = io.StringIO()
    Console(file=out, width=100, highlight=False, color_system=None).print(render_topology(topology))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def by_definition(topology: Topology, a: int, b: int) -> str:
    """The distance as src/topology/distance.hpp words it, written once more without the tricks of distance.cpp."""

    def home(pu: int) -> tuple[int, ...]:
        return min((node for node in topology.numa_nodes if pu in node), key=len, default=(pu,))

    def shared(objects: list[tuple[int, ...]]) -> bool:
        return any(a in pus and b in pus for pus in objects)

    def caches(level: int) -> list[tuple[int, ...]]:
        return [c.pus for c in topology.caches if c.level == level and c.kind != "instruction"]

    same_package = shared(topology.packages) or not topology.packages
    holds = {
        "same-core": shared(topology.cores),
        "shared-l2": shared(caches(2)),
        "shared-l3": shared(caches(3)),
        "same-numa": home(a) == home(b) and same_package,
        "same-package": shared(topology.packages),
        "same-node": True,
    }
    return next(name for name in CORE_DISTANCES if holds[name])


@each_machine
def test_a_machine_prints_as_recorded(machine, monkeypatch):
    """Is the output what somebody once read and found right?"""
    monkeypatch.chdir(MACHINES)
    source = {"xml": (Path(machine.source), None), "synthetic": (None, machine.source)}[machine.kind]
    assert printed(load(*source)) == machine.expected


@each_machine
def test_distances_follow_the_definition(machine):
    """Is each pair at the first distance whose object covers both PUs, whichever is named first?"""
    topology = machine.load()
    for a, b in list(combinations(topology.pus, 2))[:5000]:
        assert topology.distance(a, b) == topology.distance(b, a) == by_definition(topology, a, b), (a, b)


@each_machine
def test_pairs_of_all_distances_are_all_pairs(machine):
    """Is every pair of cores in one class, once, and every pair of siblings in same-core?"""
    topology = machine.load()
    listed = [pair for name in CORE_DISTANCES for pair in topology.pairs_at_distance(name)]
    firsts = sorted(core[0] for core in topology.cores)
    siblings = [pair for core in topology.cores for pair in combinations(core, 2)]
    assert sorted(listed) == sorted([*combinations(firsts, 2), *siblings])
    assert all(
        topology.distance(*pair) == name for name in CORE_DISTANCES for pair in topology.pairs_at_distance(name)[:500]
    )


@each_machine
def test_a_representative_is_the_first_of_the_pairs(machine):
    """Does the documented rule choose, for exactly the distances that exist?"""
    topology = machine.load()
    assert topology.representative_pairs() == {
        d: topology.pairs_at_distance(d)[0] for d in CORE_DISTANCES if topology.pairs_at_distance(d)
    }
    assert topology.distances() == list(topology.representative_pairs())


@each_machine
def test_xml_round_trip(machine, tmp_path):
    """Is a machine the same machine after it was written down?"""
    before = machine.load()
    file = tmp_path / "topology.xml"
    file.write_text(before.to_xml(), encoding="utf-8")
    after = Topology.from_xml(file)
    for what in ("pus", "cores", "caches", "numa_nodes", "packages", "cpu_model"):
        assert getattr(after, what) == getattr(before, what), what
    assert after.tree() == before.tree()
    assert after.representative_pairs() == before.representative_pairs()


@each_machine
def test_the_rows_of_a_matrix_cover_every_pu_once(machine):
    """Does folding big machines into blocks lose nobody?"""
    topology = machine.load()
    assert sorted(pu for row in matrix_rows(topology) for pu in row) == topology.pus


def test_blocks_are_interchangeable():
    """Do the cores of one block have the same distances to every core outside it?"""
    topology = Topology.from_synthetic(ZEN)
    blocks = matrix_rows(topology)
    assert len(blocks) == 16
    for block in blocks:
        outside = [pu for pu in topology.pus if pu not in block][::7]
        for other in outside:
            assert len({topology.distance(pu, other) for pu in block}) == 1


def test_zen_by_hand():
    """Are counts as on paper for 2 packages x 4 NUMA nodes x 2 L3 x 8 cores x 2 PUs?"""
    topology = Topology.from_synthetic(ZEN)
    counts = {name: len(topology.pairs_at_distance(name)) for name in topology.distances()}
    assert counts == {
        "same-core": 128,
        "shared-l3": 16 * 28,  # 16 L3 of 8 cores
        "same-numa": 8 * 8 * 8,  # in each of 8 nodes, a core under either L3
        "same-package": 2 * 6 * 16 * 16,  # in each package, 6 pairs of nodes of 16 cores
        "same-node": 64 * 64,
    }
    assert topology.representative_pairs()["shared-l3"] == (0, 2), "PU 1 is the sibling of PU 0"


def test_an_l2_of_one_core_is_not_shared():
    """Does a private L2 over two SMT siblings stay same-core?"""
    topology = Topology.from_synthetic("package:1 l2:2 core:1 pu:2")
    assert topology.distances() == ["same-core", "same-numa"]


def test_an_instruction_cache_carries_no_messages():
    """Is an L2 for instructions, as Itanium has, no shared L2?"""
    assert Topology.from_synthetic("package:1 l2i:1 core:2 pu:1").distances() == ["same-numa"]


def test_caches_are_described():
    """Do sizes, kinds and sharers arrive, and is what the source does not say left open?"""
    topology = Topology.from_synthetic("package:1 l3:1(size=32MiB) l2:2(size=1MiB) l1i:1 core:1 pu:2")
    l3 = [cache for cache in topology.caches if cache.level == 3]
    assert [(c.kind, c.size_bytes, c.pus) for c in l3] == [("unified", 32 << 20, (0, 1, 2, 3))]
    assert [c.level for c in topology.caches] == sorted(c.level for c in topology.caches)
    assert {c.kind for c in topology.caches} == {"unified", "instruction"}
    assert all(c.ways is None or c.ways > 0 for c in topology.caches)


def test_this_machine():
    """Is the live topology made of just the PUs that this process may use?"""
    topology = Topology.of_this_machine()
    allowed = sorted(os.sched_getaffinity(0))
    assert topology.pus == allowed
    assert sorted(pu for core in topology.cores for pu in core) == allowed
    assert {pu for cache in topology.caches for pu in cache.pus} <= set(allowed)


def test_a_restricted_process_sees_only_the_allowed_pus():
    """Does the affinity mask (taskset, srun) cut the machine down?"""
    script = (
        "import os; pu = max(os.sched_getaffinity(0)); os.sched_setaffinity(0, [pu])\n"
        "from nearfield.base.topology import Topology; t = Topology.of_this_machine()\n"
        "assert t.pus == [pu] and t.cores == [(pu,)], t.cores\n"
        "assert t.distances() == [] and all(c.pus == (pu,) for c in t.caches)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("variable", ["HWLOC_SYNTHETIC", "HWLOC_XMLFILE"])
def test_live_is_never_another_machine(variable, monkeypatch):
    """Are hwloc's own variables, which silently swap the machine, refused?"""
    value = {"HWLOC_SYNTHETIC": "pu:64", "HWLOC_XMLFILE": str(MACHINES / "hybrid.xml")}[variable]
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match="another machine") as caught:
        Topology.of_this_machine()
    assert variable in caught.value.remedy


@pytest.mark.parametrize(
    ("description", "cause"),
    [
        ("", "empty"),
        ("pakage:2 pu:1", "'pakage'; did you mean 'package'"),
        ("package:2 core", "'core' has no count"),
        ("package:2 core:0 pu:1", "'core:0' has no count"),
        ("package:2 core:4", "last level must be 'pu:COUNT'"),
        ("core:2 core:2 pu:1", "order"),
    ],
)
def test_a_bad_synthetic_string_is_explained(description, cause):
    """Does the error name the word that is wrong, and show a right one?"""
    with pytest.raises(UsageError) as caught:
        Topology.from_synthetic(description)
    assert cause in caught.value.message
    assert Topology.from_synthetic(caught.value.remedy.split("'")[1]).pus, "the example in the remedy must work"


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (None, "No such file"),
        ("", "empty"),
        ("hello", "not an hwloc topology"),
        ('<topology version="2.0"><object type="Machine">', "cut off"),
        ('<topology version="9.0"></topology>', "hwloc 9"),
        ('<topology version="2.0">nonsense</topology>', "damaged"),
    ],
)
def test_a_bad_xml_file_is_explained(content, cause, tmp_path):
    """Does the error name the file and what is wrong with it?"""
    file = tmp_path / "machine.xml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=cause) as caught:
        Topology.from_xml(file)
    assert str(file) in caught.value.message
    assert "lstopo" in caught.value.remedy


DAMAGE = [
    ("virtual-epyc.xml", b"complete_nodeset", b"complete_odeset", "damaged"),  # a segmentation fault of hwloc 2.11
    ("virtual-epyc.xml", b'type="Package" os_index="0" cpuset="0x00000003"', b'type="Package" cpuset="x"', "no core"),
    ("virtual-epyc.xml", b'type="Machine"', b'type="M\xe4chine"', "is not UTF-8"),
]


@pytest.mark.parametrize(("machine", "right", "wrong", "cause"), DAMAGE)
def test_a_damaged_file_ends_in_an_error(machine, right, wrong, cause, tmp_path):
    """Is a file refused by its name if hwloc crashes on it, or describes what cannot be? Does that hold for a name that
    is not UTF-8, too, and does this process live on?"""
    content = (MACHINES / machine).read_bytes()
    assert right in content
    file = tmp_path / os.fsdecode(b"m\xff.xml")
    file.write_bytes(content.replace(right, wrong, 1))
    with pytest.raises(UsageError, match=cause) as caught:
        Topology.from_xml(file)
    assert str(file) in caught.value.message and "lstopo" in caught.value.remedy
    file.write_bytes(content)
    assert Topology.from_xml(file).pus


@pytest.mark.parametrize(("a", "b", "cause"), [(0, 99, "PU 99"), (-1, 0, "PU -1"), (1, 1, "no distance to itself")])
def test_an_impossible_pair_is_explained(a, b, cause):
    """Does asking for a PU that is not there name it and those that are?"""
    with pytest.raises(UsageError, match=cause) as caught:
        Topology.from_synthetic("core:4 pu:1").distance(a, b)
    assert "0-3" in caught.value.remedy


def test_an_unknown_distance_is_explained():
    """Is a misspelt distance refused, rather than empty?"""
    with pytest.raises(UsageError, match="same-sokcet"):
        Topology.from_synthetic("core:4 pu:1").pairs_at_distance("same-sokcet")


@pytest.mark.parametrize(
    ("pus", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1, 2, 3, 8], "0-3,8"),
        ([0, 32], "0,32"),
        ([0, 2, 4, 6], "0,2,4,6"),
        ([0, 2, 4, 6, 8, 9], "0-8:2,9"),
    ],
)
def test_ranges(pus, text):
    """Are PUs written as taskset reads them?"""
    assert format_pu_ranges(pus) == text


def run_cli(*arguments: str):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(arguments))


def test_json_is_json_and_complete():
    """Can a script read everything that the drawing shows?"""
    result = run_cli("--json", "--synthetic", ZEN)
    data = json.loads(result.stdout)
    assert (len(data["pus"]), len(data["cores"]), len(data["packages"])) == (256, 128, 2)
    assert [row["distance"] for row in data["distances"]] == Topology.from_synthetic(ZEN).distances()
    assert data["distances"][0] == {"distance": "same-core", "pairs": 128, "representative": [0, 1]}
    assert data["tree"]["type"] == "Machine"


def test_two_sources_are_one_too_many():
    """Is it said, rather than one of them silently taken?"""
    result = run_cli("a.xml", "--synthetic", ZEN)
    assert isinstance(result.exception, UsageError)


def test_a_file_that_is_no_text_is_explained(tmp_path: Path) -> None:
    """Is a byte that is not UTF-8 named, in a file that hwloc itself would read?"""
    file = tmp_path / "machine.xml"
    file.write_bytes(Topology.from_synthetic("core:2 pu:1").to_xml().encode().replace(b"Machine", b"Machine\xff", 1))
    with pytest.raises(UsageError) as caught:
        Topology.from_xml(file)
    assert "is not UTF-8" in caught.value.message and caught.value.remedy
