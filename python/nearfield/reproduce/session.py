"""From claims to verdicts: simulates what the folder does not hold yet, saves every profile, judges."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import nearfield
from nearfield import profile
from nearfield._native import simulated
from nearfield.errors import ProfileError
from nearfield.machine.profiled import describe_machine
from nearfield.probe.request import Request
from nearfield.probe.simulated.cases import Case as ScenarioCase
from nearfield.probe.simulated.describe import describe_run
from nearfield.probe.simulated.places import topology_xml
from nearfield.profile import records
from nearfield.reproduce import outcome
from nearfield.reproduce.checks import profiles_of
from nearfield.reproduce.chosen import chosen
from nearfield.reproduce.runs import Job, Row, jobs_of, machine_of
from nearfield.reproduce.schema import Claim, Paper, ProfileRun
from nearfield.reproduce.verdicts import Evidence, judge_claim
from nearfield.simulate.folder import Folder
from nearfield.simulate.pool import Runner

KEPT = "simulated.jsonl"
Wanted = list[tuple[Paper, list[Claim]]]


class Listener:
    """What is told while it runs; the base class keeps quiet."""

    def plan(self, jobs: list[Job], kept: int) -> None:
        """`kept`: cases that are there already."""

    def done(self, job: Job) -> None: ...


@dataclass(frozen=True)
class Settings:
    out: Path
    quick: bool = False
    command: str = ""


def reproduce(wanted: Wanted, settings: Settings, runner: Runner, listener: Listener) -> outcome.Reproduction:
    """Ctrl-C ends it with what there is: claims whose profiles are not complete are not judged. Errors as in
    errors.py."""
    started = time.monotonic()
    needed = {name: run for paper, claims in wanted for name, run in _profiles(paper, claims)}
    jobs = {name: jobs_of(name, run, quick=settings.quick) for name, run in needed.items()}
    kept = Kept(settings.out)
    left = list({job.key: job for some in jobs.values() for job in some if job.key not in kept.rows}.values())
    listener.plan(left, sum(map(len, jobs.values())) - len(left))
    try:
        for job, rows in runner(left):
            kept.add(job.key, rows)
            listener.done(job)
    except KeyboardInterrupt:
        pass
    done = {name: some for name, some in jobs.items() if all(job.key in kept.rows for job in some)}
    profiles = {name: _save(settings, name, needed[name], some, kept) for name, some in done.items()}
    found = outcome.Reproduction(
        nearfield=nearfield.__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=settings.command,
        quick=settings.quick,
        complete=len(done) == len(jobs),
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


class Kept:
    """Rows by key, a line per case; what a crash cut short is simulated again. Made by whoever simulates first."""

    def __init__(self, out: Path) -> None:
        self._path = out / KEPT
        if out.exists() and not self._path.exists() and any(out.iterdir()):
            raise ProfileError(f"{out} is in the way: it is not of a reproduction", "Give another folder with --out.")
        try:
            out.mkdir(parents=True, exist_ok=True)
            self._path.touch()
        except OSError as error:
            raise ProfileError(f"cannot write {out}: {error.strerror}", "Give another folder with --out.") from error
        self.rows: dict[str, list[Row]] = dict(self._whole_lines())

    def _whole_lines(self) -> Iterator[tuple[str, list[Row]]]:
        text = self._path.read_text(encoding="utf-8", errors="replace")
        if text and not text.endswith("\n"):
            text = text[: text.rfind("\n") + 1]
            self._path.write_text(text, encoding="utf-8")
        for line in text.splitlines():
            key, rows = json.loads(line)
            yield key, rows

    def add(self, key: str, rows: list[Row]) -> None:
        self.rows[key] = rows
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, rows]) + "\n")


# ---- profiles


def _save(settings: Settings, name: str, run: ProfileRun, jobs: list[Job], kept: Kept) -> profile.Profile:
    rows = [row for job in jobs for row in kept.rows[job.key]]
    folder = settings.out / name
    if run.on_cluster:
        rows = list({_identity(row): row for row in rows}.values())
        Folder(folder, machine_of(run), settings.command).save(rows, complete=True, seconds=0.0)
        return profile.load(folder)
    machine = machine_of(run)
    cases = [job.case for job in jobs if isinstance(job.case, ScenarioCase)]
    specs = {spec.name: spec for spec in simulated.scenarios()}
    return profile.save(
        folder,
        machine=describe_machine(machine),
        topology_xml=topology_xml(machine),
        run=describe_run(
            machine,
            Request(command=settings.command, on=run.on),
            [specs[scenario] for scenario in dict.fromkeys(case.scenario for case in cases)],
            [place for place in dict.fromkeys(case.place for case in cases) if place.distance],
            rows,
            [],
            complete=True,
            seconds=0.0,
        ),
        records=records.from_rows(rows),
        overwrite=True,
    )


def _identity(row: Row) -> tuple:
    """Cases of one run share the base policy."""
    names = ("metric", "operation", "size_bytes", "ranks", "nodes", "policy", "memory_slowdown")
    return tuple(row.get(name) for name in names)
