"""Does each scenario get the ranks it needs, where it needs them, on machines of every shape?"""

from pathlib import Path

import pytest

from nearfield.base.errors import UsageError
from nearfield.base.topology import Topology
from nearfield.base.words import group_by_reason
from nearfield.measure.live.layout import (
    BACKGROUND_KIND,
    NETWORK_DISTANCE,
    HostCores,
    RankGroup,
    RankPlace,
    plan_groups,
    read_hostfile,
)

KINDS = {"pair", "all", BACKGROUND_KIND}
# 2 packages x 2 NUMA nodes x 2 L3 x 2 cores (with an L2 of their own) x 2 hardware threads: 16 cores, 32 PUs.
BIG = "package:2 numa:2 l3:2 l2:2 core:1 pu:2"
TWO_CORES = "package:1 l3:1 l2:2 core:1 pu:1"
FOUR_CORES = "package:1 l3:1 l2:4 core:1 pu:1"


def groups_of(
    description: str,
    kinds: set[str] = KINDS,
    *,
    nodes: list[HostCores] | None = None,
    all_pairs: bool = False,
    ranks: int | None = None,
) -> tuple[list[RankGroup], dict[str, str]]:
    topology = Topology.from_synthetic(description)
    return plan_groups(topology, kinds, nodes=nodes, all_pairs=all_pairs, ranks=ranks)


def cpus(group: RankGroup) -> list[int]:
    return [place.cpu for place in group.places]


def test_one_pair_for_each_distance() -> None:
    """Is every distance of a big machine measured once, nearest first, by its representative pair?"""
    topology = Topology.from_synthetic(BIG)
    groups, missing = groups_of(BIG, {"pair"})
    assert missing == {}
    assert [group.distance for group in groups] == topology.distances()
    assert topology.distances() == ["same-core", "shared-l3", "same-numa", "same-package", "same-node"]
    for group in groups:
        assert group.distance is not None
        assert tuple(cpus(group)) == topology.representative_pairs()[group.distance]
        assert topology.distance(*cpus(group)) == group.distance


def test_all_pairs_are_all_pairs_of_cores() -> None:
    """Does `--pairs all` take every pair of cores once, and every pair of threads inside a core?"""
    groups, _ = groups_of(BIG, {"pair"}, all_pairs=True)
    inside_cores = [group for group in groups if group.distance == "same-core"]
    assert len(inside_cores) == 16
    assert len(groups) - len(inside_cores) == 16 * 15 // 2
    assert len({group.places for group in groups}) == len(groups)
    assert len({group.name for group in groups}) == len(groups)


@pytest.mark.parametrize(("description", "cores"), [(BIG, 16), (TWO_CORES, 2), ("core:6 pu:4", 6)])
def test_all_takes_one_thread_of_each_core(description: str, cores: int) -> None:
    """Does a scenario of all ranks run on each core once, not on each hardware thread?"""
    groups, _ = groups_of(description, {"all"})
    assert len(groups) == 1
    topology = Topology.from_synthetic(description)
    assert cpus(groups[0]) == [core[0] for core in topology.cores]
    assert len(groups[0].places) == cores
    assert not groups[0].is_oversubscribed
    assert groups[0].distance is None


def test_equal_places_are_launched_once() -> None:
    """On two cores, is the only pair launched together with `all`, and keeps it its distance?"""
    groups, _ = groups_of(TWO_CORES, {"pair", "all"})
    assert [group.scenario_kinds for group in groups] == [("pair", "all")]
    assert groups[0].distance == "shared-l3"


def test_background_is_a_separate_launch() -> None:
    """Does load keep its own launch, although `all` of four cores are the same places?"""
    groups, _ = groups_of(FOUR_CORES)
    alike = [group for group in groups if cpus(group) == [0, 1, 2, 3]]
    assert [group.scenario_kinds for group in alike] == [("all",), (BACKGROUND_KIND,)]
    assert [group.distance for group in alike] == [None, "shared-l3"], "the timed pair of load has a distance"
    assert len({group.name for group in groups}) == len(groups)


