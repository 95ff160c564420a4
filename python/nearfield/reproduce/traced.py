"""Tests statements about applications by simulating traces of the real programs on the paper's machines. The verdicts
do not depend on these tests: they are based on models of the applications."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nearfield.base.errors import UsageError
from nearfield.base.progress import ReportLine
from nearfield.base.units import parse_bytes
from nearfield.measure.request import Request
from nearfield.measure.row import Parameters, Row, identity_columns, value_columns
from nearfield.measure.sim.axes import check_axes
from nearfield.measure.sim.profile import save_profile
from nearfield.observe.replay import Cluster, Replay, replay_program
from nearfield.observe.summary import flops_of_objects
from nearfield.observe.trace import Trace, broken_streams_as_errors
from nearfield.profile import schema
from nearfield.reproduce.checks import profile_names_of
from nearfield.reproduce.outcome import Answer, TraceSource
from nearfield.reproduce.schema import ClusterRun, ProfileRun, Statement
from nearfield.reproduce.session import (
    AnsweringTraces,
    ReproductionSettings,
    SelectedClaims,
    machine_of,
    needed_profile_runs,
    open_record_store,
)
from nearfield.reproduce.verdicts import Evidence, evaluate_statement, make_judge_input

TRACED_PROFILES_FOLDER = "traced"  # subfolder of the output folder for profiles of simulated traces
_CURVE_JUDGES = {"grows", "falls", "flat", "between", "steps"}  # judges that need a curve of more than one point


@dataclass(frozen=True)
class ApplicationTrace:
    """The trace of an application on which the papers make claims."""

    application: str
    size_bytes: int | None  # problem size in the claims; None if the claims have only one
    trace: Trace

    def is_simulated_by(self, cluster_run: ClusterRun) -> bool:
        """Returns whether the run simulates this application at this size."""
        return self.application in cluster_run.name and (not cluster_run.bytes or self.size_bytes in cluster_run.bytes)


def parse_traces(options: Iterable[str]) -> list[ApplicationTrace]:
    """Parses options of the form `amg=FOLDER` or `fft:4MiB=FOLDER`. Raises UsageError for any other form, and
    ProfileError if a folder has no trace."""
    traces = []
    for text in options:
        name, equals, folder = text.partition("=")
        if not (name and equals and folder):
            raise UsageError(f"--trace {text}: no application and folder", "write it as amg=FOLDER or fft:4MiB=FOLDER")
        application, _, size = name.partition(":")
        traces.append(ApplicationTrace(application, parse_bytes(size) if size else None, Trace(Path(folder))))
    return traces


def simulate_traces(
    selected_claims: SelectedClaims,
    traces: Sequence[ApplicationTrace],
    settings: ReproductionSettings,
    progress: ReportLine,
) -> AnsweringTraces:
    """Simulates the traces. Returns them with a function that tests statements with these simulations. Raises the
    errors of make_evidence_from_traces()."""
    with open_record_store(settings.out_folder):
        pass
    evidence = make_evidence_from_traces(selected_claims, traces, settings, progress)
    sources = [
        TraceSource(
            name=_application_name(application_trace),
            command=application_trace.trace.metadata.command,
            ranks=application_trace.trace.metadata.ranks,
        )
        for application_trace in traces
    ]
    return AnsweringTraces(sources, partial(answer_from_trace, evidence=evidence))


def make_evidence_from_traces(
    selected_claims: SelectedClaims,
    traces: Sequence[ApplicationTrace],
    settings: ReproductionSettings,
    progress: ReportLine,
) -> Evidence:
    """Simulates each trace on the machine of every needed profile that has its application, and saves the resulting
    profiles. Raises UsageError for an application without claims, ReplayError, and BrokenTraceError."""
    needed = needed_profile_runs(selected_claims)
    for application_trace in traces:
        if not any(
            application_trace.is_simulated_by(part)
            for profile_run in needed.values()
            for part in profile_run.application
        ):
            raise UsageError(
                f"no claim is about '{_application_name(application_trace)}'",
                _format_known_applications(needed.values()),
            )
    profiles = {}
    for name, profile_run in needed.items():
        rows = [
            row
            for application_trace in traces
            for row in _simulate_trace(name, profile_run, application_trace, progress)
        ]
        if rows:
            profiles[name] = save_profile(
                settings.out_folder / TRACED_PROFILES_FOLDER / name, machine_of(profile_run),
                Request(command=settings.command, on=profile_run.on), rows,
                scenarios=[_program_scenario(rows)], complete=True, seconds=0.0,
            )  # fmt: skip
    return Evidence.from_profiles(profiles)


def answer_from_trace(statement: Statement, evidence: Evidence) -> Answer:
    """Returns whether the statement holds in the simulated traces. Returns an empty answer if no trace has the
    application or size that the statement is about."""
    names = profile_names_of(statement)
    if not names or any(name not in evidence.profiles for name in names) or statement.rule or statement.not_simulated:
        return Answer()
    judge_input = make_judge_input(statement, evidence)
    if not judge_input.curve or judge_input.other_curve == {}:
        return Answer()
    if statement.judge in _CURVE_JUDGES and len(judge_input.curve) < (3 if statement.judge == "between" else 2):
        return Answer(ours="one trace is no curve")
    if statement.points and statement.judge != "steps" and len(judge_input.curve) < len(statement.points):
        return Answer()
    holds, numbers_text, _ = evaluate_statement(statement, evidence)
    return Answer(answer="holds" if holds else "does not", ours=numbers_text, launches=1, profile=", ".join(names))


def _application_name(application_trace: ApplicationTrace) -> str:
    return (
        application_trace.application
        if application_trace.size_bytes is None
        else f"{application_trace.application}:{application_trace.size_bytes}"
    )


def _format_known_applications(profiles: Iterable[ProfileRun]) -> str:
    names = dict.fromkeys(
        f"{name}:{size}" if size else name
        for profile_run in profiles
        for part in profile_run.application
        for name in part.name
        for size in part.bytes or [0]
    )
    return f"there are claims about {', '.join(names)}" if names else "name claims of S4"


def _simulate_trace(
    profile_name: str, profile_run: ProfileRun, application_trace: ApplicationTrace, progress: ReportLine
) -> Iterator[Row]:
    parts = [part for part in profile_run.application if application_trace.is_simulated_by(part)]
    if not parts:
        return
    streams, machine = application_trace.trace.streams(), machine_of(profile_run)
    policies = tuple(dict.fromkeys(("memory", *(policy for part in parts for policy in part.policy))))
    slowdowns = tuple(sorted({slowdown for part in parts for slowdown in part.memory_slowdown}))
    check_axes(machine, policies, slowdowns)
    progress(f"simulating {_application_name(application_trace)} on {len(streams)} nodes for {profile_name}")
    region = [application_trace.trace.metadata.region] if application_trace.trace.metadata.region else []
    with broken_streams_as_errors():
        replay = replay_program(
            Cluster(machine, len(streams), 1, policies, slowdowns), streams, flops_of_objects(application_trace.trace),
            lambda called, frames: called, region,
        )  # fmt: skip
    yield from _replay_rows(replay, application_trace)


def _replay_rows(replay: Replay, application_trace: ApplicationTrace) -> Iterator[Row]:
    """Yields the records of a replay, with the metric names of the application models, so that the claims' curves apply
    to both."""
    cluster, ranks = replay.cluster, len(replay.replayed.ranks)
    size: dict[str, int | str] = (
        {} if application_trace.size_bytes is None else {"size_bytes": application_trace.size_bytes}
    )
    times, computing = replay.time_ns(), replay.computing_ns()
    for policy, policy_name in enumerate(cluster.policies):
        for speed, slowdown in enumerate(cluster.slowdowns):
            axes = {"nodes": cluster.nodes, "policy": policy_name, "memory_slowdown": slowdown, **size}
            all_ranks_ns = sum(rank[policy][speed] for rank in replay.rank_times())
            yield _make_replay_row("time", "ns", times[policy][speed], axes)
            yield _make_replay_row("mpi_time", "ns", (all_ranks_ns - computing[policy][speed]) / ranks, axes)
            yield _make_replay_row("nic_polls", "count", replay.replayed.nic_polls[policy][speed], axes)
            memory = replay.replayed.memory_at[policy][speed]
            yield _make_replay_row("dram_reads", "count", memory.dram.reads, axes)
            for level, counts in enumerate(memory.levels, 1):
                yield _make_replay_row(f"l{level}_misses", "count", counts.misses, axes)
                yield _make_replay_row(f"l{level}_injected", "count", counts.injections, axes)
        axes_without_speed = {"nodes": cluster.nodes, "policy": policy_name, **size}
        yield _make_replay_row("network_messages", "count", replay.replayed.messages, axes_without_speed)
        yield _make_replay_row("network_bytes", "bytes", replay.replayed.network_bytes, axes_without_speed)


def _make_replay_row(metric: str, unit: str, value: float, parameters: Parameters) -> Row:
    identity = identity_columns(
        "program", metric, unit, "sim", distance=None, pair=None, side=None, parameters=parameters
    )
    return identity | value_columns(float(value), float(value), float(value), 1)


def _program_scenario(rows: list[Row]) -> schema.Scenario:
    units = {row["metric"]: row["unit"] for row in rows}
    return schema.Scenario(
        name="program",
        summary="traces of applications, simulated",
        parameters=[],
        metrics=[
            schema.MetricInfo(name=name, unit=unit, summary="of the whole program") for name, unit in units.items()
        ],
    )
