"""Conditions of soundness as tables: a row has a predicate, and the reason for a refusal where the predicate holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from nearfield.rewrite.analysis.program import NotMovable

Subject = TypeVar("Subject")
# In the order in which they are checked: a predicate may presuppose that those before it do not hold. In a reason, {0}
# is the subject.
Refusals = Sequence[tuple[Callable[[Subject], object], str]]


def raise_first_refusal(refusals: Refusals[Subject], subject: Subject, line: int) -> None:
    """Raises NotMovable with the reason of the first predicate that holds for a subject, if there is one."""
    for is_refused, reason in refusals:
        if is_refused(subject):
            raise NotMovable(reason.format(subject), line)
