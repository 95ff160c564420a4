"""Saves simulated records as a profile, together with the machine's description and the provenance of the records."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nearfield import profile
from nearfield.base.errors import ProfileError
from nearfield.base.files import atomic_write
from nearfield.machine import DescribedMachine
from nearfield.machine.files import DESCRIPTION_FILE, to_toml
from nearfield.measure.request import Request
from nearfield.measure.row import Row, make_run
from nearfield.measure.sim.describe import SkippedScenario, describe_machine, run_metadata
from nearfield.measure.sim.places import topology_xml
from nearfield.profile import records, schema
from nearfield.profile.store import RECORDS_FILE


def save_profile(
    out: Path,
    machine: DescribedMachine,
    request: Request,
    rows: list[Row],
    *,
    skipped_scenarios: Iterable[SkippedScenario] = (),
    scenarios: Iterable[schema.Scenario] = (),
    complete: bool,
    seconds: float,
) -> profile.Profile:
    """Saves the records as a profile at `out`, in the given order. `scenarios` are added to the simulator's own. Raises
    ProfileError if `out` cannot be written."""
    metadata = run_metadata(machine, rows, skipped_scenarios)
    metadata["scenarios"] += scenarios
    saved = profile.save(
        out,
        machine=describe_machine(machine),
        topology_xml=topology_xml(machine),
        run=make_run(request, rows, complete=complete, seconds=seconds, **metadata),
        records=records.from_rows(rows),
        overwrite=True,
    )
    atomic_write(out / DESCRIPTION_FILE, to_toml(machine), "Give another folder with --out.")
    return saved


def load_profile_to_extend(out: Path, machine: DescribedMachine) -> profile.Profile | None:
    """Returns the profile at `out` to which results for the same machine can be added; None if there is none. Raises
    ProfileError if the profile is of another machine, or was not simulated."""
    if not (out / RECORDS_FILE).exists():
        profile.ensure_writable(out, overwrite=False)
        return None
    file = out / DESCRIPTION_FILE
    if not file.exists():
        raise ProfileError(f"the profile '{out}' was not simulated", "Give another name with --out.")
    if file.read_text(encoding="utf-8") != to_toml(machine):
        raise ProfileError(
            f"the profile '{out}' is of another machine than '{machine.name}' is now: see {file}",
            "Give another name with --out.",
        )
    profile.ensure_writable(out, overwrite=True)
    return profile.load(out)


def profile_to_rows(loaded: profile.Profile) -> list[Row]:
    """Returns the records of a profile as rows, without null columns."""
    return [{name: one for name, one in row.items() if one is not None} for row in loaded.records.to_dicts()]
