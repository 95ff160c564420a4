"""Runs a tier of the tests and prints its duration: `tier.py NAME COMMAND...`; without arguments, shows the last runs.

Each tier has a budget on two processors, after everything is installed. A tier that takes longer still passes, since a
busy machine is no mistake of the code; whoever reads the table shortens the tests or raises the budget on purpose.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

BUDGETS_S = {
    "unit": 100,
    "cpp": 115,
    "products": 90,
    "slow": 60,
    "cli": 150,
    "browser": 45,
    "sanitized": 180,
    "mpi": 900,
}
FOLDER = Path(__file__).parents[1] / "build" / "tiers"


def run(name: str, command: list[str]) -> int:
    """Runs the command, records its duration in seconds and its exit code, and returns the latter."""
    begin = time.monotonic()
    code = subprocess.call(command)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps({"seconds": time.monotonic() - begin, "code": code}))
    print(line(name), flush=True)
    return code


def line(name: str) -> str:
    """Returns a line of the table: the tier's last duration beside its budget."""
    last = json.loads((FOLDER / f"{name}.json").read_text())
    state = "failed" if last["code"] else "over its budget" if last["seconds"] > BUDGETS_S[name] else ""
    return f"tier {name:<10}{last['seconds']:5.0f} s of {BUDGETS_S[name]:3} s  {state}".rstrip()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(run(sys.argv[1], sys.argv[2:]))
    print("\n".join(line(name) for name in BUDGETS_S if (FOLDER / f"{name}.json").exists()))
