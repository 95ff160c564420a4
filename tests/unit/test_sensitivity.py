"""`simulate --sensitivity`: are the right values varied, and are error bars what one gets with pencil and paper?"""

from __future__ import annotations

import pytest

from nearfield.machine import DescribedMachine, load_machine
from nearfield.machine.quantity import facts
from nearfield.machine.sweep import with_settings
from nearfield.machine.uncertainty import Variation, uncertainty_of
from nearfield.measure.row import Row
from nearfield.measure.sim.operations import TIME_METRIC
from nearfield.measure.sim.sensitivity import sensitivity_of


@pytest.fixture
def machine() -> DescribedMachine:
    return load_machine("epyc-9755")


def with_fact(machine: DescribedMachine, table: str, name: str, **fact: object) -> DescribedMachine:
    """Returns the machine with another fact at a key of two words."""
    values = machine.model_dump(exclude_none=True)
    values[table][name] = fact
    return DescribedMachine.model_validate(values)


def ends(machine: DescribedMachine, key: str) -> list[float]:
    return [one.other for one in uncertainty_of(machine).variations if one.key == key]


def test_uncertain_numbers_are_varied_to_their_ends(machine: DescribedMachine) -> None:
    """Is a chosen number halved and doubled, and taken to the ends of its interval if it has one, as a fitted one is?
    Are stated values, words, and what belongs to the kind of machine left as they are?"""
    assert ends(machine, "memory.latency_ns") == [57.5, 230.0]
    assert ends(machine, "core.outstanding_misses") == [8, 32]
    chosen = {"value": 100.0, "kind": "chosen", "reason": "a guess", "interval": [90.0, 120.0]}
    assert ends(with_fact(machine, "memory", "latency_ns", **chosen), "memory.latency_ns") == [90.0, 120.0]
    fitted = {"value": 100.0, "kind": "fitted", "probe": "a chain", "fitted_to": ["chain"], "interval": [100.0, 110.0]}
    assert ends(with_fact(machine, "memory", "latency_ns", **fitted), "memory.latency_ns") == [110.0]
    stated = {"value": 100.0, "source": "a data sheet"}
    assert not ends(with_fact(machine, "memory", "latency_ns", **stated), "memory.latency_ns")
    known = dict(facts(machine))
    varied = {one.key for one in uncertainty_of(machine).variations}
    assert not {key for key in varied if isinstance(known[key].plain_value, (str, list)) or key.endswith("line_bytes")}


def test_every_variation_is_a_valid_machine(machine: DescribedMachine) -> None:
    """Can the machine have each of the values, and are those that it cannot have named?"""
    found = uncertainty_of(machine)
    assert found.fixed_keys == ("pages.tlb[0].entries", "pages.tlb[0].ways", "prefetcher.streams")
    for one in found.variations:
        assert dict(facts(with_settings(machine, ((one.key, one.other),))))[one.key].plain_value == one.other


@pytest.mark.parametrize(
    ("fact", "problem"),
    [
        ({"value": 5.0, "source": "a data sheet", "interval": [1.0, 9.0]}, "interval is of kind"),
        ({"value": 5.0, "kind": "chosen", "reason": "a guess", "interval": [6.0, 9.0]}, "does not contain"),
    ],
)
def test_an_interval_that_cannot_be_is_refused(
    machine: DescribedMachine, fact: dict[str, object], problem: str
) -> None:
    """Is the interval of a stated value, or one that does not contain the value, a mistake in the file?"""
    with pytest.raises(ValueError, match=problem):
        with_fact(machine, "memory", "latency_ns", **fact)


def row(policy: str, time_ns: float, **changed: float) -> Row:
    case = {"operation": "bcast", "nodes": 2, "ranks": 2, "size_bytes": 64, "memory_slowdown": 1.0}
    return {**case, "metric": TIME_METRIC, "policy": policy, "value": time_ns, **changed}  # type: ignore[typeddict-item]


def case_rows(base: float, saved: float, **changed: float) -> list[Row]:
    return [row("memory", base, **changed), row("payload-l3", base * (1 - saved), **changed)]


A = [Variation("memory.latency_ns", 100.0, other) for other in (50.0, 200.0)]
B = [Variation("nic.dma_ns", 300.0, other) for other in (150.0, 600.0)]
ROWS = [
    *case_rows(100, 0.10), *case_rows(80, 0.13, machine_memory_latency_ns=50.0),
    *case_rows(110, 0.12, machine_memory_latency_ns=200.0), *case_rows(100, 0.10, machine_nic_dma_ns=150.0),
    *case_rows(150, 0.06, machine_nic_dma_ns=600.0),
]  # fmt: skip


def test_error_bars_are_those_of_pencil_and_paper() -> None:
    """Are deviations added in quadrature by direction, times by factors and shares by points, with one end of a key in
    each direction, and is the value that matters most the first one?"""
    found = sensitivity_of(ROWS, [*A, *B])
    (case,) = found.cases
    assert case.base_ns.value == 100
    assert case.base_ns.low == pytest.approx(80)
    assert case.base_ns.high == pytest.approx(151.67, abs=0.01)  # exp(sqrt(ln(1.1)^2 + ln(1.5)^2))
    saved = case.saved["payload-l3"]
    # Both ends of the latency save more: the further one counts.
    assert (saved.value, saved.low, saved.high) == pytest.approx((0.10, 0.06, 0.13))
    first = found.influences[0]
    assert first.variation == B[1] and first.time_factor == pytest.approx(1.5)
    assert first.saved_points == pytest.approx(4.0)


def test_a_case_without_all_variations_has_no_error_bars() -> None:
    """After Ctrl-C: is a case of which a variation is missing left out?"""
    assert not sensitivity_of(ROWS[:-2], [*A, *B]).cases
