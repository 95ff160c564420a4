"""Starts verbs as a person at a terminal does, ends them at some moment of their life, and looks at what is left.

Ctrl-C is typed into a terminal, so that the kernel sends it to the whole foreground group; SIGTERM goes to nearfield
alone, as batch systems send it. Where it is possible (as root) a verb sees a /dev/shm of its own.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nearfield import mpi
from nearfield.mpi import Installation
from nearfield.mpi.compiler import compiler_environment
from nearfield.rewrite.check.build import c_compiler_wrapper

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
MARK = "INTERRUPTED_TEST"
BAR_S = 5.0  # within which a verb has ended after a signal
PATIENCE_S = 60.0  # after which it is killed
FAMILY = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}

APP = """
#include <mpi.h>
#include <unistd.h>
static double block[65536];
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  for (int step = 0; step < 150; step++) {
    MPI_Allreduce(MPI_IN_PLACE, block, 65536, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < 65536; i++) block[i] = 0.5 * block[i] + step;
    usleep(10000);
  }
  MPI_Finalize();
  return 0;
}
"""


@dataclass(frozen=True)
class Verb:
    """A command line in a folder of `prepare_field`; {mpirun} starts two ranks."""

    name: str
    words: str
    passes_exit_code: bool = False  # the exit code is that of the user's command
    cold: bool = False  # with an empty cache, so that it builds


VERBS = {
    verb.name: verb
    for verb in (
        Verb("probe", "probe --quick --budget 15 --scenario floor,pingpong -o out"),
        Verb("tune", "tune --budget 20 --sizes 8,64KiB -o tuned.toml"),
        Verb("tune-native", "tune --collectives --native --budget 20 --sizes 8,64KiB -o native.toml"),
        Verb("report", "report p -o page.html"),
        Verb("show", "show p --scenario pingpong"),
        Verb("diff", "diff p q"),
        Verb("run", "run --rules rules.toml --force -- {mpirun} ./app", passes_exit_code=True),
        Verb("run-explain", "run --explain --rules rules.toml --force -- {mpirun} ./app", passes_exit_code=True),
        Verb("forecast", "forecast -p p -- {mpirun} ./app", passes_exit_code=True),
        Verb("tune-all-mpis", "tune --all-mpis --budget 20 --sizes 8,64KiB"),
        Verb("demo", "demo"),
        Verb("compare", "compare -n 2 --rules rules.toml --force -- {mpirun} ./app"),
        Verb("export", "export --rules rules.toml -o exported.sh"),
        Verb("plan", "plan 512x512x512 -n 64 --on power5-redstorm"),
        Verb("simulate", "simulate allreduce --nodes 16 --sizes 1K..256K -o simulated"),
        Verb("simulate-run", "simulate run t --on leo3 --jobs 2"),
        Verb("simulate-trace", "simulate trace accesses.din"),
        Verb("observe", "observe -o t2 -- {mpirun} ./hooked", passes_exit_code=True),
        Verb("observe-show", "observe show t"),
        Verb("advise", "advise t -p p --sarif notes.sarif"),
        Verb("rewrite", "rewrite rewrite_stencil.c --all --report page.html"),
        Verb("rewrite-verify", "rewrite rewrite_stencil.c --only overlap --verify --ranks 2"),
        Verb("reproduce", "reproduce S4.1 S0.1 --quick -o reproduced"),
        Verb("machine-list", "machine list"),
        Verb("machine-check", "machine check power5-redstorm leo3"),
        Verb("machine-show", "machine show leo3"),
        Verb("machine-new", "machine new --from here -o new.toml"),
        Verb("machine-diff", "machine diff leo3 vsc2"),
        Verb("machine-calibrate", "machine calibrate -o calibrated.toml"),
        Verb("machine-validate", "machine validate leo3 --against p --force -o validation.html"),
        Verb("halo", "halo", cold=True),
        Verb("mpi-build", "mpi --build --mpi {mpi}", cold=True),
        Verb("build", "build --mpi {mpi}", cold=True),
        Verb("verify", "verify p"),
        Verb("site", "site prefix rules.toml"),
        Verb("doctor", "doctor"),
        Verb("doctor-sweep", "doctor --sweep"),
        Verb("rules-list", "rules list"),
        Verb("rules-check", "rules check rules.toml --library"),
        Verb("topology", "topology"),
        Verb("cc", "cc -O2 -c rewrite_rows.c -o rows.o", passes_exit_code=True),
        Verb("completion", "--show-completion bash"),
    )
}


@dataclass
class Try:
    """What came of one signal."""

    verb: str
    signal: str
    after_s: float  # from the start to the signal
    code: int = 0
    took_s: float = 0.0  # from the signal until nothing ran any more
    hit: bool = False  # the verb was alive
    wrong: tuple[str, ...] = ()
    output: str = ""

    @property
    def began(self) -> bool:
        """Says whether nearfield's own first line had been reached; before it Python itself reports Ctrl-C."""
        return "Traceback" not in self.output or "nearfield/__main__.py" in self.output


