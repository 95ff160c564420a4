"""Answers statements on applications from traces of the real programs, simulated on the machines of the paper's
profiles. The verdicts themselves are based on models of the applications, not on traces."""

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
from nearfield.observe.trace import Trace, broken_streams
from nearfield.profile import schema
from nearfield.reproduce.checks import profiles_of
from nearfield.reproduce.outcome import Answer, TracedFrom
from nearfield.reproduce.schema import ClusterRun, ProfileRun, Statement
from nearfield.reproduce.session import Settings, Traces, WantedClaims, machine_of, open_store, profiles_needed
from nearfield.reproduce.verdicts import Evidence, evaluate_statement, judge_input

PROFILES_FOLDER = "traced"  # subfolder of the output folder for the profiles of traces
_CURVE_JUDGES = {"grows", "falls", "flat", "between", "steps"}  # judges that need a curve of more than one point


@dataclass(frozen=True)
class ApplicationTrace:
    """A trace of an application that occurs in the papers' claims."""

    application: str
    size_bytes: int | None  # problem size in the claims; None: the claims have one size only
    trace: Trace

    def is_simulated_by(self, part: ClusterRun) -> bool:
        """Returns whether a part of the claims' runs simulates this application at this size."""
        return self.application in part.name and (not part.bytes or self.size_bytes in part.bytes)


def parse_traces(texts: Iterable[str]) -> list[ApplicationTrace]:
    """Parses options `amg=FOLDER` and `fft:4MiB=FOLDER`. Raises UsageError for another form, and ProfileError if a
    folder has no trace."""
    found = []
    for text in texts:
        name, equals, folder = text.partition("=")
        if not (name and equals and folder):
            raise UsageError(f"--trace {text}: no application and folder", "write it as amg=FOLDER or fft:4MiB=FOLDER")
        application, _, size = name.partition(":")
        found.append(ApplicationTrace(application, parse_bytes(size) if size else None, Trace(Path(folder))))
    return found


def simulate_traces(
    wanted: WantedClaims, traces: Sequence[ApplicationTrace], settings: Settings, progress: ReportLine
) -> Traces:
    """Simulates the traces. Returns them with a function that answers statements from the simulations. Raises the
    errors of evidence_of_traces."""
    with open_store(settings.out):
        pass
    evidence = evidence_of_traces(wanted, traces, settings, progress)
    sources = [
        TracedFrom(name=_application_name(one), command=one.trace.about.command, ranks=one.trace.about.ranks)
        for one in traces
    ]
    return Traces(sources, partial(answer_from_trace, evidence=evidence))


def evidence_of_traces(
    wanted: WantedClaims, traces: Sequence[ApplicationTrace], settings: Settings, progress: ReportLine
) -> Evidence:
    """Simulates each trace on the machine of every needed profile that has its application, and saves the resulting
    profiles. Raises UsageError for an application without claims, ReplayError, and BrokenTraceError."""
    needed = profiles_needed(wanted)
    for one in traces:
        if not any(one.is_simulated_by(part) for profile_run in needed.values() for part in profile_run.application):
            raise UsageError(f"no claim is about '{_application_name(one)}'", _known_applications_text(needed.values()))
    profiles = {}
    for name, profile_run in needed.items():
        rows = [row for one in traces for row in _simulate_trace(name, profile_run, one, progress)]
        if rows:
            profiles[name] = save_profile(
                settings.out / PROFILES_FOLDER / name, machine_of(profile_run),
                Request(command=settings.command, on=profile_run.on), rows,
                scenarios=[_program_scenario(rows)], complete=True, seconds=0.0,
            )  # fmt: skip
    return Evidence.of(profiles)


