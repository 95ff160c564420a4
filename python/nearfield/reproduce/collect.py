"""Collects outputs of `nearfield reproduce --live --json` from many machines into one table: machine by claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from nearfield.base import own_command
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import read_file
from nearfield.base.toml import Table
from nearfield.reproduce.outcome import Card, LiveSummary, Reproduction


def _remedy() -> str:
    return f"Make one with: {own_command.line('reproduce', '--live-only', '--json')} >FILE.json"


class MachineVerdicts(Table):
    """The verdicts from one machine's JSON file."""

    file: str
    here: LiveSummary
    created: str
    quick: bool
    verdicts: dict[str, str]  # claim -> verdict


def collect_machines(folder: Path) -> list[MachineVerdicts]:
    """Returns the verdicts of all JSON files in the folder, by file name. Raises UsageError if there are no files, and
    ProfileError for a file that is damaged or has no measurement."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise UsageError(f"{folder} has no .json files", _remedy())
    return [_read_file(file) for file in files]


def _read_file(path: Path) -> MachineVerdicts:
    try:
        found = Reproduction.model_validate_json(read_file(path))
    except ValidationError as error:
        raise ProfileError(f"{path}: {error.error_count()} of its keys are wrong", _remedy()) from error
    if found.here is None:
        raise ProfileError(f"{path}: nothing was measured, only simulated", _remedy())
    cards: Sequence[Card] = found.cards
    return MachineVerdicts(
        file=path.name,
        here=found.here,
        created=found.created,
        quick=found.quick,
        verdicts={card.claim: card.verdict for card in cards if card.verdict != "not measured"},
    )


def claims_of(machines: Sequence[MachineVerdicts]) -> list[str]:
    """Returns all claims with a verdict: those of the machine with most verdicts, sorted, followed by the others."""
    widest = max(machines, key=lambda one: len(one.verdicts))
    return list(dict.fromkeys([*sorted(widest.verdicts), *(name for one in machines for name in one.verdicts)]))
