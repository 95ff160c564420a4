"""Do README and docs show what their commands print, and say where every other digit is from?"""

from __future__ import annotations

import pytest
from doc_consoles import PAGES, Block, Fence, agree, blocks, fences

LANGUAGES = ("c", "console", "cpp", "diff", "python", "sh", "text", "toml", "yaml")


@pytest.mark.parametrize("block", blocks(), ids=str)
def test_a_page_shows_what_the_command_prints(block: Block) -> None:
    """Does each checked block have the digits of now? If not: python tests/support/doc_consoles.py"""
    assert agree(block.text, block.render()), block.render()


@pytest.mark.parametrize("fence", [fence for fence in fences() if fence.is_console], ids=str)
def test_no_console_block_is_just_written(fence: Fence) -> None:
    """Is each one run, or marked with the machine and the command that it was measured by?"""
    assert fence.says_whence, f"{fence.before!r} stands before the block, not <!-- console: --> or <!-- measured: -->"


def test_every_block_says_a_language() -> None:
    """Can none escape the check above, and those of the command line and of Python, by naming no language?"""
    assert not [f"{fence}: {fence.language!r}" for fence in fences() if fence.language not in LANGUAGES]


def test_what_counts_as_a_console_block() -> None:
    """Are a fence without a language and one with a wrong or a halved comment found?"""
    printed = "$ nearfield mpi\nopenmpi\n"
    assert Fence("", "", "", printed).is_console and Fence("", "", "console", "...").is_console
    assert not Fence("", "", "sh", "nearfield mpi  # costs $ 3\n").is_console
    for before in ("", "text", "<!-- console: nothing -->", "<!-- measured: -->", "<!-- measured: a machine -->"):
        assert not Fence("", before, "console", printed).says_whence
    for before in ("<!-- console: plain -->", "<!-- measured: a VM, nearfield mpi -->"):
        assert Fence("", before, "console", printed).says_whence


def test_checked_blocks_are_found() -> None:
    """Are there checked blocks in the tutorials and the pages of simulate, so that the checks above check something?"""
    found = {block.page for block in blocks()}
    pages = {f"docs/{name}.md" for name in ("tutorials/ten-minutes", "how-to/traces", "how-to/machine")}
    assert pages <= found <= set(PAGES)


def test_what_is_left_out_of_a_comparison() -> None:
    """Are the speed of this host's simulation and lines for which dots stand left out, and no digit of a result?"""
    line = "12,164 accesses simulated in {}: {} a second\n L1 {}"
    one, other = line.format("35.9 ms", "338,411", "97"), line.format("1.2 s", "1.5 million", "97")
    assert agree(one, other) and not agree(one, other.replace("97", "98"))
    assert agree("$ a\n...\nc\n", "$ a\nb\nb\nc\n") and agree("$ a\n...\n", "$ a\n") and agree("...\nb\n", "a\nb\n")
    assert not agree("$ a\n...\nc\n", "$ a\nb\nd\n") and not agree("$ a\n", "$ a\nb\n")
