"""Are all verbs listed and completed, though each is imported only when it is run?"""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from tuning import in_process, nearfield

from nearfield.cli import app, fast_dispatch
from nearfield.cli.help import VERBS
from nearfield.cli.verbs import run

RULES = Path(__file__).parents[1] / "data" / "rules" / "openmpi-5.0.11.toml"
HEAVY = ("polars", "plotly", "optuna", "nearfield.measure", "nearfield.report", "typer")
# Packages that only the first of several runs needs.
FOUND_OUT = ("pydantic", "nearfield.mpi", "nearfield._native", "subprocess", "dataclasses")
NAMES = (
    "argv",
    "rules",
    "verbose",
    "force",
    "mpi_name",
    "explain",
    "log",
    "no_forecast",
    "collectives",
    "learn",
)  # of fast_dispatch.start_run
# Instead of becoming the program, what has been imported by then.
IMPORTED = f"""
import os, sys
os.execvpe = lambda *arguments: print(*(name for name in {HEAVY + FOUND_OUT} if name in sys.modules), "started")
from nearfield.cli import main
main()
"""


def completed(words: str) -> set[str]:
    """Returns the completions that bash would be given for the last of these words."""
    environ = {
        "_NEARFIELD_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    script = "from nearfield.cli import app; app(prog_name='nearfield')"
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, **environ}, capture_output=True, text=True)
    return set(done.stdout.split())


def test_run_imports_no_more_than_it_needs(tmp_path: Path) -> None:
    """A user puts it before every mpirun: does it start without data frames, plots, the search and typer, and the
    second time without anything that finds out what there is?"""
    command = [sys.executable, "-c", IMPORTED, "run", "--rules", str(RULES), "--force", "--", "true"]
    env = {**os.environ, "NEARFIELD_CACHE": str(tmp_path)}
    first, second = (subprocess.run(command, capture_output=True, text=True, env=env) for _ in range(2))
    assert not set(HEAVY) & set(first.stdout.split()), first.stderr
    assert "nearfield.mpi" in first.stdout.split(), "this test shows nothing"
    assert second.stdout.split() == ["started"], second.stdout + second.stderr


