"""Is a block cut into regions at its barriers, and is a new order of a region normalized to paragraphs of code?"""

from __future__ import annotations

from pathlib import Path

from rewriting import EXCHANGE, SWEEP, step

from nearfield.rewrite.analysis.program import LoopNest, NotMovable, Region
from nearfield.rewrite.analysis.regions import MAX_REGION_ITEMS, NUM_CONTEXT_ITEMS, RegionFinder, StatementRun
from nearfield.rewrite.codegen.paragraphs import Code, list_paragraphs
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import parse_file
from nearfield.rewrite.model.polyhedral import build_model
from nearfield.rewrite.model.schedule import DependencePartition
from nearfield.rewrite.model.schedules import TRANSFORMATIONS

UPDATE = SWEEP + "b[i * m + j] = a[(i + 1) * m + j];\n"


def finder(tmp_path: Path, arguments: list[str], body: str) -> RegionFinder:
    path, text = tmp_path / "program.c", step(body)
    path.write_text(text, encoding="utf-8")
    unit = parse_file(path, text, arguments)
    functions = ProgramFunctions(unit, ())
    return RegionFinder(unit, functions, functions.function_of(unit.functions[-1]), 2)


def kinds(region: Region) -> list[str]:
    return ["nest" if isinstance(item, LoopNest) else item.call_names for item in region.items]


def test_a_barrier_separates_two_regions(tmp_path: Path, arguments: list[str]) -> None:
    found = finder(tmp_path, arguments, f"{EXCHANGE}{UPDATE}puts(up ? stdin : 0);\n{UPDATE}{EXCHANGE}").find_regions()
    assert [kinds(region) for region in found.regions] == [["MPI_Sendrecv", "nest"], ["nest", "MPI_Sendrecv"]]
    assert not found.missed


def test_inner_blocks_come_first_and_make_a_loop_a_barrier(tmp_path: Path, arguments: list[str]) -> None:
    body = f"{EXCHANGE}{UPDATE}for (int t = 0; t < 9; t++) {{\n{UPDATE}{EXCHANGE}}}\n"
    found = finder(tmp_path, arguments, body).find_regions()
    assert [kinds(region) for region in found.regions] == [["nest", "MPI_Sendrecv"], ["MPI_Sendrecv", "nest"]]


def test_a_declaration_among_the_items_is_hoisted(tmp_path: Path, arguments: list[str]) -> None:
    found = finder(tmp_path, arguments, f"{EXCHANGE}const int last = n - 1;\n{UPDATE}")
    (region,) = found.find_regions().regions
    assert [found.unit.text[slice(*span)] for span in region.hoisted_declaration_spans] == ["const int last = n - 1;"]


def test_a_message_alone_is_refused_with_the_barriers_around_it(tmp_path: Path, arguments: list[str]) -> None:
    found = finder(tmp_path, arguments, f"{UPDATE}goto end;\n{EXCHANGE}end:\n{UPDATE}").find_regions()
    assert not found.regions
    (missed,) = found.missed
    assert "before it, at line" in missed.reason and "after it, at line" in missed.reason


def test_reasons_inside_a_block_that_is_moved_do_not_matter(tmp_path: Path, arguments: list[str]) -> None:
    found = finder(tmp_path, arguments, f"if (up >= 0) {{\n{EXCHANGE}}}\n{UPDATE}").find_regions()
    assert [kinds(region) for region in found.regions] == [["MPI_Sendrecv", "nest"]]
    assert not found.missed


def test_runs_are_split_and_trimmed() -> None:
    nest = LoopNest([], [], 0, 1, (0, 1), 1)
    barriers = [NotMovable(reason, 1) for reason in ("before", "in between", "after")]
    run = StatementRun((nest,) * 5, (), {}, barriers[0], barriers[2])
    first, second = run.split_at(2, barriers[1])
    assert (len(first.items), len(second.items)) == (2, 2)
    assert first.barriers == [("before", barriers[0]), ("after", barriers[1])]
    assert second.barriers == [("before", barriers[1]), ("after", barriers[2])]
    assert run.trim_to_calls() is run


def test_a_long_run_is_trimmed_to_the_calls(tmp_path: Path, arguments: list[str]) -> None:
    around, between = "a[up] = b[up];\n" * MAX_REGION_ITEMS, "a[up] = b[up];\n" * 9
    body = around + EXCHANGE + between + EXCHANGE + around
    (region,) = finder(tmp_path, arguments, body).find_regions().regions
    assert len(region.items) == NUM_CONTEXT_ITEMS + 1 + 9 + 1 + NUM_CONTEXT_ITEMS


def test_an_order_is_normalized_to_paragraphs(tmp_path: Path, arguments: list[str]) -> None:
    """Does each step get one paragraph, with the wait in front of what needs it, and with a comment only once?"""
    (region,) = finder(tmp_path, arguments, f"{EXCHANGE}{UPDATE}").find_regions().regions
    model = build_model(region)
    overlap = next(one for one in TRANSFORMATIONS if one.name == "overlap")
    order = next(iter(overlap.find_orders(DependencePartition(model))))
    paragraphs = list_paragraphs(order, model, model.names.parameter_set([]))
    assert [list(map(_name, one.code)) for one in paragraphs] == [
        ["RequestDeclarations"], ["Comment", "Begin"], ["Comment", "NestLoops"], ["Wait", "NestLoops"], []
    ]  # fmt: skip
    assert [one.item_number for one in paragraphs] == [None, 0, 1, 1, None]


def _name(code: Code) -> str:
    return type(code).__name__
