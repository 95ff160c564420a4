"""Converts the engine's output files to records: pools the samples of several launches, and adds verdicts and reasons.

A damaged file counts up to its first invalid line; --resume measures the rest again. If an attempt did not finish a
scenario, its samples count until another attempt has finished the scenario."""

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
from nearfield.base.places import find_places, is_near_place
from nearfield.measure.live.launch import Job
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
from nearfield.profile.schema import Place, Skipped

# Units of metrics that are exact, unlike times.
EXACT_UNITS = ("count", "bytes", "share")
MIN_SAMPLES = 6  # fewer samples give no 95 % interval of the median


class Visit(NamedTuple):
    """Consecutive samples of a case, and the core-to-core latency in ns that was measured next to them: 0 if it was not
    measured, None if the cores migrated between the measurements before and after the samples."""

    samples: list[float]
    c2c_latency_ns: float | None = 0.0


Launches = list[list[list[float]]]  # samples by launch, then by visit


@dataclass
class Series:
    """The samples of one metric of one case on one group of ranks, by launch and visit.

    `disturbed` holds samples taken while other work used one of the cores. Only the interference check during the
    measurement (src/probe/cpu_interference.hpp) decides this, never the value of a sample."""

    unit: str
    launches: list[list[Visit]] = field(default_factory=list)
    disturbed: list[list[float]] = field(default_factory=list)
    oversubscribed: bool = False
    pair: str | None = None  # the pair of ranks that all launches have in common

    def usable_samples(self, place: tuple[float, float] | None) -> tuple[Launches, str]:
        """Returns the undisturbed samples that were taken at the place (lowest and highest core-to-core latency in ns),
        and ''. If these are too few, returns all undisturbed samples with a reason. If these are too few, too, returns
        all samples with a reason."""
        undisturbed = [[visit.samples for visit in visits] for visits in self.launches]
        chosen = [[visit.samples for visit in visits if _is_at_place(visit, place)] for visits in self.launches]
        if (
            _count_samples(chosen) >= MIN_SAMPLES
            or _count_samples(chosen) == _count_samples(undisturbed)
            and not any(self.disturbed)
        ):
            return chosen, ""
        if _count_samples(undisturbed) >= MIN_SAMPLES or not any(self.disturbed):
            return undisturbed, "the cores were at another place than during most of the measurements"
        pooled = [[*visits, others] for visits, others in zip(undisturbed, self.disturbed, strict=True)]
        return pooled, "something else used the cores during nearly all repetitions"

    def undisturbed(self) -> list[float]:
        return [sample for visits in self.launches for visit in visits for sample in visit.samples]

    def is_empty(self) -> bool:
        return not self.undisturbed() and not any(self.disturbed)


def _is_at_place(visit: Visit, place: tuple[float, float] | None) -> bool:
    latency_ns = visit.c2c_latency_ns
    if place is None or latency_ns == 0:
        return True
    return latency_ns is not None and place[0] <= latency_ns <= place[1]


def _count_samples(launches: Launches) -> int:
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
    def place(self) -> tuple[str, str, str | None, str | None]:
        return self.scenario, self.metric, self.distance, self.pair


@dataclass
class CollectedOutput:
    """The output of all launches, grouped by series. If a pair's cores were at the place of `preferred_latencies_ns`
    (pair -> core-to-core latency in ns) for a while, its records are those of that place, otherwise those of the most
    frequent one."""

    preferred_latencies_ns: Mapping[str, float] = field(default_factory=dict)
    series: dict[SeriesKey, Series] = field(default_factory=dict)
    verdicts: dict[SeriesKey, list[StateLine]] = field(default_factory=lambda: defaultdict(list))
    missing: dict[SeriesKey, tuple[str, str]] = field(default_factory=dict)  # series -> (unit, reason)
    headers: list[LaunchLine] = field(default_factory=list)
    switches: list[DetectedSwitch] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def usual_place(self, pair: str | None) -> tuple[float, float] | None:
        """Returns the lowest and the highest core-to-core latency in ns of the place whose samples become the pair's
        records; None if no latency was measured."""
        return next(iter(self._places.get(pair, [])), None)

    def places(self) -> list[Place]:
        """Returns the places of each pair of cores: the one of the records first, then the most frequent ones."""
        return [self._describe(pair, number) for pair, places in self._places.items() for number in range(len(places))]

    @cached_property
    def _places(self) -> dict[str | None, list[tuple[float, float]]]:
        pairs = {one.pair: None for one in self.series.values() if one.pair}
        return {pair: self._find_places(pair) for pair in pairs}

    def _find_places(self, pair: str | None) -> list[tuple[float, float]]:
        """Returns the lowest and the highest latency of each place of a pair, the preferred place first."""
        found = find_places(_known_latencies(self._latencies(pair)))
        preferred_ns = self.preferred_latencies_ns.get(pair or "")
        if preferred_ns is None:
            return found
        return sorted(found, key=lambda place: not is_near_place(place, preferred_ns))

    def _describe(self, pair: str | None, number: int) -> Place:
        low, high = self._places[pair][number]
        latencies = self._latencies(pair)
        inside = [latency for latency in _known_latencies(latencies) if low <= latency <= high]
        distances = (key.distance for key, one in self.series.items() if one.pair == pair and key.distance)
        return Place(
            pair=pair,
            distance=next(distances, None),
            c2c_latency_ns=_native.quantile(inside, 0.5),
            share=len(inside) / len(latencies),
            used=number == 0,
        )

    def _latencies(self, pair: str | None) -> list[float | None]:
        """Returns the core-to-core latency of every visit at which a latency was measured, counting each metric that is
        a time."""
        timed = [one for one in self.series.values() if one.pair == pair and one.unit == "ns"]
        visits = (visit for one in timed for visits in one.launches for visit in visits)
        return [visit.c2c_latency_ns for visit in visits if visit.c2c_latency_ns != 0]


