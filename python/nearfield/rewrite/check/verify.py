"""Verifies a rewrite: compiles and runs both versions of the program, and compares everything they do bit by bit.

The comparison covers the output of each rank, exit codes, written files, the bytes of all messages of each rank by peer
and tag, and memory (the heap, static variables, arrays on the stack) after each execution of the rewritten region, at
collectives, when a block is freed, and in MPI_Finalize. It also covers the history of each byte of this memory: which
values the byte had, and how many reads saw each value. So a read that moves across a write is found even if the values
are the same. Both versions are linked with src/preload/verify, which makes early reads and late writes of message
buffers visible that otherwise depend on timing. If the original program works without buffered sends, sends wait for
their receives, as MPI allows.

Both versions are compiled with FLAGS and with the observer's hooks at loads and stores. Without optimisation, each load
in the source is a load of the program. Flags that allow reordering of sums, such as -Ofast, would round each copy of a
loop differently, so that a bitwise comparison would have no meaning."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nearfield import mpi
from nearfield.base.errors import UsageError
from nearfield.base.owned_folder import OwnedFolder
from nearfield.base.progress import ReportLine, ignore
from nearfield.mpi import Installation
from nearfield.observe import hooks
from nearfield.rewrite.check.build import (
    CompileError,
    Program,
    build_program,
    c_wrapper,
    compile_linked_sources,
    compiler_flags_of,
    include_folders,
    run_compiler,
)
from nearfield.rewrite.check.instrument import DECLARATIONS, insert_checks
from nearfield.rewrite.check.observed import Key, ObservedRun, compare_runs, read_run

FLAGS = ("-O0", "-ffp-contract=off")
RANKS = (1, 2, 3, 4)
RUN_LIMIT_S = 60.0  # time limit for a run of the original program
# A rewritten program counts as hanging if a run takes MAX_SLOWDOWN times as long as the original, at least MIN_LIMIT_S.
MAX_SLOWDOWN, MIN_LIMIT_S = 5.0, 5.0
_WRAPPED = (
    *("malloc", "calloc", "realloc", "free", "aligned_alloc", "memalign", "posix_memalign", "_mm_malloc", "_mm_free"),
    *("time", "clock", "gettimeofday", "clock_gettime", "omp_get_wtime"),
    *("_ZNSt6chrono3_V212system_clock3nowEv", "_ZNSt6chrono3_V212steady_clock3nowEv"),
    *hooks.WRAPPED_FUNCTIONS,
)


@dataclass(frozen=True)
class Verdict:
    """The result of a verification. `problem` describes a difference, '' if there is none; `notes` list what was not
    compared."""

    problem: str
    runs: int = 0
    messages: int = 0
    places: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def is_equivalent(self) -> bool:
        """Returns whether the rewritten program did the same as the original in all runs."""
        return not self.problem

    def __str__(self) -> str:
        if self.problem:
            return f"the rewritten program is not the same: {self.problem}"
        counts = f"{self.runs} runs, {self.messages} messages and memory at {self.places} places"
        return f"verified: the same bits in {counts}, compiled with {' '.join(FLAGS)}"


@dataclass
class _BaselineCase:
    """A baseline run of the original program with its results, and the keys of what differed in a second run of the
    original."""

    ranks: int
    arguments: tuple[str, ...]
    run: ObservedRun
    unstable: set[Key]

    @property
    def name(self) -> str:
        """Returns the number of ranks and the arguments of the run, in words."""
        return _run_name(self.ranks, self.arguments)

    @property
    def limit_s(self) -> float:
        """Returns the time in s after which a run of a rewritten program counts as hanging."""
        return max(MIN_LIMIT_S, MAX_SLOWDOWN * self.run.seconds)

    def difference_from(self, run: ObservedRun) -> str:
        """Returns how a run of a rewritten program differs from the baseline run of the original; '' if it does not."""
        if run.timed_out:
            return f"it hangs: it has not ended after {self.limit_s:.0f} s, the original takes {self.run.seconds:.1f} s"
        if self.run.is_complete and not run.is_complete:
            return f"it fails with exit code {run.exit_code}: {run.said or 'it wrote nothing'}"
        return next((found.text for found in compare_runs(self.run, run) if found.key not in self.unstable), "")


class Verifier:
    """Verifies rewritten texts of a program's source file against the original text. A context manager: all files are
    temporary and are removed at the end. Runs of the original are reused for the next text."""

    def __init__(
        self,
        program: Program,
        original: str,
        inst: Installation,
        *,
        ranks: Sequence[int] = RANKS,
        progress: ReportLine = ignore,
    ) -> None:
        self._program, self._original, self._inst = program, original, inst
        self._ranks, self._progress = tuple(ranks), progress
        self._synchronous = True
        self._known: dict[str, list[_BaselineCase]] = {}  # baseline runs by the instrumented text of the original
        self._notes: list[str] = []
        self._lock = threading.Lock()
        self._linked: list[str] | None = None

    def __enter__(self) -> Verifier:
        self._temporary = OwnedFolder("nearfield-rewrite-")
        self._folder = Path(self._temporary.name)
        (self._folder / "insertions.h").write_text(DECLARATIONS, encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()

    def verify(self, rewritten: str, alike: Sequence[str] = ()) -> Verdict:
        """Returns whether the program with this text is equivalent to the original. `alike` are other texts that change
        the same function; the original need not run again for them. Raises UsageError if the original program does not
        compile or run."""
        start = time.monotonic()
        before, after = self._instrument_both(rewritten, alike)
        with ThreadPoolExecutor(1) as pool:
            built = pool.submit(self._build_version, after)  # concurrently with the original's runs
            cases = self._baseline_cases(before)
        verdict = self._compare_cases(
            cases or self._baseline_cases(self._original), built if cases else None, rewritten
        )
        return replace(verdict, notes=tuple(dict.fromkeys(self._notes)), seconds=time.monotonic() - start)

    def _compare_cases(self, cases: list[_BaselineCase], built: Future[Path] | None, rewritten: str) -> Verdict:
        """Runs the rewritten program in each baseline case, and returns the first difference."""
        runs = messages = places = 0
        self._progress("compiling the rewritten program")
        try:
            executable = built.result() if built is not None else self._build_version(rewritten)
        except CompileError as error:
            return Verdict(f"it does not compile: {error.message}")
        for case in cases:
            self._progress(f"running the rewritten program {case.name}")
            run = self._run_version(executable, case.ranks, case.arguments, case.limit_s)
            if problem := case.difference_from(run):
                return Verdict(f"{case.name}, {problem}")
            runs, messages, places = runs + 1, messages + run.message_count, places + sum(run.checks_by_place.values())
        nothing = "no run sent a message, so nothing is proved; give arguments with --run by which it does"
        return Verdict("" if messages else nothing, runs, messages, places)

    def _baseline_cases(self, text: str) -> list[_BaselineCase]:
        """Returns the baseline runs of an original text, which are executed at the first call."""
        if text not in self._known:
            self._known[text] = self._run_original(text)
        return self._known[text]

    def _instrument_both(self, rewritten: str, alike: Sequence[str]) -> tuple[str, str]:
        """Returns the original and the rewritten text with memory checks inserted."""
        program = self._program
        flags = [f"-I{folder}" for folder in include_folders(self._inst)] + list(program.arguments)
        before, after = insert_checks(program.source, [self._original, rewritten], flags, alike)
        return before, after

    def _run_original(self, text: str) -> list[_BaselineCase]:
        """Runs the original program with each number of ranks and each set of arguments. Returns no runs if it compiles
        only without instrumentation. Raises UsageError if it does not compile or no run succeeds."""
        self._progress("compiling the original program")
        try:
            executable = self._build_version(text)
        except CompileError as error:
            if text != self._original:
                self._notes.append("arrays on the stack were not compared")
                return []
            raise UsageError(
                f"{self._program.source.name} does not compile by {self._inst.name}: {error.message}",
                "give its flags with --compile-commands, and other files of the program with --extra-source",
            ) from error
        cases, failures = [], []
        for arguments in self._program.runs:
            for ranks in self._ranks:
                self._progress(f"running the original program {_run_name(ranks, arguments)}")
                case = self._run_original_case(executable, ranks, arguments)
                if case.run.is_complete:
                    cases.append(case)
                else:
                    failures.append(f"{case.name}: {case.run.said or f'exit code {case.run.exit_code}'}")
        if not cases:
            raise UsageError(
                f"the original program does not run, {failures[0]}",
                "give arguments with --run, and the folder of its input with --input-dir",
            )
        self._notes += [f"not compared, since the original fails, {failure}" for failure in failures]
        return cases

    def _run_original_case(self, executable: Path, ranks: int, arguments: tuple[str, ...]) -> _BaselineCase:
        """Runs the original program twice, to find what differs between its runs. If it requires buffered sends, all
        further runs buffer them."""
        first = self._run_version(executable, ranks, arguments, RUN_LIMIT_S, synchronous=False)
        case = _BaselineCase(ranks, arguments, first, set())
        if not first.is_complete:
            return case
        second = self._run_version(executable, ranks, arguments, case.limit_s)
        if self._synchronous and not second.is_complete:
            self._synchronous = False
            self._notes.append("the original program itself hangs where MPI does not buffer what it sends")
            second = self._run_version(executable, ranks, arguments, case.limit_s)
        wrong = [text for rank in second.ranks for _, text in rank.wrong]
        self._notes += [f"the original program itself is in error: {text}" for text in wrong[:1]]
        case.unstable = {found.key for found in compare_runs(first, second)}
        self._notes += [
            f"not compared, since it differs between two runs of the original: {_key_in_words(k)}"
            for k in case.unstable
        ]
        return case

    def _build_version(self, text: str) -> Path:
        """Compiles and links the original or a rewritten program, and returns the path of the executable."""
        folder = Path(tempfile.mkdtemp(prefix="version-", dir=self._folder))
        program = replace(self._program, linked=tuple(self._linker_inputs()))
        if not layer_folder(self._inst).exists():
            self._progress("compiling nearfield's own part of the checks, once for this MPI")
        return build_program(program, self._inst, text, folder, self._compiler_flags(), layer_linker_inputs(self._inst))

    def _compiler_flags(self) -> list[str]:
        """Returns the compiler flags for a verified program: the program's own flags, FLAGS, and those for the
        observer's hooks."""
        header = self._folder / "insertions.h"
        compiler, language = (c_wrapper(self._inst), "cc") if self._program.is_c else (self._inst.compiler, "cxx")
        hooked = hooks.hook_options(str(compiler), hooks.LANGUAGES[language], links_library=False)
        return [
            *compiler_flags_of(self._program, keep_optimisation=False),
            *FLAGS, *hooked, "-fPIC", "-include", str(header),
        ]  # fmt: skip

    def _linker_inputs(self) -> list[str]:
        """Returns the linker inputs of the program; its other sources are compiled once for all rewritten texts."""
        with self._lock:
            if self._linked is None:
                self._linked = compile_linked_sources(
                    self._program, self._inst, self._folder / "linked", self._compiler_flags()
                )
        return self._linked

    def _run_version(
        self, executable: Path, ranks: int, arguments: tuple[str, ...], limit_s: float, synchronous: bool = True
    ) -> ObservedRun:
        """Runs the original or a rewritten program in a fresh working directory, and returns what it did."""
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder:
            logs, work = Path(folder) / "logs", Path(folder) / "work"
            logs.mkdir()
            if self._program.folder:
                shutil.copytree(self._program.folder, work)
            else:
                work.mkdir()
            env = {"NEARFIELD_VERIFY": str(logs), "OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1"}
            if synchronous and self._synchronous:
                env["NEARFIELD_VERIFY_SYNCHRONOUS"] = "1"
            name = self._folder / self._program.source.stem  # the same name for all versions, since programs print it
            name.unlink(missing_ok=True)
            name.hardlink_to(executable)  # a launcher would resolve a symbolic link
            argv = [str(name), *arguments]
            done = mpi.run(self._inst, argv, ranks, oversubscribe=True, timeout_s=limit_s, cwd=work, env=env)
            said = next(iter(done.words), "")
            return read_run(logs, work, done.exit_code, done.seconds, done.timed_out, said)


