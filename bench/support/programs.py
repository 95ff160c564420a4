"""Benchmarks that everybody knows, run as they are: the Intel MPI Benchmarks, NetPIPE and HPCC."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Protocol

from nearfield import mpi
from nearfield.base.errors import MeasurementError, NearfieldError
from nearfield.mpi import Installation
from nearfield.mpi.detect_command import find_linked_mpi_library
from support.compare import Case, Criterion, Times, Turns, at_least, none_below
from support.imb import SONAME, find
from support.launches import Place, Way

SIZES = tuple(1 << power for power in range(2, 23, 2))  # 4 B to 4 MiB


class Program(Protocol):
    """One of them, as it runs under the MPIs that it can run under."""

    name: str

    def why_not(self, inst: Installation) -> str: ...
    def run(self, here: Place, way: Way, scratch: Path) -> Times: ...
    def criteria(self, turns: Turns, where: str) -> list[Criterion]: ...


class Imb:
    """IMB-MPI1. As given for an MPI, else that of the Intel MPI found here for all MPIs of its ABI."""

    name = "IMB"
    benchmarks = ("PingPong", "Sendrecv", "Exchange", "Alltoall", "Bcast", "Allreduce", "Allgather")
    least, first = 1.8, 4 << 10

    def __init__(self, given: list[str]) -> None:
        """`given`: MPI=FILE each."""
        pairs = (text.split("=", 1) for text in given)
        self._given = {mpi.choose_mpi(name).name: Path(file).absolute() for name, file in pairs}

    def why_not(self, inst: Installation) -> str:
        if inst.family == "openmpi" and inst.name not in self._given:
            return f"no IMB-MPI1 is linked to it (name one with --imb {inst.name}=FILE)"
        try:
            find(self._given.get(inst.name))
        except NearfieldError as error:
            return error.message
        return ""

    def run(self, here: Place, way: Way, scratch: Path) -> Times:
        sizes = scratch / "sizes"
        sizes.write_text("".join(f"{size}\n" for size in SIZES))
        program = find(self._given.get(here.inst.name))
        argv = [str(program), *self.benchmarks, "-msglen", str(sizes), "-time", "0.1", "-iter", "300", "-npmin", "2"]
        folder = self._library_folder(here.inst, program, scratch)
        path = os.pathsep.join(filter(None, [folder, os.environ.get("LD_LIBRARY_PATH", "")]))
        own = {"LD_LIBRARY_PATH": path} if folder else {}
        times = parse_tables(here.launch(argv, way.with_environment(own)))
        if missing := [name for name in self.benchmarks if name not in {case[0] for case in times}]:
            raise MeasurementError(f"{program} printed no table of {', '.join(missing)}")
        return times

    def criteria(self, turns: Turns, where: str) -> list[Criterion]:
        gains = turns.gains()
        long = [g for (_, size), g in gains.items() if int(size) >= self.first]
        return [at_least(self.least, long, f"{where}, 4 KiB to 4 MiB"), none_below(gains, where)]

    def _library_folder(self, inst: Installation, program: Path, scratch: Path) -> str:
        """Returns where the program finds this MPI by the name that it was linked to, or "" if it finds it without
        help."""
        linked = find_linked_mpi_library(program)
        assert inst.library
        if linked and linked.resolve() == inst.library:
            return ""
        if (inst.library.parent / SONAME).exists():
            return str(inst.library.parent)
        folder = scratch / inst.name
        folder.mkdir(exist_ok=True)
        if not (folder / SONAME).exists():
            (folder / SONAME).symlink_to(inst.library)
        return str(folder)


def parse_tables(text: str) -> Times:
    """Returns the times in IMB's tables, in which a line that begins with #bytes names the columns."""
    times: Times = {}
    name, column = "", 0
    for line in text.splitlines():
        if found := re.match(r"# Benchmarking (\w+)", line):
            name = found[1]
        words = line.split()
        if words[:1] == ["#bytes"]:
            column = words.index("t_avg[usec]") if "t_avg[usec]" in words else words.index("t[usec]")
        elif name and words and words[0].isdigit() and int(words[0]) > 0:
            times[name, int(words[0])] = float(words[column])
    return times


