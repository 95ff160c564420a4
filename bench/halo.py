"""How much of MPI's communication time do neighbours need who read each other in place?

Two bound ranks, all ways in turn in one program (bench/halo/*.cpp), round after round. Communication is what an
iteration takes beyond the same iteration without neighbours on private memory. Ratios are of the same round; their
median with a 95 % interval. Where a flag takes now 30 and now 200 ns, as on virtual machines whose CPUs are moved,
rounds with near and with far cores are distinguished, and the criteria are for near ones.

rows    S1's five-point stencil in rows: at most 10 % of MPI_Sendrecv's time up to 32 KiB, 20 % at 64 KiB, 40 %
        above; and at least 40 % less than one copy
faces   3-D halos: at most half of the best MPI way's time up to 128^3 cells; up to 64 KiB at most 1.5 times what raw
        shared memory and one flag take
vectorised
        the examples' loops, with the information that nothing overlaps, against the same without it and not vectorised
        (S1.2), by the length of a row: never slower than without it
pages   a sweep over a field against private memory: within 5 % at 30 sizes, and as few page faults
python  what a call costs more than in C++: at most 1.5 us; and GHEX in the same process, if it is installed: at least 5
        times as much
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from support import console, finish, new_table, parser, two_cpus, verdict

from nearfield import _native, mpi
from nearfield.base.errors import MeasurementError
from nearfield.mpi import Installation
from nearfield.mpi.compiler import compiler_environment

HERE = Path(__file__).parent / "halo"
INCLUDE = Path(__file__).parents[1] / "include"
FLAGS = ["-std=c++20", "-O3", "-march=native", "-fopenmp-simd", "-ffast-math", "-Wno-missing-field-initializers"]
MPI_WAYS = ("sendrecv", "persistent", "neighborhood")
KIB = 1024
NEAR_NS = 100.0
NO_SLOWER = 1.02
Ratio = tuple[float, float, float]


def main(options: argparse.Namespace) -> dict[str, Any]:
    cpus = two_cpus(options.cpus)
    found = [mpi.choose_mpi(name) for name in options.mpi] if options.mpi else mpi.find_usable_mpis()
    results: dict[str, Any] = {}
    for inst in found:
        for part in PARTS if "all" in options.part else options.part:
            results[f"{inst.name} {part}"] = PARTS[part](inst, cpus, options.rounds)
    known = [r["met"] for r in results.values()]
    return {"met": None if None in known else all(known), "results": results}


def lines_of(
    inst: Installation,
    cpus: tuple[int, int],
    program: str,
    *arguments: object,
    flags: list[str] = FLAGS,
    parts: dict[str, list[str]] | None = None,
) -> list[dict[str, Any]]:
    """Builds a program of bench/halo for this MPI, runs it, and returns the lines it printed. `parts`: what else it
    consists of, each a file of bench/halo with flags of its own, by any name."""
    library = mpi.build_target(inst, mpi.HALO_TARGET, progress=lambda text: console.print(text, style="dim"))
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder:
        built = Path(folder) / program
        compiler = [str(inst.compiler), *flags, f"-I{INCLUDE}", f"-I{HERE}"]
        objects = [str(Path(folder) / f"{name}.o") for name in parts or {}]
        commands = [[*compiler, "-c", *own, "-o", to] for to, own in zip(objects, (parts or {}).values(), strict=True)]
        commands += [
            [*compiler, str(HERE / f"{program}.cpp"), *objects, "-o", str(built), str(library),
             f"-Wl,-rpath,{library.parent}"]
        ]  # fmt: skip
        env = {**os.environ, **inst.env, **compiler_environment(inst)}
        for command in commands:
            done = subprocess.run(command, env=env, capture_output=True, text=True)
            if done.returncode:
                raise MeasurementError(f"{program}.cpp cannot be built: {done.stderr[-2000:]}")
        return launched(inst, cpus, [str(built), *map(str, arguments)])


def launched(inst: Installation, cpus: tuple[int, int], argv: list[str], **env: str) -> list[dict[str, Any]]:
    env["BENCH_CPUS"] = ",".join(map(str, cpus))
    done = mpi.run(inst, argv, 2, timeout_s=1800, env=env)
    if done.exit_code:
        raise MeasurementError(f"{argv[0]} failed under {inst.name}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def by_nearness(lines: list[dict[str, Any]], least: int = 5) -> list[dict[str, Any]]:
    """Each line as up to two, with the rounds in which flags both ways took less than NEAR_NS, and the others; none of
    fewer rounds than `least`."""
    parts = []
    for line in lines:
        near = [flag < NEAR_NS for flag in line["ns"]["flag"]]
        for cores in ("near", "far"):
            chosen = [i for i, one in enumerate(near) if one == (cores == "near")]
            if len(chosen) >= least:
                times = {way: [values[i] for i in chosen] for way, values in line["ns"].items()}
                parts.append({**line, "ns": times, "cores": cores})
    return parts


def beyond(line: dict[str, Any], way: str) -> list[float]:
    """Communication time per round, ns."""
    return [a - b for a, b in zip(line["ns"][way], line["ns"]["alone"], strict=True)]


def ratio(above: list[float], below: list[float]) -> Ratio | None:
    """Median and interval of ratios by round; None where what stands below is lost in noise."""
    if sum(b > 0 for b in below) < 0.9 * len(below):
        return None
    found = _native.median_estimate([a / b for a, b in zip(above, below, strict=True) if b > 0])
    return (found.value, found.low, found.high)


def ratio_text(value: Ratio | None) -> str:
    return f"{value[0]:.2f} ({value[1]:.2f}-{value[2]:.2f})" if value else "noise"


def is_met(value: Ratio | None, maximum: float) -> bool | None:
    """Returns whether it is at most that; None if the interval does not decide."""
    if value is None:
        return None
    return True if value[2] <= maximum else False if value[1] > maximum else None


def report_cases(name: str, results: list[tuple[str, bool | None]]) -> bool | None:
    missed, open_ = [r[0] for r in results if r[1] is False], [r[0] for r in results if r[1] is None]
    met = False if missed else None if open_ else True
    if not results:
        verdict(None, f"{name}: the cores were never near")
        return None
    summary = f"{len(results) - len(missed) - len(open_)} of {len(results)} cases met"
    verdict(met, f"{name}: {summary}" + (f"; missed: {', '.join(missed)}" if missed else ""))
    return met


def rows(inst: Installation, cpus: tuple[int, int], rounds: int) -> dict[str, Any]:
    table = new_table(
        f"{inst.name}: five-point stencil in rows, communication per iteration", "rows, row, cores",
        "Sendrecv, in place, overlapped, of Sendrecv, overlapped of Sendrecv, overlapped of one copy",
    )  # fmt: skip
    judgements, lines = [], []
    for count in (8, 512):
        sizes = [2**i for i in range(9, 20)]
        lines += lines_of(inst, cpus, "rows", rounds, count, *sizes)
    for line in by_nearness(lines):
        size = line["row_bytes"]
        maximum = 0.1 if size <= 32 * KIB else 0.2 if size <= 64 * KIB else 0.4
        sendrecv = beyond(line, "sendrecv")
        plain, overlapped = (ratio(beyond(line, way), sendrecv) for way in ("in-place", "in-place overlapped"))
        copy = ratio(beyond(line, "in-place overlapped"), beyond(line, "direct"))
        best = min((r for r in (plain, overlapped) if r), default=None)
        name = f"{line['rows']:.0f} x {size:.0f} B"
        if line["cores"] == "near":
            judgements.append((f"{name} {ratio_text(best)}", is_met(best, maximum)))
            if copy:
                judgements.append((f"{name} {ratio_text(copy)} of one copy", is_met(copy, 0.6)))
        times = [statistics.median(beyond(line, way)) for way in ("sendrecv", "in-place", "in-place overlapped")]
        table.add_row(
            f"{line['rows']:.0f}", f"{size / KIB:g} KiB", line["cores"], *(f"{t / 1e3:.2f} us" for t in times),
            ratio_text(plain), ratio_text(overlapped), ratio_text(copy),
        )  # fmt: skip
    console.print(table)
    return {"met": report_cases("at most 10, 20, 40 % of Sendrecv, 60 % of one copy", judgements), "lines": lines}


def faces(inst: Installation, cpus: tuple[int, int], rounds: int) -> dict[str, Any]:
    ways = ("in-place", "direct", "staged", *MPI_WAYS)
    table = new_table(
        f"{inst.name}: halo of a cube of cells, communication", "cube, width, face, cores",
        ", ".join(f"{way} us" for way in ways) + ", of best MPI, of floor",
    )  # fmt: skip
    judgements, lines = [], []
    for width in (1, 2):
        lines += lines_of(inst, cpus, "faces", rounds, width, 0, 32, 64, 128, 256)
    for line in by_nearness(lines):
        times = {way: statistics.median(beyond(line, way)) for way in ways}
        best = min(MPI_WAYS, key=lambda way: times[way])
        of_mpi = ratio(beyond(line, "in-place"), beyond(line, best))
        of_floor = ratio(beyond(line, "in-place"), beyond(line, "floor"))
        name = f"{line['cells']:.0f}^3 width {line['width']:.0f}"
        if line["cores"] == "near" and line["cells"] <= 128:
            judgements.append((f"{name} {ratio_text(of_mpi)} of MPI", is_met(of_mpi, 0.5)))
        if line["cores"] == "near" and line["face_bytes"] <= 64 * KIB:
            judgements.append((f"{name} {ratio_text(of_floor)} of the floor", is_met(of_floor, 1.5)))
        table.add_row(
            f"{line['cells']:.0f}^3", f"{line['width']:.0f}", f"{line['face_bytes'] / KIB:.0f} KiB",
            line["cores"], *(f"{times[way] / 1e3:.2f}" for way in ways), ratio_text(of_mpi), ratio_text(of_floor),
        )  # fmt: skip
    console.print(table)
    return {"met": report_cases("half of the best MPI way, 1.5 times the floor", judgements), "lines": lines}


def vectorised(inst: Installation, cpus: tuple[int, int], rounds: int) -> dict[str, Any]:
    kernels = ("5 points", "7 points", "27 points")
    table = new_table(
        f"{inst.name}: sweeps over 16384 cells that are known not to overlap, of those that are not and of scalar ones",
        "row", ", ".join(f"{kernel} us, of unrestricted, of scalar" for kernel in kernels),
    )  # fmt: skip
    # None of the flags that have the compiler assume what only a person can know.
    flags = [flag for flag in FLAGS if flag not in ("-fopenmp-simd", "-ffast-math")]
    builds = {"restricted": [], "unrestricted": ["-DNEARFIELD_RESTRICT="], "scalar": ["-fno-tree-vectorize"]}
    parts = {name: [str(HERE / "loops.cpp"), f"-DLOOPS={name}", *own] for name, own in builds.items()}
    judgements = []
    lines = lines_of(inst, cpus, "vectorised", rounds, 8, 16, 64, 256, 1024, 4096, flags=flags, parts=parts)
    for line in lines:
        cells = []
        for kernel in kernels:
            restricted, unrestricted, scalar = (line["ns"][f"{kernel} {build}"] for build in builds)
            of_unrestricted, of_scalar = ratio(restricted, unrestricted), ratio(restricted, scalar)
            name = f"{kernel}, {line['row_cells']:.0f} cells"
            judgements += [(f"{name} {ratio_text(of_unrestricted)}", is_met(of_unrestricted, NO_SLOWER))]
            cells += [f"{statistics.median(restricted) / 1e3:.2f}", ratio_text(of_unrestricted), ratio_text(of_scalar)]
        table.add_row(f"{line['row_cells']:.0f}", *cells)
    console.print(table)
    return {"met": report_cases("never slower for the information", judgements), "lines": lines}


def pages(inst: Installation, cpus: tuple[int, int], rounds: int) -> dict[str, Any]:
    sizes = [round(512 ** (i / 29), 2) for i in range(30)]
    lines = lines_of(inst, cpus, "pages", max(rounds // 2, 5), *sizes)
    table = new_table(
        f"{inst.name}: sweep over memory of each rank", "MiB",
        "faults private, in place, window, private us, in place of private, window of private",
    )  # fmt: skip
    judgements = []
    for line in lines:
        of_private, window = (ratio(line["ns"][way], line["ns"]["private"]) for way in ("in-place", "window"))
        assert of_private
        difference = max(of_private[2] - 1, 1 - of_private[1])
        met = True if difference <= 0.05 else False if of_private[1] > 1.05 else None
        judgements.append((f"{line['mib']} MiB {ratio_text(of_private)}", met))
        counts = (f"{line[f'faults_{way}']:.0f}" for way in ("private", "in_place", "window"))
        private = statistics.median(line["ns"]["private"])
        table.add_row(f"{line['mib']}", *counts, f"{private / 1e3:.0f}", ratio_text(of_private), ratio_text(window))
    console.print(table)
    return {"met": report_cases("within 5 % of private memory", judgements), "lines": lines}


def python(inst: Installation, cpus: tuple[int, int], rounds: int) -> dict[str, Any]:
    env = {"MPI4PY_LIBMPI": str(inst.library), "LD_LIBRARY_PATH": str(inst.library.parent if inst.library else "")}
    env["MPI4PY_MPIABI"] = "openmpi" if inst.family == "openmpi" else "mpich"
    lines = launched(inst, cpus, [sys.executable, str(HERE / "calls.py"), str(rounds)], **env)
    judgements = []
    for line in lines:
        if "call_us" in line:
            call = _native.median_estimate(line["call_us"])
            result = f"a call costs {call.value:.2f} us ({call.low:.2f}-{call.high:.2f}) more than in C++"
            judgements.append((result, call.high <= 1.5))
        else:
            of_ours = ratio(line["ghex_us"], line["ours_us"])
            result = f"GHEX, {line['cells']}^3 width {line['width']}: {ratio_text(of_ours)} times ours"
            judgements.append((result, bool(of_ours and of_ours[1] >= 5)))
        console.print(f"{inst.name}: {result}")
    return {"met": report_cases("from Python", judgements), "lines": lines}


PARTS = {"rows": rows, "faces": faces, "vectorised": vectorised, "pages": pages, "python": python}

if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("part", nargs="*", choices=[*PARTS, "all"], default="all", help="which (default: all)")
    arguments.add_argument("--mpi", action="append", help="only this MPI (may be repeated)")
    arguments.add_argument("--cpus", help="the two CPUs, as 0,1")
    arguments.add_argument("--rounds", type=int, default=31)
    sys.exit(finish(main, arguments.parse_args()))
