"""Lines as the measuring engine writes them, and files of launches made of such lines."""

import json
from pathlib import Path
from typing import Any

from nearfield.measure.live.launch import LaunchJob
from nearfield.measure.live.layout import RankGroup, RankPlace

KIND_OF = {"pingpong": "pair", "floor": "pair", "pages": "all"}
PAIR = RankGroup(("pair", "all"), (RankPlace(0), RankPlace(1)), "shared-l3")
NO_COUNTER = "this machine has no such hardware counter"
HEADER = {
    "type": "launch", "ranks": 2, "library": "MPI", "variables": {}, "clock_resolution_ns": 10.0,
    "clock_overhead_ns": 20.0, "ticks_per_ns": 2.0, "common_clock": True, "flag_ns": 50.0, "level_latency_ns": [22.0],
    "memory_latency_ns": 120.0, "cached_limit_ns": None, "dirty_limit_ns": None,
}  # fmt: skip


Line = dict[str, Any]


def samples(values: list[float | None], metric: str = "send", scenario: str = "pingpong", **more: Any) -> Line:
    line = {"type": "samples", "scenario": scenario, "metric": metric, "unit": "ns", "parameters": {"size_bytes": 8}}
    return line | {"samples": values} | more


def state(side: str, verdict: str, size: int = 8, cached: float | None = 0.9) -> Line:
    line = {"type": "state", "scenario": "pingpong", "metric": "verdict", "unit": "", "side": side, "verdict": verdict}
    return line | {"parameters": {"size_bytes": size}, "cached": cached, "dirty": None, "latency_ns": 12.5}


def missing(metric: str, reason: str = NO_COUNTER, parameters: dict[str, Any] | None = None) -> Line:
    line = {"type": "missing", "scenario": "pingpong", "metric": metric, "unit": "count", "reason": reason}
    return line | {"parameters": parameters or {}}


def end(scenario: str = "pingpong", cut: bool = False) -> Line:
    return {"type": "scenario_end", "scenario": scenario, "cut": cut}


def write(folder: Path, *attempts: list[Line], number: int = 0, group: RankGroup = PAIR) -> LaunchJob:
    """Yields each attempt as the file that the engine would have left."""
    job = LaunchJob(group, number, dict.fromkeys(KIND_OF, 1.0))
    for attempt, lines in enumerate(attempts):
        job.attempt_file(folder, attempt, ".jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return job
