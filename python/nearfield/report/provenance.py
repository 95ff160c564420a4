"""Renders the provenance of a profile's numbers: how, where and when they were measured, so that a reader can check
them."""

from __future__ import annotations

from collections.abc import Iterable

from nearfield.base.units import format_bytes, format_ns
from nearfield.profile import Profile
from nearfield.profile.schema import Launch, ProtocolSwitch
from nearfield.ui.html import escape_html, folded_html, table, tag, text

FactRow = tuple[str, str]


def provenance_html(profile: Profile) -> str:
    """Returns the HTML of the provenance section."""
    parts = [
        _facts_html("MPI", _mpi_facts(profile)),
        _facts_html("Run", _run_facts(profile)),
        _facts_html("Machine", _machine_facts(profile)),
        _facts_html("Clock", _clock_facts(profile)),
        _facts_html("Counters", _counter_facts(profile)),
    ]
    facts = tag("div", "".join(parts), class_="columns")
    return facts + _switches_html(profile.run.switch) + _launches_html(profile.run.launch) + _variables_html(profile)


def _facts_html(title: str, rows: Iterable[FactRow]) -> str:
    terms = "".join(tag("dt", name) + tag("dd", value or "unknown") for name, value in rows)
    return tag("section", tag("h3", title) + tag("dl", terms), class_="facts") if terms else ""


def _mpi_facts(profile: Profile) -> list[FactRow]:
    mpi = profile.run.mpi
    return [
        ("installation", escape_html(mpi.name)),
        ("library", escape_html(mpi.library)),
        (
            "inside a node",
            escape_html(mpi.transport) if mpi.transport else f"unknown: {escape_html(mpi.transport_reason or '')}",
        ),
        ("started by", escape_html(mpi.launcher)),
    ]


def _run_facts(profile: Profile) -> list[FactRow]:
    run, host = profile.run, profile.run.host
    return [
        ("when", escape_html(f"{run.created:%Y-%m-%d %H:%M %Z}")),
        ("command", tag("code", escape_html(run.command))),
        ("took", text(f"{run.seconds:.0f} s, tier {run.tier}{'' if run.complete else ', incomplete'}")),
        ("nearfield", escape_html(run.nearfield)),
        ("host", escape_html(host.name) + (f", in {escape_html(host.virtual)}" if host.virtual else "")),
        ("kernel", escape_html(host.kernel)),
        ("PUs allowed", escape_html(", ".join(map(str, host.cpus))) if host.cpus else "all"),
        ("governor", escape_html(host.governor or "")),
        ("load average before", "" if host.load_1m is None else f"{host.load_1m:.2f}"),
    ]


def _machine_facts(profile: Profile) -> list[FactRow]:
    machine, pages = profile.machine, profile.machine.pages
    caches = [
        (
            f"L{c.level} {c.kind}",
            text(
                f"{format_bytes(c.size_bytes, digits=3)}, {c.count} of them, each for {c.shared_by} PU"
                f"{'s' if c.shared_by > 1 else ''}" + (f", {c.ways} ways" if c.ways else "")
            ),
        )
        for c in machine.cache
    ]
    memory = machine.memory.total_bytes
    total = "" if memory is None else f"{format_bytes(memory, digits=3)}, "
    huge = f"{format_bytes(pages.huge_bytes)} huge" if pages.huge_bytes else "no huge ones"
    return [
        ("processor", text(f"{machine.cpu_model}, {machine.cores} cores, {machine.pus} PUs")),
        *caches,
        (
            "memory",
            text(f"{total}NUMA nodes: {machine.memory.numa_nodes}"),
        ),
        ("pages", text(f"{format_bytes(pages.base_bytes)}, {huge}")),
        (
            "transparent huge pages",
            escape_html(f"{pages.transparent or 'unknown'}; shared memory: {pages.shmem or 'unknown'}"),
        ),
        ("huge pages set aside, free", escape_html("" if pages.hugetlb_free is None else pages.hugetlb_free)),
    ]


def _clock_facts(profile: Profile) -> list[FactRow]:
    clock = profile.run.clock
    named_times_ns = [("resolution", clock.resolution_ns), ("cost of one reading", clock.overhead_ns)]
    rows = [(name, text(format_ns(value))) for name, value in named_times_ns if value is not None]
    rate = clock.ticks_per_ns
    return rows + ([("rate", text(f"{rate:.4g} ticks per ns"))] if rate else [])


def _counter_facts(profile: Profile) -> list[FactRow]:
    by_state: dict[str, list[str]] = {}
    for name, state in profile.run.counters.items():
        by_state.setdefault(state, []).append(name)
    return [(text(state), escape_html(", ".join(names))) for state, names in by_state.items()]


def _switches_html(switches: list[ProtocolSwitch]) -> str:
    rows = [
        [text(s.distance or ""), escape_html(s.pair or ""), escape_html(s.kind), text(format_bytes(s.bytes)),
         escape_html(f"{s.name} = {s.value}" if s.name else ""), text(s.evidence or "")]
        for s in switches
    ]  # fmt: skip
    header = ("distance", "PUs", "change", "last size before", "control variable", "how it was found")
    return folded_html("Protocol switches", table(header, rows) if rows else "", class_="wide")


def _launches_html(launches: list[Launch]) -> str:
    rows = [
        [str(launch.ranks), escape_html(", ".join(map(str, launch.cpus))), escape_html(", ".join(launch.hosts)),
         escape_html(", ".join(launch.scenarios)), text(f"{launch.seconds:.0f} s"),
         escape_html(launch.state + (f": {launch.reason}" if launch.reason else ""))]
        for launch in launches
    ]  # fmt: skip
    header = ("ranks", "bound to PU", "hosts", "scenarios", "took", "ended")
    return folded_html("Starts of the engine and binding", table(header, rows) if rows else "", class_="wide")


def _variables_html(profile: Profile) -> str:
    rows = [[tag("code", escape_html(name)), str(value)] for name, value in profile.run.mpi.variables.items()]
    title = f"Thresholds that the MPI reports ({len(rows)} control variables, MPI_T)"
    return folded_html(title, table(("variable", "value"), rows) if rows else "", class_="wide")