@pytest.mark.parametrize(
    "words",
    [
        "-v --rules R -- mpirun -n 2 a",
        "--rules=R --force mpirun -n 2 -v a",
        "--mpi M --explain --verbose -- a -- b",
        "--explain --no-forecast --log L a",
        "--collectives -v a",
        "--learn F -- a",
        "a",
    ],
)
def test_run_reads_options_as_typer_does(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Do both ways to read a command line come to the same?"""
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(run, "start_run", lambda *values: seen.append(dict(zip(NAMES, values, strict=True))))
    app(["run", *words.split()], standalone_mode=False)
    parsed = fast_dispatch.parse_run_arguments(["run", *words.split()])
    assert parsed
    assert [parsed | {name: parsed[name] and Path(parsed[name]) for name in ("rules", "learn")}] == seen


@pytest.mark.parametrize(
    "words", ["", "run", "run --help", "run --rules", "run --ruls R a", "run -v", "tune a", "run -x a"]
)
def test_what_is_not_read_at_once_is_typers(words: str) -> None:
    """Are help, mistakes and other verbs left alone?"""
    assert fast_dispatch.parse_run_arguments(words.split()) is None


def test_the_help_imports_no_verb() -> None:
    """Is a list of verbs, also the one that the shell completes from, there before any of them is imported?"""
    script = "import atexit, sys; atexit.register(lambda: print('nearfield.base.errors' in sys.modules, *sys.modules))"
    command = [sys.executable, "-c", f"{script}\nfrom nearfield.cli import app; app()", "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    imported = done.stdout.splitlines()[-1].split()
    assert imported[0] == "True" and not {f"nearfield.cli.verbs.{verb}" for verb in VERBS} & set(imported)


def test_every_verb_has_a_summary_of_one_line() -> None:
    """Does the help list all verbs, in their order, each with the first words of what it says of itself?"""
    lines = [line.strip("│ ").split(maxsplit=1) for line in nearfield("--help").out.splitlines()]
    summaries = {words[0]: words[1] for words in lines if len(words) == 2 and words[0] in VERBS}
    assert tuple(summaries) == VERBS
    for verb, words in summaries.items():
        assert " ".join(words.split()[:4]) in " ".join(in_process(verb, "--help").out.split())


def test_the_version_is_printed() -> None:
    """Is it what somebody who reports a problem can name?"""
    assert nearfield("--version").out == f"nearfield {version('nearfield')}\n"


def test_a_misspelt_verb_is_an_error_that_names_the_nearest() -> None:
    done = nearfield("prob")
    assert done.code == 2 and "'probe'" in done.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("nearfield rep", {"report", "reproduce"}), ("nearfield ", set(VERBS)), ("nearfield run --f", {"--force"}),
        ("nearfield export --format mo", {"module"}), ("nearfield plan --on t3e", {"t3e-900"}),
        ("nearfield probe --scenario po", {"pollution"}), ("nearfield simulate bc", {"bcast"}),
        ("nearfield simulate t", {"trace"}), ("nearfield simulate --rep", {"--repetitions"}),
        ("nearfield simulate trace --in", {"--instructions"}), ("nearfield simulate trace --format la", {"lackey"}),
    ],
)  # fmt: skip
def test_the_shell_completes(words: str, expected: set[str]) -> None:
    """Are verbs completed, the options of one, and their values?"""
    assert completed(words) == expected


@pytest.mark.parametrize("words", ["show {profile}", "mpi", "topology"])
def test_a_terminal_without_unicode_shows_what_it_can(words: str) -> None:
    """Where neither files nor output are UTF-8 by default, is everything read, and what cannot be shown replaced?"""
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    profile = Path(__file__).parents[1] / "data" / "epyc-vm-quiet"
    command = [sys.executable, "-m", "nearfield", *words.format(profile=profile).split()]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0 and done.stdout, done.stderr


@pytest.mark.parametrize(("blocks", "message"), [(4, "File too large"), (0, "No usable temporary directory")])
def test_an_exhausted_system_is_reported_in_a_line(blocks: int, message: str, tmp_path: Path) -> None:
    """Is a full disk of temporary files reported in a line, without a traceback, by every verb?"""
    script = tmp_path / "verb.py"
    script.write_text(
        """import tempfile
from nearfield import cli
from nearfield.cli import fast_dispatch

def verb(words):
    with tempfile.TemporaryFile() as file:
        file.write(bytes(9999))

fast_dispatch.dispatch = verb
cli.main()
"""
    )
    limited = f"ulimit -f {blocks}; exec {sys.executable} {script}"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True)
    assert done.returncode == 1 and f"error: {message}" in done.stderr and "Traceback" not in done.stderr


def test_a_profile_is_read_by_who_only_imports_nearfield() -> None:
    """Do `nearfield.load` and the version come on request, and is what is not there an error?"""
    script = "import nearfield, sys; assert 'polars' not in sys.modules; print(nearfield.load, nearfield.__version__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "function load" in done.stdout, done.stderr
    done = subprocess.run([sys.executable, "-c", "import nearfield; nearfield.lode"], capture_output=True, text=True)
    assert "module 'nearfield' has no attribute 'lode'" in done.stderr


def test_a_bench_with_parts_runs_all_when_none_is_named() -> None:
    """Does `make bench` get beyond its command line? (What is wrong here is said only after that.)"""
    bench = Path(__file__).parents[2] / "bench" / "halo.py"
    done = subprocess.run([sys.executable, bench, "--cpus", "none"], capture_output=True, text=True)
    assert "--cpus none: not two CPU numbers" in done.stdout, done.stderr
