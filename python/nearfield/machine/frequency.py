"""Changes the processor frequency of a described machine."""

from __future__ import annotations

from nearfield.base.errors import UsageError
from nearfield.machine.described import DescribedMachine
from nearfield.machine.quantity import ValueFact


def scale_to_frequency(machine: DescribedMachine, clock_ghz: float) -> DescribedMachine:
    """Returns the machine with another processor frequency, scaled as in paper S4 (papers/S4/README.md), table 3:
    memory and MPI library keep their times in cycles, because the memory frequency is a fraction of the processor's;
    NIC and network keep their times in ns."""
    scaled_machine = machine.model_copy(deep=True)
    core, memory, messaging = scaled_machine.core, scaled_machine.memory, scaled_machine.messaging
    if core is None or memory is None:
        raise UsageError(f"{machine.name} has no processor of which the frequency is known")
    if not 0.01 <= clock_ghz <= 100:
        raise UsageError(f"{clock_ghz:g} GHz is no frequency of 0.01 to 100 GHz")
    frequency_ratio = clock_ghz / core.clock_ghz.value
    for time in (memory.latency_ns, memory.remote_ns, memory.bank_busy_ns):
        _scale_fact(time, 1 / frequency_ratio)
    for rate in (memory.gb_per_s, memory.gb_per_s_bypass):
        _scale_fact(rate, frequency_ratio)
    if messaging:
        for time in (messaging.send_ns, messaging.receive_ns, messaging.match_ns):
            _scale_fact(time, 1 / frequency_ratio)
    _scale_fact(core.clock_ghz, frequency_ratio)
    return scaled_machine


def _scale_fact(fact: ValueFact | None, factor: float) -> None:
    """Multiplies a value by `factor` and notes the scaling in its source; does nothing for None."""
    if fact is None:
        return
    scaled_value, source = fact.value * factor, fact.origin + "; scaled with the processor's frequency"
    if fact.kind in ("chosen", "fitted"):
        fact.assume(scaled_value, source)
        return
    fact.value = scaled_value
    fact.kind, fact.source = "derived", source
