"""Verifies a rewrite: compiles and runs both versions of the program, and compares everything they do bit by bit.

The comparison covers the output of each rank, exit codes, written files, the bytes of all messages of each rank by peer
and tag, and memory (the heap, static variables, arrays on the stack) after each execution of the rewritten region, at
collectives, when a block is freed, and in MPI_Finalize. It also covers the history of each byte of this memory: which
values the byte had, and how many reads saw each value. So a read that moves across a write is found even if the values
are the same. Both versions are linked with src/preload/verify, which reveals reads of message buffers that come too
early and writes that come too late, independently of timing. If the original program works without buffered sends,
sends wait for their receives, as MPI allows.

Both versions are compiled with COMPILER_FLAGS and with the observer's hooks at loads and stores. Without optimisation,
each load in the source is a load of the program. Flags that allow reordering of sums, such as -Ofast, would round each
copy of a loop differently, so that a bitwise comparison would have no meaning."""

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
from nearfield.base.progress import ReportLine, ignore_progress
from nearfield.mpi import Installation
from nearfield.observe import hooks
from nearfield.rewrite.check.build import (
    CompileError,
    Program,
    build_program,
    c_compiler_wrapper,
    compile_linked_sources,
    compiler_flags_of,
    mpi_include_folders,
    run_compiler,
)
from nearfield.rewrite.check.instrument import DECLARATIONS, insert_memory_checks
from nearfield.rewrite.check.observed import ComparisonKey, ObservedRun, compare_runs, read_run