def _known_latencies(latencies: list[float | None]) -> list[float]:
    return [latency for latency in latencies if latency is not None]


def finished_scenarios(job: Job, folder: Path) -> set[str]:
    """Returns the scenarios that any attempt at this launch has finished."""
    return {
        name for path in job.attempt_files(folder) for name in _find_finished_scenarios(read_lines(path, job.budgets))
    }


def _find_finished_scenarios(lines: Iterable[Line]) -> set[str]:
    ended = (line for line in lines if isinstance(line, (ScenarioEndLine, SkippedLine)))
    return {line.scenario for line in ended if isinstance(line, SkippedLine) or not line.cut}


def collect_launches(
    jobs: Iterable[Job],
    folder: Path,
    kind_of: dict[str, str],
    preferred_latencies_ns: Mapping[str, float] = MappingProxyType({}),
) -> CollectedOutput:
    """Collects the output of all jobs from the folder. `kind_of` maps a scenario to the kind of ranks on which it runs,
    and `preferred_latencies_ns` a pair of cores to the core-to-core latency of the place that its records should be
    of."""
    found = CollectedOutput(preferred_latencies_ns)
    for job in jobs:
        whole = finished_scenarios(job, folder)
        for path in job.attempt_files(folder):
            _collect_file(job, path, whole, kind_of, found)
    return found


def _collect_file(job: Job, path: Path, whole: set[str], kind_of: dict[str, str], found: CollectedOutput) -> None:
    lines = list(read_lines(path, job.budgets))
    cut = whole - _find_finished_scenarios(lines)
    group = job.group
    for line in lines:
        if isinstance(line, LaunchLine):
            found.headers.append(line)
        elif isinstance(line, SwitchLine):
            found.switches.append(DetectedSwitch(group.pair, group.distance, line.kind, line.size_bytes))
        elif isinstance(line, SkippedLine):
            found.skipped.append(Skipped(scenario=line.scenario, reason=line.reason, distance=group.distance))
        elif isinstance(line, (SamplesLine, StateLine, MissingLine)) and line.scenario not in cut:
            _collect_case(job, line, kind_of, found)


def _collect_case(
    job: Job, line: SamplesLine | StateLine | MissingLine, kind_of: dict[str, str], found: CollectedOutput
) -> None:
    everywhere = kind_of[line.scenario] == "all"
    distance, pair = (None, None) if everywhere else (job.group.distance, job.group.pair)
    key = SeriesKey(line.scenario, line.metric, distance, pair, None, tuple(line.parameters.items()))
    if isinstance(line, StateLine):
        found.verdicts[key._replace(metric="", side=line.side)].append(line)
    elif isinstance(line, MissingLine):
        found.missing[key] = (line.unit, line.reason)
    else:
        key = key._replace(side=line.side)
        series = found.series.setdefault(
            key, Series(line.unit, oversubscribed=job.group.oversubscribed, pair=job.group.pair)
        )
        series.launches.append(_group_by_visit(line))
        series.disturbed.append([sample for sample in line.disturbed if sample is not None])


def _group_by_visit(line: SamplesLine) -> list[Visit]:
    """Returns the samples grouped by visit, without missing samples (None)."""
    grouped: dict[float, Visit] = {}
    numbers = line.visits or [0] * len(line.samples)
    latencies = line.c2c_latencies or [0.0] * len(line.samples)
    for sample, number, latency_ns in zip(line.samples, numbers, latencies, strict=True):
        if sample is not None:
            grouped.setdefault(number, Visit([], latency_ns)).samples.append(sample)
    return list(grouped.values())


