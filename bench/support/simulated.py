"""Collectives on a simulated cluster, without the records around them."""

from __future__ import annotations

from typing import Any

from nearfield._native import simulation
from nearfield.measure.sim.places import ALL_CORES


def collective(
    machine: Any,
    operation: str,
    size_bytes: int,
    nodes: int,
    policies: list[str],
    slowdowns: list[float],
    repetitions: int,
    *,
    memory_effects: bool = True,
) -> dict[str, float]:
    """Returns metric -> value by the first policy at the first memory speed; empty for 0 repetitions. `machine` is a
    native one."""
    parameters = [("operation", operation), ("size_bytes", size_bytes), ("ranks", nodes), ("nodes", nodes)]
    found = simulation.run(
        "collective", machine, ALL_CORES.to_native_place(), parameters, policies, slowdowns, repetitions, memory_effects
    )
    return {one.metric: one.value for one in found if one.variant == 0 and one.speed <= 0}