COMPILER_FLAGS = ("-O0", "-ffp-contract=off")
RANK_COUNTS = (1, 2, 3, 4)
RUN_LIMIT_S = 60.0  # time limit for a run of the original program
# A rewritten program counts as hanging if a run takes MAX_SLOWDOWN times as long as the original, at least
# MIN_HANG_LIMIT_S.
MAX_SLOWDOWN, MIN_HANG_LIMIT_S = 5.0, 5.0
_WRAPPED_FUNCTIONS = (
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
    num_runs: int = 0
    num_messages: int = 0
    num_places: int = 0
    notes: tuple[str, ...] = ()
    duration_s: float = 0.0

    @property
    def is_equivalent(self) -> bool:
        """Returns whether the rewritten program did the same as the original in all runs."""
        return not self.problem

    def __str__(self) -> str:
        if self.problem:
            return f"the rewritten program is not the same: {self.problem}"
        counts = f"{self.num_runs} runs, {self.num_messages} messages and memory at {self.num_places} places"
        return f"verified: the same bits in {counts}, compiled with {' '.join(COMPILER_FLAGS)}"


@dataclass
class _BaselineCase:
    """A baseline run of the original program with its results, and the keys of what differed in a second run of the
    original."""

    num_ranks: int
    arguments: tuple[str, ...]
    run: ObservedRun
    unstable_keys: set[ComparisonKey]

    @property
    def name(self) -> str:
        """Returns a human-readable description of the run: number of ranks and program arguments."""
        return _format_run_name(self.num_ranks, self.arguments)

    @property
    def hang_limit_s(self) -> float:
        """Returns the time in s after which a run of a rewritten program counts as hanging."""
        return max(MIN_HANG_LIMIT_S, MAX_SLOWDOWN * self.run.duration_s)

    def difference_from(self, run: ObservedRun) -> str:
        """Returns how a run of a rewritten program differs from the baseline run of the original; '' if it does not."""
        if run.has_timed_out:
            original = f"the original takes {self.run.duration_s:.1f} s"
            return f"it hangs: it has not ended after {self.hang_limit_s:.0f} s, {original}"
        if self.run.is_complete and not run.is_complete:
            return f"it fails with exit code {run.exit_code}: {run.first_error_line or 'it wrote nothing'}"
        return next((found.text for found in compare_runs(self.run, run) if found.key not in self.unstable_keys), "")


class Verifier:
    """Verifies rewritten texts of a program's source file against the original text. A context manager: all files are
    temporary and are removed at the end. Runs of the original are reused for the next text."""

    def __init__(
        self,
        program: Program,
        original: str,
        inst: Installation,
        *,
        rank_counts: Sequence[int] = RANK_COUNTS,
        progress: ReportLine = ignore_progress,
    ) -> None:
        self._program, self._original, self._inst = program, original, inst
        self._rank_counts, self._progress = tuple(rank_counts), progress
        self._uses_synchronous_sends = True
        # baseline runs by the instrumented text of the original
        self._baseline_by_text: dict[str, list[_BaselineCase]] = {}
        self._notes: list[str] = []
        self._lock = threading.Lock()
        self._compiled_linker_inputs: list[str] | None = None

    def __enter__(self) -> Verifier:
        self._temporary = OwnedFolder("nearfield-rewrite-")
        self._folder = Path(self._temporary.name)
        (self._folder / "insertions.h").write_text(DECLARATIONS, encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()

    def verify(self, rewritten: str, similar_texts: Sequence[str] = ()) -> Verdict:
        """Returns whether the program with this text is equivalent to the original. `similar_texts` are other texts
        that change the same function; the original need not run again for them. Raises UsageError if the original
        program does not compile or run."""
        start = time.monotonic()
        instrumented_original, instrumented_rewritten = self._instrument_both(rewritten, similar_texts)
        with ThreadPoolExecutor(1) as pool:
            executable = pool.submit(
                self._build_version, instrumented_rewritten
            )  # concurrently with the original's runs
            cases = self._baseline_cases(instrumented_original)
        verdict = self._compare_cases(
            cases or self._baseline_cases(self._original), executable if cases else None, rewritten
        )
        return replace(verdict, notes=tuple(dict.fromkeys(self._notes)), duration_s=time.monotonic() - start)

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
            run = self._run_version(executable, case.num_ranks, case.arguments, case.hang_limit_s)
            if problem := case.difference_from(run):
                return Verdict(f"{case.name}, {problem}")
            runs, messages, places = (
                runs + 1,
                messages + run.num_messages,
                places + sum(run.num_checks_by_place.values()),
            )
        nothing = "no run sent a message, so nothing is proved; give arguments with --run by which it does"
        return Verdict("" if messages else nothing, runs, messages, places)

    def _baseline_cases(self, text: str) -> list[_BaselineCase]:
        """Returns the baseline runs of an original text, which are executed at the first call."""
        if text not in self._baseline_by_text:
            self._baseline_by_text[text] = self._run_original(text)
        return self._baseline_by_text[text]

    def _instrument_both(self, rewritten: str, similar_texts: Sequence[str]) -> tuple[str, str]:
        """Returns the original and the rewritten text with memory checks inserted."""
        program = self._program
        flags = [f"-I{folder}" for folder in mpi_include_folders(self._inst)] + list(program.arguments)
        instrumented_original, instrumented_rewritten = insert_memory_checks(
            program.source, [self._original, rewritten], flags, similar_texts
        )
        return instrumented_original, instrumented_rewritten

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
        for arguments in self._program.arguments_by_run:
            for num_ranks in self._rank_counts:
                self._progress(f"running the original program {_format_run_name(num_ranks, arguments)}")
                case = self._run_original_case(executable, num_ranks, arguments)
                if case.run.is_complete:
                    cases.append(case)
                else:
                    failures.append(f"{case.name}: {case.run.first_error_line or f'exit code {case.run.exit_code}'}")
        if not cases:
            raise UsageError(
                f"the original program does not run, {failures[0]}",
                "give arguments with --run, and the folder of its input with --input-dir",
            )
        self._notes += [f"not compared, since the original fails, {failure}" for failure in failures]
        return cases

    def _run_original_case(self, executable: Path, num_ranks: int, arguments: tuple[str, ...]) -> _BaselineCase:
        """Runs the original program twice, to find what differs between its runs. If it requires buffered sends, all
        further runs buffer them."""
        first = self._run_version(executable, num_ranks, arguments, RUN_LIMIT_S, uses_synchronous_sends=False)
        case = _BaselineCase(num_ranks, arguments, first, set())
        if not first.is_complete:
            return case
        second = self._run_version(executable, num_ranks, arguments, case.hang_limit_s)
        if self._uses_synchronous_sends and not second.is_complete:
            self._uses_synchronous_sends = False
            self._notes.append("the original program itself hangs where MPI does not buffer what it sends")
            second = self._run_version(executable, num_ranks, arguments, case.hang_limit_s)
        misuses = [text for rank in second.ranks for _, text in rank.buffer_misuses]
        self._notes += [f"the original program itself is in error: {text}" for text in misuses[:1]]
        case.unstable_keys = {found.key for found in compare_runs(first, second)}
        self._notes += [
            f"not compared, since it differs between two runs of the original: {_describe_comparison_key(k)}"
            for k in case.unstable_keys
        ]
        return case

    def _build_version(self, text: str) -> Path:
        """Compiles and links the original or a rewritten program, and returns the path of the executable."""
        folder = Path(tempfile.mkdtemp(prefix="version-", dir=self._folder))
        program = replace(self._program, linker_inputs=tuple(self._linker_inputs()))
        if not layer_folder(self._inst).exists():
            self._progress("compiling nearfield's own part of the checks, once for this MPI")
        return build_program(program, self._inst, text, folder, self._compiler_flags(), layer_linker_inputs(self._inst))

    def _compiler_flags(self) -> list[str]:
        """Returns the compiler flags for a verified program: the program's own flags, COMPILER_FLAGS, and those for the
        observer's hooks."""
        header = self._folder / "insertions.h"
        compiler, language = (
            (c_compiler_wrapper(self._inst), "cc") if self._program.is_c else (self._inst.compiler, "cxx")
        )
        hooked = hooks.hook_options(str(compiler), hooks.LANGUAGES[language], links_library=False)
        return [
            *compiler_flags_of(self._program, keeps_optimization=False),
            *COMPILER_FLAGS, *hooked, "-fPIC", "-include", str(header),
        ]  # fmt: skip

    def _linker_inputs(self) -> list[str]:
        """Returns the linker inputs of the program; its other sources are compiled once for all rewritten texts."""
        with self._lock:
            if self._compiled_linker_inputs is None:
                self._compiled_linker_inputs = compile_linked_sources(
                    self._program, self._inst, self._folder / "linked", self._compiler_flags()
                )
        return self._compiled_linker_inputs

    def _run_version(
        self,
        executable: Path,
        num_ranks: int,
        arguments: tuple[str, ...],
        limit_s: float,
        uses_synchronous_sends: bool = True,
    ) -> ObservedRun:
        """Runs the original or a rewritten program in a fresh working directory, and returns what it did."""
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder:
            log_folder, work_folder = Path(folder) / "logs", Path(folder) / "work"
            log_folder.mkdir()
            if self._program.input_folder:
                shutil.copytree(self._program.input_folder, work_folder)
            else:
                work_folder.mkdir()
            env = {"NEARFIELD_VERIFY": str(log_folder), "OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1"}
            if uses_synchronous_sends and self._uses_synchronous_sends:
                env["NEARFIELD_VERIFY_SYNCHRONOUS"] = "1"
            program_path = (
                self._folder / self._program.source.stem
            )  # the same name for all versions, since programs print it
            program_path.unlink(missing_ok=True)
            program_path.hardlink_to(executable)  # a launcher would resolve a symbolic link
            argv = [str(program_path), *arguments]
            result = mpi.run(
                self._inst, argv, num_ranks, oversubscribe=True, timeout_s=limit_s, cwd=work_folder, env=env
            )
            first_line = next(iter(result.output_lines), "")
            return read_run(log_folder, work_folder, result.exit_code, result.seconds, result.timed_out, first_line)


def layer_linker_inputs(inst: Installation) -> list[str]:
    """Returns the linker inputs for the verification layer (src/preload/verify) as objects. The first use with an MPI
    compiles them into the cache folder."""
    object_folder = layer_folder(inst)
    if not object_folder.exists():
        object_folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=object_folder.parent, ignore_cleanup_errors=True) as folder:
            object_files = Path(folder) / "made"
            object_files.mkdir()
            for compiler, suffix, flags in (
                (c_compiler_wrapper(inst), ".c", ["-std=gnu11"]),
                (inst.compiler, ".cpp", ["-std=c++20", "-fno-exceptions", "-fno-rtti"]),
            ):
                files = [str(source) for source in _layer_sources() if source.suffix == suffix]
                run_compiler([str(compiler), *flags, *_layer_flags(), "-c", *files], object_files, inst)
            with suppress(OSError):  # another process was first
                object_files.rename(object_folder)
    return [*map(str, sorted(object_folder.glob("*.o"))), *(f"-Wl,--wrap={name}" for name in _WRAPPED_FUNCTIONS)]


def layer_folder(inst: Installation) -> Path:
    """Returns the cache folder for the objects of the verification layer with this MPI. The folder exists once they are
    compiled."""
    contents = (source.read_bytes() for source in _layer_sources())
    content = b"\0".join([str(c_compiler_wrapper(inst)).encode(), inst.version.encode(), *contents])
    return mpi.cache_root() / "rewrite" / hashlib.sha256(content).hexdigest()[:20]


def _layer_flags() -> list[str]:
    """Returns the compiler flags of the verification layer. The linker's --wrap redirects the program's calls of memory
    functions to the layer; the layer's own copies must not be recorded, so they call the real functions."""
    copies = [f"-D{name}=__real_{name}" for name in hooks.WRAPPED_FUNCTIONS]
    recorder = '-DNEARFIELD_RECORDER="preload/verify/recorder.hpp"'
    return ["-O3", "-fPIC", "-w", f"-I{mpi.native_source_folder() / 'src'}", recorder, *copies]


def _layer_sources() -> list[Path]:
    """Returns the source files of the verification layer, and those of the observer's hooks, which are compiled for the
    layer's recorder."""
    folder = mpi.native_source_folder() / "src/preload"
    names = ("atomics.cpp", "hook.hpp", "hooks.cpp", "ranges.cpp")
    return sorted([*(folder / "verify").glob("*.[ch]*"), *(folder / "observe" / name for name in names)])


def _format_run_name(num_ranks: int, arguments: tuple[str, ...]) -> str:
    """Returns the number of ranks and the arguments of a run, in words."""
    arguments_text = f" with '{shlex.join(arguments)}'" if arguments else ""
    return f"on {num_ranks} rank{'s' * (num_ranks > 1)}{arguments_text}"


def _describe_comparison_key(key: ComparisonKey) -> str:
    """Returns what a comparison key stands for in words, without the rank."""
    text_by_key = {
        "stdout": "what it prints",
        "stderr": "what it prints to standard error",
        "exit": "its exit code",
        "wrong": "use of buffers",
    }
    return text_by_key.get(key[0], key[2] if key[0] == "memory" else f"the {key[0]} {' '.join(key[1:])}")
