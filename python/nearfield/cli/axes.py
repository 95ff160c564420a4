"""Parses the options that span the axes of a simulation: sizes, nodes, policies and memory speeds."""

from __future__ import annotations

import re
from pathlib import Path

from nearfield.base.errors import UsageError
from nearfield.base.units import counted, parse_bytes


def parse_sizes(text: str) -> list[int]:
    """Parses sizes such as '1K,12K..64K' to bytes, ascending. A range consists of the doublings of its first size, and
    its last size."""
    sizes: list[int] = []
    for part in _split_option_value(text, "--sizes"):
        first, dots, last = part.partition("..")
        size, last_size = parse_bytes(first), parse_bytes(last if dots else first)
        if dots and not 0 < size <= last_size:
            raise UsageError(f"--sizes {part}: not a range from a smaller size up", "Write 1K..4M.")
        while size < last_size:
            sizes.append(size)
            size *= 2
        sizes.append(last_size)
    return sorted(set(sizes))


def parse_counts(text: str, value_name: str) -> list[int]:
    """Parses '8,64' to [8, 64], ascending. `value_name` is the option's name for error messages, such as 'nodes'."""
    counts = []
    for part in _split_option_value(text, f"--{value_name}"):
        if not (part.isascii() and part.isdecimal() and 0 < int(part) < 1 << 31):
            raise UsageError(f"--{value_name} {part}: not a number of {value_name}", "Write 64, or 8,64 for a sweep.")
        counts.append(int(part))
    return sorted(set(counts))


def parse_factors(text: str) -> list[float]:
    """Parses '1,7.5' to [1.0, 7.5], ascending."""
    factors = []
    for part in _split_option_value(text, "--memory-slowdown"):
        if not re.fullmatch(r"\d+(\.\d+)?", part, re.ASCII):
            raise UsageError(f"--memory-slowdown {part}: not a factor", "Write 1,2.5,5,7.5.")
        factors.append(float(part))
    return sorted(set(factors))


def parse_policies(text: str) -> tuple[str, ...]:
    """Parses 'a,b:x=1,y=2' to ('a', 'b:x=1,y=2'); returns ('all',) if 'all' is among the names. A parameter with a
    range, such as 'b:x=1..3', stands for one policy per whole number in the range."""
    policies: list[str] = []
    for part in _split_option_value(text, "--policy"):
        if "=" in part and ":" not in part and policies and ":" in policies[-1]:
            policies[-1] += f",{part}"
        else:
            policies.append(part)
    return (
        ("all",)
        if "all" in policies
        else tuple(dict.fromkeys(one for text in policies for one in _expand_policy_ranges(text)))
    )


def _expand_policy_ranges(policy: str) -> list[str]:
    """Returns the policies for a policy with ranges of parameters, one for each combination of values."""
    if not (match := re.search(r"=([^,]*)\.\.([^,]*)", policy)):
        return [policy]
    first, last = match.groups()
    if not (re.fullmatch(r"[0-9]{1,4}", first) and re.fullmatch(r"[0-9]{1,4}", last) and int(first) <= int(last)):
        raise UsageError(f"--policy {policy}: not a range from a smaller whole number up", "Write ddio:ways=1..8.")
    return [
        one
        for number in range(int(first), int(last) + 1)
        for one in _expand_policy_ranges(f"{policy[: match.start(1)]}{number}{policy[match.end(2) :]}")
    ]


def _split_option_value(text: str, option: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"{option} '{text}': nothing between two commas" if text else f"{option} is empty")
    return parts


def ranks_per_node(ranks: int, nodes: int) -> int:
    """Returns the number of ranks per node. Raises UsageError if the ranks cannot be distributed evenly."""
    if ranks % nodes:
        raise UsageError(f"{counted(ranks, 'rank')} cannot be dealt out evenly to {counted(nodes, 'node')}")
    return ranks // nodes


def absolute_path(machine: str | None) -> str | None:
    """Returns the absolute path if `machine` is a file or folder, so that --resume works from any folder. Names of
    machines are unchanged."""
    from nearfield.machine import machine_files

    if machine and machine not in machine_files() and Path(machine).exists():
        return str(Path(machine).resolve())
    return machine
