"""run.toml of a simulated profile. What a description does not say is absent."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterable
from typing import Any

import nearfield
from nearfield.machine import DescribedMachine
from nearfield.machine.profiled import SIMULATOR
from nearfield.probe.simulated.places import Place
from nearfield.profile import schema

# Ways between nodes that have an eager limit: beyond it a send waits for its receive.
_WITH_LIMIT = ("eager-rendezvous", "buffered-synchronous")


def describe_run(
    machine: DescribedMachine,
    request: Any,
    specs: Iterable[Any],
    places: Iterable[Place],
    rows: list[dict[str, Any]],
    skipped: Iterable[tuple[str, str | None, str]],
    *,
    complete: bool,
    seconds: float,
) -> schema.Run:
    simulated = {row["scenario"] for row in rows}
    return schema.Run(
        schema_version=1,
        nearfield=nearfield.__version__,
        backend="sim",
        simulated=machine.name,
        simulator=SIMULATOR,
        created=request.created,
        tier=request.tier,
        command=request.command,
        seconds=seconds,
        complete=complete,
        mpi=_mpi(machine),
        host=schema.Host(name=socket.gethostname(), kernel=f"{platform.system()} {platform.release()}"),
        switch=[switch for place in places for switch in _switches(machine, place)],
        skipped=[schema.Skipped(scenario=s, distance=where, reason=why) for s, where, why in skipped],
        counters=_counters(rows),
        scenario=[_scenario(spec) for spec in specs if spec.name in simulated],
    )


def _mpi(machine: DescribedMachine) -> schema.Mpi:
    node = machine.messaging.node if machine.messaging else None
    return schema.Mpi(
        name="simulated",
        family="simulated",
        version=SIMULATOR,
        library="the simulator's own MPI, with the protocols and limits of the machine's description",
        transport=node.value if node else "copy-in-copy-out",
        launcher="none",
    )


def _switches(machine: DescribedMachine, place: Place) -> list[schema.Switch]:
    """The eager limit that the description names; nothing had to be found out."""
    messaging = machine.messaging
    if messaging is None:
        return []
    key = "eager_bytes" if place.between_nodes else "node_eager_bytes"
    limit, way = getattr(messaging, key), messaging.network.value if messaging.network else _WITH_LIMIT[0]
    if not limit or not limit.value or (place.between_nodes and way not in _WITH_LIMIT):
        return []
    single = not place.between_nodes and messaging.node is not None and messaging.node.value == "single-copy"
    kinds = ["eager-limit", "single-copy"] if single else ["eager-limit"]
    told = {"pair": place.pair, "distance": place.distance, "bytes": limit.value}
    return [schema.Switch(kind=kind, evidence=f"the machine's description: messaging.{key}", **told) for kind in kinds]


def _counters(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Those that a measured profile has, too."""
    told = {row["metric"]: row.get("note") or "available" for row in rows if row["unit"] == "count"}
    names = ("page_faults", "l1d_misses", "llc_accesses", "llc_misses", "dtlb_misses")
    return {name: told[name] for name in names if name in told}


def _scenario(spec: Any) -> schema.Scenario:
    return schema.Scenario(
        name=spec.name,
        summary=spec.summary,
        parameters=[schema.ParameterInfo(name=p.name, summary=p.summary) for p in spec.parameters],
        metrics=[schema.MetricInfo(name=m.name, unit=m.unit, summary=m.summary) for m in spec.metrics],
    )
