"""Are the knobs sound data, and settings checked, repaired and turned into an environment as they say?"""

from random import Random

import pytest

from nearfield.base.errors import MpiError
from nearfield.base.shared_heap import heap_library_path
from nearfield.rules.knobs import (
    ALL_SIZES,
    NO_SIZES,
    Knob,
    KnobFile,
    Settings,
    find_knobs,
    is_size_list,
    read_all_knob_files,
    version_numbers,
)
from nearfield.tune.model import candidate_settings, heap_only_settings
from nearfield.tune.satisfy_constraints import iterate_grid_settings, satisfy_constraints, without_parameter
from nearfield.tune.search import _to_optuna_parameters

FILES = pytest.mark.parametrize("file", read_all_knob_files(), ids=lambda f: f"{f.family}-{f.since}")
MACHINES = (
    [32 << 10, 512 << 10, 32 << 20], [32 << 10, 4 << 20], [48 << 10, 2 << 20, 105 << 20], [16 << 10],
    [48 << 10, 1280 << 10, 24 << 20],
)  # fmt: skip
OPENMPI = find_knobs("openmpi", "5.0.11", "ob1 / sm")
HEAP: Settings = {"shared_heap": "on"}


@FILES
def test_stock_is_a_setting(file: KnobFile) -> None:
    """Does setting nothing break no constraint, need no environment, and cost a known amount of memory?"""
    assert file.find_problems({}) == []
    assert file.environment({}) == {}
    assert file.shared_memory_bytes({}, ranks_per_node=2) >= 0


@FILES
def test_every_step_is_in_range(file: KnobFile) -> None:
    """Would each value that a search may try be accepted in a rules file?"""
    for knob in file.knob:
        assert [knob.find_problem(step) for step in knob.search_values() if knob.find_problem(step)] == []
        assert len({k.variable for k in file.knob}) == len(file.knob), "two knobs would set one variable"


@FILES
@pytest.mark.parametrize("distance", ["same-core", "shared-l2", "same-node"])
@pytest.mark.parametrize("caches", MACHINES, ids=str)
def test_the_model_proposes_what_can_be(file: KnobFile, caches: list[int], distance: str) -> None:
    """Are the first candidates valid on any machine, different from each other and from stock, and such that a search
    can propose them itself?"""
    found = candidate_settings(file, caches, distance)
    assert found
    assert [_to_optuna_parameters(file, settings) for settings in found]
    assert all(settings and not file.find_problems(settings) for settings in found)
    assert len({tuple(sorted(s.items())) for s in found}) == len(found)


@FILES
def test_the_model_uses_the_heap_where_it_can_be(file: KnobFile) -> None:
    """Are there candidates with the heap where an MPI has it, with the sizes that are best; and none where it has not,
    or where it was found not to work?"""
    found = candidate_settings(file, MACHINES[0], "same-node", heap_only_settings(file, {"stream": NO_SIZES}))
    with_heap = [settings for settings in found if "shared_heap" in settings]
    assert bool(with_heap) is file.shared_heap and all(settings["stream"] == NO_SIZES for settings in with_heap)
    assert not any("shared_heap" in settings for settings in candidate_settings(file, MACHINES[0], "same-node", {}))


def test_the_model_halves_the_pieces_without_a_shared_cache() -> None:
    """Is S2's table 1 among the candidates: pieces of a whole L1 with a shared L2, of half of it without?"""
    knobs = find_knobs("mpich", "5.0.2", "ch4 / posix")
    for distance, piece in (("shared-l2", 32 << 10), ("same-package", 16 << 10)):
        pieces = [
            int(knobs.with_defaults(s)["cell_size"]) for s in candidate_settings(knobs, [32 << 10, 4 << 20], distance)
        ]
        assert piece in [size - 256 for size in pieces]  # the header


@FILES
def test_a_message_fits_with_the_header(file: KnobFile) -> None:
    """Where what is sent at once is of a power of two, is there room for the header beside it?"""
    whole = [
        file.with_defaults(settings)
        for settings in candidate_settings(file, [32 << 10, 1 << 20, 32 << 20], "shared-l3", {})
    ]
    names = {"openmpi": "eager_limit", "mpich": "cell_size"}
    if name := names.get(file.family):
        sizes = {int(settings[name]) for settings in whole if settings[name] != file[name].default}
        assert sizes and all(size & (size - 1) and 1 << (size.bit_length() - 1) <= size - 256 for size in sizes)


