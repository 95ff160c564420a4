"""Collects the outputs of `nearfield reproduce --live --json` from many machines into one table, with a row per machine
and a column per claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from nearfield.base import own_command
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import read_user_file
from nearfield.base.toml import Table
from nearfield.reproduce.outcome import ClaimCard, LiveSummary, Reproduction


def _remedy_text() -> str:
    return f"Make one with: {own_command.command_line('reproduce', '--live-only', '--json')} >FILE.json"


class MachineClaimVerdicts(Table):
    """The verdicts from one machine's JSON file."""

    file: str
    here: LiveSummary
    created: str
    quick: bool
    verdicts: dict[str, str]  # claim id -> verdict


def collect_machines(folder: Path) -> list[MachineClaimVerdicts]:
    """Returns the verdicts of all JSON files in the folder, by file name. Raises UsageError if there are no files, and
    ProfileError for a file that is damaged or has no measurement."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise UsageError(f"{folder} has no .json files", _remedy_text())
    return [_read_file(file) for file in files]


def _read_file(path: Path) -> MachineClaimVerdicts:
    try:
        reproduction = Reproduction.model_validate_json(read_user_file(path))
    except ValidationError as error:
        raise ProfileError(f"{path}: {error.error_count()} of its keys are wrong", _remedy_text()) from error
    if reproduction.here is None:
        raise ProfileError(f"{path}: nothing was measured, only simulated", _remedy_text())
    cards: Sequence[ClaimCard] = reproduction.cards
    return MachineClaimVerdicts(
        file=path.name,
        here=reproduction.here,
        created=reproduction.created,
        quick=reproduction.quick,
        verdicts={card.claim: card.verdict for card in cards if card.verdict != "not measured"},
    )


def claim_ids_of(machines: Sequence[MachineClaimVerdicts]) -> list[str]:
    """Returns the ids of all claims that have a verdict on some machine: first those of the machine with the most
    verdicts, sorted, then the others."""
    widest = max(machines, key=lambda one: len(one.verdicts))
    return list(dict.fromkeys([*sorted(widest.verdicts), *(name for one in machines for name in one.verdicts)]))
