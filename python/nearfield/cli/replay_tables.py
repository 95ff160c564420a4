"""Formats the results of `nearfield simulate run`, as human-readable tables and data for --json."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from nearfield.base.units import counted, format_bytes, format_ns, format_rounded
from nearfield.cli.range_text import format_mean, format_saving
from nearfield.observe.repeats import RepeatedReplay
from nearfield.observe.replay import CallSite, Replay, TimesByPolicy
from nearfield.ui.terminal import Column, Table, Terminal

MAX_SITES = 20  # max number of call sites in the table
MIN_SHARE = 0.01  # fraction of nondeterministic MPI outcomes; smaller differences are not reported
_SITE_PHRASES = {
    "misses": "misses of {}",
    "injected": "injected into {}",
    "injected_unused": "lost from {} unused",
    "bytes": "traffic of {}",
}


def print_replay(
    replay: RepeatedReplay, command: str, seconds: float, *, decides_outcomes: bool, simulations: int = 1
) -> None:
    """Prints the simulated times of the whole program and of its call sites. `decides_outcomes` means that the
    simulation, not the host, decided the nondeterministic MPI outcomes. `simulations` is how often the program was
    simulated in `seconds`, on variants of the machine as well."""
    first = replay.replays[0]
    cluster, ranks = replay.cluster, first.replayed.ranks
    accesses = sum(rank.accesses for rank in ranks)
    out = Terminal()
    where = f"{escape(cluster.machine.name)}, nodes: {cluster.nodes}, ranks: {len(ranks)}"
    out.print(f"\n[bold]{escape(command)}[/bold] on {where}")
    out.print(_program_table(replay))
    if sentence := scatter_sentence(replay):
        out.print(f"[dim]{sentence}[/dim]")
    out.print()
    out.print(_sites_table(replay))
    others = "; others: the share of it that they save (+) or lose (-)" if len(cluster.policies) > 1 else ""
    out.print(f"[dim]{cluster.policies[0]}: the time by the base policy{others}[/dim]")
    out.print()
    out.print(_traffic_table(replay))
    if remark := _divergence_sentence(first, decides_outcomes):
        out.print(remark)
    flops = sum(rank.flops for rank in ranks)
    core = cluster.machine.core
    if flops and not (core and core.flops_per_cycle):
        out.print(f"[dim]arithmetic takes no time: {cluster.machine.name} has no core.flops_per_cycle[/dim]")
    work = f"{format_rounded(accesses)} accesses and {format_rounded(flops)} flops"
    times = f"{counted(simulations, 'time')} " if simulations > 1 else ""
    rate = format_rounded(accesses * simulations / seconds if seconds else 0)
    out.print(f"\n{work} simulated {times}in {format_ns(seconds * 1e9)}: {rate} accesses a second")


def scatter_sentence(replay: RepeatedReplay) -> str:
    """Returns a sentence on how far times scatter with the order of accesses; "" if no ranks share a node."""
    if replay.has_intervals:
        return (
            f"all times are means of {len(replay.replays)} simulations whose ranks start up to 100 ns apart; "
            "intervals: 95 % confidence"
        )
    if replay.cluster.ranks_per_node == 1:
        return ""
    return (
        "the ranks of a node access their shared caches in one of many possible orders, and times with another order "
        "differ by some per cent: --repeat 8 gives means with intervals"
    )


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
        "runs": [as_dict(RepeatedReplay((run,))) for run in runs],
    }


def _times_of_runs(runs: list[Replay]) -> TimesByPolicy:
    speeds = len({run.cluster.slowdowns[0] for run in runs})
    flat = [run.time_ns()[0][0] for run in runs]
    return [flat[at : at + speeds] for at in range(0, len(flat), speeds)]


def _divergence_sentence(replay: Replay, decides_outcomes: bool) -> str:
    """Returns a sentence on the nondeterministic MPI outcomes that would differ under another policy or memory speed;
    "" if there are few."""
    cluster, outcomes = replay.cluster, replay.count_timing_dependent_outcomes()
    counts = {
        (policy, slowdown): count
        for policy, row in zip(cluster.policies, replay.count_divergent_outcomes(), strict=True)
        for slowdown, count in zip(cluster.slowdowns, row, strict=True)
    }
    (policy, slowdown), highest = max(counts.items(), key=lambda one: one[1])
    if highest <= MIN_SHARE * outcomes:
        return ""
    whose = (
        f"those of {cluster.policies[0]} at slowdown {cluster.slowdowns[0]:g}"
        if decides_outcomes
        else "those that were observed"
    )
    runs = "each run keeps" if cluster.uses_independent_runs else "the simulation keeps"
    text = (
        f"{counted(outcomes, 'MPI outcome')} {'depends' if outcomes == 1 else 'depend'} on timing (receives from any "
        f"source, tests, Waitany); with {policy} at slowdown {slowdown:g}, {highest:,} would differ, but {runs} {whose}"
    )
    if not cluster.uses_independent_runs and cluster.num_runs < len(counts):
        what = "runs the program again for" if decides_outcomes else "simulates"
        text += f"; --independent-runs {what} each policy and speed"
    return text


def _program_table(replay: RepeatedReplay) -> Table:
    table = Table(Column("slowdown", key=True, right=True), *_policy_columns(replay))
    for speed, slowdown in enumerate(replay.cluster.slowdowns):
        table.add_row(f"{slowdown:g}", *program_cells(replay, speed))
    return table


def program_cells(replay: RepeatedReplay, speed: int) -> list[str]:
    """Returns the cells of a row: the time of the slowest rank under the base policy, and the fraction of it that each
    other policy saves; with intervals if there are several replays."""
    if not replay.has_intervals:
        return compare_with_base(replay.time_ns(), speed)
    others = range(1, len(replay.cluster.policies))
    savings = [format_saving(replay.estimate_saving(policy, speed)) for policy in others]
    return [format_mean(replay.estimate_time(0, speed)), *savings]


def _sites_table(replay: RepeatedReplay) -> Table:
    sites = replay.call_sites()
    ranks = len(replay.replays[0].replayed.ranks)
    headings = Column("call", key=True), Column("line", prose=True), Column("calls", right=True)
    table = Table(*headings, *_policy_columns(replay))
    table.add_row("(computing)", "", "", *compare_with_base(replay.computing_ns(), 0, ranks))
    for site in sites[:MAX_SITES]:
        table.add_row(site.name, escape(site.line), f"{site.calls:,}", *compare_with_base(site.time_ns, 0, ranks))
    return table


def _traffic_table(replay: RepeatedReplay) -> Table:
    """Returns the table of memory counters summed over all nodes, by policy, at the first memory speed. Counters at
    other speeds hardly differ."""
    table = Table(Column("lines", key=True), *_policy_columns(replay))
    for name, of_policy in replay.memory_traffic_counts().items():
        written = (format_bytes(n, digits=3) if name.endswith("bytes") else format_rounded(n) for n in of_policy)
        where, _, what = name.partition("_")
        table.add_row(_SITE_PHRASES[what].format(where.upper()), *written)
    return table


def _policy_columns(replay: RepeatedReplay) -> list[Column]:
    return [Column(name, right=True) for name in replay.cluster.policies]


def compare_with_base(times: TimesByPolicy, speed: int, ranks: int = 1) -> list[str]:
    """Returns the cells of a row: the time under the base policy, averaged over the ranks, and the fraction of it that
    each other policy saves."""
    base, *others = (of_policy[speed] for of_policy in times)
    return [format_ns(base / ranks), *(f"{100 * (1 - other / base):+.1f} %" if base else "-" for other in others)]


def as_dict(replay: RepeatedReplay) -> dict[str, Any]:
    """Returns the result for --json: times in ns, indexed by policy, then by memory slowdown."""
    cluster, first = replay.cluster, replay.replays[0]
    names = ("from_any", "contested", "looks", "failed_looks", "waits_for_any")
    return {
        "machine": cluster.machine.name,
        "nodes": cluster.nodes,
        "ranks": len(first.replayed.ranks),
        "policies": cluster.policies,
        "memory_slowdown": cluster.slowdowns,
        "time_ns": replay.time_ns(),
        **(_intervals_as_dict(replay) if replay.has_intervals else {}),
        "rank_times_ns": replay.rank_times(),
        "computing_ns": replay.computing_ns(),
        "calls": [_site_as_dict(site) for site in replay.call_sites()],
        "memory": replay.memory_traffic_counts(),
        "accesses": sum(rank.accesses for rank in first.replayed.ranks),
        "flops": sum(rank.flops for rank in first.replayed.ranks),
        "messages": first.replayed.messages,
        "network_bytes": first.replayed.network_bytes,
        "time_dependent": {
            **{name: sum(getattr(rank.dependence, name) for rank in first.replayed.ranks) for name in names},
            "outcomes": first.count_timing_dependent_outcomes(),
            "otherwise": first.count_divergent_outcomes(),
        },
    }


def _intervals_as_dict(replay: RepeatedReplay) -> dict[str, Any]:
    """Returns the 95 % confidence intervals of the times and savings, and the time of each replay."""
    policies, speeds = range(len(replay.cluster.policies)), range(len(replay.cluster.slowdowns))
    times = [[replay.estimate_time(policy, speed) for speed in speeds] for policy in policies]
    saved = [[replay.estimate_saving(policy, speed) for speed in speeds] for policy in policies]
    return {
        "time_interval_ns": [[[one.low, one.high] for one in of_policy] for of_policy in times],
        "saved": [[[one.value, one.low, one.high] for one in of_policy] for of_policy in saved],
        "replay_times_ns": [one.time_ns() for one in replay.replays],
    }


def _site_as_dict(site: CallSite) -> dict[str, Any]:
    return {"name": site.name, "line": site.line, "calls": site.calls, "time_ns": site.time_ns}
