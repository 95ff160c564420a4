"""Determines which of the loops of paper S1 (section IV-A) the host's C compiler vectorises, from the compiler's
vectorisation report."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from nearfield.reproduce.outcome import Answer
from nearfield.reproduce.papers import paper_files

# Compiler -> options that enable the report, and the pattern of a vectorised loop in the report.
REPORT_OPTIONS = {
    "gcc": (("-fopt-info-vec-optimized",), r":(\d+):\d+: optimized: loop vectorized"),
    "clang": (("-Rpass=loop-vectorize",), r":(\d+):\d+: remark: vectorized loop"),
}


def answer_by_compiler(question: str) -> Answer:
    """Returns the answer from the compiler's report; "cannot tell" if there is no C compiler, or it has no such
    report."""
    words = compiler_words()
    if not words:
        return Answer(answer="cannot tell", ours="there is no C compiler here; $CC may name one")
    version = first_line_of_version(words)
    loops = find_vectorised_loops(words, "clang" if "clang" in version else "gcc")
    if loops is None:
        return Answer(answer="cannot tell", ours=f"{words[0]} gives no report of vectorised loops")
    results = ", ".join(f"{name} {'vectorised' if yes else 'not vectorised'}" for name, yes in loops.items())
    return Answer(
        answer="holds" if COMPILER_QUESTIONS[question](loops) else "does not", ours=f"{version} -O3: {results}"
    )


def compiler_words() -> list[str]:
    """Returns the command of the host's C compiler: $CC, otherwise cc, gcc or clang; [] if there is none."""
    words = shlex.split(os.environ.get("CC", "")) or [name for name in ("cc", "gcc", "clang") if shutil.which(name)][:1]
    return words if words and shutil.which(words[0]) else []


def first_line_of_version(words: list[str]) -> str:
    """Returns the first line that the compiler prints for --version."""
    done = subprocess.run([*words, "--version"], capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or [words[0]])[0]


def find_vectorised_loops(compiler: list[str], kind: str) -> dict[str, bool] | None:
    """Returns function -> whether its loop is vectorised; None if the compiler fails. `kind` is "gcc" or "clang"."""
    file = paper_files()["S1"].with_name("loop.c")
    options, pattern = REPORT_OPTIONS[kind]
    command = [*compiler, "-std=c99", "-O3", *options, "-c", str(file), "-o", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    lines = {int(line) for line in re.findall(pattern, done.stderr)}
    return {name: any(line in lines for line in span) for name, span in _function_lines(file).items()}


def _function_lines(file: Path) -> dict[str, range]:
    """Returns function -> its line numbers, each from its head to the next function."""
    lines = file.read_text(encoding="utf-8").splitlines()
    heads = {match[1]: i for i, text in enumerate(lines, 1) if (match := re.match(r"void (\w+)\(", text))}
    ends = [*list(heads.values())[1:], len(lines) + 1]
    return {name: range(begin, end) for (name, begin), end in zip(heads.items(), ends, strict=True)}


COMPILER_QUESTIONS: dict[str, Callable[[dict[str, bool]], bool]] = {
    "plain-is-not-vectorised": lambda loops: not loops["plain"],
    "told-is-vectorised": lambda loops: loops["alias"] and loops["restricted"],
}
