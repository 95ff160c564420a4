"""Formats the results of `nearfield simulate run`, as tables for people and data for --json."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from nearfield.base.units import counted, format_bytes, format_ns, format_rounded
from nearfield.observe.replay import CallSite, Replay, Times
from nearfield.observe.replay_profile import memory_counts
from nearfield.ui.terminal import Column, Table, Terminal

MAX_SITES = 20  # max number of call sites in the table
MIN_SHARE = 0.01  # fraction of nondeterministic MPI outcomes; smaller differences are not reported
_WORDS = {
    "misses": "misses of {}",
    "injected": "injected into {}",
    "injected_unused": "lost from {} unused",
    "bytes": "traffic of {}",
}


def print_replay(found: Replay, command: str, seconds: float, *, decided: bool) -> None:
    """Prints the simulated times of the whole program and of its call sites. `decided` means that the simulation, not
    the host, decided the nondeterministic MPI outcomes."""
    cluster, ranks = found.cluster, found.found.ranks
    accesses = sum(rank.accesses for rank in ranks)
    out = Terminal()
    where = f"{escape(cluster.machine.name)}, nodes: {cluster.nodes}, ranks: {len(ranks)}"
    out.print(f"\n[bold]{escape(command)}[/bold] on {where}")
    out.print(_program_table(found))
    out.print()
    out.print(_sites(found))
    out.print("[dim]memory: the time by the base policy; others: the share of it that they save (+) or lose (-)[/dim]")
    out.print()
    out.print(_traffic(found))
    if remark := _divergence_sentence(found, decided):
        out.print(remark)
    flops = sum(rank.flops for rank in ranks)
    core = cluster.machine.core
    if flops and not (core and core.flops_per_cycle):
        out.print(f"[dim]arithmetic takes no time: {cluster.machine.name} has no core.flops_per_cycle[/dim]")
    work = f"{format_rounded(accesses)} accesses and {format_rounded(flops)} flops"
    rate = format_rounded(accesses / seconds if seconds else 0)
    out.print(f"\n{work} simulated in {format_ns(seconds * 1e9)}: {rate} accesses a second")


def print_runs(runs: list[Replay], command: str) -> None:
    """Prints the times of independent runs, each with one policy and one memory speed. The base policy comes first."""
    times = _times_of_runs(runs)
    policies = list(dict.fromkeys(run.cluster.policies[0] for run in runs))
    out = Terminal()
    out.print(f"\n[bold]{escape(command)}[/bold] on {escape(runs[0].cluster.machine.name)}, a run for each")
    table = Table(Column("slowdown", key=True, right=True), *(Column(name, right=True) for name in policies))
    for speed, run in enumerate(runs[: len(times[0])]):
        table.add_row(f"{run.cluster.slowdowns[0]:g}", *compare_with_base(times, speed))
    out.print(table)


def runs_as_dict(runs: list[Replay]) -> dict[str, Any]:
    """Returns the results of independent runs for --json."""
    return {
        "policies": list(dict.fromkeys(run.cluster.policies[0] for run in runs)),
        "memory_slowdown": list(dict.fromkeys(run.cluster.slowdowns[0] for run in runs)),
        "time_ns": _times_of_runs(runs),
        "runs": [as_dict(run) for run in runs],
    }


def _times_of_runs(runs: list[Replay]) -> Times:
    speeds = len({run.cluster.slowdowns[0] for run in runs})
    flat = [run.time_ns()[0][0] for run in runs]
    return [flat[at : at + speeds] for at in range(0, len(flat), speeds)]


def _divergence_sentence(found: Replay, decided: bool) -> str:
    """Returns a sentence on the nondeterministic MPI outcomes that would differ under another policy or memory speed;
    "" if there are few."""
    cluster, outcomes = found.cluster, found.outcomes()
    counts = {
        (policy, slowdown): count
        for policy, row in zip(cluster.policies, found.divergent_outcomes(), strict=True)
        for slowdown, count in zip(cluster.slowdowns, row, strict=True)
    }
    (policy, slowdown), highest = max(counts.items(), key=lambda one: one[1])
    if highest <= MIN_SHARE * outcomes:
        return ""
    whose = f"of {cluster.policies[0]} at slowdown {cluster.slowdowns[0]:g}" if decided else "that were observed"
    whether = "each run kept" if cluster.independent_runs else "the run keeps"
    text = (
        f"time decides {counted(outcomes, 'outcome')} (of receives from any source, tests, Waitany); {highest:,} would "
        f"have been others with {policy} at slowdown {slowdown:g}, but {whether} those {whose}"
    )
    if not cluster.independent_runs and cluster.runs < len(counts):
        text += (
            "; --independent-runs "
            + ("runs the program again for" if decided else "simulates")
            + " each policy and speed"
        )
    return text


def _program_table(found: Replay) -> Table:
    table = Table(Column("slowdown", key=True, right=True), *_by_policy(found))
    times = found.time_ns()
    for speed, slowdown in enumerate(found.cluster.slowdowns):
        table.add_row(f"{slowdown:g}", *compare_with_base(times, speed))
    return table


def _sites(found: Replay) -> Table:
    sites = found.call_sites()
    ranks = len(found.found.ranks)
    headings = Column("call", key=True), Column("line", prose=True), Column("calls", right=True)
    table = Table(*headings, *_by_policy(found))
    table.add_row("(computing)", "", "", *compare_with_base(found.computing_ns(), 0, ranks))
    for site in sites[:MAX_SITES]:
        table.add_row(site.name, escape(site.line), f"{site.calls:,}", *compare_with_base(site.time_ns, 0, ranks))
    return table


def _traffic(found: Replay) -> Table:
    """Returns the table of memory counters summed over all nodes, by policy, at the first memory speed. Counters at
    other speeds hardly differ."""
    table = Table(Column("lines", key=True), *_by_policy(found))
    for name, of_policy in memory_counts(found.found.memory).items():
        written = (format_bytes(n, digits=3) if name.endswith("bytes") else format_rounded(n) for n in of_policy)
        where, _, what = name.partition("_")
        table.add_row(_WORDS[what].format(where.upper()), *written)
    return table


def _by_policy(found: Replay) -> list[Column]:
    return [Column(name, right=True) for name in found.cluster.policies]


def compare_with_base(times: Times, speed: int, ranks: int = 1) -> list[str]:
    """Returns the cells of a row: the time under the base policy, averaged over the ranks, and the fraction of it that
    each other policy saves."""
    base, *others = (of_policy[speed] for of_policy in times)
    return [format_ns(base / ranks), *(f"{100 * (1 - other / base):+.1f} %" if base else "-" for other in others)]


def as_dict(found: Replay) -> dict[str, Any]:
    """Returns the result for --json: times in ns, indexed by policy, then by memory slowdown."""
    cluster = found.cluster
    names = ("from_any", "contested", "looks", "failed_looks", "waits_for_any")
    return {
        "machine": cluster.machine.name,
        "nodes": cluster.nodes,
        "ranks": len(found.found.ranks),
        "policies": cluster.policies,
        "memory_slowdown": cluster.slowdowns,
        "time_ns": found.time_ns(),
        "rank_times_ns": list(found.rank_times()),
        "computing_ns": found.computing_ns(),
        "calls": [_site(site) for site in found.call_sites()],
        "memory": memory_counts(found.found.memory),
        "accesses": sum(rank.accesses for rank in found.found.ranks),
        "flops": sum(rank.flops for rank in found.found.ranks),
        "messages": found.found.messages,
        "network_bytes": found.found.network_bytes,
        "time_dependent": {
            **{name: sum(getattr(rank.dependence, name) for rank in found.found.ranks) for name in names},
            "outcomes": found.outcomes(),
            "otherwise": found.divergent_outcomes(),
        },
    }


def _site(site: CallSite) -> dict[str, Any]:
    return {"name": site.name, "line": site.line, "calls": site.calls, "time_ns": site.time_ns}