@pytest.mark.parametrize(
    ("description", "ranks", "kind", "reason"),
    [
        (TWO_CORES, None, BACKGROUND_KIND, "needs 4 free cores; there are 2"),
        ("core:3 pu:2", None, BACKGROUND_KIND, "needs 4 free cores; there are 3"),
        (BIG, 3, BACKGROUND_KIND, "needs 4 ranks; --ranks requests 3"),
        ("core:1 pu:1", None, "all", "needs 2 free cores; there is 1"),
        ("core:1 pu:1", None, "pair", "needs 2 free cores; there is 1"),
    ],
)
def test_what_cannot_run_says_why(description: str, ranks: int | None, kind: str, reason: str) -> None:
    """Is a scenario without the cores it needs left out with the reason?"""
    groups, missing = groups_of(description, ranks=ranks)
    assert missing[kind] == reason
    assert not [group for group in groups if kind in group.scenario_kinds]


def test_hardware_threads_of_one_core_are_a_pair() -> None:
    """Is a single core with two threads still measured, as the one distance it has?"""
    groups, missing = groups_of("core:1 pu:2")
    assert [(group.distance, cpus(group)) for group in groups] == [("same-core", [0, 1])]
    assert set(missing) == {"all", BACKGROUND_KIND}


@pytest.mark.parametrize(
    ("ranks", "places", "oversubscribed"),
    [(2, [0, 1], False), (4, [0, 1, 2, 3], False), (6, [0, 1, 2, 3, 0, 1], True)],
)
def test_ranks_replaces_one_per_core(ranks: int, places: list[int], oversubscribed: bool) -> None:
    """Does `--ranks` take the first cores, and use them again when there are too few, and says so?"""
    groups, _ = groups_of(FOUR_CORES, {"all"}, ranks=ranks)
    assert cpus(groups[0]) == places
    assert groups[0].is_oversubscribed == oversubscribed


def test_more_ranks_than_one_core() -> None:
    """With `--ranks` on one core, do the scenarios of all ranks still run?"""
    groups, missing = groups_of("core:1 pu:1", ranks=4)
    assert [(group.scenario_kinds, cpus(group), group.is_oversubscribed) for group in groups] == [
        (("all",), [0] * 4, True),
        ((BACKGROUND_KIND,), [0] * 4, True),
    ]
    assert set(missing) == {"pair"}


# ---- several nodes


def write(folder: Path, text: str) -> Path:
    file = folder / "hosts"
    file.write_text(text)
    return file


def test_hostfile_lines(tmp_path: Path) -> None:
    """Are slots, cpus, both in either order, comments and empty lines understood?"""
    text = "# two racks\na\n\nb slots=2  # the small one\nc cpus=4,0,2\nd cpus=4,0,2 slots=2\ne slots=2 cpus=4,0,2\n"
    nodes = read_hostfile(write(tmp_path, text), (0, 1, 2, 3))
    assert nodes == [
        HostCores("a", (0, 1, 2, 3)),
        HostCores("b", (0, 1)),
        HostCores("c", (4, 0, 2)),
        HostCores("d", (4, 0)),
        HostCores("e", (4, 0)),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no host"),
        ("# nothing\n\n", "names no host"),
        ("a\nb slot=2\n", "hosts:2: unknown key 'slot'"),
        ("a slots=many\n", "hosts:1: 'slots=many' is no number"),
        ("a slots=-1\n", "hosts:1: 'slots=-1' is no number"),
        ("a slots=0\n", "hosts:1: slots=0 leaves no CPU"),
        ("a cpus=0,,2\n", "hosts:1: 'cpus=0,,2' is no number or list of numbers"),
        ("a cpus=\n", "hosts:1: 'cpus=' is no number"),
        ("a cpus=1,1\n", "hosts:1: a CPU is there twice"),
        ("a cpus=0\na cpus=1\n", "hosts:2: a is there twice"),
    ],
)
def test_wrong_hostfile_names_the_line(tmp_path: Path, text: str, words: str) -> None:
    """Does a mistake in a hostfile end in its line and what is wrong with it?"""
    with pytest.raises(UsageError) as caught:
        read_hostfile(write(tmp_path, text), (0, 1))
    assert words in caught.value.message
    assert caught.value.remedy


