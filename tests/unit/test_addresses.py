"""May a program give its own addresses to the simulated memory, as NumPy has them, and is what is wrong refused?"""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from traces import counts_of, machine_of, make_accesses

import nearfield.simulate
from nearfield.base.errors import UsageError
from nearfield.machine import load_machine
from nearfield.profile import load
from nearfield.simulate import Memory

DOCS = Path(__file__).parents[2] / "docs"
MACHINE = "power5-redstorm"


def test_the_examples_of_the_documentation() -> None:
    """Do those of the package and of docs/how-to/traces.md print what stands there?"""
    assert doctest.testmod(nearfield.simulate) == (0, 8)
    page = (DOCS / "how-to/traces.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(>>>.*?)```", page, re.DOTALL)
    assert len(blocks) == 1
    test = doctest.DocTestParser().get_doctest(blocks[0], {}, "traces.md", None, None)
    assert doctest.DocTestRunner().run(test) == (0, 7)


def test_it_does_not_matter_how_a_stream_is_cut() -> None:
    """Are counts and time the same in one run, in several and from slices, lists and other integers?"""
    accesses = make_accesses(5000)
    addresses = np.array([address for _, address in accesses], dtype=np.uint64)
    kinds = np.array(["LS".index(kind) for kind, _ in accesses])
    whole, cut = Memory(MACHINE, (1, 5)), Memory(load_machine(MACHINE), [1, 5])
    whole.run(addresses, kinds)
    cut.run(np.repeat(addresses[:2000], 2)[::2], np.repeat(kinds[:2000], 2)[::2].astype("uint8"))
    cut.run(addresses[2000:3000].tolist(), kinds[2000:3000].tolist())
    cut.run([])
    for address, kind in zip(addresses[3000:3100], kinds[3000:3100], strict=True):
        cut.run([int(address)], nearfield.simulate.Access(int(kind)))
    cut.run(addresses[3100:].astype(">u8"), kinds[3100:].astype("int16"))
    assert counts_of(cut) == counts_of(whole)
    assert cut.now_ns == whole.now_ns and len(whole.cycles) == 2
    assert whole.cycles[1] > whole.cycles[0] > 5000


def test_a_memory_begins_anew() -> None:
    """Does reset leave nothing, and does reset_counts leave what the caches hold?"""
    memory, once = Memory(MACHINE), Memory(MACHINE)
    addresses = np.arange(0, 8192, 8)
    for each in (memory, once):
        each.run(addresses)
    memory.reset_counts()
    memory.run(addresses)
    assert memory.counts.dram.reads == 0 < memory.counts.levels[0].hits < once.counts.dram.reads + 1024
    assert memory.cycles[0] > once.cycles[0]
    memory.reset()
    assert memory.cycles == [0.0] and memory.counts.levels[0].hits == 0
    memory.run(addresses)
    assert counts_of(memory) == counts_of(once) and memory.cycles == once.cycles


def test_what_is_printed_is_short_and_counts_are_plain_data() -> None:
    """Does printing a memory, its counts and machines show what they hold in a line, and `to_dict` every count?"""
    memory = Memory("leo3", memory_slowdown=(1, 7.5))
    memory.run([0, 8, 64])
    counts = memory.counts
    assert repr(memory) == "Memory('leo3', memory_slowdown=(1.0, 7.5))"
    assert repr(counts).startswith("Counts(levels=[LevelCounts(hits=1, misses=2), LevelCounts(")
    assert repr(counts.dram) == "DramCounts(reads=2, prefetches=1, bytes=192)"
    values = counts.to_dict()
    assert values["levels"][0] | {"hits": 1, "misses": 2, "snoops": 0} == values["levels"][0]
    assert values["dram"]["reads"] == counts.dram.reads and json.loads(json.dumps(values)) == values
    assert repr(memory.machine).startswith("DescribedMachine(name='leo3', title=")
    assert len(repr(load(DOCS.parent / "tests" / "data" / "epyc-vm-quiet").machine)) < 120


def test_addresses_are_folded_by_regions(tmp_path: Path) -> None:
    """Do 128 regions fit wherever they are, do addresses keep their sets, is an access over the end of a region one to
    two lines, and is one region more refused?"""
    machine = machine_of(tmp_path, (4096, 2, 64))
    memory = Memory(machine)
    regions = np.random.default_rng(1).permutation(128).astype("uint64") * np.uint64(0x5_4321_0000_0000)
    memory.run(regions + np.uint64(64))  # all in one set, of two ways
    memory.run(regions[-2:] + np.uint64(64 + 56))
    assert (memory.counts.levels[0].misses, memory.counts.levels[0].hits) == (128, 2)
    with pytest.raises(UsageError, match="more than 128 regions of 1 GiB"):
        memory.run([1 << 30, 3 << 30])
    memory = Memory(machine)
    memory.run([1 << 30, 5 << 30, (1 << 30) - 4])  # the last one also touches the line of the first
    assert (memory.counts.levels[0].misses, memory.counts.levels[0].hits) == (3, 1)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"addresses": [8, -5]}, r"addresses\[1\] is -5, and an address cannot be negative"),
    ({"addresses": [0.5]}, "addresses must be whole numbers, and these are float64"),
    ({"addresses": np.zeros((2, 2), int)}, r"must have the shape \(n,\), and these have \(2, 2\)"),
    ({"addresses": [2**64]}, r"from 0 to 2\^64 - 1"),
    ({"addresses": ["a"]}, "whole numbers"),
    ({"addresses": [1, 2], "kinds": [0]}, "there are 1 kinds of 2 accesses"),
    ({"addresses": [1], "kinds": [7]}, "kinds must be values of nearfield.simulate.Access"),
    ({"addresses": [1], "kinds": [1.0]}, "kinds must be whole numbers"),
    ({"addresses": [1], "bytes": 0}, "an access cannot have 0 bytes"),
    ({"addresses": [1], "bytes": 1 << 21}, "an access cannot have 2097152 bytes"),
    ({"addresses": [1], "core": 2}, f"{MACHINE} has no core 2"),
    ({"addresses": [1], "core": -1}, "no core -1"),
]


@pytest.mark.parametrize(("wrong", "says"), BAD)
def test_wrong_arguments_are_refused(wrong: dict[str, Any], says: str) -> None:
    memory = Memory(MACHINE)
    with pytest.raises(UsageError, match=says):
        memory.run(**wrong)
    assert memory.counts.levels[0].misses == 0


@pytest.mark.parametrize("slowdown", [(), (0.5,), (1, 2, 3, 4, 5), ("a",), 7, (float("nan"),)])
def test_wrong_speeds_are_refused(slowdown: Any) -> None:
    with pytest.raises(UsageError, match="memory"):
        Memory(MACHINE, slowdown)


def test_python_and_native_code_count_the_same_kinds() -> None:
    """Is every kind one that a run takes, and are those past the caches counted there?"""
    memory = Memory(MACHINE)
    for kind in nearfield.simulate.Access:
        memory.run([4096 * int(kind)], kind)
    counts = memory.counts
    assert (counts.dram.bypass_reads, counts.dram.bypass_writes) == (1, 1)
    assert counts.levels[0].misses == 5
