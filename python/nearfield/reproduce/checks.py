"""Checks what the types of the claims' schema cannot: that names refer to something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nearfield.base.words import suggestion
from nearfield.reproduce.judges import JUDGES

if TYPE_CHECKING:
    from nearfield.reproduce.schema import Curve, Paper, Statement


def problems(paper: Paper) -> Iterator[str]:
    """Yields a sentence for each mistake, for the author of the file."""
    counted = Counter(claim.id for claim in paper.claim)
    yield from (f"claim {name} is there {count} times" for name, count in counted.items() if count > 1)
    for claim in paper.claim:
        if not claim.id.startswith(f"{paper.name}."):
            yield f"claim {claim.id} is not of {paper.name}"
        for statement in claim.statement:
            yield from (f"claim {claim.id}, '{statement.says}': {what}" for what in _of_statement(paper, statement))


def profiles_of(statement: Statement) -> list[str]:
    """Returns the profiles whose records judge the statement."""
    if statement.rule:
        return [statement.rule.profile]
    return list(dict.fromkeys(name for curve in curves_of(statement) for name in (curve.profile, curve.base) if name))


def _of_statement(paper: Paper, statement: Statement) -> Iterator[str]:
    for name in profiles_of(statement):
        if name not in paper.profile:
            yield f"there is no profile '{name}'; {suggestion(name, paper.profile)}"
    if not statement.judge:
        return
    judge = JUDGES.get(statement.judge)
    if judge is None:
        yield f"there is no judge '{statement.judge}'; {suggestion(statement.judge, JUDGES)}"
        return
    if judge.of_number != (statement.number is not None):
        yield f"the judge '{statement.judge}' {'needs a' if judge.of_number else 'takes no'} number"
    if statement.than is not None and not judge.of_two:
        yield f"the judge '{statement.judge}' compares with nothing: leave `than` out"


def curves_of(statement: Statement) -> list[Curve]:
    """Returns the statement's curve, and the curve with which it is compared."""
    if statement.curve is None:
        return []
    return [statement.curve, *([other_curve(statement)] if statement.than is not None else [])]


def other_curve(statement: Statement) -> Curve:
    """Returns the statement's curve with the changes of `than`; a column that is "" there may have any value."""
    assert statement.curve is not None
    changed = dict(statement.than or {})
    where = {**statement.curve.where, **changed.pop("where", {})}
    where = {name: value for name, value in where.items() if value != ""}
    return type(statement.curve).model_validate({**statement.curve.model_dump(), **changed, "where": where})
