"""Starts the real engine with a plan of the test's own; what several test files need."""

import json
import os
from pathlib import Path
from typing import Any

from nearfield import mpi
from nearfield.mpi import FinishedLaunch, Installation

CORES = sorted(os.sched_getaffinity(0))


def write_plan(folder: Path, scenarios: list[str], ranks: int, **keys: Any) -> Path:
    """Writes a small plan; keyword arguments replace or add lines."""
    lines = {
        "output": folder / "out.jsonl",
        "tier": "quick",
        "min_samples": 6,
        "cache_bytes": "32768 524288 4194304",
        "sizes": "8 4096 65536",
        "oversubscribed": int(ranks > len(CORES)),
        **keys,
    }
    text = [f"{key} = {value}" for key, value in lines.items()]
    text += [f"rank = {CORES[r % len(CORES)]}" for r in range(ranks)]
    text += [f"scenario = {name} 0.2" for name in scenarios]
    plan = folder / "plan"
    plan.write_text("\n".join(text) + "\n")
    return plan


def run_plan(
    installation: Installation, plan: Path, ranks: int, **options: Any
) -> tuple[FinishedLaunch, list[dict[str, Any]]]:
    """Runs the engine to its end; how it ended, and the lines it wrote."""
    program = mpi.build_target(installation)
    options = {"oversubscribe": ranks > len(CORES), "timeout_s": 120, **options}
    finished = mpi.run(installation, [str(program), str(plan)], ranks, **options)
    output = plan.with_name("out.jsonl")
    text = output.read_text() if output.exists() else ""
    return finished, [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def of_type(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["type"] == kind]