def to_rows(found: CollectedOutput, tier: Tier, resolution_ns: float) -> list[Row]:
    """Returns one record for each series, for each sampled buffer state, and for each metric that could not be
    measured, in a stable order."""
    series = _merge_start_skews(found.series)
    rows = [
        _series_row(key, one, found.usual_place(one.pair), tier, resolution_ns)
        | {"verdict": _worst_verdict(found, key)}
        for key, one in series.items()
        if not one.is_empty()
    ]
    rows += _verdict_rows(found)
    measured = {key.place for key, one in series.items() if not one.is_empty()}
    cases = {(key.place, key.parameters) for key, one in series.items() if not one.is_empty()}  # measured on any side
    for key, (unit, reason) in found.missing.items():
        is_measured = (key.place, key.parameters) in cases if key.parameters else key.place in measured
        if not is_measured:
            rows.append(_identity_columns(key, unit) | missing_value_columns(reason))
    return rows


def _identity_columns(key: SeriesKey, unit: str) -> Row:
    return identity_columns(
        key.scenario, key.metric, unit, "live",
        distance=key.distance, pair=key.pair, side=key.side, parameters=dict(key.parameters),
    )  # fmt: skip


def _series_row(
    key: SeriesKey, series: Series, place: tuple[float, float] | None, tier: Tier, resolution_ns: float
) -> Row:
    exact = series.unit in EXACT_UNITS
    launches, reason = series.usable_samples(place)
    estimate = _native.pooled_estimate(launches, 0.0 if exact else resolution_ns)
    stable, note = True, None
    if not exact and series.oversubscribed:
        stable, note = False, "more ranks than cores: they wait for one another's turn"
    elif not exact and reason:
        stable, note = False, reason
    elif not exact and not _native.is_stable(estimate, tier.stable):
        stable, note = False, _instability_reason(estimate, launches)
    low = max(0.0, estimate.low)  # the interval of a time of a few clock ticks may reach below 0
    measured = value_columns(estimate.value, low, estimate.high, estimate.n, stable=stable, note=note)
    return _identity_columns(key, series.unit) | measured


def _instability_reason(estimate: _native.Estimate, launches: Launches) -> str:
    """Returns why a record is unstable, as text for people: too few repetitions, or the width of the interval and the
    difference between launches."""
    if estimate.n < 6:
        return f"only {estimate.n} repetitions"
    note = f"the interval is ±{100 * estimate.relative_half_width:.0f} % of the median"
    medians = [_native.quantile(list(chain(*visits)), 0.5) for visits in launches if any(visits)]
    if len(medians) > 1 and max(medians) > 1.05 * min(medians):
        note += f"; launches differ by {100 * (max(medians) / min(medians) - 1):.0f} %"
    return note


def disturbed_share(found: CollectedOutput) -> float | None:
    """Returns the share of timed repetitions that were excluded because other work used a core; None if nothing was
    timed."""
    timed = [one for one in found.series.values() if one.unit == "ns"]
    disturbed = sum(len(samples) for one in timed for samples in one.disturbed)
    whole = disturbed + sum(len(one.undisturbed()) for one in timed)
    return disturbed / whole if whole else None


def _merge_start_skews(series: dict[SeriesKey, Series]) -> dict[SeriesKey, Series]:
    """Returns the series with those of metric start_skew merged over all cases, because start skew does not depend on
    the case."""
    merged: dict[SeriesKey, Series] = {}
    for key, one in series.items():
        if key.metric != "start_skew":
            merged[key] = one
            continue
        whole = merged.setdefault(
            key._replace(parameters=()), Series(one.unit, [[Visit([])]], oversubscribed=one.oversubscribed)
        )
        whole.launches[0][0].samples.extend([*one.undisturbed(), *chain(*one.disturbed)])
    return merged


def _verdict_rows(found: CollectedOutput) -> Iterable[Row]:
    """Yields records on the cache lines that were sampled to verify a buffer state: the share that was cached, and the
    median latency."""
    for key, lines in found.verdicts.items():
        verdict = _worst_verdict(found, key)
        cached, latencies_ns = [line.cached for line in lines], [line.latency_ns for line in lines]
        for metric, unit, all_values in (("lines_cached", "share", cached), ("line_latency", "ns", latencies_ns)):
            if values := [one for one in all_values if one is not None]:
                middle = _native.quantile(values, 0.5)
                measured = value_columns(middle, min(values), max(values), len(values))
                yield _identity_columns(key._replace(metric=metric), unit) | measured | {"verdict": verdict}


def _worst_verdict(found: CollectedOutput, key: SeriesKey) -> str | None:
    """Returns the worst verdict on the buffer state of the series' side; of both sides for a metric of the whole
    operation."""
    verdicts = {
        line.verdict
        for side in ([key.side] if key.side else ["sender", "receiver"])
        for line in found.verdicts.get(key._replace(metric="", side=side), [])
    }
    return next((worst for worst in ("refuted", "unverifiable", "verified") if worst in verdicts), None)