def answer_from_trace(statement: Statement, evidence: Evidence) -> Answer:
    """Returns the answer to the statement from the simulated traces; an empty answer if they lack what the statement is
    about."""
    names = profiles_of(statement)
    if not names or any(name not in evidence.profiles for name in names) or statement.rule or statement.not_simulated:
        return Answer()
    question = judge_input(statement, evidence)
    if not question.curve or question.than == {}:
        return Answer()
    if statement.judge in _CURVE_JUDGES and len(question.curve) < (3 if statement.judge == "between" else 2):
        return Answer(ours="one trace is no curve")
    if statement.points and statement.judge != "steps" and len(question.curve) < len(statement.points):
        return Answer()
    holds, ours, _ = evaluate_statement(statement, evidence)
    return Answer(answer="holds" if holds else "does not", ours=ours, launches=1, profile=", ".join(names))


def _application_name(one: ApplicationTrace) -> str:
    return one.application if one.size_bytes is None else f"{one.application}:{one.size_bytes}"


def _known_applications_text(profiles: Iterable[ProfileRun]) -> str:
    names = dict.fromkeys(
        f"{name}:{size}" if size else name
        for profile_run in profiles
        for part in profile_run.application
        for name in part.name
        for size in part.bytes or [0]
    )
    return f"there are claims about {', '.join(names)}" if names else "name claims of S4"


def _simulate_trace(name: str, profile_run: ProfileRun, one: ApplicationTrace, progress: ReportLine) -> Iterator[Row]:
    parts = [part for part in profile_run.application if one.is_simulated_by(part)]
    if not parts:
        return
    streams, machine = one.trace.streams(), machine_of(profile_run)
    policies = tuple(dict.fromkeys(("memory", *(policy for part in parts for policy in part.policy))))
    slowdowns = tuple(sorted({slowdown for part in parts for slowdown in part.memory_slowdown}))
    check_axes(machine, policies, slowdowns)
    progress(f"simulating {_application_name(one)} on {len(streams)} nodes for {name}")
    region = [one.trace.about.region] if one.trace.about.region else []
    with broken_streams():
        found = replay_program(
            Cluster(machine, len(streams), 1, policies, slowdowns), streams, flops_of_objects(one.trace),
            lambda called, frames: called, region,
        )  # fmt: skip
    yield from _replay_rows(found, one)


def _replay_rows(found: Replay, one: ApplicationTrace) -> Iterator[Row]:
    """Yields the replay's records with the metric names that records of the application models have."""
    cluster, ranks = found.cluster, len(found.found.ranks)
    size: dict[str, int | str] = {} if one.size_bytes is None else {"size_bytes": one.size_bytes}
    times, computing = found.time_ns(), found.computing_ns()
    for policy, policy_name in enumerate(cluster.policies):
        for speed, slowdown in enumerate(cluster.slowdowns):
            axes = {"nodes": cluster.nodes, "policy": policy_name, "memory_slowdown": slowdown, **size}
            in_all = sum(rank[policy][speed] for rank in found.rank_times())
            yield _replay_row("time", "ns", times[policy][speed], axes)
            yield _replay_row("mpi_time", "ns", (in_all - computing[policy][speed]) / ranks, axes)
            yield _replay_row("nic_polls", "count", found.found.nic_polls[policy][speed], axes)
            memory = found.found.memory_at[policy][speed]
            yield _replay_row("dram_reads", "count", memory.dram.reads, axes)
            for level, counts in enumerate(memory.levels, 1):
                yield _replay_row(f"l{level}_misses", "count", counts.misses, axes)
                yield _replay_row(f"l{level}_injected", "count", counts.injections, axes)
        everywhere = {"nodes": cluster.nodes, "policy": policy_name, **size}
        yield _replay_row("network_messages", "count", found.found.messages, everywhere)
        yield _replay_row("network_bytes", "bytes", found.found.network_bytes, everywhere)


def _replay_row(metric: str, unit: str, number: float, parameters: Parameters) -> Row:
    identity = identity_columns(
        "program", metric, unit, "sim", distance=None, pair=None, side=None, parameters=parameters
    )
    return identity | value_columns(float(number), float(number), float(number), 1)


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
