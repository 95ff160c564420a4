"""Is everything that a table says there whole, however narrow the terminal, and in a pipe?"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

import nearfield
from nearfield import mpi
from nearfield._native import simulation
from nearfield.apply import explain
from nearfield.base.errors import MeasurementError
from nearfield.base.topology import Topology
from nearfield.cli import (
    diff_tables,
    machine_tables,
    plan_tables,
    probe_on,
    reproduce_tables,
    show_tables,
    simulate_tables,
    tune_all,
)
from nearfield.cli.verbs import doctor, tune
from nearfield.cli.verbs import mpi as mpi_command
from nearfield.doctor import examine
from nearfield.machine import facts, load_machine, machine_files
from nearfield.measure.sim.cases import applications, collectives
from nearfield.measure.sim.operations import PolicySavings
from nearfield.plan import default_model, find_plans
from nearfield.profile import load
from nearfield.profile.compare import compare_records, largest_changes
from nearfield.profile.pivot import grids_of_places
from nearfield.reproduce.outcome import JudgedClaim, JudgedPaper, JudgedStatement
from nearfield.reproduce.papers import select_claims
from nearfield.rules.schema import load_rules
from nearfield.ui.terminal import Table, Terminal, err, print_error
from nearfield.ui.topology_view import draw_distances

DATA = Path(__file__).parents[1] / "data"
WIDTHS = (60, 80, 120, 200, None)


def of_show() -> list[Table]:
    """Returns the tables of all records, every metric of each scenario."""
    profile, notes = load(DATA / "epyc-vm-quiet"), show_tables.Footnotes()
    records = [one for _, one in profile.records.group_by("scenario", "metric", maintain_order=True)]
    return [
        show_tables.header_table(profile),
        *(show_tables.render(grid, notes)[1] for one in records for grid in grids_of_places(one)),
    ]


def of_diff() -> list[Table]:
    a, b = (load(DATA / name) for name in ("epyc-vm-quiet", "epyc-vm-busy"))
    compared = compare_records(a.records, b.records, (a.run, b.run), 0.05)
    changes = diff_tables._changes_table(largest_changes(compared.changes))
    return [diff_tables._profile_header(a, b)[0], diff_tables._summary_table(compared), changes[1]]


def of_machine() -> list[Table]:
    xeon, old = load_machine("xeon-8470"), load_machine("power5-redstorm")
    rows = [machine_tables.machine_row(load_machine(name)) for name in machine_files()]
    return [
        machine_tables.machines_table(rows),
        machine_tables._caches_table(xeon),
        machine_tables._sources_table(facts(old)),
    ]


def of_mpi() -> list[Table]:
    found = [
        mpi_command._Row(one, True, True, "ob1 / vader, which copies by process_vm_readv", "")
        for one in mpi.find_usable_mpis()
    ]
    return [mpi_command._make_mpi_table(found)]


def of_simulate() -> list[Table]:
    by_policy = {one.name: 0.123 for one in simulation.policies()} | {"ddio:ways=4,replacement=lru": -0.4567}
    some = [PolicySavings("bcast", 64, 64, size, 2.5, 12345.0, by_policy) for size in (1024, 12288)]
    kinds = {"collective": collectives().values(), "application": applications().values()}
    return [simulate_tables._savings_table(some), *simulate_tables._list_tables(kinds, simulation.policies())]


def of_reproduce() -> list[Table]:
    statement = JudgedStatement(
        says="payload-l3 saves time", paper="40 % at 64 KiB", ours="38.5 %", holds=True, is_number=True
    )
    claim = JudgedClaim(id="S4.1", says="", where="", weight=1, verdict="shape only",
                        statements=[statement] * 2, note="a note")  # fmt: skip
    paper = JudgedPaper(name="S4", title="", claims=[claim], chosen=[])
    return [
        reproduce_tables._claims_table(paper),
        *(reproduce_tables._list_table(claims) for _, claims in select_claims([])),
    ]


def of_explain() -> list[Table]:
    ways = dict.fromkeys(explain.COPY_METHOD_TEXTS, (12345678, 1 << 40))
    ranks = [explain.ProcessReport(100, rank, f"program-{rank}", "", 0, ways) for rank in ("0", "11")]
    return [explain.make_report_table(ranks), explain.make_report_table(ranks[:1])]


def of_plan() -> list[Table]:
    return [plan_tables.plans_table(find_plans([256, 256, 256], 32, default_model().costs, ranks_per_node=8), 3)]


def of_probe() -> list[Table]:
    described = [probe_on.describe_scenario(one) for one in probe_on.scenarios().values()]
    ranks = {one.name: "all of several nodes" for one in described}
    return [probe_on.table(described, "simulated operation"), probe_on.table(described, "measured quantity", ranks)]


def of_tune() -> list[Table]:
    rules = load_rules(DATA / "rules" / "openmpi-5.0.11.toml")
    failed = MeasurementError("the transport of mpich-4.0.2 is not known: no rank said so")
    every = tune_all.results_table({"openmpi-5.0.11": rules, "mpich-4.0.2": failed})
    return [*(tune._make_range_table(rule) for rule in rules.rule), every]


def of_this_machine() -> list[Table]:
    return [doctor.checks_table(examine()), draw_distances(Topology.from_synthetic("package:2 l3:2 core:2 pu:2"))]


TABLES = (of_show, of_diff, of_machine, of_mpi, of_simulate, of_reproduce, of_explain, of_plan, of_probe, of_tune,
          of_this_machine)  # fmt: skip


def printed(table: Table, width: int | None) -> list[str]:
    """Returns the text printed on a terminal so wide, or in a pipe."""
    out = io.StringIO()
    terminal = {"force_terminal": True, "width": width, "color_system": None, "legacy_windows": False}
    Terminal(file=out, **(terminal if width else {})).print(table)
    return out.getvalue().splitlines()


def whole(table: Table) -> set[str]:
    """Returns what must not be broken: keys and numbers, and the words of prose and headings. Where each row is a
    block, its keys need no heading."""
    words = chain.from_iterable(column.heading.split() for column in table.columns if not column.key)
    cells = [(column, cell.plain) for row, _ in table.rows for column, cell in zip(table.columns, row, strict=True)]
    return set(words) | set(chain.from_iterable(text.split() if column.prose else [text] for column, text in cells))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("made", TABLES, ids=lambda made: made.__name__)
def test_nothing_is_cut(made: Callable[[], list[Table]], width: int | None) -> None:
    """Every table of the tool: is every key and every number whole on one line, does no line go beyond the terminal but
    for the keys of a row, one cell or one word that is longer, and is in a pipe every row one line, or a line for each
    cell if it is text?"""
    for table in made():
        lines = printed(table, width)
        text = "\n".join(lines)
        assert not [word for word in whole(table) if word not in text], text
        assert not [line for line in lines if line != line.rstrip()]
        if width is None and table.text:
            cells = [cell for row, _ in table.rows for cell in row if cell]
            assert len(lines) == len(cells) and "     " not in text, text
        elif width is None:
            assert len(lines) == len(table.rows) + any(column.heading for column in table.columns)
        else:
            assert not [line for line in lines if len(line) > width and not single(line, table)], text


def single(line: str, table: Table) -> bool:
    """Says whether the line, a heading before it perhaps, is the keys of a row or one cell."""
    for row, _ in table.rows:
        keys = "  ".join(cell.plain for column, cell in zip(table.columns, row, strict=True) if column.key and cell)
        if line.strip() == keys or any(line.endswith(cell.plain) for cell in row if cell) and "  " not in line.strip():
            return True
    return False


def test_the_number_of_a_line_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    """Is a place in a file printed as it is, in results, remarks and errors? To rich, :100: is an emoji."""
    Terminal().print("a.c:100: it waits")
    err.print("a.c:100: it waits")
    print_error(MeasurementError("a.c:100: it waits"))
    out, errors = capsys.readouterr()
    assert (out + errors).count("a.c:100: it waits") == 3


def test_no_verb_draws_tables_by_itself() -> None:
    """Are all tables of this one kind?"""
    package = Path(nearfield.__file__).parent
    assert {p.name for p in package.rglob("*.py") if re.search(r"rich\.table import .*Table", p.read_text())} == {
        "terminal.py"
    }
