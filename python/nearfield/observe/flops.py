"""Counts the floating-point operations of a program from its machine code.

A recorded stream has loads and stores, but no arithmetic. An access comes from one location in the machine code, and
the instructions of its basic block run as often as the access. So the floating-point instructions of each basic block
are counted once and attributed to the access locations in the block.

For a program compiled with hooks, the locations follow from the machine code, so that the counts do not depend on a
run. For a program under Valgrind, the locations must be given."""

from __future__ import annotations

import itertools
import re
import subprocess
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

_INSTRUCTION = re.compile(r"\s+([0-9a-f]+):\s+(\S+)\s*(.*)")
# Names of floating-point instructions: x86 (SSE, AVX), and ARM together with x87, which share names.
_X86 = re.compile(r"v?(add|sub|mul|div|sqrt|min|max|hadd|hsub|addsub|fn?m(?:add|sub|addsub|subadd)\d+)([sp])([sdh])$")
_ARM = re.compile(r"f(n?madd|n?msub|n?mul|mla|mls|add|sub|div|sqrt|min(?:nm)?|max(?:nm)?|addp|abd|prem|scale|yl2x)p?$")
_LANES = re.compile(r"v\d+\.(\d+)[hsd]")
_JUMP = re.compile(r"(?:j\w+|loop\w*|b|b\.\w+|bc\.\w+|cbn?z|tbn?z)$")
_TARGET = re.compile(r"(?:^|[\s,])([0-9a-f]+) <")
_HOOK = re.compile(r"<(?:__tsan_|__wrap_mem)")
_REGISTER_BYTES = {"x": 16, "y": 32, "z": 64}
_ELEMENT_BYTES = {"h": 2, "s": 4, "d": 8}


@dataclass(frozen=True)
class Instruction:
    """One instruction of a disassembly."""

    address: int
    products: float = 0  # floating-point multiplications
    sums: float = 0
    others: float = 0  # divisions, fused multiply-adds and so on
    jumps: bool = False  # is a jump, and ends a basic block
    target: int | None = None  # address of a jump's target
    hook: bool = False  # calls a hook that records an access; the access has the address of the next instruction


def flops_of_hooks(path: str) -> dict[int, float]:
    """Returns offset of an access's location -> floating-point operations per access, for the accesses that hooks of an
    object file record; locations without operations are omitted. Returns {} if the object cannot be disassembled.

    A multiplication and an addition at the same location of a basic block count as one operation, like a fused
    multiply-add. A SIMD operation counts once per element."""
    code = list(_disassemble(path))
    after = [second.address for first, second in itertools.pairwise(code) if first.hook]
    return dict(flops_by_location(code, after))


def flops_at_locations(places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], float]:
    """Returns (path, offset) -> floating-point operations per access, for the given access locations of programs
    without hooks."""
    by_object: dict[str, list[int]] = defaultdict(list)
    for path, offset in set(places):
        by_object[path].append(offset)
    return {
        (path, offset): flops
        for path, offsets in by_object.items()
        for offset, flops in flops_by_location(list(_disassemble(path, offsets)), sorted(offsets)).items()
    }


def flops_by_location(code: list[Instruction], offsets: list[int]) -> Mapping[int, float]:
    """Returns offset -> floating-point operations for the given access locations, which are return addresses. Both
    inputs are sorted by address.

    An instruction belongs to the last location before it in its basic block, otherwise to the block's first location. A
    block without a location is not counted, because it is unknown whether the block ran."""
    leaders = {instruction.target for instruction in code if instruction.target is not None}
    found: dict[int, float] = {}
    block: list[Instruction] = []

    def close() -> None:
        first = bisect_right(offsets, block[0].address)
        inside = offsets[first : bisect_right(offsets, block[-1].address)]
        if not inside:
            return
        pieces: dict[int, list[Instruction]] = defaultdict(list)
        for instruction in block:
            before = bisect_right(inside, instruction.address)
            pieces[inside[max(0, before - 1)]].append(instruction)
        for at, parts in pieces.items():
            fused = max(sum(one.products for one in parts), sum(one.sums for one in parts))
            if flops := fused + sum(one.others for one in parts):
                found[at] = found.get(at, 0) + flops

    for instruction in code:
        if block and (block[-1].jumps or instruction.address in leaders):
            close()
            block = []
        block.append(instruction)
    if block:
        close()
    return found


def _disassemble(path: str, offsets: Sequence[int] = ()) -> Iterator[Instruction]:
    """Yields the instructions of an object file by objdump; with offsets, only those from shortly before the first
    offset to shortly after the last. Yields nothing if objdump fails."""
    between = []
    if offsets:
        margin = 4096  # bytes of code before the first offset and after the last
        begin, end = max(0, min(offsets) - margin), max(offsets) + margin
        between = [f"--start-address={begin}", f"--stop-address={end}"]
    words = ["objdump", "--disassemble", "--no-show-raw-insn"]
    try:
        done = subprocess.run([*words, *between, path], capture_output=True, text=True, errors="replace", check=True)
    except (OSError, subprocess.CalledProcessError):
        return
    for line in done.stdout.splitlines():
        if found := _INSTRUCTION.match(line):
            yield parse_instruction(int(found[1], 16), found[2], found[3])


def parse_instruction(address: int, name: str, operands: str) -> Instruction:
    """Returns the instruction that a line of objdump describes: whether it jumps, calls a hook, or how many
    floating-point operations it performs."""
    if _HOOK.search(operands) and not _JUMP.match(name):
        return Instruction(address, hook=True)
    if _JUMP.match(name):
        target = _TARGET.search(operands)
        return Instruction(address, jumps=True, target=int(target[1], 16) if target else None)
    if found := _X86.match(name):
        kind, packed, element = found.groups()
        registers = re.findall(r"%([xyz])mm", operands)
        numbers = _REGISTER_BYTES[registers[-1]] / _ELEMENT_BYTES[element] if packed == "p" and registers else 1.0
    elif found := _ARM.match(name):
        kind = found[1]
        lanes = _LANES.search(operands)
        numbers = float(lanes[1]) if lanes else 1.0
    else:
        return Instruction(address)
    if kind in ("mul", "nmul"):
        return Instruction(address, products=numbers)
    return Instruction(address, sums=numbers) if kind in ("add", "sub") else Instruction(address, others=numbers)