@FILES
def test_the_grid_holds_only_what_can_be(file: KnobFile) -> None:
    """Does the exhaustive search try stock, and nothing that breaks a constraint?"""
    found = list(iterate_grid_settings(file))
    assert {} in found
    assert [file.find_problems(settings) for settings in found if file.find_problems(settings)] == []


def test_repair_raises_what_must_not_be_smaller() -> None:
    """Is MPICH's pack buffer raised to its cell, which MPI_Init insists on?"""
    knobs = find_knobs("mpich", "5.0.2", "ch4 / posix")
    assert knobs.find_problems({"cell_size": 65536})[0].startswith("pack_buffer >= cell_size does not hold")
    assert satisfy_constraints(knobs, {"cell_size": 65536}) == {"cell_size": 65536, "pack_buffer": 65792}


@FILES
def test_what_is_repaired_can_be(file: KnobFile) -> None:
    """Whatever is requested, does what comes out break no constraint, and is it left alone by another repair?"""
    random = Random(20100315)
    for _ in range(1000):
        random_settings = {
            knob.name: random.choice(knob.search_values()) for knob in file.knob if random.random() < 0.7
        }
        made = satisfy_constraints(file, random_settings)
        assert file.find_problems(made) == [], random_settings
        assert satisfy_constraints(file, made) == made


def test_repair_lowers_where_nothing_can_be_raised() -> None:
    """Where the left side's range ends too soon, is the right side lowered, as little as makes it hold?"""
    knobs = find_knobs("intel", "2021.19", "shm")
    assert satisfy_constraints(knobs, {"fwd_num": 64, "hold_num": 63}) == {"fwd_num": 64, "hold_num": 32}
    assert satisfy_constraints(knobs, {"fwd_num": 4, "hold_num": 63}) == {"fwd_num": 64, "hold_num": 32}
    assert satisfy_constraints(knobs, {"fwd_num": 4, "hold_num": 16}) == {"fwd_num": 32, "hold_num": 16}


def test_settings_become_variables() -> None:
    """Are choices translated, defaults left alone, and wrong names and values reported?"""
    knobs = find_knobs("openmpi", "5.0.11", "ob1 / sm")
    settings = {"eager_limit": 16384, "single_copy": "none", "max_send_size": 32768}
    assert knobs.environment(settings) == {
        "OMPI_MCA_btl_sm_eager_limit": "16384", "OMPI_MCA_smsc": "^cma,xpmem,knem",
    }  # fmt: skip
    assert "unknown parameter 'eager'" in knobs.find_problems({"eager": 1})[0]
    assert "must be between" in knobs.find_problems({"eager_limit": 1 << 40})[0]
    assert "must be 'kernel' or 'none'" in knobs.find_problems({"single_copy": "xpmem"})[0]
    assert "must be a number" in knobs.find_problems({"eager_limit": "many"})[0]


# ---- the shared heap


@pytest.mark.parametrize(
    ("value", "can_be"),
    [
        ("never", True), ("0-", True), ("65536-2097152", True), ("65536-2097152+8388608-", True), ("4096-8191", True),
        ("+".join(f"{n}0-{n}1" for n in range(1, 9)), True), ("+".join(f"{n}0-{n}1" for n in range(1, 10)), False),
        ("", False), ("always", False), ("65536", False), ("-65536", False), ("65536-+1-2", False), ("64KiB-", False),
        ("1-2+", False), ("+1-2", False), (" 1-2", False), ("1-2\n", False), ("1-2,on=0", False), (65536, False),
    ],
)  # fmt: skip
def test_sizes_are_ranges_or_never(value: str | int, can_be: bool) -> None:
    """Is what src/preload/heap/settings.hpp reads a value, up to eight ranges of which the last may have no end, and
    all else a problem that shows how to write it?"""
    assert is_size_list(value) is can_be
    problems = OPENMPI.find_problems({"stream": value})
    assert problems == ([] if can_be else [f"stream = '{value}': must be 'never' or like '65536-2097152+8388608-'"])


