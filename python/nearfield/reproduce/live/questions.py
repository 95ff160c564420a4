"""Tests of statements that no records of a profile can decide. They use the rules found by `nearfield tune`, the
compiler's vectorization report, or measurements of stencil loops without messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nearfield.profile.schema import Mpi
from nearfield.reproduce.live.compiler import COMPILER_QUESTIONS, answer_by_compiler
from nearfield.reproduce.live.loops import LOOP_QUESTIONS, answer_by_loops
from nearfield.reproduce.live.tuned import RULE_QUESTIONS, answer_by_rules
from nearfield.reproduce.outcome import Answer


def _query_rules(question: str, mpi: Mpi) -> Answer:
    return answer_by_rules(question, mpi.family, mpi.version)


def _query_loops(question: str, _: Mpi) -> Answer:
    return answer_by_loops(question)


def _query_compiler(question: str, _: Mpi) -> Answer:
    return answer_by_compiler(question)


QUESTIONS: dict[str, Callable[[Mpi], Answer]] = {
    **{name: partial(_query_rules, name) for name in RULE_QUESTIONS},
    **{name: partial(_query_compiler, name) for name in COMPILER_QUESTIONS},
    **{name: partial(_query_loops, name) for name in LOOP_QUESTIONS},
}
