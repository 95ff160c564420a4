"""Does a machine whose pages lie in several kinds of memory take the times that its file says?"""

from pathlib import Path
from typing import Any

import pytest
from machines import load_content, put_tiers, values

from nearfield.machine.simulated import compare_with_file
from nearfield.machine.uncertainty import uncertainty_of
from nearfield.simulate import Access, Memory

FAR_NS, DRAM_NS = 300.0, 115.0


def machine_with(folder: Path, *tiers: tuple[float, float, float], name: str = "epyc-9755") -> Any:
    table = values(name)
    put_tiers(*tiers)(table)
    return load_content(table, folder)


def chase_ns(machine: Any) -> float:
    """Returns the mean time of loads that miss all caches, each in another page."""
    memory = Memory(machine)
    addresses = [0x7F00_0000_0000 + 4096 * page + 64 * (page % 64) for page in range(20000)]
    before = memory.now_ns[0]
    memory.run(addresses, kinds=Access.chase)
    faults = machine.pages.fault_ns.value
    return (memory.now_ns[0] - before) / len(addresses) - faults


def test_the_share_decides_between_the_latencies(tmp_path: Path) -> None:
    """Is the mean latency that of the DRAM without pages in the tier, that of the tier with all, and between them in
    proportion?"""
    times = [chase_ns(machine_with(tmp_path, (FAR_NS, 28, share))) for share in (0, 0.25, 1)]
    assert times[2] - times[0] == pytest.approx(FAR_NS - DRAM_NS, rel=0.01)
    assert times[1] - times[0] == pytest.approx((FAR_NS - DRAM_NS) / 4, rel=0.05)


def test_the_check_measures_each_tier(tmp_path: Path) -> None:
    """Are the DRAM and the tiers compared with the file each alone, whatever their shares?"""
    found = compare_with_file(machine_with(tmp_path, (FAR_NS, 7, 0.3), (500, 4, 0.2), name="leo3"))
    assert all(one.agrees for one in found), found
    names = [one.what for one in found]
    assert names[-4:] == [f"{what} of memory.tier[{n}]" for n in (0, 1) for what in ("latency", "traffic")]
    assert [round(one.simulated) for one in found if one.what.startswith("traffic")] == [32, 7, 4]


def test_a_share_is_no_uncertainty(tmp_path: Path) -> None:
    """Does --sensitivity vary what is not known of a tier, and not how many pages lie there?"""
    table = values("epyc-9755")
    put_tiers((FAR_NS, 28, 0.3))(table)
    for key, fact in table["memory"]["tier"][0].items():
        if key != "name":
            fact.update(kind="chosen", reason="made up")
            del fact["source"]
    found = uncertainty_of(load_content(table, tmp_path))
    keys = {one.key for one in found.variations} | set(found.fixed_keys)
    assert {"memory.tier[0].latency_ns", "memory.tier[0].gb_per_s"} <= keys and "memory.tier[0].share" not in keys
