"""Runs a reproduction from claims to verdicts: determines the cases that the statements need, simulates those that the
folder lacks, saves the profiles, and judges the claims."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import nearfield
from nearfield import profile
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import os_errors_as_profile_errors
from nearfield.base.journal import Journal
from nearfield.base.progress import Report, ignore
from nearfield.machine import DescribedMachine, load_machine
from nearfield.machine.frequency import scale_to_frequency
from nearfield.measure.request import Request
from nearfield.measure.sim.cases import Case, cases_of_values
from nearfield.measure.sim.operations import Operations
from nearfield.measure.sim.places import NO_PAIR, all_places
from nearfield.measure.sim.pool import Runner
from nearfield.measure.sim.profile import save_profile
from nearfield.measure.sim.store import RecordStore, simulate
from nearfield.reproduce import outcome
from nearfield.reproduce.cards import cards_of
from nearfield.reproduce.checks import profiles_of
from nearfield.reproduce.live.answers import answer_statement
from nearfield.reproduce.live.compiler import compiler_words, first_line_of_version
from nearfield.reproduce.live.measure import LiveMeasurements
from nearfield.reproduce.quotes import fill_in_quotes
from nearfield.reproduce.schema import Claim, ClusterRun, Paper, ProfileRun, ScenarioRun, Statement
from nearfield.reproduce.score import score_papers
from nearfield.reproduce.verdicts import Evidence, free_parameters, judge_claim

JOURNAL = "simulated.jsonl"
_OTHER_FOLDER = "Give another folder with --out."
WantedClaims = list[tuple[Paper, list[Claim]]]


@dataclass(frozen=True)
class Settings:
    """The output folder, thoroughness and command line of a reproduction."""

    out: Path
    quick: bool = False
    command: str = ""


@dataclass(frozen=True)
class Traces:
    """Traces of real programs, and a function that answers statements from them."""

    sources: list[outcome.TracedFrom]
    answer: Callable[[Statement], outcome.Answer]


def reproduce(
    wanted: WantedClaims, settings: Settings, runner: Runner, report: Report = ignore,
    here: LiveMeasurements | None = None, traced: Traces | None = None, at_once: int | None = None,
) -> outcome.Reproduction:  # fmt: skip
    """Simulates the claims' cases, judges the claims, saves the result, and returns it. After Ctrl-C, claims with
    incomplete profiles are not judged. `here` has the live measurements of this machine. `at_once` is the number of
    concurrently simulated cases. Raises NearfieldError."""
    started = time.monotonic()
    needed = profiles_needed(wanted)
    cases = {name: cases_of(run, quick=settings.quick) for name, run in needed.items()}
    with open_store(settings.out) as store:
        simulate([case for some in cases.values() for case in some], store, runner, report, at_once)
        done = {name: some for name, some in cases.items() if not any(map(store.missing_part_of, some))}
        profiles = {name: _save_simulated(settings, name, needed[name], some, store) for name, some in done.items()}
    papers = _judge_papers(wanted, Evidence.of(profiles), here, traced.answer if traced else None)
    found = outcome.Reproduction(
        nearfield=nearfield.__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=settings.command,
        quick=settings.quick,
        complete=len(done) == len(cases),
        seconds=time.monotonic() - started,
        papers=papers,
        score=score_papers(papers),
        here=_live_summary(here, settings.out) if here else None,
        cards=cards_of(papers) if here else [],
        traced=traced.sources if traced else [],
    )
    outcome.save_reproduction(settings.out, found)
    return found


def profiles_needed(wanted: WantedClaims) -> dict[str, ProfileRun]:
    """Returns name -> profile to simulate, for all profiles that the claims' statements need."""
    return {
        name: paper.profile[name]
        for paper, claims in wanted
        for claim in claims
        for statement in claim.statement
        for name in profiles_of(statement)
    }


def _judge_papers(
    wanted: WantedClaims,
    evidence: Evidence,
    here: LiveMeasurements | None,
    traced: Callable[[Statement], outcome.Answer] | None,
) -> list[outcome.JudgedPaper]:
    answers = {paper.name: partial(answer_statement, paper, live=here.live) for paper, _ in wanted} if here else {}
    return [_judge_paper(paper, claims, evidence, answers.get(paper.name), traced) for paper, claims in wanted]


