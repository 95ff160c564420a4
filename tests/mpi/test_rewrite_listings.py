"""Is what S0.9 is judged by what the tool makes of listing 1? The scenario `stencil`, live and simulated, follows
nearfield::stencil_order; here the tool's programs are compiled with hooks, and what they do is compared with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from observed import compile_observed, observe

from nearfield import mpi
from nearfield._native import simulation, stream
from nearfield.mpi.compiler import compiler_environment
from nearfield.rewrite import analyze
from nearfield.rewrite.check.build import c_compiler_wrapper, mpi_include_folders

LISTING = Path(__file__).parents[1] / "programs" / "listing1.c"
VARIANTS = {"listing-1": "", "opt1": "warm-send", "opt2": "reverse"}
ROWS, COLUMNS, STEPS, DOUBLE = 6, 20, 3, 8
Did = tuple[object, ...]  # a store (array, row, column) with the elements that were loaded for it, or an exchange


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Returns the program of each variant: the listing itself, and what the tool makes of it."""
    inst = mpi.choose_mpi(None)
    found = analyze(LISTING, [f"-I{folder}" for folder in mpi_include_folders(inst)])
    made = {"": LISTING.read_text(), **{one.transformation: one.rewritten for one in found.patches}}
    return {variant: made[name] for variant, name in VARIANTS.items()}


def small(text: str) -> str:
    """Returns the program with other sizes."""
    for name, old, new in (("ROWS", 32, ROWS), ("COLS", 128, COLUMNS), ("MAX_ITERS", 100, STEPS)):
        assert f"#define {name} {old}\n" in text
        text = text.replace(f"#define {name} {old}\n", f"#define {name} {new}\n")
    return text


def done(file: Path) -> Iterator[Did]:
    """Yields what a rank's stream says: stores into the two arrays with their loads, and exchanges."""
    reader, parts = stream.Reader(str(file)), []
    while True:
        accesses = [(int(at), bool(is_store)) for at, _, is_store, _ in zip(*reader.accesses(1 << 20), strict=True)]
        event = reader.event()
        parts.append((accesses, event))
        if event is None:
            break
    sent = [event[1]["data"]["address"] for _, event in parts if event and event[0] == "send"]
    arrays = sent[:2]  # the array that is sent from in the first step, and in the second one

    def element(address: int) -> Did | None:
        for number, array in enumerate(arrays):
            place = (address - array) // DOUBLE
            if 0 <= place < ROWS * COLUMNS:
                return (number, *divmod(place, COLUMNS))
        return None

    loaded: set[Did] = set()
    for accesses, event in parts:
        for address, is_store in accesses:
            at = element(address)
            if at and is_store:
                yield (*at, frozenset(loaded))
                loaded = set()
            elif at:
                loaded.add(at)
        if event and event[0] in ("send", "receive"):
            yield (event[0], element(event[1]["data"]["address"]), event[1]["data"]["count"])


def expected(variant: str) -> Iterator[Did]:
    """Yields what the scenario's order says."""
    before, after = simulation.stencil_rows(variant, ROWS)

    def updated(rows: list[tuple[int, bool]], old: int) -> Iterator[Did]:
        for i, backward in rows:
            columns = range(COLUMNS - 1)
            for j in reversed(columns) if backward else columns:
                yield (1 - old, i, j, frozenset({(old, i, j), (old, i + 1, j), (old, i, j + 1)}))

    for step in range(STEPS):
        old = step % 2
        yield from updated(before, old)
        yield ("receive", (old, ROWS - 1, 0), COLUMNS)
        yield ("send", (old, 0, 0), COLUMNS)
        yield from updated(after, old)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_judged_stencil_is_what_the_tool_makes(variant: str, texts: dict[str, str], tmp_path: Path) -> None:
    """Does the program access the same elements and send the same messages, in the same order, as the scenario?"""
    inst = next((one for one in mpi.find_usable_mpis() if one.family == "mpich"), mpi.choose_mpi(None))
    source, program = tmp_path / "listing.c", tmp_path / "program"
    source.write_text(small(texts[variant]))
    environment = {**inst.env, **compiler_environment(inst), "NEARFIELD_CC": str(c_compiler_wrapper(inst))}
    compile_observed(str(source), program, "-O1", **environment)
    command, launched = mpi.launch_command(inst, [str(program)], 2, oversubscribe=True)
    ended = observe(tmp_path, "--mpi", inst.name, "--", *command, environment=launched)
    assert ended.returncode == 0, ended.stderr
    for rank in (0, 1):
        found = list(done(tmp_path / f"trace/rank-{rank}.nfs"))
        assert found[2 * ROWS * COLUMNS :] == list(expected(variant))


def test_the_variants_differ(texts: dict[str, str]) -> None:
    """Could the test above tell one variant from another?"""
    assert len({small(text) for text in texts.values()}) == len({tuple(expected(name)) for name in VARIANTS}) == 3
