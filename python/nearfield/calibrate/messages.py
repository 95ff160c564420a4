"""Fits the costs of MPI calls to a profile of the same machine: the costs of send, receive and matching to the shortest
ping-pong messages, and the cost per piece of a datatype to the shortest strided messages. The MPI library's cost is the
measured time minus the time of the simulated memory accesses. Records that were fitted are excluded from scores
(`nearfield.validate`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from nearfield._native import simulation
from nearfield.base.estimates import Estimate
from nearfield.base.frames import pl
from nearfield.calibrate.fitting import MachineValues, fitted_value, solve_descending
from nearfield.machine import DescribedMachine
from nearfield.machine.native import to_native
from nearfield.profile import Profile
from nearfield.profile.contradictions import MAX_SAME_PLACE_LATENCY_RATIO, core_to_core_latency_ns_of
from nearfield.profile.records import estimate_of_record, where

Parameters = list[tuple[str, Any]]
SHORTEST_MESSAGE_BYTES, CACHE_LINE_BYTES = 8, 64  # message sizes in bytes


@dataclass(frozen=True)
class FittedMachine:
    """The machine with fitted costs of MPI calls, and notes for the user."""

    machine: DescribedMachine
    notes: list[str]


def fit_message_costs(machine: DescribedMachine, profile: Profile, flag_ns: float) -> FittedMachine:
    """Returns the machine with `send_ns`, `receive_ns`, `match_ns`, `piece_ns` and `inline_bytes` of the profile's MPI.
    `flag_ns` is the core-to-core latency of the described place. The costs are fitted with the core-to-core latency at
    which the profile was measured."""
    values = machine.model_dump(exclude_none=True)
    notes: list[str] = []
    if not machine.messaging or not machine.cores or machine.cores.value < 2:
        return FittedMachine(machine, ["costs of MPI calls: there is no messaging inside a node"])
    measured_ns = core_to_core_latency_ns_of(profile) or flag_ns
    if not 1 / MAX_SAME_PLACE_LATENCY_RATIO <= measured_ns / flag_ns <= MAX_SAME_PLACE_LATENCY_RATIO:
        notes.append(
            f"the cores were at another place when the profile was measured: {measured_ns:.0f} ns from core to core, "
            f"and {flag_ns:.0f} ns in this description"
        )
    values_at_profile_place = _with_scaled_transfers(values, measured_ns / flag_ns)
    _fit_inline_bytes(values_at_profile_place, values["messaging"], profile, measured_ns)
    _fit_call_costs(values_at_profile_place, values["messaging"], profile, notes)
    _fit_piece_cost(values_at_profile_place, values["messaging"], profile)
    return FittedMachine(DescribedMachine.model_validate(values), notes)


def _with_scaled_transfers(values: MachineValues, factor: float) -> MachineValues:
    """Returns a copy of the machine's values whose core-to-core transfer costs are multiplied by `factor`."""
    transfers = {key: dict(one) for key, one in values.get("transfers", {}).items()}
    for key in ("shared_cycles", "remote_cycles"):
        if key in transfers:
            transfers[key] = {"value": transfers[key]["value"] * factor, "source": "the profile's place"}
    return {**values, "transfers": transfers, "messaging": dict(values["messaging"])}


def _fit_inline_bytes(
    values_at_profile_place: MachineValues, messaging: MachineValues, profile: Profile, flag_ns: float
) -> None:
    """Finds the longest message that travels in the cache line of its header: among messages of up to one cache line, a
    longer one takes at least half a core-to-core latency more."""
    rows = _records_with_values(profile, "pingpong", "half_round_trip", state="reused")
    times = {row["size_bytes"]: row["value"] for row in sorted(rows, key=lambda row: row["size_bytes"])}
    sizes = [size for size in times if SHORTEST_MESSAGE_BYTES <= size <= CACHE_LINE_BYTES]
    beyond = (
        [size for size in sizes if times[size] > times[SHORTEST_MESSAGE_BYTES] + flag_ns / 2]
        if SHORTEST_MESSAGE_BYTES in times
        else []
    )
    if not beyond:
        return
    longest = max(size for size in sizes if size < beyond[0])
    probe = f"{beyond[0]} B take {times[beyond[0]] - times[longest]:.0f} ns longer than {longest} B"
    names = [f"pingpong:half_round_trip:size_bytes={size},state=reused" for size in (longest, beyond[0])]
    limits = Estimate(longest, longest, beyond[0] - 1)
    messaging["inline_bytes"] = values_at_profile_place["messaging"]["inline_bytes"] = fitted_value(
        longest, limits, probe, *names, is_integer=True
    )


