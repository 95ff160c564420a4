"""Makes run.toml, which says how the records came to be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import nearfield
from nearfield.measure.request import Request
from nearfield.measure.row import Row
from nearfield.profile import schema


@dataclass(frozen=True)
class Circumstances:
    """A backend's description of a run. Attributes that a backend does not have keep their defaults."""

    mpi: schema.Mpi
    host: schema.Host
    scenarios: Iterable[schema.Scenario]  # all of the backend; those with records are described
    switches: list[schema.Switch] = field(default_factory=list)
    skipped: list[schema.Skipped] = field(default_factory=list)
    counters: dict[str, str] = field(default_factory=dict)
    # ---- of a measurement
    clock: schema.RunClock = field(default_factory=schema.RunClock)
    calibration: schema.Calibration | None = None
    disturbed_share: float | None = None
    launches: list[schema.Launch] = field(default_factory=list)
    # ---- of a simulation
    simulated: str | None = None
    simulator: str | None = None


def run_of(
    request: Request, found: Circumstances, rows: Iterable[Row], *, complete: bool, seconds: float
) -> schema.Run:
    """Returns what run.toml says of these records. `seconds` is the time that measuring them took."""
    present = {row["scenario"] for row in rows}
    return schema.Run(
        schema_version=1,
        nearfield=nearfield.__version__,
        backend="sim" if found.simulated else "live",
        simulated=found.simulated,
        simulator=found.simulator,
        created=request.created,
        tier=request.thoroughness.name,
        command=request.command,
        seconds=seconds,
        complete=complete,
        mpi=found.mpi,
        host=found.host,
        clock=found.clock,
        calibration=found.calibration,
        disturbed_share=found.disturbed_share,
        launch=found.launches,
        switch=found.switches,
        skipped=found.skipped,
        counters=found.counters,
        scenario=[scenario for scenario in found.scenarios if scenario.name in present],
    )
