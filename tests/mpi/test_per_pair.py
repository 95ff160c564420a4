"""Do pairs at different distances get different parameters from one rules file, in programs nobody edits?

The machine of the tests may have one distance only, so the classes of pairs are given (as a person could); which cores
have which distance is the topology's part and tested there.
"""

import os
import re
from pathlib import Path

import pytest
from test_pair_component import Runs, built, eager, run, why_not  # noqa: F401  (fixtures)
from tuning import nearfield, rules_for, write

from nearfield import mpi
from nearfield.apply import per_pair
from nearfield.apply.plan import apply_rules
from nearfield.mpi import Installation, launch_command
from nearfield.mpi.detect_command import DetectedMpi
from nearfield.rules.schema import Rules, RuleTable


def two_distances(inst: Installation, transport: str, near: dict, far: dict) -> Rules:
    rules = [
        RuleTable(distance=d, pair="0-1", parameters=p, memory_per_rank_bytes=0, at_ranks_per_node=4)
        for d, p in (("shared-l3", near), ("same-node", far))
    ]
    return rules_for(inst, transport, {}, rule=rules)


def recognised(inst: Installation) -> DetectedMpi:
    return DetectedMpi(inst.family, inst.version, "test")


def of(installations: list[Installation], family: str, version: str) -> Installation:
    found = [i for i in installations if i.family == family and i.version.startswith(version)]
    if not found:
        pytest.skip(f"no {family} {version} here")
    return found[0]


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_open_mpi_sends_to_each_peer_by_the_rule_for_it(
    installations: list[Installation],
    run: Runs,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Three ranks, two distances: does rank 0 send eagerly to rank 1 up to one limit, to rank 2 up to another?"""
    inst = of(installations, "openmpi", "4.")
    near = {"eager_limit": 1024}
    far = {"eager_limit": 32768, "max_send_size": 65536, "single_copy": "none", "segment_size": 67108864}
    file = write(tmp_path, two_distances(inst, "ob1 / vader", near, far))
    sizes = ["800", "3000", "20000", "60000"]
    argv, env = launch_command(inst, [str(run.folder / "pair_limits"), *sizes], 3, oversubscribe=True)
    env |= {"OMPI_MCA_btl_nearfield_classes": "0-1:shared-l3;0-2:same-node"}
    done = nearfield("run", "--force", "-v", "--rules", file, "--", *argv, env=env)
    assert done.code == 0, done.err
    assert eager(done.out) == {1: 800, 2: 20000}, done.err
    copies = {int(peer): int(n) for peer, n in re.findall(r"peer (\d+) size 60000 early 0 copies (\d+)", done.out)}
    assert copies.get(2) == 0, "rank 2's rule has the kernel copy nothing"


def test_the_component_cannot_be_built(
    installations: list[Installation], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without developer headers, is there one warning that says so, and one set for all pairs, that of the farthest?"""
    inst = of(installations, "openmpi", "4.")
    log = tmp_path / "build.log"
    log.write_text("module.h:5:10: fatal error: opal_config.h: No such file or directory\n")

    def fails(inst: Installation, target: str) -> Path:
        raise mpi.build.explain_build_failure(inst, mpi.build._TARGET_NAMES[target], log)

    monkeypatch.setattr(mpi, "build_target", fails)
    rules = two_distances(inst, "ob1 / vader", {"eager_limit": 1024}, {"eager_limit": 32768})
    made = apply_rules(rules, recognised(inst), inherited_environment={})
    assert made.environment == {"OMPI_MCA_btl_vader_eager_limit": "32768"}
    [warning] = made.warnings
    assert warning.startswith(f"the Open MPI component cannot be built for {inst.name}: module.h:5:10: fatal error")
    assert warning.endswith("; one set for all pairs, that of same-node")


def test_an_mpi_without_means_gets_one_set(installations: list[Installation]) -> None:
    """Is that a note for who asks, and no warning, as it cannot be otherwise with this MPI?"""
    inst = of(installations, "openmpi", "5.")
    rules = two_distances(inst, "ob1 / sm", {"eager_limit": 1024}, {"eager_limit": 32768})
    made = apply_rules(rules, recognised(inst), inherited_environment={})
    assert made.environment == {"OMPI_MCA_btl_sm_eager_limit": "32768"}
    assert any("takes no parameters per pair" in note for note in made.notes) and not made.warnings


@pytest.mark.parametrize("found", [None, DetectedMpi("openmpi", "4.0.99", "test")], ids=["none", "not-here"])
def test_an_mpi_that_is_not_known_gets_one_set(installations: list[Installation], found: DetectedMpi | None) -> None:
    """Are rules used as far as they can be where nothing can be built, as it is not known for what?"""
    rules = two_distances(installations[0], "ob1 / vader", {"eager_limit": 1024}, {"eager_limit": 32768})
    rules.mpi.family, rules.mpi.version = "openmpi", "4.1.4"
    made = apply_rules(rules, found, inherited_environment={})
    assert made.environment == {"OMPI_MCA_btl_vader_eager_limit": "32768"}
    assert any("not known which MPI will run; one set for all pairs" in note for note in made.notes)


def test_equal_rules_need_nothing_loaded(installations: list[Installation], monkeypatch: pytest.MonkeyPatch) -> None:
    """Is nothing built, and no MPI looked for, where all distances have the same parameters?"""
    inst = of(installations, "openmpi", "5.")
    rules = two_distances(inst, "ob1 / sm", {"eager_limit": 8192}, {"eager_limit": 8192})
    assert not per_pair.have_different_parameters(rules)
    for name in ("build_target", "find_usable_mpis"):
        monkeypatch.setattr(mpi, name, lambda *arguments: pytest.fail("must not be asked"))
    made = apply_rules(rules, recognised(inst), inherited_environment={})
    assert made.environment == {"OMPI_MCA_btl_sm_eager_limit": "8192"}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_mpich_gets_a_threshold_per_destination(installations: list[Installation], tmp_path: Path) -> None:
    """Is the shim loaded with the farthest's cells and everybody's thresholds, and does a program run with it?"""
    inst = of(installations, "mpich", "5.")
    far = {"cell_size": 65536, "pack_buffer": 65536, "cma_threshold": 2147483647}
    rules = two_distances(inst, "ch4 / posix", {"cma_threshold": 16384}, far)
    made = apply_rules(rules, recognised(inst), inherited_environment={"LD_PRELOAD": "libc.so.6"})
    assert (
        made.environment["NEARFIELD_PAIR_RULES"] == "shared-l3:single_copy_from=16384;same-node:single_copy_from=never"
    )
    assert made.environment["LD_PRELOAD"].endswith("libnearfield_mpich.so libc.so.6")
    assert made.environment["MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE"] == "65536"
    assert "MPIR_CVAR_CH4_IPC_CMA_P2P_THRESHOLD" not in made.environment
    file = write(tmp_path, rules)
    argv, env = launch_command(inst, [str(mpi.build_target(inst)), "--transport-probe"], 2)
    for near, copied in (("shared-l3", True), ("same-node", False)):
        more = {"NEARFIELD_PAIR_CLASSES": f"0-1:{near}"}
        done = nearfield("run", "--force", "--rules", file, "--", *argv, env={**env, **more})
        assert done.code == 0, done.err
        assert ("single_copies 0 -" not in done.out) == copied, (near, done.out)
