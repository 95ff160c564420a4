"""Are an MPI's own algorithms selected only if significantly faster and right, and written as that MPI reads them?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tuning import in_process, rules_for, write

from nearfield import mpi
from nearfield.apply import native as applied
from nearfield.base.errors import MpiError, NearfieldError, UsageError
from nearfield.report.tuned import tuned_html
from nearfield.rules.collective_tables import (
    CollectiveRangeTable,
    CollectiveTable,
    NativeCollectiveTable,
    NativeRangeTable,
)
from nearfield.rules.native import FAMILIES, NativeAlgorithm, NativeFamily, NativeSelection, mpich
from nearfield.rules.schema import load_rules
from nearfield.tune import native
from nearfield.tune.collectives import CollectiveCell
from nearfield.tune.native import NativeCellMeasurements, NativeTuning
from nearfield.tune.native_launch import HANG_REASON, AlgorithmFailure, LaunchOutput

OPENMPI = mpi.Installation("openmpi-5.0.11", "openmpi", "5.0.11", Path("/"), Path("/"), Path("/"), "made up")
INTEL = mpi.Installation("intel-2021.19.0", "intel", "2021.19.0", Path("/"), Path("/"), Path("/"), "made up")


def table(operation: str, ranks: int, *ranges: tuple[int | None, str, int | None]) -> NativeCollectiveTable:
    made = [NativeRangeTable(to_bytes=end, algorithm=name, id=number) for end, name, number in ranges]
    return NativeCollectiveTable(operation=operation, ranks=ranks, range=made)


RING = table("allgather", 4, (1024, "mpi", None), (65536, "ring", 4), (None, "mpi", None))


# ---- the formats


def test_open_mpi_reads_rules_for_these_numbers_of_ranks_only() -> None:
    """Does the classic file name the collective and the algorithm by number, count the bytes of all blocks, and leave
    other numbers of ranks and other lengths to the MPI?"""
    selected = FAMILIES["openmpi"].make_selection([RING], None)
    assert selected.variables == {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}
    (name, text) = selected.files["OMPI_MCA_coll_tuned_dynamic_rules_filename"]
    assert name == "collectives.conf"
    numbers = [line.partition("#")[0].split() for line in text.splitlines()]
    assert [[int(word) for word in line] for line in numbers] == [
        [1], [0], [3],
        [0], [1], [0, 0, 0, 0],
        [4], [3], [0, 0, 0, 0], [4097, 4, 4, 0], [262145, 0, 0, 0],
        [5], [1], [0, 0, 0, 0],
    ]  # fmt: skip


def test_rules_of_neighbouring_numbers_of_ranks_follow_each_other() -> None:
    """If both 2 and 3 ranks have rules, does each number of ranks stand once in the file?"""
    tables = [table("bcast", n, (None, "linear", 1)) for n in (3, 2)]
    text = FAMILIES["openmpi"].make_selection(tables, None).files["OMPI_MCA_coll_tuned_dynamic_rules_filename"][1]
    assert [line.split()[0] for line in text.splitlines() if line.endswith("# ranks")] == ["0", "2", "3", "4"]


def test_intel_mpi_reads_ranges_from_variables() -> None:
    """Does the variable have the preset, the lengths and the number of ranks of each range that is selected?"""
    tables = [
        table("bcast", 2, (8, "preset-3", 3), (1024, "mpi", None), (None, "preset-1", 1)),
        table("bcast", 4, (None, "preset-2", 2)),
    ]
    selected = FAMILIES["intel"].make_selection(tables, None)
    assert not selected.files
    assert selected.variables == {"I_MPI_ADJUST_BCAST": "3:0-8@2-2;1:1025-2147483647@2-2;2:0-2147483647@4-4"}


@pytest.mark.parametrize("family", ["openmpi", "intel"])
def test_an_algorithm_without_a_number_is_refused(family: str) -> None:
    """If a person removed the number that the MPI needs, is that said?"""
    with pytest.raises(UsageError, match="'ring' has no id"):
        FAMILIES[family].make_selection([table("allgather", 2, (None, "ring", None))], None)


MESSAGES = {
    "collective=allreduce": {
        "comm_type=intra": {
            "avg_msg_size<=8": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
            "avg_msg_size<=64": {"algorithm=MPIR_Allreduce_intra_smp": {}},
            "avg_msg_size=any": {"algorithm=MPIR_Allreduce_intra_reduce_scatter_allgather": {}},
        },
        "comm_type=inter": {"algorithm=MPIR_Allreduce_inter_reduce_exchange_bcast": {}},
    },
    "collective=allgather": {"comm_type=intra": {"total_msg_size=any": {"algorithm=MPIR_Allgather_intra_ring": {}}}},
    "collective=bcast": {"comm_type=intra": {"algorithm=MPIR_Bcast_intra_tree": {"k=4": {}}}},
}
SHARED = {"collective=allreduce": {"comm_type=intra": {"algorithm=MPIDI_POSIX_mpi_allreduce_release_gather": {}}}}


@pytest.fixture
def mpich_here(tmp_path: Path) -> mpi.Installation:
    """Returns an MPICH whose library contains the two trees, as the compiler leaves them in it."""
    library = tmp_path / "libmpi.so"
    trees = [json.dumps(tree, separators=(",", ":")).encode() for tree in (SHARED, MESSAGES)]
    library.write_bytes(b"\x7fELF collective=\0" + b"\0\0".join([*trees, b'{"collective=broken', b""]))
    return mpi.Installation("mpich-5.0.2", "mpich", "5.0.2", Path("/"), Path("/"), Path("/"), "", library=library)


def test_mpich_gets_the_librarys_trees_with_other_branches(mpich_here: mpi.Installation) -> None:
    """Do the JSON files have the library's trees, in which one number of ranks and lengths have another algorithm,
    while operators of programs and short vectors keep theirs, and does the shared memory pass these calls on?"""
    tables = [table("allreduce", 2, (1024, "mpi", None), (None, "recursive_doubling", None))]
    selected = FAMILIES["mpich"].make_selection(tables, mpich_here)
    trees = {variable: json.loads(text) for variable, (_, text) in selected.files.items()}
    messages = trees["MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"]
    assert messages["collective=allgather"] == MESSAGES["collective=allgather"]
    default = MESSAGES["collective=allreduce"]["comm_type=intra"]
    branch = messages["collective=allreduce"]["comm_type=intra"]
    assert list(branch) == ["comm_size<=1", "comm_size<=2", "comm_size=any"]
    assert branch["comm_size<=1"] == branch["comm_size=any"] == default
    assert branch["comm_size<=2"] == {
        "is_op_built_in=yes": {
            "count<pow2": default,
            "count=any": {
                "avg_msg_size<=1024": default,
                "avg_msg_size=any": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
            },
        },
        "is_op_built_in=no": default,
    }
    shared = trees["MPIR_CVAR_CH4_POSIX_COLL_SELECTION_TUNING_JSON_FILE"]["collective=allreduce"]["comm_type=intra"]
    own = SHARED["collective=allreduce"]["comm_type=intra"]
    lengths = shared["comm_size<=2"]["is_op_built_in=yes"]["count=any"]
    assert lengths == {"avg_msg_size<=1024": own, "avg_msg_size=any": {"comm_type=inter": own}}


def test_mpich_counts_the_bytes_of_all_blocks_where_the_tree_does(mpich_here: mpi.Installation) -> None:
    """Is a length multiplied by the number of ranks for a collective of which MPICH counts the bytes of all ranks?"""
    tables = [table("allgather", 4, (1024, "ring", None), (None, "mpi", None))]
    _, text = FAMILIES["mpich"].make_selection(tables, mpich_here).files["MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"]
    assert "total_msg_size<=4096" in json.loads(text)["collective=allgather"]["comm_type=intra"]["comm_size<=4"]


def test_mpich_refuses_algorithms_that_the_tree_does_not_have(mpich_here: mpi.Installation) -> None:
    """Is an algorithm refused that is not in the library, has parameters there that nobody gives, or needs a
    hierarchy?"""
    for operation, name in (("allgather", "nothing"), ("bcast", "tree"), ("allreduce", "smp")):
        with pytest.raises(UsageError, match=f"no algorithm '{name}'"):
            FAMILIES["mpich"].make_selection([table(operation, 2, (None, name, None))], mpich_here)


def test_an_mpich_without_trees_is_said_to_have_none(tmp_path: Path) -> None:
    """If the library contains no tree, or is not here, is that said, and no file written that MPICH fails with?"""
    (tmp_path / "libmpi.so").write_bytes(b'{"collective=allreduce": damaged')
    inst = mpi.Installation("m", "mpich", "5.0", Path("/"), Path("/"), Path("/"), "", library=tmp_path / "libmpi.so")
    for one in (inst, None):
        with pytest.raises(MpiError):
            FAMILIES["mpich"].make_selection([table("allreduce", 2, (None, "smp", None))], one)


@pytest.mark.parametrize(
    ("name", "value"), [("auto", 0), ("binomial", 1), ("nb", 2), ("smp", 3), ("ring", None), ("Tree", None)]
)
def test_mpich_describes_the_values_of_an_enumeration_in_their_order(name: str, value: int | None) -> None:
    """Is the number of an algorithm found in a description, also where MPICH 4.0 joined its lines?"""
    lines = ["Variable to select bcast algorithm", "auto - Selection", "binomial   - Force Binomial Tree", "nb - Force"]
    for description in ("\n".join([*lines, "smp - Force smp"]), "".join([*lines, "smp - Force smp"])):
        assert mpich._find_enumerator_value(name, description) == value


# ---- the rules file


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('operation = "bcast"\nranks = 2\nrange = [{algorithm = "ring", to_bytes = 9}]', "the last one has none"),
        ('operation = "bcast"\nranks = 2\nrange = [{algorithm = "ring;rm"}]', "algorithm"),
        ('operation = "bcast"\nranks = 2\nrange = [{algorithm = "ring", id = -1}]', "id"),
        ('operation = "scan"\nranks = 2\nrange = [{algorithm = "ring"}]', "operation"),
        ('operation = "bcast"\nranks = 1\nrange = [{algorithm = "ring"}]', "ranks"),
        ('operation = "bcast"\nranks = 2\nrange = []', "range"),
    ],
)
def test_damaged_tables_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    """Is an edited file refused with the reason if its selection contradicts itself, or is no name of an algorithm?"""
    path = write(tmp_path, rules_for(OPENMPI, "ob1 / sm", {}))
    path.write_text(f"{path.read_text()}\n[[rule.native_collective]]\n{text}\n")
    with pytest.raises(NearfieldError) as error:
        load_rules(path)
    assert problem in f"{error.value.message} {error.value}"


def rules_file(folder: Path, inst: mpi.Installation, transport: str, *tables: NativeCollectiveTable) -> Path:
    rules = rules_for(inst, transport, {})
    rules.rule[0].native_collective = list(tables)
    return write(folder, rules)


def test_rules_keep_the_selection(tmp_path: Path) -> None:
    """Does a saved file give the same tables back, and do rules that leave all to the MPI select nothing?"""
    rules = load_rules(rules_file(tmp_path, OPENMPI, "ob1 / sm", RING))
    assert rules.native_collective_tables() == [RING] and rules.selects_native_algorithms and rules.has_any_setting
    assert not rules.loads_collectives
    left = load_rules(rules_file(tmp_path, OPENMPI, "ob1 / sm", table("bcast", 2, (None, "mpi", None))))
    assert not left.selects_native_algorithms and not left.has_any_setting


def test_export_writes_the_file_and_the_lines_that_name_it(tmp_path: Path) -> None:
    """Does `export --collectives FOLDER` write Open MPI's file, and say which two variables make it be used?"""
    path = rules_file(tmp_path, OPENMPI, "ob1 / sm", RING, table("bcast", 2, (None, "mpi", None)))
    done = in_process("export", "--rules", path, "--collectives", tmp_path / "site")
    assert done.code == 0, done.err
    file = tmp_path / "site" / "collectives.conf"
    assert file.read_text().startswith("1 # collectives\n")  # what is left to the MPI is not in it
    lines = [line.strip() for line in done.out.splitlines() if line.startswith("  export ")]
    assert lines == [
        "export OMPI_MCA_coll_tuned_use_dynamic_rules=1",
        f"export OMPI_MCA_coll_tuned_dynamic_rules_filename={file}",
    ]