class _OfOneMpi:
    """A program that is linked to one MPI of this machine."""

    def __init__(self, name: str, program: str | None, remedy: str) -> None:
        self.name, self._remedy = name, remedy
        self._program = str(Path(program).absolute()) if program else ""

    def why_not(self, inst: Installation) -> str:
        if not self._program:
            return self._remedy
        linked = find_linked_mpi_library(Path(self._program))
        return "" if linked and linked.resolve() == inst.library else f"{self.name} is linked to {linked}"


class NetPipe(_OfOneMpi):
    def __init__(self) -> None:
        super().__init__("NetPIPE", shutil.which("NPopenmpi"), "no NPopenmpi (Debian: apt install netpipe-openmpi)")

    def run(self, here: Place, way: Way, scratch: Path) -> Times:
        out = scratch / "np.out"
        here.launch([self._program, "-p", "0", "-u", str(SIZES[-1]), "-o", str(out)], way, scratch)
        rows = [line.split() for line in out.read_text().splitlines()]
        return {("NetPIPE", int(size)): float(seconds) for size, _, seconds in rows if int(size) > 1}

    def criteria(self, turns: Turns, where: str) -> list[Criterion]:
        return [none_below(turns.gains(), where)]


class Hpcc(_OfOneMpi):
    """Two ranks, one matrix. Rates; the links' bandwidth is of messages of 2 MB."""

    least = 3.0
    links = (
        "AvgPingPongBandwidth_GBytes",
        "NaturallyOrderedRingBandwidth_GBytes",
        "RandomlyOrderedRingBandwidth_GBytes",
    )
    others = (
        *("HPL_Tflops", "StarDGEMM_Gflops", "SingleDGEMM_Gflops", "PTRANS_GBs"),
        *("MPIRandomAccess_GUPs", "StarRandomAccess_GUPs", "SingleRandomAccess_GUPs"),
        *("StarSTREAM_Triad", "SingleSTREAM_Triad", "SingleFFT_Gflops", "StarFFT_Gflops", "MPIFFT_Gflops"),
    )

    def __init__(self, program: Path | None, order: int) -> None:
        found = str(program) if program else shutil.which("hpcc")
        super().__init__("HPCC", found, "no hpcc (Debian: apt install hpcc; or --hpcc FILE)")
        self._order = order

    def run(self, here: Place, way: Way, scratch: Path) -> Times:
        (scratch / "hpccinf.txt").write_text(hpcc_input(self._order, columns=2))
        out = scratch / "hpccoutf.txt"
        out.unlink(missing_ok=True)  # it would be added to
        here.launch([self._program], way, scratch)
        values = dict(line.split("=", 1) for line in out.read_text().splitlines() if re.match(r"\w+=\S+$", line))
        if values.get("Success") != "1":
            raise MeasurementError("HPCC found its own results wrong", f"see a run of {self._program}")
        return {(name, ""): 1 / float(values[name]) for name in (*self.links, *self.others)}

    def criteria(self, turns: Turns, where: str) -> list[Criterion]:
        gains = turns.gains()
        links: list[Case] = [(name, "") for name in self.links]
        each = [at_least(self.least, [gains[case]], f"{where}, {case[0]}") for case in links]
        return [*each, none_below({case: g for case, g in gains.items() if case not in links}, f"{where}, the others")]


def hpcc_input(order: int, columns: int) -> str:
    """Returns hpccinf.txt: HPL's own example, but for the order of the matrix and a process grid of one row."""
    return _HPCC_INPUT.format(order=order, columns=columns)


_HPCC_INPUT = """HPLinpack benchmark input file
as nearfield's benches write it
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{order}      Ns
1            # of NBs
128          NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
1            Ps
{columns}            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""