def layer_linker_inputs(inst: Installation) -> list[str]:
    """Returns the linker inputs for the verification layer (src/preload/verify) as objects. The first use with an MPI
    compiles them into the cache folder."""
    object_folder = layer_folder(inst)
    if not object_folder.exists():
        object_folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=object_folder.parent, ignore_cleanup_errors=True) as folder:
            made = Path(folder) / "made"
            made.mkdir()
            for compiler, suffix, flags in (
                (c_wrapper(inst), ".c", ["-std=gnu11"]),
                (inst.compiler, ".cpp", ["-std=c++20", "-fno-exceptions", "-fno-rtti"]),
            ):
                files = [str(source) for source in _layer_sources() if source.suffix == suffix]
                run_compiler([str(compiler), *flags, *_layer_flags(), "-c", *files], made, inst)
            with suppress(OSError):  # another process was first
                made.rename(object_folder)
    return [*map(str, sorted(object_folder.glob("*.o"))), *(f"-Wl,--wrap={name}" for name in _WRAPPED)]


def layer_folder(inst: Installation) -> Path:
    """Returns the cache folder for the objects of the verification layer with this MPI. The folder exists once they are
    compiled."""
    contents = (source.read_bytes() for source in _layer_sources())
    content = b"\0".join([str(c_wrapper(inst)).encode(), inst.version.encode(), *contents])
    return mpi.cache_root() / "rewrite" / hashlib.sha256(content).hexdigest()[:20]


