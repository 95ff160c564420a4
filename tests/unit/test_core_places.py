"""Are core-to-core latencies that jump between places sorted into these places?"""

from nearfield.base.places import find_places


def test_each_jump_is_another_place() -> None:
    """20, 50, 95 and 285 ns are four places, most frequent first; 85 to 104 ns is one."""
    assert sorted(find_places([285, 20, 50, 95, 21, 52, 280])) == [(20, 21), (50, 52), (95, 95), (280, 285)]
    assert find_places([85, 96, 104]) == [(85, 104)]
    assert find_places([240, 55, 56, 57]) == [(55, 57), (240, 240)]


def test_values_in_between_do_not_join_two_places() -> None:
    """A chain of single values from 50 to 250 ns connects the two: are they two places all the same, without these?"""
    between = [50 * 1.1**step for step in range(1, 17)]
    places = find_places([50.0] * 200 + [250.0] * 200 + between)
    assert all(low <= latency <= high for latency, (low, high) in zip((50, 250), sorted(places), strict=True))
    assert all(high <= 1.25 * low for low, high in places)


def test_nothing_measured_is_no_place() -> None:
    assert find_places([]) == []
