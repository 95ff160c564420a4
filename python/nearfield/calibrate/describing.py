"""Writes the machine descriptions of a calibration: one per place of the two measured cores (a range of core-to-core
latency), the most frequent place first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from nearfield.base import own_command
from nearfield.base.estimates import Estimate
from nearfield.calibrate.fitting import fit_machine
from nearfield.calibrate.measured import CalibratedPlace, Measurements
from nearfield.calibrate.messages import fit_message_costs
from nearfield.calibrate.repeating import simulate_micro_benchmarks
from nearfield.machine import DescribedMachine
from nearfield.machine.captured import machine_from_profile, unmeasured_profile
from nearfield.machine.files import to_toml
from nearfield.profile import Profile
from nearfield.profile.contradictions import core_to_core_latency_ns_of
from nearfield.profile.schema import Machine

MAX_DEVIATION = 0.10  # maximum relative deviation of a simulated micro-benchmark from the measured one
MAX_DISTURBED_SHARE = 0.25


@dataclass
class CalibratedDescription:
    """A described machine, the path of its file, and its micro-benchmarks as (name, measured time, simulated time), in
    ns."""

    path: Path
    machine: DescribedMachine
    place: CalibratedPlace | None
    compared_benchmarks: list[tuple[str, Estimate, float]]

    @property
    def num_reproduced_benchmarks(self) -> int:
        """Returns the number of micro-benchmarks whose simulated time is within MAX_DEVIATION of the measured one."""
        return sum(is_time_reproduced(time, simulated) for _, time, simulated in self.compared_benchmarks)

    def as_dict(self) -> dict[str, Any]:
        """Returns the description as a dict for --json."""
        return {
            "file": str(self.path),
            "core_to_core_ns": self.place and self.place.flag_ns.value,
            "share_of_samples": self.place and self.place.share_of_samples,
            "micro_benchmarks": [
                {"name": name, "measured_ns": time.value, "low": time.low, "high": time.high, "simulated_ns": simulated}
                for name, time, simulated in self.compared_benchmarks
            ],
            "within_10_percent": self.num_reproduced_benchmarks,
        }


def is_time_reproduced(measured_time: Estimate, simulated_ns: float) -> bool:
    """Returns whether the simulated time deviates from the measured one by at most MAX_DEVIATION."""
    return simulated_ns > 0 and abs(math.log(simulated_ns / measured_time.value)) <= math.log1p(MAX_DEVIATION)


def describe_places(
    host: Machine, measurements: Measurements, profile: Profile | None, out: Path
) -> tuple[list[CalibratedDescription], list[str]]:
    """Returns a fitted machine description for each place of the two cores, and notes for the user. With a profile,
    fits the costs of MPI calls to the profile, and returns first the place whose core-to-core latency is nearest to the
    profile's."""
    base = machine_from_profile(profile or unmeasured_profile(host), "this machine")
    notes, descriptions = list(measurements.notes), list[CalibratedDescription]()
    places: list[CalibratedPlace | None] = list(measurements.places) or [None]
    if profile and measurements.places and (flag_ns := core_to_core_latency_ns_of(profile)):
        nearest = min(measurements.places, key=lambda one: abs(math.log(one.flag_ns.value / flag_ns)))
        places = [nearest, *(one for one in places if one is not nearest)]
    for number, place in enumerate(places):
        if number and place and place.store_to_shared_line_ns is None:
            notes.append(f"the place of {place.flag_ns.value:.0f} ns was left too soon to be described")
            continue
        path = out if not number or place is None else out.with_stem(f"{out.stem}-{place.flag_ns.value:.0f}ns")
        machine = fit_machine(base, measurements, place, descriptions[0].machine if descriptions else None)
        if profile and place:
            fitted = fit_message_costs(machine, profile, place.flag_ns.value)
            machine = fitted.machine
            notes += [note for note in fitted.notes if number == 0]
        _set_names(machine, host, path, profile)
        descriptions.append(
            CalibratedDescription(path, machine, place, list(simulate_micro_benchmarks(machine, measurements, place)))
        )
    if not profile:
        notes.append("costs of MPI calls are usual values: -p PROFILE fits them to a profile of this machine")
    return descriptions, notes


def _set_names(machine: DescribedMachine, host: Machine, path: Path, profile: Profile | None) -> None:
    """Sets name, title and study of the machine from the file's path, the host's CPU model and today's date."""
    machine.name, machine.title = path.stem, f"{host.cpu_model}, calibrated"
    day = datetime.now(timezone.utc).date()
    on = f"calibrated on {host.name}, {day}"
    machine.study = f"{on}; {profile.path}" if profile else on


def format_description_file(description: CalibratedDescription, notes: list[str], disturbance: str) -> str:
    """Returns the text of the description's TOML file: notes as comments, followed by the machine's tables."""
    head = ["This machine, calibrated by micro-benchmarks; nearfield's docs/reference/machine.md lists the keys."]
    if description.place:
        place = description.place
        head.append(
            f"The two cores are {place.flag_ns.value:.0f} ns apart ({place.share_of_samples:.0%} of the samples of "
            "this file)."
        )
    head += [f"Disturbed: {disturbance}."] * bool(disturbance) + [f"{note[:1].upper()}{note[1:]}." for note in notes]
    head.append("How far simulated messages are from measured ones:")
    head.append(
        f"  {own_command.command_line('machine', 'validate', description.path, '--against', 'nearfield-profile')}"
    )
    return "".join(f"# {line}\n" for line in head) + "\n" + to_toml(description.machine)
