"""Runs a complete reproduction: determines the cases that the claims' statements need, simulates those whose records
the output folder lacks, saves the profiles, and judges the claims."""

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
from nearfield.base.progress import Report, ignore_progress
from nearfield.machine import DescribedMachine, load_machine
from nearfield.machine.frequency import scale_to_frequency
from nearfield.measure.request import Request
from nearfield.measure.sim.cases import SimulationCase, cases_of_values
from nearfield.measure.sim.operations import OperationRequest
from nearfield.measure.sim.places import ALL_CORES, all_places
from nearfield.measure.sim.pool import CaseRunner
from nearfield.measure.sim.profile import save_profile
from nearfield.measure.sim.store import RecordStore, simulate_missing
from nearfield.reproduce import outcome
from nearfield.reproduce.cards import cards_of
from nearfield.reproduce.checks import profile_names_of
from nearfield.reproduce.live.answers import answer_statement
from nearfield.reproduce.live.compiler import compiler_command, compiler_version_line
from nearfield.reproduce.live.measure import LiveMeasurements
from nearfield.reproduce.papers import Paper
from nearfield.reproduce.quotes import fill_in_quotes
from nearfield.reproduce.schema import Claim, ClusterRun, ProfileRun, ScenarioRun, Statement
from nearfield.reproduce.score import papers_of_score, score_papers
from nearfield.reproduce.verdicts import Evidence, free_parameters, judge_claim

JOURNAL_FILE = "simulated.jsonl"
_OTHER_FOLDER_REMEDY = "Give another folder with --out."
SelectedClaims = list[tuple[Paper, list[Claim]]]


@dataclass(frozen=True)
class ReproductionSettings:
    """Settings of a reproduction: the output folder, whether fewer cases are simulated (--quick), and the user's
    command line."""

    out_folder: Path
    is_quick: bool = False
    command: str = ""


@dataclass(frozen=True)
class AnsweringTraces:
    """The traces of real programs, and a function that tests whether a statement holds in them."""

    trace_sources: list[outcome.TraceSource]
    answer_statement: Callable[[Statement], outcome.Answer]


def reproduce(
    selected_claims: SelectedClaims, settings: ReproductionSettings, runner: CaseRunner,
    report: Report = ignore_progress, live_measurements: LiveMeasurements | None = None,
    traced: AnsweringTraces | None = None,
    max_concurrent_cases: int | None = None,
) -> outcome.Reproduction:  # fmt: skip
    """Simulates the cases that the claims need, judges the claims, saves the result, and returns it. After Ctrl-C,
    claims with incomplete profiles are not judged. `live_measurements` are those of this machine, if any.
    `max_concurrent_cases` limits the number of cases that are simulated concurrently. Raises NearfieldError."""
    started = time.monotonic()
    needed = needed_profile_runs(selected_claims)
    cases = {name: cases_of(run, quick=settings.is_quick) for name, run in needed.items()}
    with open_record_store(settings.out_folder) as store:
        simulate_missing(
            [case for some in cases.values() for case in some], store, runner, report, max_concurrent_cases
        )
        complete_cases = {name: some for name, some in cases.items() if not any(map(store.reduce_to_missing, some))}
        profiles = {
            name: _save_simulated_profile(settings, name, needed[name], some, store)
            for name, some in complete_cases.items()
        }
    papers = _judge_papers(
        selected_claims,
        Evidence.from_profiles(profiles),
        live_measurements,
        traced.answer_statement if traced else None,
    )
    reproduction = outcome.Reproduction(
        nearfield=nearfield.__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=settings.command,
        quick=settings.is_quick,
        complete=len(complete_cases) == len(cases),
        seconds=time.monotonic() - started,
        papers=papers,
        score=score_papers(papers_of_score(papers)),
        here=_make_live_summary(live_measurements, settings.out_folder) if live_measurements else None,
        cards=cards_of(papers) if live_measurements else [],
        traced=traced.trace_sources if traced else [],
    )
    outcome.save_reproduction(settings.out_folder, reproduction)
    return reproduction


def needed_profile_runs(selected_claims: SelectedClaims) -> dict[str, ProfileRun]:
    """Returns a dict from the name of each profile that the claims' statements need to the runs that simulate it."""
    return {
        name: paper.profile[name]
        for paper, claims in selected_claims
        for claim in claims
        for statement in claim.statement
        for name in profile_names_of(statement)
    }


def _judge_papers(
    selected_claims: SelectedClaims,
    evidence: Evidence,
    live_measurements: LiveMeasurements | None,
    answer_from_trace: Callable[[Statement], outcome.Answer] | None,
) -> list[outcome.JudgedPaper]:
    answers = (
        {paper.name: partial(answer_statement, paper, live=live_measurements.live_data) for paper, _ in selected_claims}
        if live_measurements
        else {}
    )
    return [
        _judge_paper(paper, claims, evidence, answers.get(paper.name), answer_from_trace)
        for paper, claims in selected_claims
    ]


