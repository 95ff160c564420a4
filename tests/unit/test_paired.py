"""Are two ways of doing something measured alternately, and is the gain that of the pairs?"""

from __future__ import annotations

from functools import partial
from itertools import islice

import pytest

from nearfield.base.paired import measure_alternately, paired_gain


def test_the_order_alternates() -> None:
    """Is each measured once in a round, and is whoever was first in one round last in the next?"""
    order: list[str] = []
    rounds = measure_alternately({name: partial(order.append, name) for name in "abc"})
    assert len(list(islice(rounds, 3))) == 3
    assert "".join(order) == "abccbaabc"


def test_a_disturbed_round_is_repeated_in_the_same_order() -> None:
    """Is a round repeated as often as allowed and no more, and are its results those of the last attempt?"""
    order: list[str] = []

    def measure(name: str) -> int:
        order.append(name)
        return len(order)

    measurements = {name: partial(measure, name) for name in "ab"}
    assert next(measure_alternately(measurements, lambda results: results["b"] < 4)) == {"a": 3, "b": 4}
    order.clear()
    rounds = measure_alternately(measurements, lambda results: True, max_attempts=2)
    assert list(islice(rounds, 2)) == [{"a": 3, "b": 4}, {"a": 8, "b": 7}]
    assert "".join(order) == "ababbaba"


def test_a_gain_is_the_median_of_the_ratios() -> None:
    """Is the gain above 1 if the other one takes less time, and the median over pairs, not the ratio of medians?"""
    gain = paired_gain([2.0, 40.0, 3.0], [1.0, 10.0, 1.0])
    assert (gain.value, gain.low, gain.high, gain.n) == (3.0, 2.0, 4.0, 3)
    assert paired_gain([1.02] * 6, [1.0] * 6).is_gain and not paired_gain([1.005] * 6, [1.0] * 6).is_gain
    assert paired_gain([0.98] * 6, [1.0] * 6).is_loss and not paired_gain([0.995] * 6, [1.0] * 6).is_loss
    assert str(paired_gain([1.25] * 6, [1.0] * 6)) == "1.250x (1.250 to 1.250)"
    with pytest.raises(ValueError, match="differ in number"):
        paired_gain([1.0], [1.0, 2.0])