class Field:
    """A folder with everything that verbs take, and a warm cache. Each try works in a copy."""

    def __init__(self, folder: Path, inst: Installation) -> None:
        self.folder, self.inst = folder, inst
        self.seed, self.cache = folder / "seed", folder / "cache"

    def prepare(self, names: list[str]) -> None:
        """Makes what these verbs take."""
        self.seed.mkdir(parents=True)
        shutil.copytree(DATA / "epyc-vm-quiet", self.seed / "p")
        shutil.copytree(DATA / "epyc-vm-busy", self.seed / "q")
        shutil.copy(DATA / "rules" / "openmpi-5.0.11.toml", self.seed / "rules.toml")
        for source in ("rewrite_stencil.c", "rewrite_rows.c"):
            shutil.copy(ROOT / "tests/programs" / source, self.seed)
        accesses = (f"{i % 2} {64 * (i * 7919 % 100003):x}\n" for i in range(400_000))
        (self.seed / "accesses.din").write_text("".join(accesses))
        if any("{mpirun}" in VERBS[name].words or " t" in VERBS[name].words for name in names):
            self._programs()

    def _programs(self) -> None:
        compiler = str(c_compiler_wrapper(self.inst))
        environment = {**self.environment(self.folder), **self.inst.env, **compiler_environment(self.inst)}
        (self.seed / "app.c").write_text(APP)
        commands = [
            [compiler, "-O1", "app.c", "-o", "app"],
            [*_NEARFIELD, "cc", "-O1", "-g", "app.c", "-o", "hooked"],
            [*_NEARFIELD, "observe", "-o", "t", "--", *self.mpirun(), "./hooked"],
        ]
        for command in commands:
            done = subprocess.run(command, cwd=self.seed, env={**environment, "NEARFIELD_CC": compiler},
                                  capture_output=True, text=True, timeout=120)  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr

    def mpirun(self) -> list[str]:
        return [str(self.inst.launcher), *(["--oversubscribe"] if self.inst.family == "openmpi" else []), "-n", "2"]

    def environment(self, scratch: Path) -> dict[str, str]:
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        ours = {"NEARFIELD_CACHE": str(self.cache), "TMPDIR": str(scratch), "TERM": "xterm", "COLUMNS": "120"}
        return {**os.environ, **as_root, **ours}

    def command(self, verb: Verb) -> list[str]:
        words = verb.words.replace("{mpi}", self.inst.name).split()
        return [*_NEARFIELD, *(each for word in words for each in (self.mpirun() if word == "{mpirun}" else [word]))]


_NEARFIELD = [sys.executable, "-m", "nearfield"]


