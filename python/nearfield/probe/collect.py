"""Makes records of what the launches left: samples of several launches pooled, verdicts attached, reasons kept."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearfield import _native
from nearfield.probe.launch import Job, read_lines
from nearfield.probe.tiers import Tier

# Metrics that describe a repetition rather than measure the MPI: counted, not timed.
EXACT_UNITS = ("count", "bytes", "share")


@dataclass
class Series:
    """The samples of one metric of one case at one place, launch by launch."""

    unit: str
    launches: list[list[float]] = field(default_factory=list)


Key = tuple[str, str, str | None, str | None, str | None, str]  # scenario, metric, distance, pair, side, parameters


@dataclass
class Collection:
    """Everything the launches of a session said."""

    series: dict[Key, Series] = field(default_factory=dict)
    verdicts: dict[Key, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    missing: dict[Key, tuple[str, str]] = field(default_factory=dict)  # -> (unit, reason)
    headers: list[dict[str, Any]] = field(default_factory=list)
    switches: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)


def finished_scenarios(job: Job, folder: Path) -> set[str]:
    """What earlier attempts at this launch have measured to the end."""
    lines = (line for path in job.attempts(folder) for line in read_lines(path))
    return {line["scenario"] for line in lines if line["type"] in ("scenario_end", "skipped") and not line.get("cut")}


def collect(jobs: Iterable[Job], folder: Path, kind_of: dict[str, str]) -> Collection:
    """Reads every line of every job. `kind_of`: scenario -> the ranks it runs on."""
    found = Collection()
    for job in jobs:
        whole = finished_scenarios(job, folder)
        for path in job.attempts(folder):
            _collect_file(job, path, whole, kind_of, found)
    return found


def _collect_file(job: Job, path: Path, whole: set[str], kind_of: dict[str, str], found: Collection) -> None:
    lines = list(read_lines(path))
    cut = {line["scenario"] for line in lines if line["type"] == "scenario_end" and line.get("cut")}
    for line in lines:
        if line["type"] == "launch":
            found.headers.append(line)
        elif line["type"] == "switch":
            found.switches.append({**line, "pair": job.group.pair, "distance": job.group.distance})
        elif line["type"] == "skipped":
            found.skipped.append({**line, "distance": job.group.distance})
        elif line["type"] in ("samples", "state", "missing"):
            # What an interrupted attempt has of a scenario counts only until another attempt has it whole.
            if not (line["scenario"] in cut and line["scenario"] in whole):
                _collect_case(job, line, kind_of, found)


def _collect_case(job: Job, line: dict[str, Any], kind_of: dict[str, str], found: Collection) -> None:
    everywhere = kind_of[line["scenario"]] == "all"
    place = (None, None) if everywhere else (job.group.distance, job.group.pair)
    parameters = json.dumps(line["parameters"])
    if line["type"] == "state":
        key = (line["scenario"], "", *place, line["side"], parameters)
        found.verdicts[key].append(line)
        return
    key = (line["scenario"], line["metric"], *place, line.get("side"), parameters)
    if line["type"] == "missing":
        found.missing[key] = (line["unit"], line["reason"])
        return
    series = found.series.setdefault(key, Series(line["unit"]))
    series.launches.append([sample for sample in line["samples"] if sample is not None])


def to_rows(found: Collection, tier: Tier, resolution_ns: float) -> list[dict[str, Any]]:
    """One record per series and per missing value, in a stable order."""
    rows = [_row(key, series, tier, resolution_ns) for key, series in found.series.items() if any(series.launches)]
    rows = _merge_skew(rows, found, tier, resolution_ns) + list(_verdict_rows(found))
    for row in rows:
        row["verdict"] = _verdict(found, row)
    present = {(r["scenario"], r["metric"], r["distance"], r["pair"]) for r in rows}
    for key, (unit, reason) in found.missing.items():
        if not (json.loads(key[5]) == {} and (key[0], key[1], key[2], key[3]) in present):
            rows.append(_frame(key, unit) | {"value": None, "n": 0, "stable": False, "note": reason})
    return rows


def _frame(key: Key, unit: str) -> dict[str, Any]:
    scenario, metric, distance, pair, side, parameters = key
    frame = {"scenario": scenario, "metric": metric, "unit": unit, "source": "live"}
    return frame | {"distance": distance, "pair": pair, "side": side} | json.loads(parameters)


def _row(key: Key, series: Series, tier: Tier, resolution_ns: float) -> dict[str, Any]:
    exact = series.unit in EXACT_UNITS
    launches = [samples for samples in series.launches if samples]
    estimate = _native.pooled_estimate(launches, 0.0 if exact else resolution_ns)
    stable, note = True, None
    if not exact and not _native.is_stable(estimate, tier.stable):
        stable, note = False, _why_unstable(estimate, launches)
    values = {"value": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n}
    return _frame(key, series.unit) | values | {"stable": stable, "note": note}


def _why_unstable(estimate: Any, launches: list[list[float]]) -> str:
    if estimate.n < 6:
        return f"only {estimate.n} repetitions"
    note = f"the interval is ±{100 * estimate.relative_half_width:.0f} % of the median"
    medians = [_native.quantile(samples, 0.5) for samples in launches]
    if len(medians) > 1 and max(medians) > 1.05 * min(medians):
        note += f"; launches differ by {100 * (max(medians) / min(medians) - 1):.0f} %"
    return note


def _merge_skew(rows: list[dict[str, Any]], found: Collection, tier: Tier, resolution_ns: float) -> list[dict[str, Any]]:
    """How well ranks start together is a property of the place, not of the case: one record per scenario."""
    pooled: dict[Key, Series] = {}
    for key, series in found.series.items():
        if key[1] == "start_skew":
            merged = pooled.setdefault((*key[:5], "{}"), Series(series.unit))
            merged.launches.append([sample for launch in series.launches for sample in launch])
    flat = [(key, Series("ns", [sum(series.launches, [])])) for key, series in pooled.items()]
    kept = [row for row in rows if row["metric"] != "start_skew"]
    return kept + [_row(key, series, tier, resolution_ns) for key, series in flat if series.launches[0]]


def _verdict_rows(found: Collection) -> Iterable[dict[str, Any]]:
    """What the sampled lines showed, as numbers beside the verdict."""
    for key, lines in found.verdicts.items():
        for metric, unit, field_name in (
            ("lines_cached", "share", "cached"),
            ("line_latency", "ns", "latency_ns"),
        ):
            values = [line[field_name] for line in lines if line[field_name] is not None]
            if values:
                middle = _native.quantile(values, 0.5)
                row = _frame((key[0], metric, *key[2:]), unit)
                yield row | {"value": middle, "low": min(values), "high": max(values), "n": len(values), "stable": True}


def _verdict(found: Collection, row: dict[str, Any]) -> str | None:
    """The worse of both sides' for a record of the whole operation; the side's own otherwise."""
    core = {"scenario", "metric", "unit", "source", "distance", "pair", "side", "value", "low", "high", "n", "stable", "note"}
    parameters = json.dumps({name: value for name, value in row.items() if name not in core})
    sides = [row["side"]] if row["side"] else ["sender", "receiver"]
    verdicts = [
        line["verdict"]
        for side in sides
        for line in found.verdicts.get((row["scenario"], "", row["distance"], row["pair"], side, parameters), [])
    ]
    for worst in ("refuted", "unverifiable", "verified"):
        if worst in verdicts:
            return worst
    return None