def test_export_needs_a_folder_only_for_files(tmp_path: Path) -> None:
    """Does Intel MPI's selection need no folder, and is one demanded for Open MPI's file? Is a folder refused if there
    is nothing to write?"""
    preset = table("bcast", 2, (None, "preset-2", 2))
    done = in_process("export", "--rules", rules_file(tmp_path, INTEL, "shm", preset))
    assert done.code == 0 and "export I_MPI_ADJUST_BCAST=2:0-2147483647@2-2" in done.out.replace("'", "")
    done = in_process("export", "--rules", rules_file(tmp_path, OPENMPI, "ob1 / sm", RING))
    assert done.code == 2 and "--collectives" in done.err
    path = write(tmp_path, rules_for(OPENMPI, "ob1 / sm", {"eager_limit": 65536}))
    done = in_process("export", "--rules", path, "--collectives", tmp_path / "none")
    assert done.code == 2 and "tune --collectives --native" in done.err and not (tmp_path / "none").exists()


def test_files_in_the_cache_have_their_contents_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does `run` write the file where other rules do not overwrite it, and say which variables name files?"""
    monkeypatch.setenv("NEARFIELD_CACHE", str(tmp_path / "cache"))
    values, files = [], []
    for number, ranges in enumerate((RING, table("allgather", 4, (None, "ring", 4)))):
        (folder := tmp_path / str(number)).mkdir()
        rules = load_rules(rules_file(folder, OPENMPI, "ob1 / sm", ranges))
        environment, named = applied.native_environment(rules, None)
        assert named == ["OMPI_MCA_coll_tuned_dynamic_rules_filename"]
        values.append(environment)
        files.append(Path(environment[named[0]]))
    assert files[0] != files[1] and all(file.is_file() for file in files)


@pytest.mark.parametrize(
    ("words", "variables", "found"),
    [
        (["mpirun", "-n", "2", "./app"], {}, True),
        (["mpirun", "--host", "a,b", "./app"], {}, False),
        (["mpirun", "-n", "2", "./app"], {"HYDRA_HOST_FILE": "hosts"}, False),
        (["mpirun", "--host", "a,b", "./app"], {"NEARFIELD_ALL_NODES": "1"}, True),
        (["mpirun", "-n", "2", "./app"], {"NEARFIELD_ALL_NODES": "0"}, False),
    ],
)
def test_files_are_used_only_where_all_ranks_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], variables: dict[str, str], found: bool
) -> None:
    """If ranks may be on other nodes, whose disks lack the file, is it used only if the user says that it is there?"""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.delenv("PBS_JOBID", raising=False)
    (tmp_path / "file").touch()
    assert applied.are_files_on_all_nodes(words, variables, [str(tmp_path / "file")]) == found


# ---- the search


def measured(**speed: list[float]) -> NativeCellMeasurements:
    made = NativeCellMeasurements(["mpi", *speed])
    for launch in zip(*speed.values(), strict=True):
        found = {**dict(zip(speed, launch, strict=True)), "mpi": 1.0}
        made.add_launch(found, {name: 100 / one for name, one in found.items()})
    return made


@pytest.mark.parametrize(
    ("speed", "best", "is_decided"),
    [
        ({"ring": [1.5, 1.6, 1.5]}, "ring", True),
        ({"ring": [1.5, 1.6]}, "mpi", False),  # too few launches
        ({"ring": [1.005] * 6}, "mpi", True),  # a difference that does not count
        ({"ring": [1.3, 0.9, 1.4, 0.8, 1.3, 1.2]}, "mpi", False),
        ({"ring": [0.9] * 3}, "mpi", True),
        ({"ring": [1.2] * 3, "tree": [1.4] * 3}, "tree", True),
    ],
)
def test_an_algorithm_is_chosen_only_if_it_surely_gains(
    speed: dict[str, list[float]], best: str, is_decided: bool
) -> None:
    """Is an algorithm of the MPI chosen only if the whole interval of its gain is above 1, and is it said where the
    data do not decide?"""
    one = measured(**speed)
    assert (one.best_algorithm(), one.is_decided()) == (best, is_decided)


class Made:
    """Launches that are made up: the ns of a call by algorithm, and the algorithms that fail."""

    def __init__(
        self, failing: Mapping[str, str] = {}, confirmed: float = 2.0, latencies: Sequence[float] = ()
    ) -> None:
        self.failing, self.confirmed, self.latencies = failing, confirmed, list(latencies)
        self.launches: list[list[str]] = []

    def __call__(self, inst: Any, program: Any, cpus: Any, words: Any, environment: Any, on_cell: Any) -> LaunchOutput:
        made = LaunchOutput(c2c_latencies_ns=[self.latencies.pop(0) if self.latencies else 50.0])
        self.launches.append(list(words))
        for word in words[1:]:
            operation, size, names = word.split(":")[:3]
            cell = CollectiveCell(operation, int(size))
            samples = {}
            for one in names.split(","):
                name = one.partition("@")[0]
                if name in self.failing and f":{'check'}" in word:
                    made.failures.append(AlgorithmFailure(cell, name, self.failing[name]))
                    if self.failing[name] == HANG_REASON:
                        return made
                else:
                    selected = name == "ring" or "SELECTED" in environment
                    samples[name] = [100.0 / (self.confirmed if selected else 1.0)]
            made.samples[cell] = [samples]
        return made


@pytest.fixture
def tuning(monkeypatch: pytest.MonkeyPatch) -> NativeTuning:
    algorithms = [
        NativeAlgorithm(name, {"variable": number}, number) for number, name in enumerate(("ring", "tree"), 1)
    ]
    family = NativeFamily(
        name="openmpi",
        measurement_mode="native-communicators",
        list_algorithms=lambda inst, report: {"bcast": algorithms, "allreduce": algorithms},
        make_selection=lambda tables, inst: NativeSelection({"SELECTED": "1"}),
        excludes_user_operators=False,
    )
    monkeypatch.setitem(FAMILIES, "openmpi", family)
    monkeypatch.setattr(mpi, "build_target", lambda *_, **__: Path("/program"))
    return NativeTuning(OPENMPI, (0, 1), 60.0, sizes=[8, 64])


def selected_by(tuning: NativeTuning, launches: Made, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    monkeypatch.setattr(native, "launch_measuring_program", launches)
    return {one.operation: [each.algorithm for each in one.range] for one in tuning.search()}


def test_what_gains_and_is_confirmed_is_selected(tuning: NativeTuning, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is what gains in search and confirmation selected up to the longest length that was measured?"""
    launches = Made()
    assert selected_by(tuning, launches, monkeypatch) == {"bcast": ["ring", "mpi"], "allreduce": ["ring", "mpi"]}
    assert all(word.endswith(":check-any-call") for word in launches.launches[0][1:])
    assert not any("check" in word for word in launches.launches[1][1:])
    assert not tuning.unconfirmed_cells and not tuning.drop_reasons


