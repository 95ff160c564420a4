"""Whenever a verb is ended, does it end at once, with the signal's exit code, and leave nothing behind?

A few moments of a few verbs; tests/interrupt_verbs.py takes all verbs and as many moments as one likes.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from interrupting import FAMILY, VERBS, Field, end, prepare_field

pytestmark = pytest.mark.turn(0)

NAMES = ["show", "export", "simulate", "machine-list"]
MOMENTS_S = (0.25, 0.6)  # while it imports, and later, unless the machine is slow: both must end well


@pytest.fixture(scope="module")
def field() -> Iterator[Field]:
    with prepare_field(NAMES) as made:
        yield made


@pytest.mark.parametrize("number", FAMILY)
@pytest.mark.parametrize("name", NAMES)
def test_a_verb_ends_without_a_trace(name: str, number: str, field: Field) -> None:
    for moment in MOMENTS_S:
        ended = end(field, VERBS[name], FAMILY[number], moment)
        if ended.began:  # before its first line, Python itself reports Ctrl-C
            assert not [what for what in ended.wrong if not what.startswith("took")], ended


MODULE = """
import signal
try:
    signal.raise_signal({number})
    {inner}
except BaseException as error:  # as an extension module does
    raise ImportError from error
print("whole", flush=True)
"""
COMMAND = """
import time
from nearfield import cli
from nearfield.cli import fast_dispatch

def run(words):
    import slow
    while True: time.sleep(0.01)

fast_dispatch.dispatch = run
cli.main()
"""


@pytest.mark.parametrize("inner", ["pass", "sorted([2, 1], key=lambda value: signal.raise_signal({number}) or value)"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_an_import(number: signal.Signals, inner: str, tmp_path: Path) -> None:
    """Is a module imported to its end, also if the signal comes in what it calls, and the signal heeded then?"""
    (tmp_path / "slow.py").write_text(MODULE.format(number=int(number), inner=inner.format(number=int(number))))
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, timeout=30, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "whole\n", "")