def test_missing_hostfile_is_named(tmp_path: Path) -> None:
    """Is a hostfile that cannot be read an error that names it?"""
    with pytest.raises(UsageError, match="cannot read the hostfile .*nowhere: No such file"):
        read_hostfile(tmp_path / "nowhere", (0, 1))


def test_pairs_inside_the_first_node_and_across() -> None:
    """With a hostfile, are the first node's distances measured there, and one pair across the network?"""
    nodes = [HostCores("a", (0, 1)), HostCores("b", (0, 1)), HostCores("c", (0, 1))]
    groups, _ = groups_of(TWO_CORES, {"pair"}, nodes=nodes)
    assert [(group.distance, group.pair, group.hosts) for group in groups] == [
        ("shared-l3", "a:0-a:1", [("a", 2)]),
        (NETWORK_DISTANCE, "a:0-b:0", [("a", 1), ("b", 1)]),
    ]


def test_all_pairs_of_nodes() -> None:
    """With `--pairs all`, is every pair of nodes measured?"""
    nodes = [HostCores(host, (0, 1)) for host in "abcd"]
    groups, _ = groups_of(TWO_CORES, {"pair"}, nodes=nodes, all_pairs=True)
    assert sum(group.distance == NETWORK_DISTANCE for group in groups) == 6


def test_cpus_of_a_hostfile_are_the_only_ones_used() -> None:
    """Does `cpus=` keep pairs inside the first node to those cores, hardware threads of them included?"""
    nodes = [HostCores("a", (0, 4)), HostCores("b", (6,))]
    groups, _ = groups_of("package:1 l3:1 core:4 pu:2", {"pair", "all"}, nodes=nodes, all_pairs=True)
    assert [(group.distance, group.pair) for group in groups if group.scenario_kinds == ("pair",)] == [
        ("same-core", "a:0-a:1"),
        ("same-core", "a:4-a:5"),
        ("shared-l3", "a:0-a:4"),
        (NETWORK_DISTANCE, "a:0-b:6"),
    ]
    assert groups[-1].places == (RankPlace(0, "a"), RankPlace(4, "a"), RankPlace(6, "b"))


def test_one_core_on_each_node() -> None:
    """Are two nodes with a core each one launch for the pair and for all, although neither has a pair of its own?"""
    groups, missing = groups_of(TWO_CORES, nodes=[HostCores("a", (0,)), HostCores("b", (1,))])
    assert [(group.scenario_kinds, group.pair, group.distance) for group in groups] == [
        (("pair", "all"), "a:0-b:1", NETWORK_DISTANCE)
    ]
    assert missing == {BACKGROUND_KIND: "needs 4 free cores; there are 2"}


def test_hosts_stay_together_when_oversubscribed() -> None:
    """With more ranks than cores, is each host still one run of ranks, as launchers need it?"""
    nodes = [HostCores("a", (0,)), HostCores("b", (1,))]
    groups, _ = groups_of(TWO_CORES, {"all"}, nodes=nodes, ranks=5)
    assert groups[0].hosts == [("a", 3), ("b", 2)]
    assert cpus(groups[0]) == [0, 0, 0, 1, 1]


def test_names_make_files() -> None:
    """Are a group's names safe as file names, whatever the hosts are called?"""
    nodes = [HostCores("a/../b", (0,)), HostCores("*", (1,))]
    groups, _ = groups_of(TWO_CORES, {"pair"}, nodes=nodes)
    assert "/" not in groups[0].name
    assert "*" not in groups[0].name


def test_a_reason_is_reported_once() -> None:
    """Is a reason reported once however many scenarios and distances have it, with each scenario once?"""
    skipped = [
        ("load", "needs 4 cores"),
        ("load", "needs 4 cores"),
        ("pages", "no TLB"),
        ("collective", "needs 4 cores"),
    ]
    assert group_by_reason(skipped) == "load, collective: needs 4 cores. pages: no TLB"