def test_what_gains_by_chance_is_not_selected(tuning: NativeTuning, monkeypatch: pytest.MonkeyPatch) -> None:
    """If launches with the MPI's own file gain nothing, is nothing selected, and is said what gained before?"""
    launches = Made()
    real = launches.__call__

    def without_effect(*words: Any) -> LaunchOutput:
        return real(*words[:4], {}, words[5])

    monkeypatch.setattr(native, "launch_measuring_program", without_effect)
    assert all(one.is_left_to_mpi for one in tuning.search())
    assert {cell.operation for cell in tuning.unconfirmed_cells} == {"bcast", "allreduce"}


def test_pairs_between_which_the_cores_moved_do_not_count(
    tuning: NativeTuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the core-to-core latency differs within every pair of launches, is nothing confirmed?"""
    launches = Made(latencies=[50.0] * 3 + [50.0, 300.0] * 40)
    assert all(names == ["mpi"] for names in selected_by(tuning, launches, monkeypatch).values())


@pytest.mark.parametrize("reason", ["wrong results", HANG_REASON, "ends the program: Segmentation fault"])
def test_an_algorithm_that_fails_is_left_out_for_all_lengths(
    tuning: NativeTuning, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """If an algorithm is wrong, hangs or crashes at one length, is it left out at all, and the reason said?"""
    launches = Made({"ring": reason})
    chosen = selected_by(tuning, launches, monkeypatch)
    assert all(names == ["mpi"] for names in chosen.values())
    assert tuning.drop_reasons["bcast", "ring"] == reason
    assert all("ring" not in word for words in launches.launches[3:] for word in words)


def test_an_mpi_that_fails_by_itself_is_not_compared(tuning: NativeTuning, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the MPI's own choice fails the check, is the operation left to it, and the reason said?"""
    assert selected_by(tuning, Made({"mpi": "wrong results"}), monkeypatch) == {}
    assert tuning.drop_reasons["bcast", "all"] == "the MPI's own selection wrong results"


def test_an_interrupt_leaves_nothing_unconfirmed(tuning: NativeTuning, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a person ends it during the confirmation, is nothing selected?"""
    launches = Made()

    def interrupted(*words: Any) -> LaunchOutput:
        if len(launches.launches) == 4:
            raise KeyboardInterrupt
        return launches(*words)

    monkeypatch.setattr(native, "launch_measuring_program", interrupted)
    assert all(one.is_left_to_mpi for one in tuning.search()) and tuning.is_interrupted


def test_native_is_for_collectives_inside_a_node(tmp_path: Path) -> None:
    """Is `--native` refused without `--collectives`, or with nodes?"""
    done = in_process("tune", "--native", "-o", tmp_path / "rules.toml")
    assert done.code == 2 and "add --collectives" in done.err
    done = in_process("tune", "--collectives", "--native", "--hostfile", tmp_path, "-o", tmp_path / "rules.toml")
    assert done.code == 2 and "exclude each other" in done.err


def test_the_report_lists_the_selection(tmp_path: Path) -> None:
    """Does the report of rules that only select the MPI's own algorithms have their table, and the command that applies
    them, but no gain of messages?"""
    rules = load_rules(rules_file(tmp_path, OPENMPI, "ob1 / sm", RING))
    html = tuned_html(rules, "nearfield run -- mpirun ...")
    assert "algorithm" in html and "ring" in html and "nearfield run" in html


def test_both_searches_have_their_place_in_one_file(tmp_path: Path) -> None:
    """Do rules of both searches keep nearfield's own algorithms and the MPI's apart, so that `run` sets both?"""
    rules = rules_for(OPENMPI, "ob1 / sm", {})
    rules.rule[0].native_collective = [RING]
    rules.rule[0].collective = [
        CollectiveTable(operation="allgather", ranks=4, range=[CollectiveRangeTable(algorithm="flat")])
    ]
    both = load_rules(write(tmp_path, rules))
    assert both.loads_collectives and both.selects_native_algorithms
    assert [one.algorithm for one in both.collective_tables()[0].range] == ["flat"]
    assert [one.algorithm for one in both.native_collective_tables()[0].range] == ["mpi", "ring", "mpi"]
