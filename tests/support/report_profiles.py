"""Small made-up profiles for the tests of findings, rules and report: every number is chosen, so every answer is
known. Times in ns; intervals are +-1 %."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from nearfield.base.topology import Topology
from nearfield.profile import Machine, Profile, Run, from_rows
from nearfield.profile.schema import Cache, Host, Memory, Mpi, Pages, ProtocolSwitch
from nearfield.rules.schema import RuleTable

Row = dict[str, Any]
KIB, MIB = 1 << 10, 1 << 20
HERE = {"distance": "shared-l3", "pair": "0-1"}
TOPOLOGY = "package:1 l3:1(size=8388608) l2:2(size=1048576) core:1 pu:1"


def row(scenario: str, metric: str, value: float | None, unit: str = "ns", **more: Any) -> Row:
    """Returns one stable live record; `more` are its place, parameters, and other differences."""
    interval = {} if value is None else {"low": value * 0.99, "high": value * 1.01}
    base = {"n": 100, "stable": value is not None, "source": "live"}
    return {"scenario": scenario, "metric": metric, "unit": unit, "value": value, **interval, **base, **more}


def message(size: int, time: float, state: str = "reused", **more: Any) -> Row:
    return row("pingpong", "half_round_trip", time, size_bytes=size, state=state, **{**HERE, **more})


def floor(kind: str, size: int, time: float, **more: Any) -> Row:
    return row("floor", "time", time, kind=kind, size_bytes=size, **{**HERE, **more})


def read(side: str, state: str, size: int, time: float, **more: Any) -> Row:
    return row("pollution", "traverse", time, side=side, state=state, size_bytes=size, **{**HERE, **more})


def simulated(operation: str, policy: str, slowdown: float, time: float, size: int = KIB) -> dict[str, Any]:
    case = {"operation": operation, "policy": policy, "memory_slowdown": slowdown, "ranks": 8, "size_bytes": size}
    scenario = "collective" if operation == "bcast" else "application"
    return row(scenario, "mean_time", time, source="sim", **case) | {"low": time, "high": time}


def sends(size: int, invalid: float, modified: float, **more: Any) -> list[Row]:
    place = {**HERE, "side": "sender", "size_bytes": size}
    return [
        row("pingpong", "send", invalid, state="invalid", verdict="verified", **place),
        row("pingpong", "send", modified, state="modified", **{"verdict": "verified", **place, **more}),
    ]


def after_receive(sizes: dict[int, float]) -> list[Row]:
    """size -> how much of the way from memory (10 us) to the cache (1 us) the buffer is after MPI_Recv."""
    rows: list[Row] = []
    for size, cached in sizes.items():
        rows += [read("receiver", "base-invalid", size, 10_000), read("receiver", "base-preloaded", size, 1000)]
        rows += [read("receiver", "invalid", size, 10_000 - 9000 * cached)]
    return rows


def switch(kind: str, size: int, name: str | None = None, value: int | None = None, **more: Any) -> ProtocolSwitch:
    return ProtocolSwitch(**{**HERE, "kind": kind, "bytes": size, "name": name, "value": value, **more})


def profile(rows: list[Row], switches: list[ProtocolSwitch] | None = None, **run: Any) -> Profile:
    """With an 8 MiB last-level cache, so that half of it is 4 MiB."""
    return Profile(
        Path("made-up"),
        _machine(),
        _run(switches or [], run),
        from_rows(rows),
        Topology.from_synthetic(TOPOLOGY).to_xml(),
    )


def one_rule_judged() -> Profile:
    """Returns a profile that has what the first placement rule needs, and not what the second needs."""
    states = (("invalid", 110), ("base-invalid", 400), ("base-preloaded", 100))
    cached = [read("receiver", state, 8 << i, time) for i in range(3) for state, time in states]
    return profile([message(8, 500), *cached], [switch("eager-limit", 4096)])


def stock_is_best(rule: RuleTable, **more: Any) -> RuleTable:
    """Returns the rule as if its parameters had not been faster."""
    nothing = {"parameters": {}, "reason": "all lose", "gain": None, "range": [], "point": []}
    return rule.model_copy(update={**nothing, **more})


def _machine() -> Machine:
    caches = [
        Cache(level=level, kind="unified", size_bytes=size, shared_by=shared, count=2 // shared)
        for level, size, shared in ((2, MIB, 1), (3, 8 * MIB, 2))
    ]
    return Machine(
        schema_version=1, name="made-up", cpu_model="Test CPU", cores=2, pus=2, line_bytes=64, cache=caches,
        memory=Memory(total_bytes=1 << 30, numa_nodes=1), pages=Pages(base_bytes=4096, shmem="never"),
    )  # fmt: skip


def _run(switches: list[ProtocolSwitch], more: dict[str, Any]) -> Run:
    given: dict[str, Any] = {
        "schema_version": 1, "nearfield": "0", "created": datetime(2026, 1, 2, tzinfo=timezone.utc), "tier": "quick",
        "command": "nearfield probe", "seconds": 1.0, "complete": True, "switch": switches,
        "mpi": Mpi(
            name="openmpi-5.0.11", family="openmpi", version="5.0.11", library="Open MPI", launcher="mpirun",
            variables={"btl_sm_eager_limit": 4096},
        ),
        "host": Host(name="made-up", kernel="Linux"),
    }  # fmt: skip
    return Run(**{**given, **more})
