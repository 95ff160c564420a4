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

_INSTRUCTION_PATTERN = re.compile(r"\s+([0-9a-f]+):\s+(\S+)\s*(.*)")
# Names of floating-point instructions: x86 (SSE, AVX), and ARM together with x87, which share names.
_X86_FLOP_PATTERN = re.compile(
    r"v?(add|sub|mul|div|sqrt|min|max|hadd|hsub|addsub|fn?m(?:add|sub|addsub|subadd)\d+)([sp])([sdh])$"
)
_ARM_AND_X87_FLOP_PATTERN = re.compile(
    r"f(n?madd|n?msub|n?mul|mla|mls|add|sub|div|sqrt|min(?:nm)?|max(?:nm)?|addp|abd|prem|scale|yl2x)p?$"
)
_VECTOR_LANES_PATTERN = re.compile(r"v\d+\.(\d+)[hsd]")
_JUMP_PATTERN = re.compile(r"(?:j\w+|loop\w*|b|b\.\w+|bc\.\w+|cbn?z|tbn?z)$")
_JUMP_TARGET_PATTERN = re.compile(r"(?:^|[\s,])([0-9a-f]+) <")
_HOOK_CALL_PATTERN = re.compile(r"<(?:__tsan_|__wrap_mem)")
_REGISTER_BYTES_BY_PREFIX = {"x": 16, "y": 32, "z": 64}
_ELEMENT_BYTES_BY_SUFFIX = {"h": 2, "s": 4, "d": 8}


@dataclass(frozen=True)
class Instruction:
    """One instruction of a disassembly."""

    address: int
    multiplications: float = 0  # floating-point multiplications
    additions: float = 0
    other_flops: float = 0  # divisions, fused multiply-adds and so on
    is_jump: bool = False  # is a jump, and ends a basic block
    jump_target: int | None = None  # address of a jump's target
    calls_hook: bool = False  # calls a hook that records an access; the access has the address of the next instruction


def flops_at_hooks(path: str) -> dict[int, float]:
    """Returns a dict from the code location (offset) of an access to the floating-point operations per access, for the
    accesses that the hooks of an object file record. Omits locations without operations. Returns {} if the object
    cannot be disassembled.

    A multiplication and an addition at the same location of a basic block count as one operation, like a fused
    multiply-add. A SIMD operation counts once per element."""
    code = list(_disassemble(path))
    after = [second.address for first, second in itertools.pairwise(code) if first.calls_hook]
    return dict(flops_by_location(code, after))


def flops_at_locations(locations: Iterable[tuple[str, int]]) -> dict[tuple[str, int], float]:
    """Returns (path, offset) -> floating-point operations per access, for the given access locations of programs
    without hooks."""
    by_object: dict[str, list[int]] = defaultdict(list)
    for path, offset in set(locations):
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
    leaders = {instruction.jump_target for instruction in code if instruction.jump_target is not None}
    flops_by_offset: dict[int, float] = {}
    block: list[Instruction] = []

    def attribute_block() -> None:
        first = bisect_right(offsets, block[0].address)
        inside = offsets[first : bisect_right(offsets, block[-1].address)]
        if not inside:
            return
        instructions_by_location: dict[int, list[Instruction]] = defaultdict(list)
        for instruction in block:
            before = bisect_right(inside, instruction.address)
            instructions_by_location[inside[max(0, before - 1)]].append(instruction)
        for at, parts in instructions_by_location.items():
            fused = max(sum(one.multiplications for one in parts), sum(one.additions for one in parts))
            if flops := fused + sum(one.other_flops for one in parts):
                flops_by_offset[at] = flops_by_offset.get(at, 0) + flops

    for instruction in code:
        if block and (block[-1].is_jump or instruction.address in leaders):
            attribute_block()
            block = []
        block.append(instruction)
    if block:
        attribute_block()
    return flops_by_offset


def _disassemble(path: str, offsets: Sequence[int] = ()) -> Iterator[Instruction]:
    """Yields the instructions of an object file by objdump; with offsets, only those from shortly before the first
    offset to shortly after the last. Yields no instruction if objdump fails."""
    range_options = []
    if offsets:
        margin = 4096  # bytes of code before the first offset and after the last
        begin, end = max(0, min(offsets) - margin), max(offsets) + margin
        range_options = [f"--start-address={begin}", f"--stop-address={end}"]
    command = ["objdump", "--disassemble", "--no-show-raw-insn"]
    try:
        result = subprocess.run(
            [*command, *range_options, path], capture_output=True, text=True, errors="replace", check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return
    for line in result.stdout.splitlines():
        if match := _INSTRUCTION_PATTERN.match(line):
            yield parse_instruction(int(match[1], 16), match[2], match[3])


def parse_instruction(address: int, name: str, operands: str) -> Instruction:
    """Returns the instruction that a line of objdump describes: a jump, the call of a hook, or the number of its
    floating-point operations."""
    if _HOOK_CALL_PATTERN.search(operands) and not _JUMP_PATTERN.match(name):
        return Instruction(address, calls_hook=True)
    if _JUMP_PATTERN.match(name):
        target = _JUMP_TARGET_PATTERN.search(operands)
        return Instruction(address, is_jump=True, jump_target=int(target[1], 16) if target else None)
    if match := _X86_FLOP_PATTERN.match(name):
        kind, packed, element = match.groups()
        registers = re.findall(r"%([xyz])mm", operands)
        operations = (
            _REGISTER_BYTES_BY_PREFIX[registers[-1]] / _ELEMENT_BYTES_BY_SUFFIX[element]
            if packed == "p" and registers
            else 1.0
        )
    elif match := _ARM_AND_X87_FLOP_PATTERN.match(name):
        kind = match[1]
        lanes = _VECTOR_LANES_PATTERN.search(operands)
        operations = float(lanes[1]) if lanes else 1.0
    else:
        return Instruction(address)
    if kind in ("mul", "nmul"):
        return Instruction(address, multiplications=operations)
    return (
        Instruction(address, additions=operations)
        if kind in ("add", "sub")
        else Instruction(address, other_flops=operations)
    )
