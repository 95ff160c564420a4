"""Does `tune --collectives` choose by what its launches carry, and do rules keep and select what it chose?"""

from __future__ import annotations

from pathlib import Path

import pytest
from tuning import rules_for, write

from nearfield import mpi
from nearfield.base.errors import NearfieldError
from nearfield.rules.collective_tables import CollectiveRangeTable, CollectiveTable, format_selection
from nearfield.rules.schema import Rules, load_rules, save_rules
from nearfield.tune.collectives import CellMeasurements, CollectiveCell, CollectiveTuning

INST = mpi.Installation("openmpi-5.0.11", "openmpi", "5.0.11", Path("/"), Path("/"), Path("/"), "made up")


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    return write(tmp_path, rules_for(INST, "ob1 / sm", {"eager_limit": 65536}))


def measured(**speed: list[float]) -> CellMeasurements:
    """Returns a cell whose launches found these speeds, as multiples of the MPI's."""
    made = CellMeasurements([*speed, "mpi"])
    for launch in zip(*speed.values(), strict=True):
        found = {**dict(zip(speed, launch, strict=True)), "mpi": 1.0}
        made.add_launch(found, {name: 100 / one for name, one in found.items()})
    return made


@pytest.mark.parametrize(
    ("speed", "best"),
    [
        ({"flat": [2.0] * 3}, "flat"),
        ({"flat": [0.5] * 3}, "mpi"),
        ({"flat": [2.0] * 2}, "mpi"),  # too few launches
        ({"flat": [1.3, 0.6, 1.2, 0.7, 1.4, 1.1]}, "mpi"),  # not decided
        ({"flat": [1.01, 0.99, 1.02, 1.0, 1.01, 1.0]}, "flat"),  # as fast
        ({"flat": [2.0] * 6, "slices": [2.6] * 6}, "slices"),
        ({"flat": [2.0] * 6, "slices": [1.9, 2.3, 1.8, 2.2, 2.0, 2.1]}, "flat"),  # no better for sure
        ({"flat": [0.7] * 6, "slices": [1.4] * 6}, "slices"),
    ],
)
def test_an_algorithm_is_chosen_only_if_it_is_not_slower(speed: dict[str, list[float]], best: str) -> None:
    """Is nearfield's algorithm chosen where it is as fast as the MPI's for sure, and the MPI's own otherwise?"""
    assert measured(**speed).best_algorithm() == best


def test_hopeless_algorithms_and_clear_cells_are_left_out() -> None:
    """Does racing leave out what cannot win, but keep the MPI's own to compare with?"""
    raced = measured(flat=[3.0, 3.0, 3.0], slices=[1.0, 1.1, 1.0])
    assert raced.algorithms == ["flat", "mpi"]
    assert raced.has_clear_choice()
    assert not measured(flat=[1.1, 1.0, 1.1]).has_clear_choice()
    assert measured(flat=[0.5, 0.6, 0.5]).algorithms == ["mpi"]


def test_lengths_between_different_neighbours_are_measured() -> None:
    """Is the length where the algorithm changes narrowed down to a factor of two?"""
    tuning = CollectiveTuning(None, (0, 1), 60, operations=["bcast"])  # type: ignore[arg-type]
    for size, speed in ((64, 2.0), (256, 2.0), (4096, 0.5)):
        tuning.cells[CollectiveCell("bcast", size)] = measured(flat=[speed] * 3)
    tuning._add_intermediate_lengths()
    assert [cell.size_bytes for cell in tuning.cells if tuning.cells[cell].num_launches == 0] == [1024]


def test_neighbours_with_one_algorithm_share_a_range() -> None:
    """Does the table have one range for neighbouring lengths of one algorithm, that of the longest one to twice its
    length, and the last one no end?"""
    sizes = (8, 64, 4096, 1 << 20)
    tuning = CollectiveTuning(None, (0, 1), 60, operations=["bcast", "scan"], sizes=sizes)  # type: ignore[arg-type]
    for size, speed in zip(sizes, (2.0, 3.0, 0.5, 4.0), strict=True):
        tuning.cells[CollectiveCell("bcast", size)] = measured(flat=[speed] * 3)
    tuning.cells[CollectiveCell("scan", 8)] = measured(flat=[2.0])
    table = tuning._table_of_operation("bcast")
    assert table
    assert [str(one) for one in table.range] == ["flat-64", "mpi-4096", "flat-2097152", "mpi"]
    assert table.range[0].gain and table.range[0].gain.value == pytest.approx(6**0.5, rel=1e-3)
    assert tuning._table_of_operation("scan") is None


