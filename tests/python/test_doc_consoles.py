"""Do README and docs show what their commands print?"""

from __future__ import annotations

import pytest
from doc_consoles import PAGES, Block, agree, blocks


@pytest.mark.parametrize("block", blocks(), ids=str)
def test_a_page_shows_what_its_command_prints(block: Block) -> None:
    """Does each marked block have the digits of now? If not: python tests/python/doc_consoles.py"""
    assert agree(block.text, block.printed()), block.printed()


def test_the_blocks_of_simulated_machines_are_checked() -> None:
    """Are there marked blocks in the README and in the pages of simulate, so that the check above checks something?"""
    found = {block.page for block in blocks()}
    assert {"README.md", "docs/simulate.md", "docs/machine.md"} <= found <= set(PAGES)


def test_what_is_left_out_of_a_comparison() -> None:
    """Are the speed of this host's simulation and lines for which dots stand left out, and no digit of a result?"""
    line = "12,164 accesses simulated in {}: {} a second\n L1 {}"
    one, other = line.format("35.9 ms", "338,411", "97"), line.format("1.2 s", "1.5 million", "97")
    assert agree(one, other) and not agree(one, other.replace("97", "98"))
    assert agree("$ a\n...\nc\n", "$ a\nb\nb\nc\n") and agree("$ a\n...\n", "$ a\n") and agree("...\nb\n", "a\nb\n")
    assert not agree("$ a\n...\nc\n", "$ a\nb\nd\n") and not agree("$ a\n", "$ a\nb\n")
