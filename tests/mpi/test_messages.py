"""Do all messages arrive, whole and in order, whatever thresholds a person or a tool has set?

The program (tests/programs/messages.cpp) checks every message itself; here it is run under settings that are far from
any default, and must say what it says without them; and under what `tune` would try first, applied as `run` applies it.
A setting under which an MPI fails by its own fault is named here, with what happens.
"""

import functools
import os
from pathlib import Path

import mpi_program
import pytest
from tuning import nearfield, rules_for, write

from nearfield import mpi
from nearfield.base.topology import Topology
from nearfield.mpi import Installation, launch_command
from nearfield.rules.knobs import find_knobs
from nearfield.tune.model import candidate_settings

CORES = len(os.sched_getaffinity(0))
SEED, COUNT = 7, 80  # two rounds
CANDIDATES = 2  # of the model's, first ones first
Settings = dict[str, str]

# Not UCX_TLS=^cma: where large messages then go over UCX's tcp, Debian 12's MPICH 4.0.2 with UCX 1.13.1 mostly hangs in
# MPI_Finalize (after all messages have arrived): one rank waits for its launcher, the other for that rank.
UCX: list[Settings] = [
    {"UCX_RNDV_THRESH": "1024"},
    {"UCX_RNDV_THRESH": "1048576"},
    {"UCX_TLS": "self,posix"},
]
INTEL: list[Settings] = [
    {"I_MPI_SHM": "bdw_avx2"},
    {"I_MPI_SHM_CELL_FWD_SIZE": "1024"},
    {"I_MPI_SHM_CELL_FWD_SIZE": "262144"},
]
_CELL = "MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE"
_FROM = "MPIR_CVAR_CH4_IPC_CMA_P2P_THRESHOLD"
MPICH: list[Settings] = [
    {_CELL: "4096"},
    {_CELL: "262144", "MPIR_CVAR_CH4_PACK_BUFFER_SIZE": "262144"},
    {_FROM: "4096"},
    {_FROM: "2147483647"},
]


def open_mpi(btl: str, without_single_copy: Settings) -> list[Settings]:
    eager, fragment = f"OMPI_MCA_btl_{btl}_eager_limit", f"OMPI_MCA_btl_{btl}_max_send_size"
    return [
        {eager: "1024"},
        {eager: "262144"},
        {fragment: "8192"},
        {fragment: "1048576"},
        without_single_copy,
        {eager: "1024", fragment: "8192", **without_single_copy},
    ]


def settings_of(inst: Installation) -> list[Settings]:
    """MPICH before 4.1 leaves messages inside a node to UCX where it has it."""
    major, minor = (int(part) for part in inst.version.split(".")[:2])
    if inst.family == "openmpi" and major >= 5:
        return open_mpi("sm", {"OMPI_MCA_smsc": "^cma,xpmem,knem"})
    if inst.family == "openmpi":
        return open_mpi("vader", {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"})
    if inst.family == "mpich":
        return MPICH if (major, minor) >= (4, 1) else UCX
    return INTEL


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi_program.built(inst, "messages.cpp", programs)


@pytest.fixture
def program(installation: Installation, programs: Path) -> Path:
    return mpi_program.built(installation, "messages.cpp", programs)


def digests(inst: Installation, program: Path, ranks: int, settings: Settings, seed: int = SEED) -> list[str]:
    """One line per rank, in their order."""
    argv = [str(program), str(seed), str(COUNT)]
    done = mpi.run(inst, argv, ranks, oversubscribe=ranks > CORES, timeout_s=30, env=settings)
    assert not done.timed_out, f"hangs with {settings}: {done.stderr}"
    assert done.exit_code == 0, f"fails with {settings}: {done.stdout}{done.stderr}"
    return lines_of(done.stdout, ranks)


@functools.cache
def stock_digests(inst: Installation, program: Path, ranks: int) -> list[str]:
    return digests(inst, program, ranks, {})


def lines_of(output: str, ranks: int) -> list[str]:
    lines = sorted(line for line in output.splitlines() if line.startswith("rank "))
    assert len(lines) == ranks, output
    assert all(line.endswith(" ok") for line in lines)
    return lines


@pytest.mark.families
def test_messages_arrive_under_extreme_settings(installation: Installation, program: Path) -> None:
    """Does every rank get the same messages with extreme thresholds as without?"""
    stock = stock_digests(installation, program, 2)
    for settings in settings_of(installation):
        assert digests(installation, program, 2, settings) == stock, settings


@pytest.mark.families
def test_messages_of_more_ranks_arrive_under_extreme_settings(installation: Installation, program: Path) -> None:
    """Do they arrive among four ranks, more than there are cores, for the first two settings?"""
    stock = stock_digests(installation, program, 4)
    for settings in settings_of(installation)[:2]:
        assert digests(installation, program, 4, settings) == stock, settings


@pytest.mark.families
@pytest.mark.skipif(CORES < 2, reason="needs two cores")
def test_messages_arrive_under_the_models_candidates(installation: Installation, program: Path, tmp_path: Path) -> None:
    """With what `tune` tries first as rules, and under `nearfield run`: the same messages?"""
    transport, _ = mpi.transport_or_reason(installation)
    assert transport
    knobs, topology = find_knobs(installation.family, installation.version, transport), Topology.of_this_machine()
    distance, (core, _) = list(topology.representative_pairs().items())[-1]
    stock = stock_digests(installation, program, 2)
    argv, env = launch_command(installation, [str(program), str(SEED), str(COUNT)], 2)
    for settings in candidate_settings(knobs, topology.cache_bytes(core), distance)[:CANDIDATES]:
        file = write(tmp_path, rules_for(installation, transport, settings))
        done = nearfield("run", "-v", "--rules", file, "--", *argv, env=env, timeout_s=60)
        assert done.code == 0, f"fails with {settings}: {done.err}"
        assert all(f"{name} = {value}" in done.words for name, value in knobs.environment(settings).items())
        assert lines_of(done.out, 2) == stock, settings


def test_another_seed_is_other_messages(installation: Installation, program: Path) -> None:
    """Does the digest depend on the messages at all, with an odd number of ranks too? (One MPI is enough to tell.)"""
    if installation != mpi.find_usable_mpis()[0]:
        pytest.skip("told by the first MPI")
    assert digests(installation, program, 3, {}, 1) != digests(installation, program, 3, {}, 2)
