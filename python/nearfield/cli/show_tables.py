"""Formats the records of a profile for `nearfield show`, as human-readable tables and as data for scripts."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from nearfield.base.errors import UsageError
from nearfield.base.frames import pl
from nearfield.base.units import counted, format_bytes, format_ns, format_value, parse_bytes
from nearfield.base.words import capitalize, suggest_name
from nearfield.profile import Profile, where
from nearfield.profile.compare import declared_metrics
from nearfield.profile.ending import describe_unfinished
from nearfield.profile.pivot import Grid, grids_of_places, headline_metric, overview_grid
from nearfield.profile.records import ALLOWED_WORDS_BY_COLUMN, PLACE_COLUMNS, VERDICT_COLUMN, parameter_names
from nearfield.profile.stability import MAX_UNSTABLE_SHARE, unstable_share
from nearfield.report.findings import Finding, findings
from nearfield.ui.terminal import Column, Table

LEGEND = "~ unstable: no decision uses it    ? the buffers were not in that state    ± half of the 95 % interval"


# ---- selection of records


def select_records(
    records: pl.DataFrame, scenario: str | None, metric: str | None, conditions: list[str]
) -> pl.DataFrame:
    """Returns the records with this scenario and metric that satisfy all conditions NAME=VALUE. If no record has a
    given name or value, raises UsageError with the most similar one."""
    for column, value in (("scenario", scenario), ("metric", metric)):
        if value is not None:
            records = _select_matching(records, column, [value])
    for condition in conditions:
        column, values = _parse_condition(condition, records)
        records = _select_matching(records, column, values)
    return records


def _parse_condition(condition: str, records: pl.DataFrame) -> tuple[str, list[Any]]:
    name, equals, text = condition.partition("=")
    name = name.strip()
    if not equals:
        raise UsageError(f"--where '{condition}' has no '='", "Write --where size_bytes=4KiB or --where state=invalid.")
    choices = [
        *PLACE_COLUMNS,
        "source",
        *([VERDICT_COLUMN] if records[VERDICT_COLUMN].null_count() < records.height else []),
    ]
    choices += parameter_names(records)
    if name not in choices:
        raise UsageError(f"these records have no parameter '{name}'", _suggest_value(name, choices))
    words = [word.strip() for word in text.split(",")]
    if records[name].dtype == pl.Int64:
        return name, [parse_bytes(word) for word in words]
    if records[name].dtype == pl.Float64:
        return name, [_parse_number(name, word) for word in words]
    return name, words


def _parse_number(name: str, word: str) -> float:
    try:
        return float(word)
    except ValueError as error:
        raise UsageError(f"--where {name}={word}: not a number", f"Write --where {name}=7.5.") from error


def _select_matching(records: pl.DataFrame, column: str, values: list[Any]) -> pl.DataFrame:
    known = records[column].drop_nulls().unique(maintain_order=True).to_list()
    for value in values:
        # A valid keyword that no record here has is not a spelling mistake.
        if value not in known and value not in ALLOWED_WORDS_BY_COLUMN.get(column, ()):
            raise UsageError(f"no record has {column} '{value}'", _suggest_value(value, known))
    return where(records, **{column: values})


def _suggest_value(value: Any, valid: list[Any]) -> str:
    if isinstance(value, (int, float)):
        nearest = sorted(valid, key=lambda other: abs(other - value))[:3]
        return f"The nearest are {', '.join(f'{one:.15g}' for one in sorted(nearest))}."
    return capitalize(suggest_name(str(value), [str(v) for v in valid]))


# ---- output for scripts


def as_dict(profile: Profile, records: pl.DataFrame) -> dict[str, Any]:
    """Returns the profile with the selected records, for --json."""
    return {
        "path": str(profile.path),
        "machine": profile.machine.model_dump(mode="json", exclude_none=True),
        "run": profile.run.model_dump(mode="json", exclude_none=True),
        "records": records.to_dicts(),
    }


# ---- human-readable output


def overview_of(profile: Profile) -> RenderableType:
    """Returns an overview of the profile: the header, the findings, and a small table for each scenario."""
    parts: list[RenderableType] = summary_lines(header_table(profile), findings(profile))
    notes = Footnotes()
    declared = declared_metrics(profile.run)
    for (scenario,), records in profile.records.group_by("scenario", maintain_order=True):
        own = records.filter(pl.col("metric").is_in([m for s, m in declared if s == scenario])) if declared else records
        own = own if own.height else records
        grid = overview_grid(where(own, metric=headline_metric(own)))
        if grid:
            parts += [Text(), *render(grid, notes), *_list_hidden_metrics(str(scenario), grid, own)]
    return Group(*parts, *notes.render())


def tables_of(records: pl.DataFrame, metric: str | None) -> RenderableType:
    """Returns tables of all records, one for each scenario and pair of cores. Without `metric`, shows only the headline
    metric."""
    parts: list[RenderableType] = []
    notes = Footnotes()
    for _, of_scenario in records.group_by("scenario", maintain_order=True):
        shown = metric or headline_metric(of_scenario)
        for grid in grids_of_places(where(of_scenario, metric=shown)):
            parts += [*render(grid, notes), Text()]
        others = [m for m in of_scenario["metric"].unique(maintain_order=True) if m != shown]
        if others:
            parts += [Text(f"more metrics: {', '.join(others)} (--metric)", style="dim"), Text()]
    return Group(*parts, *notes.render()) if parts else Text("no record is like that")


def header_table(profile: Profile) -> Table:
    """Returns a table with the facts about machine, MPI and run."""
    machine, run = profile.machine, profile.run
    unknown = f"unknown ({run.mpi.transport_reason})" if run.mpi.transport_reason else "unknown"
    grid = Table(Column(key=True), Column(prose=True))
    grid.add_row("profile", escape(str(profile.path)))
    grid.add_row("machine", escape(f"{machine.name}: {machine.cpu_model}, {machine.cores} cores, {machine.pus} PUs"))
    grid.add_row("caches", escape(_format_caches(profile)))
    grid.add_row(
        "MPI",
        escape(f"{run.mpi.name}, inside a node: {run.mpi.transport or unknown}"),
    )
    if run.backend == "sim":
        grid.add_row("", f"[bold]simulated[/bold]: nothing was measured (simulator {escape(run.simulator or '?')})")
    grid.add_row("run", escape(_format_run(profile)))
    if not run.complete:
        remedy = escape(f"{describe_unfinished(run)}; to complete it: {profile.completed_by}")
        grid.add_row("", f"[yellow]{remedy}[/yellow]")
    for switch in run.switch if unstable_share(profile) <= MAX_UNSTABLE_SHARE else ():
        grid.add_row("switch", escape(_format_switch(switch)))
    for skipped in run.skipped:
        grid.add_row("skipped", escape(f"{skipped.scenario}: {skipped.reason}"))
    return grid


def summary_lines(head: RenderableType, findings: list[Finding]) -> list[RenderableType]:
    """Returns the header and the findings, one line each. If there are warnings, puts them first and leaves out the
    other findings."""
    warnings = [finding for finding in findings if finding.level == "warning"]
    if not warnings:
        return [head, Text(), *(Text(f"• {finding.text}") for finding in findings)]
    left = f"left out for this: {counted(len(findings) - len(warnings), 'finding')}"
    said = (Text(finding.text, style="bold yellow") for finding in warnings)
    return [*said, Text(), head, Text(), Text(left, style="dim")]


class Footnotes:
    """Collects the reasons for missing values, without duplicates, numbered in order of first use, to print below the
    tables."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def mark(self, reason: str) -> str:
        return f"[{self.numbers.setdefault(reason, len(self.numbers) + 1)}]"

    def render(self) -> list[RenderableType]:
        lines = [Text(f"[{number}] {reason}") for reason, number in self.numbers.items()]
        return [*lines, Text(LEGEND, style="dim")]


