"""Does `simulate` say which policy is worth it at which sizes, and how many ways are enough?"""

from __future__ import annotations

import pytest

from nearfield.base.errors import UsageError
from nearfield.cli.axes import parse_policies
from nearfield.cli.simulate_tables import conclusion_sentences
from nearfield.measure.sim.operations import PolicySavings


def savings(size_bytes: int, slowdown: float = 1.0, **by_policy: float) -> PolicySavings:
    """Returns a case; "ddio_3" is ddio:ways=3."""
    names = {name: name.replace("ddio_", "ddio:ways=").replace("_", "-") for name in by_policy}
    shares = {names[name]: share for name, share in by_policy.items()}
    return PolicySavings("bcast", 2, 2, size_bytes, slowdown, 100.0, by_policy=shares)


def test_the_best_policy_of_each_size_is_named() -> None:
    """Are neighbouring sizes with one best policy together, with the range of what it saves, and is a saving of less
    than 1 % none?"""
    found = [
        savings(1024, payload_l3=0.05, header_l2=0.02), savings(2048, payload_l3=0.08, header_l2=0.03),
        savings(4096, payload_l3=-0.01, header_l2=0.03), savings(8192, payload_l3=-0.05, header_l2=0.009),
    ]  # fmt: skip
    assert conclusion_sentences(found) == [
        "payload-l3 saves most at 1 KiB to 2 KiB: 5.0 to 8.0 %",
        "header-l2 saves most at 4 KiB: 3.0 %",
        "no policy saves 1 % at 8 KiB",
    ]


def test_as_few_ways_as_are_enough_are_named() -> None:
    """Is the smallest number with nine tenths of the largest saving named, by itself and as the best policy? Is nothing
    said of sizes where no number saves 1 %, and of one policy with one number at one size?"""
    found = [
        savings(1024, ddio_1=0.095, ddio_2=0.10, ddio_4=0.10), savings(2048, ddio_1=0.10, ddio_2=0.11, ddio_4=0.11),
        savings(4096, ddio_1=0.05, ddio_2=0.19, ddio_4=0.20), savings(8192, ddio_1=-0.1, ddio_2=-0.1, ddio_4=-0.1),
    ]  # fmt: skip
    assert conclusion_sentences(found) == [
        "ddio:ways=1 saves most at 1 KiB to 2 KiB: 9.5 to 10.0 %",
        "ddio:ways=2 saves most at 4 KiB: 19.0 %",
        "no policy saves 1 % at 8 KiB",
        "ways with which ddio saves nine tenths of its most: 1 at 1 KiB to 2 KiB, 2 at 4 KiB",
    ]
    assert conclusion_sentences([savings(1024, ddio_4=0.1)]) == []
    assert conclusion_sentences([savings(1024, ddio_1=0.0, ddio_2=0.0)]) == ["no policy saves 1 % at 1 KiB"]


def test_memory_speeds_are_judged_separately() -> None:
    """Are cases with other memory judged by themselves, and is nothing said if only the base was simulated?"""
    found = [savings(64, 1.0, payload_l3=0.05, ddio=0.0), savings(64, 7.5, payload_l3=0.2, ddio=0.0)]
    assert conclusion_sentences(found) == [
        "payload-l3 saves most at 64 B: 5.0 % (memory slowdown 1)",
        "payload-l3 saves most at 64 B: 20.0 % (memory slowdown 7.5)",
    ]
    assert not conclusion_sentences([savings(1024)])


def test_a_range_is_a_policy_with_each_number() -> None:
    """Is it, with several parameters, too, and is a range that goes down or has no numbers refused?"""
    assert parse_policies("payload-l3,ddio:ways=1..3") == ("payload-l3", "ddio:ways=1", "ddio:ways=2", "ddio:ways=3")
    assert parse_policies("adaptive:window=8,pause=1..2") == ("adaptive:window=8,pause=1", "adaptive:window=8,pause=2")
    for wrong in ("ddio:ways=3..1", "ddio:ways=..4", "ddio:ways=a..b", "ddio:ways=1..99999"):
        with pytest.raises(UsageError, match="not a range"):
            parse_policies(wrong)
