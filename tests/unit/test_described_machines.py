"""Described machines: is what their files say what plans get, and is every mistake in them named?"""

from __future__ import annotations

from pathlib import Path

import pytest
import tomlkit

from nearfield.base.errors import ProfileError, UsageError
from nearfield.machine import load_machine, machine_files
from nearfield.plan import costs_of_machine, find_mode, link_costs_of

T3E = machine_files()["t3e-900"]


@pytest.mark.parametrize("name", machine_files())
def test_every_file_is_right(name: str) -> None:
    """Does it parse, is it named as its file, and does every mode give costs?"""
    machine = load_machine(name)
    assert machine.name == name
    for mode in machine.communication.mode if machine.communication else ():
        link = costs_of_machine(machine, mode.name).network
        assert link.ns_per_byte > 0 and (link.latency_ns > 0 or mode.latency_reason)


@pytest.mark.parametrize("name", machine_files())
def test_every_number_has_a_source(name: str) -> None:
    """Is there no number without one, as far down as tables go? (Loading checks it; this does not trust that.)"""

    def walk(table: object) -> None:
        if isinstance(table, list):
            for item in table:
                walk(item)
        elif isinstance(table, dict):
            numbers = [k for k, v in table.items() if isinstance(v, (int, float)) and k != "schema_version"]
            assert not numbers or table.get("source") or table.get("reason"), table
            walk(list(table.values()))

    walk(tomlkit.parse(machine_files()[name].read_text()).unwrap())


def test_bandwidths_are_those_of_the_study() -> None:
    """S3.1, S3.2: contiguous 300 and 160 MB/s; buffered, stride 1 is 5 times stride 32, flat from 8; direct, 122 MB/s
    at odd strides and 72, 71, 68 at multiples of 2, 4, 8; the Origin flat from 16 within what it measured."""
    buffered, direct = (costs_of_machine(load_machine("t3e-900"), mode).network for mode in ("buffered", "synchronous"))
    assert (1e3 / buffered.ns_per_byte, 1e3 / direct.ns_per_byte) == pytest.approx((160, 300))
    assert buffered.strided[64] == pytest.approx(5 * buffered.ns_per_byte) and max(buffered.strided) == 64
    assert {m // 8: round(1e3 / ns) for m, ns in direct.banked.items()} == {1: 122, 2: 72, 4: 71, 8: 68}
    for mode, low, high in (("one-thread", 9, 10.2), ("two-threads", 6.7, 8)):
        assert low <= 1e3 / costs_of_machine(load_machine("origin-2000"), mode).network.strided[128] <= high


def test_strides_cost_more_than_load() -> None:
    """S3.4, on both machines and in every mode."""
    for name in ("t3e-900", "origin-2000"):
        for mode in load_machine(name).communication.mode:
            link = link_costs_of(mode)
            worst = max([*link.strided.values(), *link.banked.values()])
            assert worst / link.ns_per_byte > link.load_factor


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("contiguous_mb_per_s = {", "contigous_mb_per_s = {", "did you mean 'contiguous_mb_per_s'"),
        ("{ value = 160, source", "{ value = 160, sauce", "did you mean 'source'"),
        ("value = 160", 'value = "160"', "mode[0].contiguous_mb_per_s.value"),
        ("value = 160", "value = -160", "from 0.01 to 1e+07"),
        ('mb_per_s = 32, kind = "derived"', 'mb_per_s = 32, kind = "guessed"', "stride[0].kind"),
        ('latency_reason = "the study gives no time of an empty message"\n', "", "latency_reason"),
        ('title = "Cray', 'titel = "Cray', "did you mean 'title'"),
        ("[communication]", "[communication", "line"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(old: str, new: str, words: str, tmp_path: Path) -> None:
    """Does the error name the file and the key, and the nearest key there is?"""
    text = T3E.read_text()
    assert old in text
    file = tmp_path / "mine.toml"
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(ProfileError) as caught:
        load_machine(str(file))
    assert words in caught.value.message and str(file) in caught.value.message
    assert "machine new --from " in caught.value.remedy


def test_an_unknown_machine_or_mode() -> None:
    """Is the nearest one named?"""
    with pytest.raises(UsageError) as caught:
        load_machine("t3e")
    assert "'t3e-900'" in caught.value.remedy
    with pytest.raises(UsageError) as caught:
        find_mode(load_machine("t3e-900"), "bufered")
    assert "'buffered'" in caught.value.remedy