def _judge_paper(
    paper: Paper, claims: list[Claim], evidence: Evidence,
    here: Callable[[Statement], outcome.Answer] | None, traced: Callable[[Statement], outcome.Answer] | None,
) -> outcome.JudgedPaper:  # fmt: skip
    needed = profiles_needed([(paper, claims)])
    missing = [name for name in needed if name not in evidence.profiles]
    explained = bool(needed) and not missing and len(claims) == len(paper.claim)
    fill = partial(fill_in_quotes, quotes=paper.quote, points=evidence.points, records=evidence.rows)
    return outcome.JudgedPaper(
        name=paper.name,
        title=paper.title,
        reading=fill(paper.reading) if explained else "",
        claims=[_with_quotes_filled(judge_claim(claim, evidence, here=here, traced=traced), fill) for claim in claims],
        chosen=free_parameters(paper, claims),
        simulated=[name for name in needed if name not in missing],
        missing=missing,
    )


def _with_quotes_filled(claim: outcome.JudgedClaim, fill: Callable[[str], str]) -> outcome.JudgedClaim:
    """Returns the claim with the quoted numbers in its texts filled in."""
    statements = [one.model_copy(update={"why": fill(one.why)}) for one in claim.statements]
    return claim.model_copy(update={"note": fill(claim.note), "statements": statements})


def _live_summary(here: LiveMeasurements, out: Path) -> outcome.LiveSummary:
    facts = here.live.sizes.profile
    loads = [one.run.host.load_1m for some in here.live.profiles.values() for one in some] + [facts.run.host.load_1m]
    compiler = compiler_words()
    return outcome.LiveSummary(
        machine=facts.machine.cpu_model,
        cores=len(facts.run.host.cpus),
        kernel=facts.run.host.kernel,
        virtual=facts.run.host.virtual,
        mpi=facts.run.mpi.name,
        compiler=first_line_of_version(compiler) if compiler else "",
        launches=max(map(len, here.live.profiles.values()), default=0),
        folder=str(here.folder.relative_to(out)),
        load_1m=max((load for load in loads if load is not None), default=None),
        complete=here.stopped_by is None,
    )


@contextmanager
def open_store(out: Path) -> Iterator[RecordStore]:
    """Creates the folder and yields its store of simulated records, locked against other processes. Raises ProfileError
    if the folder cannot be written or has other contents."""
    journal = Journal(out / JOURNAL, _OTHER_FOLDER)
    if out.exists() and not journal.path.exists() and any(out.iterdir()):
        raise ProfileError(f"{out} is in the way: it is not of a reproduction", _OTHER_FOLDER)
    with os_errors_as_profile_errors(out, _OTHER_FOLDER):
        out.mkdir(parents=True, exist_ok=True)
    with journal.locked(UsageError(f"another reproduction is at work in {out}", _OTHER_FOLDER)):
        yield RecordStore(journal)


def _save_simulated(
    settings: Settings, name: str, run: ProfileRun, cases: list[Case], store: RecordStore
) -> profile.Profile:
    return save_profile(
        settings.out / name,
        machine_of(run),
        Request(command=settings.command, on=run.on),
        store.records_of(cases),
        complete=True,
        seconds=0.0,
    )


def machine_of(run: ProfileRun) -> DescribedMachine:
    """Returns the described machine of a profile run, with the run's settings and frequency, and without the parts that
    the run excludes."""
    machine = load_machine(run.on).model_copy(deep=True)
    for part in run.without:
        setattr(machine, part, None)
    for setting in run.set:
        table: Any = machine
        for name in setting.key.split("."):
            table = getattr(table, name, None)
        if table is None:
            raise UsageError(f"{run.on} has no '{setting.key}' to set", "Set a key that its file has.")
        table.value = setting.value
    return machine if run.clock_ghz is None else scale_to_frequency(machine, run.clock_ghz)


def cases_of(run: ProfileRun, *, quick: bool) -> list[Case]:
    """Returns the cases of a profile run; with `quick`, fewer cases."""
    machine = machine_of(run)
    cases = [case for scenario in run.scenario for case in _scenario_cases(machine, scenario, quick)]
    for on_cluster in run.on_cluster:
        if not (quick and on_cluster.slow):
            cases += _cluster_operations(machine, on_cluster, quick).cases()
    return cases


def _scenario_cases(machine: DescribedMachine, run: ScenarioRun, quick: bool) -> Iterator[Case]:
    places = {place.distance: place for place in all_places(machine)}
    here = [places[distance] for distance in run.distance] or [NO_PAIR]
    return cases_of_values(machine, run.name, here, {**run.parameters, **(run.quick if quick else {})})


def _cluster_operations(machine: DescribedMachine, run: ClusterRun, quick: bool) -> Operations:
    return Operations(
        machine=machine,
        names=tuple(run.name),
        sizes=tuple(run.quick if quick and run.quick else run.bytes),
        nodes=tuple(run.nodes),
        policies=tuple(run.policy),
        slowdowns=tuple(run.memory_slowdown),
        repetitions=run.repetitions,
        total_bytes=run.whole,
        independent_runs=run.apart,
    )
