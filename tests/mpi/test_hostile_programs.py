"""Is every patch of random hostile programs right, do the programs have all ingredients, and does the judge notice a
wrong patch? tests/fuzz_hostile.py takes thousands."""

from pathlib import Path

import hostile_fuzz
import pytest
from hostile_fuzz import judge
from hostile_programs import hostile_program, ingredients

from nearfield.rewrite import Analysis, Patch

SEEDS = range(1000, 1022)


@pytest.mark.turn(0)
def test_patches_of_hostile_programs_are_right() -> None:
    found = [judge(seed, ranks=(2,), runs=(("3",),)) for seed in SEEDS]
    assert not [(one.seed, fault) for one in found for fault in one.faults]
    assert sum(one.counts["patched"] for one in found) > 0


def test_programs_have_all_ingredients() -> None:
    names = {name for seed in range(4000) for name in hostile_program(seed).names}
    assert {one["name"] for table in ingredients().values() for one in table} <= names


def test_the_judge_notices_a_wrong_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a loop that reads a halo before it arrives count as wrong?"""
    seed = next(
        seed for seed in range(5000)
        if {"main", "sendrecv", "halo", "into w", "nothing"} < set(hostile_program(seed).names)
        and hostile_program(seed).text.index("MPI_Sendrecv(u") < hostile_program(seed).text.index("w[i] + u[i - 1]")
    )  # fmt: skip
    exchange = next(one["text"] for one in ingredients()["exchange"] if one["name"] == "sendrecv")
    halo = next(one["text"] for one in ingredients()["sweep"] if one["name"] == "halo")

    def analyse_wrongly(path: Path, *_: object, **__: object) -> Analysis:
        text = path.read_text()
        wrong = text.replace(exchange, f"{halo}\n{exchange}").replace(f"{exchange}\n{halo}", exchange)
        return Analysis(path, [Patch(path, text, wrong, "main", "early", "tested", (1, 1))])

    monkeypatch.setattr(hostile_fuzz, "analyze", analyse_wrongly)
    assert judge(seed, ranks=(2,), runs=(("3",),)).counts["wrong"] == 1