def _fit_call_costs(
    values_at_profile_place: MachineValues, messaging: MachineValues, profile: Profile, notes: list[str]
) -> None:
    """Fits send_ns to MPI_Send, and receive_ns and match_ns to the remaining half round trip, of messages of
    SHORTEST_MESSAGE_BYTES. Appends a note if the profile lacks these records or contradicts the simulation."""
    size = SHORTEST_MESSAGE_BYTES
    for key in ("send_ns", "receive_ns", "match_ns"):
        values_at_profile_place["messaging"][key] = {"value": 0.0, "source": "to be fitted"}
    sends = _records_with_values(profile, "pingpong", "send", size_bytes=size, state="exclusive", side="sender")
    trips = _records_with_values(profile, "pingpong", "half_round_trip", size_bytes=size, state="reused")
    if not sends or not trips:
        notes.append("costs of MPI calls: the profile has no messages of 8 B in pingpong")
        return
    send = _measured_minus_simulated(
        values_at_profile_place, "pingpong", "send", [("size_bytes", size), ("state", "exclusive")], sends[0], "sender"
    )
    probe = f"MPI_Send of {size} B less the simulated memory's time"
    messaging["send_ns"] = fitted_value(max(send.value, 0.0), send, probe, f"pingpong:send:size_bytes={size}")
    values_at_profile_place["messaging"]["send_ns"] = messaging["send_ns"]
    remaining_half_trip = _measured_minus_simulated(
        values_at_profile_place, "pingpong", "half_round_trip", [("size_bytes", size), ("state", "reused")], trips[0]
    )
    if remaining_half_trip.value < 0:
        notes.append(
            f"a message of {size} B took {trips[0]['value']:.0f} ns, less than the simulated way of its flag alone: "
            "the profile contradicts itself, or its cores moved"
        )
    cost_of_each = remaining_half_trip * 0.5 if remaining_half_trip.value > 0 else Estimate(0.0, 0.0, 0.0)
    for key, what in (("receive_ns", "the call"), ("match_ns", "matching")):
        probe = f"half a round trip of {size} B less Send and the simulated memory's time; half of the rest is {what}"
        names = f"pingpong:half_round_trip:size_bytes={size}"
        messaging[key] = values_at_profile_place["messaging"][key] = fitted_value(
            max(cost_of_each.value, 0.0), cost_of_each, probe, names
        )


def _fit_piece_cost(values_at_profile_place: MachineValues, messaging: MachineValues, profile: Profile) -> None:
    """Fits the cost per contiguous piece of a datatype to the shortest message at the smallest stride."""
    records = _records_with_values(profile, "stride", "half_round_trip", method="datatype", mode="standard")
    rows = [row for row in records if (row["stride"] or 1) > 1 and row["value"] > 0]
    if not rows:
        return
    row = min(rows, key=lambda one: (one["size_bytes"], one["stride"]))
    parameters = _scenario_parameters(row, "size_bytes", "stride", "method", mode="standard")

    def remaining_ns(piece_ns: float, interval_end: str = "value") -> float:
        """Returns the measured time at this end of its interval ("value", "low" or "high") minus the simulated time
        with the given cost per piece, in ns."""
        values_at_profile_place["messaging"]["piece_ns"] = {"value": piece_ns, "source": "to be fitted"}
        measured = row | dict.fromkeys(("value", "low", "high"), row[interval_end])
        return _measured_minus_simulated(
            values_at_profile_place, "stride", "half_round_trip", parameters, measured
        ).value

    # Work of the core overlaps with cache misses, so the simulated time is not linear in the cost per piece.
    value, low, high = (
        solve_descending(partial(remaining_ns, interval_end=interval_end), 0.0, 1e-3, 1e3)
        for interval_end in ("value", "low", "high")
    )
    piece_cost = Estimate(value, low, high) if remaining_ns(0.0) > 0 else Estimate(0.0, 0.0, 0.0)
    name = f"stride:half_round_trip:size_bytes={row['size_bytes']},stride={row['stride']},method=datatype"
    messaging["piece_ns"] = fitted_value(
        piece_cost.value, piece_cost, "a strided message, repeated by simulation", name
    )


def _measured_minus_simulated(
    values: MachineValues, scenario: str, metric: str, parameters: Parameters, row: dict[str, Any], side: str = ""
) -> Estimate:
    """Simulates the case of a record. Returns the measured time minus the simulated time, with the measured
    interval."""
    native_machine = to_native(DescribedMachine.model_validate(values))
    results = simulation.run(scenario, native_machine, simulation.Place(False, 0, 1), parameters)
    simulated = next(one.value for one in results if one.metric == metric and (one.side or "") == side)
    measured = estimate_of_record(row)
    assert measured and simulated is not None
    return measured - Estimate(simulated, simulated, simulated)


def _scenario_parameters(row: dict[str, Any], *names: str, **further_parameters: Any) -> Parameters:
    """Returns the named parameters of a record that have a value, and the additional ones, as the simulator takes
    them."""
    return [(name, row[name]) for name in names if row.get(name) is not None] + list(further_parameters.items())


def _records_with_values(profile: Profile, scenario: str, metric: str, **fixed: Any) -> list[dict[str, Any]]:
    """Returns the records of a scenario and metric that have a value, including unstable ones, whose interval is
    wide."""
    records = profile.records
    if not {*fixed} <= {*records.columns}:
        return []
    selected = where(records, scenario=scenario, metric=metric, **fixed).filter(pl.col("value").is_not_null())
    return list(_as_dicts(selected))


def _as_dicts(records: pl.DataFrame) -> Iterator[dict[str, Any]]:
    yield from records.iter_rows(named=True)
