"""Is a program's arithmetic counted in its machine code, and given to the accesses that it runs as often as?"""

import pytest

from nearfield.observe.flops import Instruction, flops_by_location, parse_instruction


@pytest.mark.parametrize(
    ("written", "products", "sums", "others"),
    [
        ("mulsd (%rax),%xmm0", 1, 0, 0),
        ("vaddss %xmm1,%xmm2,%xmm0", 0, 1, 0),
        ("subpd %xmm1,%xmm0", 0, 2, 0),
        ("vmulps (%rax),%ymm1,%ymm0", 8, 0, 0),
        ("vfmadd231sd %xmm1,%xmm2,%xmm0", 0, 0, 1),
        ("sqrtsd %xmm1,%xmm0", 0, 0, 1),
        ("fmul d0, d1, d2", 1, 0, 0),
        ("fmadd d0, d1, d2, d3", 0, 0, 1),
        ("fadd v0.2d, v1.2d, v2.2d", 0, 2, 0),
        ("add $0x8,%rax", 0, 0, 0),
        ("movsd %xmm0,(%rax)", 0, 0, 0),
        ("addsubpd %xmm1,%xmm0", 0, 0, 2),
    ],
)
def test_instructions_are_distinguished(written, products, sums, others):
    name, _, operands = written.partition(" ")
    assert parse_instruction(16, name, operands) == Instruction(16, products, sums, others)


@pytest.mark.parametrize("written", ["jne 10 <main+0x4>", "b.ne 10 <main+0x4>", "cbz x0, 10 <main+0x4>"])
def test_jumps_end_blocks(written):
    name, _, operands = written.partition(" ")
    assert parse_instruction(64, name, operands) == Instruction(64, is_jump=True, jump_target=0x10)


def test_arithmetic_goes_with_an_access_of_the_block():
    """Does a loop's arithmetic go with the loop's accesses, though others are nearer to some of it?"""
    product, total, root = ({"multiplications": 1}, {"additions": 1}, {"other_flops": 1})
    code = [
        Instruction(10), Instruction(14, **root),  # before the loop, without an access
        Instruction(20, **product), Instruction(24), Instruction(28, **total), Instruction(32, **root),
        Instruction(36, is_jump=True, jump_target=20),
        Instruction(40, **root), Instruction(44), Instruction(48, is_jump=True),
        Instruction(52, **total), Instruction(56),  # nobody jumps here, and no access is in it
    ]  # fmt: skip
    # In the loop the product stands before the first access, at 24, and is fused with the sum behind it.
    assert flops_by_location(code, [24, 44]) == {24: 2, 44: 1}
    assert flops_by_location(code, [24]) == {24: 2}
    assert flops_by_location(code, [24, 32, 44]) == {24: 1, 32: 1, 44: 1}
    assert flops_by_location(code, []) == {}