def test_a_search_has_three_ways_to_stream() -> None:
    """Are these the default, never and always, each once, and are they text as in a rules file?"""
    knob = Knob(name="s", summary="made up", variable="s", type="sizes", default="1-2", carrier="heap")
    assert knob.search_values() == ["1-2", NO_SIZES, ALL_SIZES] and knob.format_value("1-2+3-") == "1-2+3-"
    assert knob.model_copy(update={"default": NO_SIZES}).search_values() == [NO_SIZES, ALL_SIZES]


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        (HEAP, "on=1"),
        (HEAP | {"stream": "never"}, "on=1,stream=never"),
        (HEAP | {"stream": "16777216-"}, "on=1"),
        (HEAP | {"stream": "65536-131071+1048576-", "eager_limit": 16384}, "on=1,stream=65536-131071+1048576-"),
        ({"stream": "never"}, None),
        ({"shared_heap": "off", "stream": "never"}, None),
    ],
)
def test_the_heap_is_set_by_one_variable(settings: Settings, variable: str | None) -> None:
    """Is it all that is not the default, beside the MPI's own variables; and nothing of it, nor anything loaded, where
    the heap is off?"""
    made = OPENMPI.environment(settings)
    assert made.pop("NEARFIELD_HEAP", None) == variable
    assert made == ({"OMPI_MCA_btl_sm_eager_limit": "16384"} if "eager_limit" in settings else {})
    assert OPENMPI.uses_heap(settings) is (variable is not None)
    assert ("LD_PRELOAD" in OPENMPI.launch_environment(settings, {})) is (variable is not None)


def test_what_the_user_preloads_stays() -> None:
    """Is the heap loaded before it, and only once?"""
    ours = str(heap_library_path())
    assert OPENMPI.launch_environment(HEAP, {})["LD_PRELOAD"] == ours
    for already in ("a.so b.so", "a.so:b.so", f"{ours} a.so b.so"):
        assert OPENMPI.launch_environment(HEAP, {"LD_PRELOAD": already})["LD_PRELOAD"] == f"{ours} a.so b.so"
    made = OPENMPI.launch_environment(HEAP, {"ASAN_OPTIONS": "halt_on_error=0"})
    assert made["ASAN_OPTIONS"] == "halt_on_error=0:verify_asan_link_order=0"


@FILES
def test_the_heap_adds_knobs(file: KnobFile) -> None:
    """Has a file the heap's knobs if it says so, all of them?"""
    of_heap = [knob.name for knob in file.knob if knob.carrier == "heap"]
    assert of_heap == (["shared_heap", "stream", "stream_when_far", "cooperative_copy"] if file.shared_heap else [])


def test_sizes_go_with_the_heap() -> None:
    """Is a size list without the heap, which nothing would read, left out by a repair, and by leaving out the heap?"""
    assert satisfy_constraints(OPENMPI, {"stream": NO_SIZES, "eager_limit": 16384}) == {"eager_limit": 16384}
    whole: Settings = HEAP | {"stream": NO_SIZES, "eager_limit": 16384}
    assert satisfy_constraints(OPENMPI, whole) == whole
    assert without_parameter(OPENMPI, whole, "shared_heap") == {"eager_limit": 16384}
    assert without_parameter(OPENMPI, HEAP | {"stream": NO_SIZES}, "shared_heap") is None
    assert without_parameter(OPENMPI, HEAP | {"stream": NO_SIZES}, "stream") == HEAP


def test_the_right_file_for_each_mpi() -> None:
    """Does the version choose between vader and sm, and the transport between an MPI's own and UCX's?"""
    assert find_knobs("openmpi", "4.1.4", "ob1 / vader")["eager_limit"].variable == "OMPI_MCA_btl_vader_eager_limit"
    assert find_knobs("openmpi", "5.0.11", "ob1 / sm")["eager_limit"].variable == "OMPI_MCA_btl_sm_eager_limit"
    assert find_knobs("mpich", "4.0.2", "ch4 / ucx (sysv+cma)").family == "ucx"
    assert find_knobs("openmpi", "5.0.11", "ucx / sysv").family == "ucx"
    with pytest.raises(MpiError, match="has no parameters of mpich 3.4") as raised:
        find_knobs("mpich", "3.4.3", "ch4 / posix")
    remedy = str(raised.value.remedy)
    assert "mpich from 4.1 (ch4 / posix)" in remedy and "any MPI whose messages UCX carries" in remedy
    assert remedy.endswith("mpi --build")


def test_versions_are_numbers() -> None:
    assert version_numbers("5.0.11") > version_numbers("5.0.9") > version_numbers("4.1.4")
    assert version_numbers("5.0.0rc1") == (5, 0, 0)
