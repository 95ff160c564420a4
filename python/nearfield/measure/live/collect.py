"""Converts the engine's output files to records: pools the samples of several launches, and adds verdicts and reasons.

A damaged file is read up to its first invalid line; --resume measures the rest again. The samples of an attempt that
did not finish a scenario are used only if no other attempt has finished the scenario."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from nearfield import _native
from nearfield.base.places import find_places, is_latency_of_place
from nearfield.measure.live.launch import LaunchJob
from nearfield.measure.live.lines import (
    LaunchLine,
    Line,
    MissingLine,
    SamplesLine,
    ScenarioEndLine,
    SkippedLine,
    StateLine,
    SwitchLine,
    read_lines,
)
from nearfield.measure.live.switches import DetectedSwitch
from nearfield.measure.request import Tier
from nearfield.measure.row import Row, identity_columns, missing_value_columns, value_columns
from nearfield.profile.schema import Place, SkippedMeasurement

# Units of metrics that are exact, unlike times.
EXACT_UNITS = ("count", "bytes", "share")
MIN_SAMPLES_FOR_INTERVAL = 6  # fewer samples give no 95 % interval of the median


class CaseVisit(NamedTuple):
    """Consecutive samples of a case, and the core-to-core latency in ns that was measured next to them: 0 if it was not
    measured, None if the cores migrated between the measurements before and after the samples."""

    samples: list[float]
    c2c_latency_ns: float | None = 0.0


SamplesByLaunch = list[list[list[float]]]  # samples by launch, then by visit


@dataclass
class SampleSeries:
    """The samples of one metric of one case on one group of ranks, by launch and visit.

    `disturbed_samples` holds samples taken while other work used one of the cores. Only the interference check during
    the measurement (src/probe/cpu_interference.hpp) decides this, never the value of a sample."""

    unit: str
    visits_by_launch: list[list[CaseVisit]] = field(default_factory=list)
    disturbed_samples: list[list[float]] = field(default_factory=list)
    is_oversubscribed: bool = False
    pair: str | None = None  # the pair of ranks that all launches have in common

    def usable_samples(self, place: tuple[float, float] | None) -> tuple[SamplesByLaunch, str]:
        """Returns (samples, ''), where the samples are undisturbed and were taken at the place (lowest and highest
        core-to-core latency in ns). If these are too few, returns all undisturbed samples, or if these are too few,
        too, all samples; in both cases with the reason."""
        undisturbed_launches = [[visit.samples for visit in visits] for visits in self.visits_by_launch]
        at_place = [
            [visit.samples for visit in visits if _is_at_place(visit, place)] for visits in self.visits_by_launch
        ]
        if (
            _count_samples(at_place) >= MIN_SAMPLES_FOR_INTERVAL
            or _count_samples(at_place) == _count_samples(undisturbed_launches)
            and not any(self.disturbed_samples)
        ):
            return at_place, ""
        if _count_samples(undisturbed_launches) >= MIN_SAMPLES_FOR_INTERVAL or not any(self.disturbed_samples):
            return undisturbed_launches, "the cores were at another place than during most of the measurements"
        pooled = [
            [*visits, others] for visits, others in zip(undisturbed_launches, self.disturbed_samples, strict=True)
        ]
        return pooled, "something else used the cores during nearly all repetitions"

    def undisturbed_samples(self) -> list[float]:
        return [sample for visits in self.visits_by_launch for visit in visits for sample in visit.samples]

    def is_empty(self) -> bool:
        return not self.undisturbed_samples() and not any(self.disturbed_samples)


def _is_at_place(visit: CaseVisit, place: tuple[float, float] | None) -> bool:
    latency_ns = visit.c2c_latency_ns
    if place is None or latency_ns == 0:
        return True
    return latency_ns is not None and place[0] <= latency_ns <= place[1]


def _count_samples(launches: SamplesByLaunch) -> int:
    return sum(len(samples) for visits in launches for samples in visits)


class SeriesKey(NamedTuple):
    """Identifies a series: one metric of one case on one group of ranks."""

    scenario: str
    metric: str
    distance: str | None
    pair: str | None
    side: str | None
    parameters: tuple[tuple[str, int | str], ...]

    @property
    def key_without_parameters(self) -> tuple[str, str, str | None, str | None]:
        return self.scenario, self.metric, self.distance, self.pair


@dataclass
class CollectedOutput:
    """The output of all launches, grouped by series. If a pair's cores were at the place of `preferred_latencies_ns`
    (pair -> core-to-core latency in ns) for a while, its records are those of that place, otherwise those of the most
    frequent one."""

    preferred_latencies_ns: Mapping[str, float] = field(default_factory=dict)
    series: dict[SeriesKey, SampleSeries] = field(default_factory=dict)
    state_lines: dict[SeriesKey, list[StateLine]] = field(default_factory=lambda: defaultdict(list))
    missing_reasons: dict[SeriesKey, tuple[str, str]] = field(default_factory=dict)  # series -> (unit, reason)
    launch_lines: list[LaunchLine] = field(default_factory=list)
    switches: list[DetectedSwitch] = field(default_factory=list)
    skipped: list[SkippedMeasurement] = field(default_factory=list)

    def place_of_records(self, pair: str | None) -> tuple[float, float] | None:
        """Returns the place whose samples become the pair's records, as its lowest and highest core-to-core latency in
        ns; None if no latency was measured."""
        return next(iter(self._places.get(pair, [])), None)

    def places(self) -> list[Place]:
        """Returns the places (ranges of core-to-core latency) of each pair of cores: first the place where its records
        were measured, then the others by frequency."""
        return [
            self._describe_place(pair, number) for pair, places in self._places.items() for number in range(len(places))
        ]

    @cached_property
    def _places(self) -> dict[str | None, list[tuple[float, float]]]:
        pairs = {one.pair: None for one in self.series.values() if one.pair}
        return {pair: self._find_places(pair) for pair in pairs}

    def _find_places(self, pair: str | None) -> list[tuple[float, float]]:
        """Returns the lowest and the highest latency of each place of a pair, the preferred place first."""
        places = find_places(_drop_unknown_latencies(self._measured_latencies(pair)))
        preferred_ns = self.preferred_latencies_ns.get(pair or "")
        if preferred_ns is None:
            return places
        return sorted(places, key=lambda place: not is_latency_of_place(place, preferred_ns))

    def _describe_place(self, pair: str | None, number: int) -> Place:
        low, high = self._places[pair][number]
        latencies = self._measured_latencies(pair)
        inside = [latency for latency in _drop_unknown_latencies(latencies) if low <= latency <= high]
        distances = (key.distance for key, one in self.series.items() if one.pair == pair and key.distance)
        return Place(
            pair=pair,
            distance=next(distances, None),
            c2c_latency_ns=_native.quantile(inside, 0.5),
            share=len(inside) / len(latencies),
            used=number == 0,
        )

    def _measured_latencies(self, pair: str | None) -> list[float | None]:
        """Returns the core-to-core latencies in ns that were measured at the visits of the pair, once for each metric
        that is a time; None for visits during which the cores migrated."""
        timed = [one for one in self.series.values() if one.pair == pair and one.unit == "ns"]
        visits = (visit for one in timed for visits in one.visits_by_launch for visit in visits)
        return [visit.c2c_latency_ns for visit in visits if visit.c2c_latency_ns != 0]


def _drop_unknown_latencies(latencies: list[float | None]) -> list[float]:
    return [latency for latency in latencies if latency is not None]


def finished_scenarios(job: LaunchJob, folder: Path) -> set[str]:
    """Returns the scenarios that any attempt at this launch has finished."""
    return {
        name
        for path in job.attempt_files(folder)
        for name in _find_finished_scenarios(read_lines(path, job.budget_s_by_scenario))
    }


def _find_finished_scenarios(lines: Iterable[Line]) -> set[str]:
    ended = (line for line in lines if isinstance(line, (ScenarioEndLine, SkippedLine)))
    return {line.scenario for line in ended if isinstance(line, SkippedLine) or not line.cut}


def collect_launches(
    jobs: Iterable[LaunchJob],
    folder: Path,
    rank_kind_by_scenario: dict[str, str],
    preferred_latencies_ns: Mapping[str, float] = MappingProxyType({}),
) -> CollectedOutput:
    """Collects the output of all jobs from the folder. `rank_kind_by_scenario` maps a scenario to the kind of ranks on
    which it runs. `preferred_latencies_ns` maps a pair of cores to the core-to-core latency of the place from which its
    records should be."""
    output = CollectedOutput(preferred_latencies_ns)
    for job in jobs:
        finished = finished_scenarios(job, folder)
        for path in job.attempt_files(folder):
            _collect_file(job, path, finished, rank_kind_by_scenario, output)
    return output


def _collect_file(
    job: LaunchJob, path: Path, finished_cases: set[str], rank_kind_by_scenario: dict[str, str], output: CollectedOutput
) -> None:
    lines = list(read_lines(path, job.budget_s_by_scenario))
    unfinished = finished_cases - _find_finished_scenarios(lines)
    group = job.group
    for line in lines:
        if isinstance(line, LaunchLine):
            output.launch_lines.append(line)
        elif isinstance(line, SwitchLine):
            output.switches.append(DetectedSwitch(group.pair, group.distance, line.kind, line.size_bytes))
        elif isinstance(line, SkippedLine):
            output.skipped.append(
                SkippedMeasurement(scenario=line.scenario, reason=line.reason, distance=group.distance)
            )
        elif isinstance(line, (SamplesLine, StateLine, MissingLine)) and line.scenario not in unfinished:
            _collect_case(job, line, rank_kind_by_scenario, output)


def _collect_case(
    job: LaunchJob,
    line: SamplesLine | StateLine | MissingLine,
    rank_kind_by_scenario: dict[str, str],
    output: CollectedOutput,
) -> None:
    is_on_all_ranks = rank_kind_by_scenario[line.scenario] == "all"
    distance, pair = (None, None) if is_on_all_ranks else (job.group.distance, job.group.pair)
    key = SeriesKey(line.scenario, line.metric, distance, pair, None, tuple(line.parameters.items()))
    if isinstance(line, StateLine):
        output.state_lines[key._replace(metric="", side=line.side)].append(line)
    elif isinstance(line, MissingLine):
        output.missing_reasons[key] = (line.unit, line.reason)
    else:
        key = key._replace(side=line.side)
        series = output.series.setdefault(
            key, SampleSeries(line.unit, is_oversubscribed=job.group.is_oversubscribed, pair=job.group.pair)
        )
        series.visits_by_launch.append(_group_by_visit(line))
        series.disturbed_samples.append([sample for sample in line.disturbed if sample is not None])


def _group_by_visit(line: SamplesLine) -> list[CaseVisit]:
    """Returns the samples grouped by visit, without missing samples (None)."""
    grouped: dict[float, CaseVisit] = {}
    numbers = line.visits or [0] * len(line.samples)
    latencies = line.c2c_latencies or [0.0] * len(line.samples)
    for sample, number, latency_ns in zip(line.samples, numbers, latencies, strict=True):
        if sample is not None:
            grouped.setdefault(number, CaseVisit([], latency_ns)).samples.append(sample)
    return list(grouped.values())


def output_to_rows(output: CollectedOutput, tier: Tier, resolution_ns: float) -> list[Row]:
    """Returns the records in a reproducible order: one for each series, up to two for each buffer state that was
    verified by sampling, and one without a value for each metric that could not be measured."""
    series = _merge_start_skews(output.series)
    rows = [
        _row_of_series(key, one, output.place_of_records(one.pair), tier, resolution_ns)
        | {"verdict": _worst_verdict_on_state(output, key)}
        for key, one in series.items()
        if not one.is_empty()
    ]
    rows += _rows_of_sampled_lines(output)
    measured = {key.key_without_parameters for key, one in series.items() if not one.is_empty()}
    # Cases that were measured on any side.
    cases = {(key.key_without_parameters, key.parameters) for key, one in series.items() if not one.is_empty()}
    for key, (unit, reason) in output.missing_reasons.items():
        is_measured = (
            (key.key_without_parameters, key.parameters) in cases
            if key.parameters
            else key.key_without_parameters in measured
        )
        if not is_measured:
            rows.append(_identity_columns(key, unit) | missing_value_columns(reason))
    return rows


def _identity_columns(key: SeriesKey, unit: str) -> Row:
    return identity_columns(
        key.scenario, key.metric, unit, "live",
        distance=key.distance, pair=key.pair, side=key.side, parameters=dict(key.parameters),
    )  # fmt: skip


def _row_of_series(
    key: SeriesKey, series: SampleSeries, place: tuple[float, float] | None, tier: Tier, resolution_ns: float
) -> Row:
    is_exact = series.unit in EXACT_UNITS
    launches, reason = series.usable_samples(place)
    estimate = _native.pooled_estimate(launches, 0.0 if is_exact else resolution_ns)
    stable, note = True, None
    if not is_exact and series.is_oversubscribed:
        stable, note = False, "more ranks than cores: they wait for one another's turn"
    elif not is_exact and reason:
        stable, note = False, reason
    elif not is_exact and not _native.is_stable(estimate, tier.max_stable_half_width):
        stable, note = False, _instability_reason(estimate, launches)
    low = max(0.0, estimate.low)  # the interval of a time of a few clock ticks may reach below 0
    measured = value_columns(estimate.value, low, estimate.high, estimate.n, is_stable=stable, note=note)
    return _identity_columns(key, series.unit) | measured


def _instability_reason(estimate: _native.Estimate, launches: SamplesByLaunch) -> str:
    """Returns a human-readable reason why a record is unstable: too few repetitions, or the width of the interval and
    the difference between launches."""
    if estimate.n < 6:
        return f"only {estimate.n} repetitions"
    note = f"the interval is ±{100 * estimate.relative_half_width:.0f} % of the median"
    medians = [_native.quantile(list(chain(*visits)), 0.5) for visits in launches if any(visits)]
    if len(medians) > 1 and max(medians) > 1.05 * min(medians):
        note += f"; launches differ by {100 * (max(medians) / min(medians) - 1):.0f} %"
    return note


def disturbed_repetition_share(output: CollectedOutput) -> float | None:
    """Returns the share of timed repetitions that were excluded because other work used a core; None if nothing was
    timed."""
    timed = [one for one in output.series.values() if one.unit == "ns"]
    disturbed = sum(len(samples) for one in timed for samples in one.disturbed_samples)
    whole = disturbed + sum(len(one.undisturbed_samples()) for one in timed)
    return disturbed / whole if whole else None


def _merge_start_skews(series: dict[SeriesKey, SampleSeries]) -> dict[SeriesKey, SampleSeries]:
    """Returns the series with those of metric start_skew merged over all cases, because start skew does not depend on
    the case."""
    merged: dict[SeriesKey, SampleSeries] = {}
    for key, one in series.items():
        if key.metric != "start_skew":
            merged[key] = one
            continue
        merged_series = merged.setdefault(
            key._replace(parameters=()),
            SampleSeries(one.unit, [[CaseVisit([])]], is_oversubscribed=one.is_oversubscribed),
        )
        merged_series.visits_by_launch[0][0].samples.extend(
            [*one.undisturbed_samples(), *chain(*one.disturbed_samples)]
        )
    return merged


def _rows_of_sampled_lines(output: CollectedOutput) -> Iterable[Row]:
    """Yields records on the cache lines that were sampled to verify a buffer state: the share that was cached, and the
    median latency."""
    for key, lines in output.state_lines.items():
        verdict = _worst_verdict_on_state(output, key)
        cached, latencies_ns = [line.cached for line in lines], [line.latency_ns for line in lines]
        for metric, unit, all_values in (("lines_cached", "share", cached), ("line_latency", "ns", latencies_ns)):
            if values := [one for one in all_values if one is not None]:
                middle = _native.quantile(values, 0.5)
                measured = value_columns(middle, min(values), max(values), len(values))
                yield _identity_columns(key._replace(metric=metric), unit) | measured | {"verdict": verdict}


def _worst_verdict_on_state(output: CollectedOutput, key: SeriesKey) -> str | None:
    """Returns the worst verdict on the buffer state, on the side of the series, or on both sides for a metric of the
    whole operation; None without a verdict."""
    verdicts = {
        line.verdict
        for side in ([key.side] if key.side else ["sender", "receiver"])
        for line in output.state_lines.get(key._replace(metric="", side=side), [])
    }
    return next((worst for worst in ("refuted", "unverifiable", "verified") if worst in verdicts), None)
