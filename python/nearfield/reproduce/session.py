"""From claims to verdicts: simulates what the folder does not hold yet, saves every profile, judges."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import nearfield
from nearfield import profile
from nearfield.errors import ProfileError
from nearfield.measure.request import Request
from nearfield.measure.sim.cases import Case
from nearfield.measure.sim.pool import Runner
from nearfield.measure.sim.profile import save_profile
from nearfield.measure.sim.running import Listener, simulate
from nearfield.measure.sim.store import Store
from nearfield.reproduce import outcome
from nearfield.reproduce.checks import profiles_of
from nearfield.reproduce.chosen import chosen
from nearfield.reproduce.runs import cases_of, machine_of
from nearfield.reproduce.schema import Claim, Paper, ProfileRun
from nearfield.reproduce.verdicts import Evidence, judge_claim

KEPT = "simulated.jsonl"
Wanted = list[tuple[Paper, list[Claim]]]


@dataclass(frozen=True)
class Settings:
    """The output folder and the thoroughness of a reproduction."""

    out: Path
    quick: bool = False
    command: str = ""


def reproduce(wanted: Wanted, settings: Settings, runner: Runner, listener: Listener) -> outcome.Reproduction:
    """Simulates, judges and saves; returns the result. After Ctrl-C claims with incomplete profiles are not judged.
    Raises the errors of errors.py."""
    started = time.monotonic()
    needed = {name: run for paper, claims in wanted for name, run in _profiles(paper, claims)}
    cases = {name: cases_of(run, quick=settings.quick) for name, run in needed.items()}
    store = _opened(settings.out)
    simulate([case for some in cases.values() for case in some], store, runner, listener)
    done = {name: some for name, some in cases.items() if not any(map(store.missing, some))}
    profiles = {name: _save(settings, name, needed[name], some, store) for name, some in done.items()}
    found = outcome.Reproduction(
        nearfield=nearfield.__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=settings.command,
        quick=settings.quick,
        complete=len(done) == len(cases),
        seconds=time.monotonic() - started,
        papers=_judged(wanted, Evidence.of(profiles)),
    )
    outcome.save(settings.out, found)
    return found


def _profiles(paper: Paper, claims: list[Claim]) -> Iterator[tuple[str, ProfileRun]]:
    for name in dict.fromkeys(name for claim in claims for s in claim.statement for name in profiles_of(s)):
        yield name, paper.profile[name]


def _judged(wanted: Wanted, evidence: Evidence) -> list[outcome.JudgedPaper]:
    return [
        outcome.JudgedPaper(
            name=paper.name,
            title=paper.title,
            claims=[judge_claim(claim, evidence) for claim in claims],
            chosen=chosen(paper, claims),
        )
        for paper, claims in wanted
    ]


def _opened(out: Path) -> Store:
    """Makes the folder and returns its store. Raises ProfileError if it cannot be written or holds something else."""
    journal = out / KEPT
    if out.exists() and not journal.exists() and any(out.iterdir()):
        raise ProfileError(f"{out} is in the way: it is not of a reproduction", "Give another folder with --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        journal.touch()
        return Store(journal)
    except OSError as error:
        raise ProfileError(f"cannot write {out}: {error.strerror}", "Give another folder with --out.") from error


def _save(settings: Settings, name: str, run: ProfileRun, cases: list[Case], store: Store) -> profile.Profile:
    return save_profile(
        settings.out / name,
        machine_of(run),
        Request(command=settings.command, on=run.on),
        store.rows(cases),
        complete=True,
        seconds=0.0,
    )
