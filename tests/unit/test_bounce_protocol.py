"""Does each reader get its own message through the bounce buffer, whatever the order of steps, and does the checker
notice when a part of the protocol is missing?"""

from __future__ import annotations

import pytest
from bounce_protocol import two_readers


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("polls", [0, 1, 2])
def test_every_reader_gets_the_message_that_it_requested(dies: bool, polls: int) -> None:
    """In all interleavings, also where the owner dies, or polls for one reader only or for none?"""
    model = two_readers(dies=dies, polls=polls)
    assert model.check() is None
    assert model.states > 100


@pytest.mark.parametrize("omitted", ["waits_for_the_end", "resets", "withdraws_at_once"])
def test_the_checker_notices_what_is_missing(omitted: str) -> None:
    """Is each of these needed: that a reader waits until the owner is done with the request, that it resets the count
    of chunks, and that it withdraws in one step?"""
    violation = two_readers(**{omitted: False}).check()
    assert violation is not None
    assert violation.trace
