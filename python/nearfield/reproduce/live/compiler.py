"""Determines from the vectorization report of the host's C compiler which of the loops of paper S1, section IV-A,
(papers/S1/loop.c) it vectorizes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from nearfield.base.files import find_shipped_folder
from nearfield.reproduce.outcome import Answer

# Compiler family -> the options that enable the vectorization report, and the pattern of a vectorized loop in it.
REPORT_OPTIONS = {
    "gcc": (("-fopt-info-vec-optimized",), r":(\d+):\d+: optimized: loop vectorized"),
    "clang": (("-Rpass=loop-vectorize",), r":(\d+):\d+: remark: vectorized loop"),
}


def answer_by_compiler(question: str) -> Answer:
    """Returns the answer to a question of COMPILER_QUESTIONS from the compiler's vectorization report; "cannot tell" if
    there is no C compiler or no report."""
    command = compiler_command()
    if not command:
        return Answer(answer="cannot tell", ours="there is no C compiler here; $CC may name one")
    version = compiler_version_line(command)
    loops = find_vectorized_loops(command, "clang" if "clang" in version else "gcc")
    if loops is None:
        return Answer(answer="cannot tell", ours=f"{command[0]} gives no report of vectorised loops")
    results = ", ".join(f"{name} {'vectorised' if yes else 'not vectorised'}" for name, yes in loops.items())
    return Answer(
        answer="holds" if COMPILER_QUESTIONS[question](loops) else "does not", ours=f"{version} -O3: {results}"
    )


def compiler_command() -> list[str]:
    """Returns the command of the host's C compiler as a list of words: $CC if it is set, otherwise cc, gcc or clang; []
    if there is none."""
    command = (
        shlex.split(os.environ.get("CC", "")) or [name for name in ("cc", "gcc", "clang") if shutil.which(name)][:1]
    )
    return command if command and shutil.which(command[0]) else []


def compiler_version_line(command: list[str]) -> str:
    """Returns the first line that the compiler prints for --version."""
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or [command[0]])[0]


def find_vectorized_loops(compiler: list[str], compiler_family: str) -> dict[str, bool] | None:
    """Returns for each function of loop.c whether its loop is vectorized; None if the compiler fails. `compiler_family`
    is "gcc" or "clang"."""
    file = find_shipped_folder("papers") / "S1/loop.c"
    options, pattern = REPORT_OPTIONS[compiler_family]
    command = [*compiler, "-std=c99", "-O3", *options, "-c", str(file), "-o", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    lines = {int(line) for line in re.findall(pattern, done.stderr)}
    return {name: any(line in lines for line in span) for name, span in _function_lines(file).items()}


def _function_lines(file: Path) -> dict[str, range]:
    """Returns for each function of the file its line numbers, from its head to the line before the next function."""
    lines = file.read_text(encoding="utf-8").splitlines()
    first_line_by_function = {
        match[1]: i for i, text in enumerate(lines, 1) if (match := re.match(r"void (\w+)\(", text))
    }
    ends = [*list(first_line_by_function.values())[1:], len(lines) + 1]
    return {name: range(begin, end) for (name, begin), end in zip(first_line_by_function.items(), ends, strict=True)}


COMPILER_QUESTIONS: dict[str, Callable[[dict[str, bool]], bool]] = {
    "plain-is-not-vectorised": lambda loops: not loops["plain"],
    "told-is-vectorised": lambda loops: loops["alias"] and loops["restricted"],
}
