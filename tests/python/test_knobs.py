"""Are the knobs sound data, and settings checked, repaired and turned into an environment as they say?"""

from random import Random

import pytest

from nearfield.errors import MpiError
from nearfield.tune.knobs import KnobFile, find_knobs, knob_files, numbers
from nearfield.tune.model import candidates
from nearfield.tune.repair import grid, repaired

FILES = pytest.mark.parametrize("file", knob_files(), ids=lambda f: f"{f.family}-{f.since}")
MACHINES = ([32 << 10, 512 << 10, 32 << 20], [32 << 10, 4 << 20], [48 << 10, 2 << 20, 105 << 20], [16 << 10])


@FILES
def test_stock_is_a_setting(file: KnobFile) -> None:
    """Does setting nothing break no constraint, need no environment, and cost a known amount of memory?"""
    assert file.problems({}) == []
    assert file.environment({}) == {}
    assert file.memory({}, ranks=2) >= 0


@FILES
def test_every_step_is_in_range(file: KnobFile) -> None:
    """Would each value that a search may try be accepted in a rules file?"""
    for knob in file.knob:
        assert [knob.problem(step) for step in knob.choices() if knob.problem(step)] == []
        assert len({k.variable for k in file.knob}) == len(file.knob), "two knobs would set one variable"


@FILES
@pytest.mark.parametrize("distance", ["same-core", "shared-l2", "same-node"])
@pytest.mark.parametrize("caches", MACHINES, ids=str)
def test_the_model_proposes_what_can_be(file: KnobFile, caches: list[int], distance: str) -> None:
    """Are the first candidates valid on any machine, different from each other and from stock?"""
    found = candidates(file, caches, distance)
    assert found
    assert all(settings and not file.problems(settings) for settings in found)
    assert len({tuple(sorted(s.items())) for s in found}) == len(found)


def test_the_model_halves_the_pieces_without_a_shared_cache() -> None:
    """Is S2's table 1 among the candidates: pieces of a whole L1 with a shared L2, of half of it without?"""
    knobs = find_knobs("openmpi", "5.0.11", "ob1 / sm")
    for distance, piece in (("shared-l2", 32 << 10), ("same-package", 16 << 10)):
        pieces = [knobs.complete(s)["max_send_size"] for s in candidates(knobs, [32 << 10, 4 << 20], distance)]
        assert piece in pieces


@pytest.mark.parametrize(
    ("family", "version", "transport"), [("openmpi", "5.0.11", "ob1 / sm"), ("mpich", "5.0.2", "ch4 / posix")]
)
def test_the_model_has_a_ring_that_outgrows_the_second_level(family: str, version: str, transport: str) -> None:
    """Does a candidate send pieces through one to four times the private cache before one comes round again? And does a
    message of a power of two fit with its header?"""
    knobs = find_knobs(family, version, transport)
    whole = [knobs.complete(settings) for settings in candidates(knobs, [32 << 10, 1 << 20, 32 << 20], "shared-l3")]
    rings = [s["fbox_size"] if family == "openmpi" else s["num_cells"] * s["cell_size"] for s in whole]
    assert any(1 << 20 <= ring <= 5 << 20 for ring in rings)
    sent_at_once = {s["eager_limit"] if family == "openmpi" else s["cell_size"] for s in whole}
    assert any(size > 1 << 16 and size - (1 << 16) < 1 << 10 for size in sent_at_once)


@FILES
def test_the_grid_holds_only_what_can_be(file: KnobFile) -> None:
    """Does the exhaustive search try stock, and nothing that breaks a constraint?"""
    found = list(grid(file))
    assert {} in found
    assert [file.problems(settings) for settings in found if file.problems(settings)] == []


def test_repair_raises_what_must_not_be_smaller() -> None:
    """Is MPICH's pack buffer raised to its cell, which MPI_Init insists on?"""
    knobs = find_knobs("mpich", "5.0.2", "ch4 / posix")
    assert knobs.problems({"cell_size": 65536})[0].startswith("pack_buffer >= cell_size does not hold")
    assert repaired(knobs, {"cell_size": 65536}) == {"cell_size": 65536, "pack_buffer": 65792}


@FILES
def test_what_is_repaired_can_be(file: KnobFile) -> None:
    """Whatever is asked for, does what comes out break no constraint, and is it left alone by another repair?"""
    random = Random(20100315)
    for _ in range(1000):
        asked = {knob.name: random.choice(knob.choices()) for knob in file.knob if random.random() < 0.7}
        made = repaired(file, asked)
        assert file.problems(made) == [], asked
        assert repaired(file, made) == made


def test_repair_lowers_where_nothing_can_be_raised() -> None:
    """Where the left side's range ends too soon, is the right side lowered, as little as makes it hold?"""
    knobs = find_knobs("intel", "2021.19", "shm")
    assert repaired(knobs, {"fwd_num": 64, "hold_num": 63}) == {"fwd_num": 64, "hold_num": 32}
    assert repaired(knobs, {"fwd_num": 4, "hold_num": 63}) == {"fwd_num": 64, "hold_num": 32}
    assert repaired(knobs, {"fwd_num": 4, "hold_num": 16}) == {"fwd_num": 32, "hold_num": 16}


def test_settings_become_variables() -> None:
    """Are choices translated, defaults left alone, and wrong names and values told?"""
    knobs = find_knobs("openmpi", "5.0.11", "ob1 / sm")
    settings = {"eager_limit": 16384, "single_copy": "none", "max_send_size": 32768}
    assert knobs.environment(settings) == {
        "OMPI_MCA_btl_sm_eager_limit": "16384", "OMPI_MCA_smsc": "^cma,xpmem,knem",
    }  # fmt: skip
    assert "unknown parameter 'eager'" in knobs.problems({"eager": 1})[0]
    assert "must be between" in knobs.problems({"eager_limit": 1 << 40})[0]
    assert "must be 'kernel' or 'none'" in knobs.problems({"single_copy": "xpmem"})[0]
    assert "must be a number" in knobs.problems({"eager_limit": "many"})[0]


def test_the_right_file_for_each_mpi() -> None:
    """Does the version choose between vader and sm, and the transport between an MPI's own and UCX's?"""
    assert find_knobs("openmpi", "4.1.4", "ob1 / vader")["eager_limit"].variable == "OMPI_MCA_btl_vader_eager_limit"
    assert find_knobs("openmpi", "5.0.11", "ob1 / sm")["eager_limit"].variable == "OMPI_MCA_btl_sm_eager_limit"
    assert find_knobs("mpich", "4.0.2", "ch4 / ucx (sysv+cma)").family == "ucx"
    assert find_knobs("openmpi", "5.0.11", "ucx / sysv").family == "ucx"
    with pytest.raises(MpiError, match="knows no parameters of mpich 3.4"):
        find_knobs("mpich", "3.4.3", "ch4 / posix")


def test_versions_are_numbers() -> None:
    assert numbers("5.0.11") > numbers("5.0.9") > numbers("4.1.4")
    assert numbers("5.0.0rc1") == (5, 0, 0)