def test_blocks_of_many_ranks_are_not_longer_than_memory() -> None:
    """Are lengths left out of which a rank would need a block for each of very many ranks?"""
    tuning = CollectiveTuning(None, tuple(range(128)), 60, hosts=["a", "b"])  # type: ignore[arg-type]
    assert (tuning.ranks_per_node, tuning.num_nodes) == (64, 2)
    assert max(tuning._lengths_of("allgather")) == 1 << 20 and max(tuning._lengths_of("bcast")) == 16 << 20
    assert "scan" not in tuning.operations


def rules_with(path: Path, *tables: CollectiveTable) -> Rules:
    rules = load_rules(path)
    rules.rule[-1].collective = list(tables)
    return rules


def test_rules_keep_them_and_the_library_reads_them(rules_file: Path, tmp_path: Path) -> None:
    """Are collectives in a rules file the same after it was written and read, and does their text name all of them?"""
    ranges = [CollectiveRangeTable(to_bytes=2048, algorithm="flat"), CollectiveRangeTable(algorithm="mpi")]
    tables = [
        CollectiveTable(operation="bcast", ranks=2, range=ranges),
        CollectiveTable(operation="allreduce", ranks=4, range=[CollectiveRangeTable(algorithm="slices")]),
        CollectiveTable(operation="allreduce", ranks=4, nodes=8, range=[CollectiveRangeTable(algorithm="lanes")]),
    ]
    save_rules(rules_with(rules_file, *tables), tmp_path / "rules.toml")
    found = load_rules(tmp_path / "rules.toml")
    assert found.collective_tables() == tables
    assert found.loads_collectives and found.has_any_setting
    assert format_selection(found.collective_tables()) == "bcast@2=flat-2048+mpi,allreduce@4=slices,allreduce@4x8=lanes"


def test_nothing_is_loaded_if_the_mpi_does_all(rules_file: Path) -> None:
    """Is the library not loaded if the MPI's own algorithm is selected everywhere?"""
    table = CollectiveTable(operation="bcast", ranks=2, range=[CollectiveRangeTable(algorithm="mpi")])
    assert not rules_with(rules_file, table).loads_collectives


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('operation = "scan"\nranks = 2\nrange = [{algorithm = "slices"}]', "scan has no algorithm 'slices'"),
        ('operation = "bcast"\nranks = 2\nrange = [{algorithm = "mpi", to_bytes = 9}]', "the last one has none"),
        (
            'operation = "bcast"\nranks = 2\n'
            'range = [{algorithm = "mpi", to_bytes = 9}, {algorithm = "flat", to_bytes = 8}, {algorithm = "mpi"}]',
            "must rise",
        ),
        ('operation = "bcast"\nranks = 1\nrange = [{algorithm = "mpi"}]', "ranks"),
        ('operation = "bcast"\nranks = 2\nnodes = 2\nrange = [{algorithm = "flat"}]', "bcast of 2 nodes has no"),
        ('operation = "bcast"\nranks = 2\nnodes = 1\nrange = [{algorithm = "mpi"}]', "nodes"),
        ('operation = "sum"\nranks = 2\nrange = [{algorithm = "mpi"}]', "operation"),
    ],
)
def test_damaged_tables_are_refused(rules_file: Path, tmp_path: Path, text: str, problem: str) -> None:
    """Is an edited file refused with the reason if its collectives contradict themselves?"""
    bad = tmp_path / "bad.toml"
    bad.write_text(f"{rules_file.read_text()}\n[[rule.collective]]\n{text}\n")
    with pytest.raises(NearfieldError) as error:
        load_rules(bad)
    assert problem in f"{error.value.message} {error.value}"
