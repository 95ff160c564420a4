"""Lets readers read damaged files in processes of their own, and tells what came of each.

A worker is this file, started by `Worker`: it takes the numbers of damaged files, one a line, and answers in one line
each. It reads in its own process, through the command line's `main`, since starting Python for each file would take
most of the time. If it dies or hangs, the file that it was given is to blame, and another worker takes the next.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

LIMIT_S = 40
MAX_BYTES = 8 << 30  # of a worker's address space: what a damaged number asks for must not be taken from others
GOOD = ("ok", "refused")


@dataclass
class Result:
    """What a reader made of one damaged file."""

    reader: str
    number: int
    outcome: str  # ok, refused (exit codes 1 to 6), uncaught, crash, hang or litter
    details: str = ""  # the traceback, the signal, or what was left behind


@dataclass
class Tally:
    """Counts the outcomes of many files."""

    counts: Counter[str] = field(default_factory=Counter)
    bad: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.counts[result.outcome] += 1
        if result.outcome not in GOOD:
            self.bad.append(result)

    def __str__(self) -> str:
        words = ("ok", "refused", "uncaught", "crash", "hang", "litter")
        return ", ".join(f"{self.counts[word]} {word}" for word in words)


class Worker:
    """A process that reads damaged files of one reader; use it as a context."""

    def __init__(self, reader: str, folder: Path) -> None:
        self.reader, self.folder = reader, folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, number: int) -> Result:
        """Returns what came of the damaged file of this number."""
        process = self._process or self._start()
        assert process.stdin and process.stdout
        process.stdin.write(f"{number}\n".encode())
        process.stdin.flush()
        if not select.select([process.stdout], [], [], LIMIT_S)[0]:
            self._end()
            return Result(self.reader, number, "hang", f"no end after {LIMIT_S} s")
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self._end()
            return Result(self.reader, number, "crash", f"the process ended with {code}")
        return Result(self.reader, number, *json.loads(line))

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, __file__, self.reader, str(self.folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        if self._process.stdout and not self._process.stdout.readline():
            raise RuntimeError(f"the files of {self.reader} could not be made")
        return self._process

    def _end(self) -> None:
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def fuzz(name: str, numbers: Iterable[int], folder: Path, out: Path | None = None) -> Tally:
    """Returns what came of the damaged files of these numbers, and keeps those that failed in `out`."""
    tally = Tally()
    with Worker(name, folder) as worker:
        for number in numbers:
            result = worker.read(number)
            tally.add(result)
            if out and result.outcome not in GOOD:
                _keep(result, folder, out)
    return tally


def _keep(result: Result, folder: Path, out: Path) -> None:
    """Writes what went wrong, and the damaged file."""
    from readers import ALL

    saved = out / f"{result.reader}-{result.number}"
    saved.mkdir(parents=True, exist_ok=True)
    (saved / "told.txt").write_text(f"{result.outcome}\n{result.details}\n", errors="replace")
    shutil.rmtree(saved / "again", ignore_errors=True)
    shutil.copytree(folder / "seed", saved / "again", symlinks=True)
    file, use = ALL[result.reader].damage(saved / "again", result.number)
    (saved / "told.txt").open("a").write(f"damaged: {file.relative_to(saved)}, read by {use}\n")
    if file.is_file():
        shutil.copy(file, saved / file.name)
    shutil.rmtree(saved / "again")


# ---- in the worker


def _read(folder: Path, file: Path, use: object) -> tuple[str, str]:
    """Lets `use` read the damaged file, and returns the outcome."""
    try:
        if callable(use):
            _call(use, folder)
        else:
            _command([word.replace("{file}", str(file)).replace("{}", str(folder)) for word in use])  # type: ignore[attr-defined]
    except SystemExit as end:
        code = end.code or 0
        return ("ok" if code == 0 else "refused", "") if code in range(7) else ("uncaught", f"exit code {code}")
    except BaseException:  # also the panics of polars
        return "uncaught", f"{use}\n{traceback.format_exc()}"
    return "ok", ""


def _call(use: object, folder: Path) -> None:
    """Calls a function as `main` calls a verb."""
    from nearfield import cli
    from nearfield.cli import fast_dispatch

    def run(words: list[str]) -> bool:
        use(folder)  # type: ignore[operator]
        return True

    with mock.patch.object(fast_dispatch, "dispatch", run):
        cli.main()


def _command(words: list[str]) -> None:
    from nearfield import cli

    def become(program: str, argv: list[str], environment: dict[str, str]) -> None:
        """Ends where `run` would become the command."""
        sys.exit(0)

    with mock.patch.object(sys, "argv", ["nearfield", *words]), mock.patch.object(os, "execvpe", become):
        cli.main()


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Lets what is printed meanwhile go through real streams to nowhere."""
    streams = [io.TextIOWrapper(io.FileIO(os.open(os.devnull, os.O_WRONLY), "w"), "utf-8") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        yield
    for stream in streams:
        stream.close()


def _restore(seed: Path, folder: Path) -> list[str]:
    """Makes the folder as its seed is. Returns the hidden files that something left there."""
    left = []
    for path in sorted(folder.rglob("*"), reverse=True):
        twin = seed / path.relative_to(folder)
        if path.is_symlink() or path.is_dir() != twin.is_dir() or not twin.exists() or _differs(path, twin):
            left += [path.name] if path.name.startswith(".") and not twin.exists() else []
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for twin in sorted(seed.rglob("*")):
        path = folder / twin.relative_to(seed)
        if not path.exists():
            path.mkdir() if twin.is_dir() else shutil.copy2(twin, path)
    return left


def _differs(path: Path, twin: Path) -> bool:
    if path.is_dir():
        return False
    one, other = path.lstat(), twin.lstat()
    return (one.st_size, one.st_mtime_ns, one.st_mode) != (other.st_size, other.st_mtime_ns, other.st_mode)


def serve(name: str, folder: Path) -> None:
    """Reads numbers from standard input, and answers each on standard output."""
    from readers import ALL

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    seed, work = folder / "seed", folder / "work"
    if not (folder / "made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        work.mkdir(parents=True)  # where paths in the files point to
        ALL[name].seed(work)
        shutil.copytree(work, seed, symlinks=True)
        (folder / "made").touch()
    os.environ.setdefault("NEARFIELD_CACHE", str(folder / "cache"))
    os.chdir(folder)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        _restore(seed, work)
        file, use = ALL[name].damage(work, int(line))
        with _unheard():
            answer = _read(work, file, use)
        if answer[0] in GOOD and (left := _restore(seed, work)):
            answer = "litter", f"{use} left {left}"
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tempfile.tempdir = None
    serve(sys.argv[1], Path(sys.argv[2]))
