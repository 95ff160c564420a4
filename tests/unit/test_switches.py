"""Are the sizes at which an MPI changes its behaviour named as what they are?"""

from typing import Any

import pytest

from nearfield.measure.live.switches import DetectableSwitchKind, DetectedSwitch, add_steps, name_switches
from nearfield.profile.schema import ProtocolSwitch

# Control variables that MPI_T names on these MPIs (those that matter, and some that must not be mistaken for them).
OPEN_MPI_5 = {
    "btl_self_eager_limit": 1024,
    "btl_sm_eager_limit": 4096,
    "btl_sm_fbox_size": 4096,
    "btl_sm_max_inline_send": 256,
    "btl_sm_max_send_size": 32768,
    "btl_tcp_eager_limit": 65536,
    "btl_uct_eager_limit": 8192,
    "btl_vader_eager_limit": 4096,
}
OPEN_MPI_4 = {"btl_vader_eager_limit": 4096, "btl_vader_max_inline_send": 256, "btl_tcp_eager_limit": 65536}
MPICH = {
    "MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE": 2048,
    "MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE": 16384,
    "MPIR_CVAR_BCAST_SHORT_MSG_SIZE": 12288,
}


def seen(kind: DetectableSwitchKind, *sizes: int, pair: str = "0-1") -> list[DetectedSwitch]:
    return [DetectedSwitch(pair, "shared-l3", kind, size) for size in sizes]


def curve(times: dict[int, float], pair: str = "0-1", **columns: Any) -> list[dict[str, Any]]:
    core = {"scenario": "pingpong", "metric": "half_round_trip", "distance": "shared-l3", "pair": pair}
    rest = {"state": "reused", "stable": True} | columns
    return [core | rest | {"size_bytes": size, "value": time} for size, time in times.items()]


# Flat, then 0.01 ns a byte, and 60 % more from beyond 4 KiB on.
WITH_STEP = {1024: 300.0, 2048: 310.0, 4096: 330.0, 4097: 530.0, 8192: 570.0, 16384: 650.0}


@pytest.mark.parametrize(
    ("variables", "kind", "size", "name"),
    [
        (OPEN_MPI_5, "eager-limit", 4016, "btl_sm_eager_limit"),
        (OPEN_MPI_5, "unattended-limit", 256, "btl_sm_max_inline_send"),
        (OPEN_MPI_5, "single-copy", 4016, "btl_sm_eager_limit"),
        (OPEN_MPI_4, "eager-limit", 4032, "btl_vader_eager_limit"),
        (MPICH, "eager-limit", 16320, "MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE"),
        (OPEN_MPI_5, "eager-limit", 65536, None),  # only TCP has a threshold there
        (OPEN_MPI_5, "eager-limit", 5000, None),
        ({}, "eager-limit", 4016, None),
    ],
)
def test_switch_is_named_by_the_threshold_it_obeys(
    variables: dict[str, int], kind: DetectableSwitchKind, size: int, name: str | None
) -> None:
    """Is a switch matched with the variable for messages inside a node that lies there, and with no other?"""
    (switch,) = name_switches(seen(kind, size), variables)
    assert (switch.kind, switch.bytes, switch.name) == (kind, size, name)
    assert switch.value == (variables[name] if name else None)
    assert switch.evidence


def test_noise_is_outvoted() -> None:
    """Is a size that one launch saw elsewhere dropped for the one that the others agree on?"""
    (switch,) = name_switches(seen("eager-limit", 4016, 131072, 4016), OPEN_MPI_5)
    assert switch.bytes == 4016


def test_without_agreement_the_mpis_own_threshold_decides() -> None:
    """If every launch saw another size, is the one taken where the MPI has a threshold?"""
    (switch,) = name_switches(seen("eager-limit", 3000, 4016), OPEN_MPI_5)
    assert (switch.bytes, switch.name) == (4016, "btl_sm_eager_limit")
    (switch,) = name_switches(seen("eager-limit", 3000, 4016, 9000), {})
    assert switch.bytes == 4016, "the middle one"


def test_behaviour_may_change_and_change_back() -> None:
    """Are two sizes of the same kind kept when all launches saw both?"""
    switches = name_switches(seen("single-copy", 4016, 65536, 4016, 65536), OPEN_MPI_5)
    assert [switch.bytes for switch in switches] == [4016, 65536]


def test_pairs_have_their_own_switches() -> None:
    """Are pairs and kinds kept apart, in order of pair and size?"""
    lines = seen("eager-limit", 4016) + seen("eager-limit", 9000, pair="0-2") + seen("unattended-limit", 256)
    switches = name_switches(lines, OPEN_MPI_5)
    assert [(s.pair, s.bytes) for s in switches] == [("0-1", 256), ("0-1", 4016), ("0-2", 9000)]


def test_step_of_the_time_supports_the_switch_that_makes_it() -> None:
    """Is a step of the ping-pong at a known switch its evidence, and not a finding of its own?"""
    switches = name_switches(seen("eager-limit", 4096), OPEN_MPI_5)
    (switch,) = add_steps(switches, curve(WITH_STEP), OPEN_MPI_5)
    assert switch.kind == "eager-limit"
    assert switch.evidence
    assert "more than its trend between 4096 and 4097 B" in switch.evidence


def test_step_without_a_switch_is_found() -> None:
    """Is a step that no protocol switch explains reported as a step, and named where a variable fits?"""
    (step,) = add_steps([], curve(WITH_STEP), {"btl_sm_max_send_size": 4096})
    assert (step.kind, step.bytes, step.pair, step.distance) == ("step", 4096, "0-1", "shared-l3")
    assert (step.name, step.value) == ("btl_sm_max_send_size", 4096)
    (step,) = add_steps([], curve(WITH_STEP), {})
    assert step.name is None


def test_switch_of_another_pair_explains_nothing() -> None:
    """Does a switch of one pair leave another pair's step unexplained?"""
    switches = name_switches(seen("eager-limit", 4096, pair="0-2"), {})
    found = add_steps(switches, curve(WITH_STEP), {})
    assert sorted((s.pair, s.kind) for s in found) == [("0-1", "step"), ("0-2", "eager-limit")]


def test_growth_is_no_step() -> None:
    """Is time that only grows with size, or a jump among unstable records or other states, no step?"""
    growing = {1 << e: 200.0 + 0.1 * (1 << e) for e in range(3, 22)}
    assert add_steps([], curve(growing), OPEN_MPI_5) == []
    assert add_steps([], curve(WITH_STEP, stable=False), OPEN_MPI_5) == []
    assert add_steps([], curve(WITH_STEP, state="invalid"), OPEN_MPI_5) == []
    assert add_steps([], curve({8: 100.0}), OPEN_MPI_5) == []


def test_given_switches_are_not_changed() -> None:
    """Without any ping-pong, are the protocol switches returned as they are?"""
    switch = ProtocolSwitch(pair="0-1", distance="shared-l3", bytes=4016, kind="eager-limit", evidence="seen")
    assert add_steps([switch], [], OPEN_MPI_5) == [switch]