def _judge_paper(
    paper: Paper, claims: list[Claim], evidence: Evidence,
    answer_live: Callable[[Statement], outcome.Answer] | None,
    answer_from_trace: Callable[[Statement], outcome.Answer] | None,
) -> outcome.JudgedPaper:  # fmt: skip
    needed = needed_profile_runs([(paper, claims)])
    missing = [name for name in needed if name not in evidence.profiles]
    is_complete = bool(needed) and not missing and len(claims) == len(paper.claim)
    fill_in = partial(fill_in_quotes, quotes=paper.quote, points_of_quote=evidence.points_of, records=evidence.rows)
    return outcome.JudgedPaper(
        name=paper.name,
        title=paper.title,
        is_further=paper.is_further,
        reading=fill_in(paper.reading) if is_complete else "",
        claims=[
            _fill_quotes_in_claim(judge_claim(claim, evidence, here=answer_live, traced=answer_from_trace), fill_in)
            for claim in claims
        ],
        chosen=free_parameters(paper, claims),
        simulated=[name for name in needed if name not in missing],
        missing=missing,
    )


def _fill_quotes_in_claim(claim: outcome.JudgedClaim, fill_in: Callable[[str], str]) -> outcome.JudgedClaim:
    """Returns the claim with every {NAME} in its texts replaced by its number."""
    statements = [one.model_copy(update={"why": fill_in(one.why)}) for one in claim.statements]
    return claim.model_copy(update={"note": fill_in(claim.note), "statements": statements})


def _make_live_summary(live_measurements: LiveMeasurements, out_folder: Path) -> outcome.LiveSummary:
    facts_profile = live_measurements.live_data.machine_sizes.profile
    loads = [
        one.run.host.load_1m for launches in live_measurements.live_data.profiles_by_name.values() for one in launches
    ] + [facts_profile.run.host.load_1m]
    compiler = compiler_command()
    return outcome.LiveSummary(
        machine=facts_profile.machine.cpu_model,
        cores=len(facts_profile.run.host.cpus),
        kernel=facts_profile.run.host.kernel,
        virtual=facts_profile.run.host.virtual,
        mpi=facts_profile.run.mpi.name,
        compiler=compiler_version_line(compiler) if compiler else "",
        launches=max(map(len, live_measurements.live_data.profiles_by_name.values()), default=0),
        folder=str(live_measurements.folder.relative_to(out_folder)),
        load_1m=max((load for load in loads if load is not None), default=None),
        complete=live_measurements.stop_signal is None,
    )


@contextmanager
def open_record_store(out_folder: Path) -> Iterator[RecordStore]:
    """Creates the output folder and yields its store of simulated records, which stays locked against other processes
    until the context ends. Raises ProfileError if the folder is not writable or has contents of another kind, and
    UsageError if another process holds the lock."""
    journal = Journal(out_folder / JOURNAL_FILE, _OTHER_FOLDER_REMEDY)
    if out_folder.exists() and not journal.path.exists() and any(out_folder.iterdir()):
        raise ProfileError(f"{out_folder} is in the way: it is not of a reproduction", _OTHER_FOLDER_REMEDY)
    with os_errors_as_profile_errors(out_folder, _OTHER_FOLDER_REMEDY):
        out_folder.mkdir(parents=True, exist_ok=True)
    with journal.open_locked(UsageError(f"another reproduction is at work in {out_folder}", _OTHER_FOLDER_REMEDY)):
        yield RecordStore(journal)


def _save_simulated_profile(
    settings: ReproductionSettings, name: str, run: ProfileRun, cases: list[SimulationCase], store: RecordStore
) -> profile.Profile:
    return save_profile(
        settings.out_folder / name,
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


def cases_of(run: ProfileRun, *, quick: bool) -> list[SimulationCase]:
    """Returns the cases of a profile run; with `quick`, fewer cases."""
    machine = machine_of(run)
    cases = [case for scenario in run.scenario for case in _scenario_cases(machine, scenario, quick)]
    for cluster_run in run.cluster_runs:
        if not (quick and cluster_run.slow):
            cases += _cluster_operations(machine, cluster_run, quick).cases()
    return cases


def _scenario_cases(machine: DescribedMachine, run: ScenarioRun, quick: bool) -> Iterator[SimulationCase]:
    places = {place.distance: place for place in all_places(machine)}
    selected_places = [places[distance] for distance in run.distance] or [ALL_CORES]
    return cases_of_values(machine, run.name, selected_places, {**run.parameters, **(run.quick if quick else {})})


def _cluster_operations(machine: DescribedMachine, run: ClusterRun, quick: bool) -> OperationRequest:
    return OperationRequest(
        machine=machine,
        names=tuple(run.name),
        sizes=tuple(run.quick if quick and run.quick else run.bytes),
        nodes=tuple(run.nodes),
        policies=tuple(run.policy),
        slowdowns=tuple(run.memory_slowdown),
        repetitions=run.repetitions,
        uses_total_sizes=run.whole,
        uses_independent_runs=run.apart,
    )