def render(grid: Grid, notes: Footnotes) -> tuple[Text, Table]:
    """Returns the title and the table for a grid of records."""
    names = [
        grid.metric if grid.column_parameter is None else _format_label(grid.column_parameter, column)
        for column in grid.columns
    ]
    table = Table(
        *(Column(name.removesuffix("_bytes"), key=True, right=True) for name in grid.row_parameters),
        *(Column(name, right=True) for name in names),
    )
    for row in grid.rows:
        labels = [Text(_format_label(name, value)) for name, value in zip(grid.row_parameters, row, strict=True)]
        table.add_row(*labels, *(_format_cell(grid.cells.get((row, column)), notes) for column in grid.columns))
    return _format_title(grid), table


def _format_title(grid: Grid) -> Text:
    title = Text(f"{grid.scenario} {grid.metric}", style="bold")
    others = [(name, value) for name, value in grid.fixed_values.items() if name not in PLACE_COLUMNS]
    fixed = [f"{name.removesuffix('_bytes')} {_format_label(name, value)}" for name, value in others]
    place = [str(grid.fixed_values[name]) for name in PLACE_COLUMNS if name in grid.fixed_values]
    return title.append("  " + ", ".join(place + fixed), style="dim not bold")


def _format_label(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:g}"
    return format_bytes(value) if name.endswith("_bytes") else str(value)


def _format_cell(record: dict[str, Any] | None, notes: Footnotes) -> Text:
    """Formats a record as a cell: blank if there is no record, a footnote if it has no value."""
    if record is None:
        return Text()
    if record["value"] is None:
        return Text(f"null {notes.mark(record['note'])}", style="dim")
    half = None if record["low"] is None else (record["high"] - record["low"]) / 2
    text = format_value(record["value"], record["unit"], half)
    refuted = record[VERDICT_COLUMN] == "refuted"
    marks = ("" if record["stable"] else " ~") + (" ?" if refuted else "")
    return Text(text + marks, style="" if not marks else "yellow")


def _list_hidden_metrics(scenario: str, grid: Grid, records: pl.DataFrame) -> list[RenderableType]:
    """Returns a line with the command that shows the values that the overview left out; [] if there are none."""
    metrics = [name for name in records["metric"].unique(maintain_order=True) if name != grid.metric]
    parts = [f"{grid.num_excluded} more values"] if grid.num_excluded else []
    parts += [f"metrics {', '.join(metrics)}"] if metrics else []
    return [Text(f"and {'; '.join(parts)}: --scenario {scenario}", style="dim")] if parts else []


def _format_caches(profile: Profile) -> str:
    return (
        ", ".join(
            f"L{c.level} {format_bytes(c.size_bytes, digits=3)}" + (f" x{c.count}" if c.count > 1 else "")
            for c in profile.machine.data_caches
        )
        or "unknown"
    )


def _format_run(profile: Profile) -> str:
    run = profile.run
    where_run = f" in {run.host.virtual}" if run.host.virtual else ""
    unstable = int((~profile.records["stable"] & profile.records["value"].is_not_null()).sum())
    return (
        f"{run.created:%Y-%m-%d %H:%M}, {run.tier}, {format_ns(run.seconds * 1e9)}{where_run}; "
        f"{profile.records.height} records, {unstable} unstable"
    )


def _format_switch(switch: Any) -> str:
    place = f" ({switch.distance})" if switch.distance else ""
    cause = f": {switch.name} = {switch.value}" if switch.name else ""
    return f"{switch.kind} at {format_bytes(switch.bytes)}{place}{cause}"