def _layer_flags() -> list[str]:
    """Returns the compiler flags of the verification layer. Memory copies by the layer itself are not the program's, so
    they call the functions that the linker's --wrap redirects by their real names."""
    copies = [f"-D{name}=__real_{name}" for name in hooks.WRAPPED_FUNCTIONS]
    recorder = '-DNEARFIELD_RECORDER="preload/verify/recorder.hpp"'
    return ["-O3", "-fPIC", "-w", f"-I{mpi.native_source() / 'src'}", recorder, *copies]


def _layer_sources() -> list[Path]:
    """Returns the source files of the verification layer, and those of the observer's hooks, which are compiled for the
    layer's recorder."""
    folder = mpi.native_source() / "src/preload"
    names = ("atomics.cpp", "hook.hpp", "hooks.cpp", "ranges.cpp")
    return sorted([*(folder / "verify").glob("*.[ch]*"), *(folder / "observe" / name for name in names)])


def _run_name(ranks: int, arguments: tuple[str, ...]) -> str:
    """Returns the number of ranks and the arguments of a run, in words."""
    given = f" with '{shlex.join(arguments)}'" if arguments else ""
    return f"on {ranks} rank{'s' * (ranks > 1)}{given}"


def _key_in_words(key: Key) -> str:
    """Returns what a comparison key stands for in words, without the rank."""
    words = {
        "stdout": "what it prints",
        "stderr": "what it prints to standard error",
        "exit": "its exit code",
        "wrong": "use of buffers",
    }
    return words.get(key[0], key[2] if key[0] == "memory" else f"the {key[0]} {' '.join(key[1:])}")