@contextmanager
def prepare_field(names: list[str]) -> Iterator[Field]:
    """Yields a field for these verbs, which is removed at the end."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="int-"))  # a short name: there will be sockets in it
    try:
        field = Field(folder, mpi.find_usable_mpis()[0])
        field.prepare(names)
        yield field
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_undisturbed(field: Field, verb: Verb) -> Try:
    """Returns what comes of a verb that nobody interrupts for 20 s, with its lifetime as `after_s`."""
    return end(field, verb, None, 20.0)


def end(field: Field, verb: Verb, number: signal.Signals | None, after_s: float, natural: int = 0) -> Try:
    """Starts a verb, ends it after these seconds, and returns what came of it; without a signal it waits until then or
    until the end of the verb. `natural` is the exit code that the verb has without a signal, which it may have, too, if
    the signal came in its last moment."""
    work = Path(tempfile.mkdtemp(dir=field.folder, prefix="w"))
    scratch, shm = work / "tmp", work / "shm"
    shutil.copytree(field.seed, work / "d", symlinks=True)
    scratch.mkdir()
    shm.mkdir(mode=0o1777)
    mark = uuid.uuid4().hex
    environment = {**field.environment(scratch), MARK: mark}
    if verb.cold:
        environment["NEARFIELD_CACHE"] = str(work / "cold")
    before = set((work / "d").rglob("*"))
    try:
        with _Terminal(_with_shm(shm, field.command(verb)), work / "d", environment) as terminal:
            found = _end_verb(terminal, mark, Try(verb.name, number.name if number else "", after_s), number)
        found.wrong = tuple(_wrong(found, verb, work, before, natural)) if number and found.hit else ()
        return found
    finally:
        _kill(mark)
        shutil.rmtree(work, ignore_errors=True)


def _end_verb(terminal: _Terminal, mark: str, found: Try, number: signal.Signals | None) -> Try:
    begun = time.monotonic()
    terminal.wait(found.after_s)
    found.hit = terminal.code() is None
    found.after_s = time.monotonic() - begun
    if number is None:
        found.code, found.output = terminal.code() or 0, terminal.text()
        return found
    signalled = time.monotonic()
    terminal.send(number)
    terminal.wait(PATIENCE_S)
    while _find_marked(mark) and time.monotonic() - signalled < PATIENCE_S:
        time.sleep(0.02)
    found.took_s = time.monotonic() - signalled
    code = terminal.code()
    found.code = -99 if code is None else code
    found.output = terminal.text()
    return found


class _Terminal:
    """A process that has a terminal of its own."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._pid, self._master = pty.fork()
        if self._pid == 0:
            try:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                os.chdir(folder)
                os.execvpe(command[0], command, environment)
            finally:
                os._exit(127)
        self._read, self._code = bytearray(), None

    def __enter__(self) -> _Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.code() is None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._master)

    def wait(self, seconds: float) -> None:
        """Reads what is printed until the process has ended, or the time is over."""
        deadline = time.monotonic() + seconds
        while self.code() is None and (left := deadline - time.monotonic()) > 0:
            self._take(min(left, 0.02))
        self._take(0.05 if self._code is not None else 0)

    def _take(self, seconds: float) -> None:
        with suppress(OSError):  # all others have closed the terminal
            if select.select([self._master], [], [], seconds)[0]:
                self._read += os.read(self._master, 65536)
                return
        if self._code is None and seconds:
            time.sleep(0.005)

    def code(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, OSError):
            if number == signal.SIGINT:
                os.write(self._master, b"\x03")
            elif self._code is None:
                os.kill(self._pid, number)

    def text(self) -> str:
        return self._read.decode(errors="replace")


@cache
def _can_mount() -> bool:
    done = subprocess.run(["unshare", "-m", "true"], capture_output=True) if shutil.which("unshare") else None
    return done is not None and done.returncode == 0


def _with_shm(shm: Path, command: list[str]) -> list[str]:
    """Returns the command with this folder as its /dev/shm; as it is, where that takes another user."""
    if not _can_mount():
        return command
    return ["unshare", "-m", "sh", "-c", f'mount --bind {shm} /dev/shm && exec "$@"', "sh", *command]


# ---- what is left


def _find_marked(mark: str) -> list[int]:
    """Returns the processes with the mark in their environment, without zombies and without those that end."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def _kill(mark: str) -> None:
    for pid in _find_marked(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _wrong(found: Try, verb: Verb, work: Path, before: set[Path], natural: int) -> Iterator[str]:
    if found.took_s > BAR_S:
        yield f"took {found.took_s:.1f} s"
    expected = 128 + FAMILY[found.signal]
    as_shells_say = found.code if found.code >= 0 else 128 - found.code
    if not verb.passes_exit_code and as_shells_say not in (expected, natural):
        yield f"exit code {found.code}"
    for words in ("Traceback", "nanobind", "Exception ignored", "terminate called"):
        if words in found.output:
            yield words
            break
    for folder, what in ((work / "tmp", "temporary"), (work / "shm", "shared memory")):
        if left := sorted(path.name for path in folder.iterdir()):
            yield f"{what} left: {', '.join(left)}"
    yield from _half_written(work / "d", before)


def _half_written(folder: Path, before: set[Path]) -> Iterator[str]:
    """Yields what is wrong with the files that the verb wrote."""
    for path in sorted(set(folder.rglob("*")) - before):
        if path.name.startswith(".") or re.search(r"\.(new|old|tmp)\b", path.name):
            yield f"left: {path.relative_to(folder)}"
        elif path.suffix == ".html" and not path.read_text().rstrip().endswith("</html>"):
            yield f"half written: {path.name}"
        elif path.suffix in (".json", ".sarif"):
            try:
                json.loads(path.read_text())
            except ValueError:
                yield f"half written: {path.name}"
