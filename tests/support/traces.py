"""Traces and machines for tests of the simulated memory's doors: files in every format, and machines of few caches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from machines import load_content, put, values

from nearfield.simulate import Memory

Access = tuple[str, int]  # "L" or "S" and an address; 8 bytes
Counts = dict[str, Any]  # by name


def make_accesses(count: int, kinds: str = "LS", seed: int = 1) -> list[Access]:
    """Returns accesses of 8 bytes, some near each other and some not, in parts of memory as distant as stack and
    heap."""
    random = Random(seed)
    parts = (0x40_0000, 0x5555_5555_4000, 0x7FFF_F000_0000, 0xFFFF_FFFF_8000_0000)
    return [(random.choice(kinds), random.choice(parts) + 8 * random.randrange(4096)) for _ in range(count)]


def counts_of(memory: Memory) -> Counts:
    """Returns everything that was counted, as a value that can be compared."""
    return memory.counts.to_dict()


def machine_of(folder: Path, *caches: tuple[int, int, int], cores: int = 1) -> Any:
    """Returns a machine that has these caches (size, ways, line) with LRU, of each core, and nothing else."""
    table = values("leo3")
    for name in ("transfers", "pages", "prefetcher", "nic", "network", "messaging", "socket", "communication"):
        if name != "transfers" or cores == 1:
            table.pop(name, None)
    first = table["cache"][0]
    table["cache"] = []
    for size, ways, line in caches:
        one = {key: dict(value) for key, value in first.items()}
        for key, value in (("size_bytes", size), ("ways", ways), ("line_bytes", line), ("replacement", "lru")):
            one[key]["value"] = value
        table["cache"].append(one)
    put("cores", cores)(table)
    for key in ("shared_by", "remote_ns"):
        put(f"memory.{key}", None)(table)
    return load_content(table, folder)


def din(accesses: Sequence[Access]) -> bytes:
    return "".join(f"{'LS'.index(kind)} {address:x}\n" for kind, address in accesses).encode()


def extended_din(accesses: Sequence[Access]) -> bytes:
    return "".join(f"{'rw'['LS'.index(kind)]} 0x{address:x} 8 a remark\n" for kind, address in accesses).encode()


def lackey(accesses: Sequence[Access]) -> bytes:
    lines = "".join(f"I  0401ab70,3\n {kind} {address:08x},8\n" for kind, address in accesses)
    return f"==7== Lackey, an example Valgrind tool\n{lines}==7== Exit code: 0\n".encode()


def _view(prefix: str, accesses: Sequence[Access], name: str = "{:<12}") -> bytes:
    heading = f"Output format:\n{'-' * 60}\n{prefix.format(1)} <marker: version 6>\n"
    names = {"L": name.format("read"), "S": name.format("write")}
    lines = (
        f"{prefix.format(number)} {names[kind]} 8 byte(s) @ 0x{address:016x} by PC 0x0\n"
        for number, (kind, address) in enumerate(accesses, 2)
    )
    return (heading + "".join(lines)).encode()


def view(accesses: Sequence[Access]) -> bytes:
    return _view("{:>12}           0:      296231", accesses)


def view_of_workloads(accesses: Sequence[Access]) -> bytes:
    return _view("{:>12}           0:     W0.T292", accesses)


def view_of_2022(accesses: Sequence[Access]) -> bytes:
    return _view("{:>9}: T1774673", accesses)


def first_view(accesses: Sequence[Access]) -> bytes:
    return _view("T468608", accesses, "    {} ")


def binary(accesses: Sequence[Access]) -> bytes:
    assert all(kind == "L" for kind, _ in accesses)
    return b"".join(address.to_bytes(8, "little") for _, address in accesses)


WRITERS = {
    writer.__name__: writer
    for writer in (din, extended_din, lackey, view, view_of_workloads, view_of_2022, first_view, binary)
}
FORMATS = {"extended_din": "din", "view_of_workloads": "view", "view_of_2022": "view", "first_view": "view"}
