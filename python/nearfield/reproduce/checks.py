"""Checks of a claims file that the schema's types cannot express, for example that every name refers to something."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from nearfield.base.words import suggest
from nearfield.reproduce.judges import JUDGES
from nearfield.reproduce.live.questions import QUESTIONS

if TYPE_CHECKING:
    from nearfield.reproduce.schema import Curve, LiveCheck, Paper, Statement


def find_claim_errors(paper: Paper) -> Iterator[str]:
    """Yields a sentence for each error in a claims file, for its author."""
    counted = Counter(claim.id for claim in paper.claim)
    yield from (f"claim {name} is there {count} times" for name, count in counted.items() if count > 1)
    yield from _check_quotes_in(paper, paper.reading)
    for name, quote in paper.quote.items():
        if quote.profile not in paper.profile:
            yield f"quote {name}: there is no profile '{quote.profile}'; {suggest(quote.profile, paper.profile)}"
    for claim in paper.claim:
        if not claim.id.startswith(f"{paper.name}."):
            yield f"claim {claim.id} is not of {paper.name}"
        yield from (f"claim {claim.id}: {what}" for what in _check_quotes_in(paper, claim.note))
        for statement in claim.statement:
            yield from (f"claim {claim.id}, '{statement.says}': {what}" for what in _check_statement(paper, statement))


def _check_quotes_in(paper: Paper, text: str) -> Iterator[str]:
    for name in re.findall(r"\{(\w+)\}", text):
        if name not in paper.quote:
            yield f"there is no quote '{name}'; {suggest(name, paper.quote)}"


def profiles_of(statement: Statement) -> list[str]:
    """Returns the names of the profiles whose records judge the statement."""
    if statement.rule:
        return [statement.rule.profile]
    return list(dict.fromkeys(name for curve in curves_of(statement) for name in (curve.profile, curve.base) if name))


def _check_statement(paper: Paper, statement: Statement) -> Iterator[str]:
    for name in profiles_of(statement):
        if name not in paper.profile:
            yield f"there is no profile '{name}'; {suggest(name, paper.profile)}"
    yield from _check_quotes_in(paper, statement.why)
    if statement.judge:
        yield from _check_judge(statement.judge, statement.number, statement.than)
    if statement.here:
        yield from _check_live(paper, statement, statement.here)


def _check_judge(name: str, number: object, than: object) -> Iterator[str]:
    judge = JUDGES.get(name)
    if judge is None:
        yield f"there is no judge '{name}'; {suggest(name, JUDGES)}"
        return
    if judge.of_number != (number is not None):
        yield f"the judge '{name}' {'needs a' if judge.of_number else 'takes no'} number"
    if than is not None and not judge.of_two:
        yield f"the judge '{name}' compares with nothing: leave `than` out"


def _check_live(paper: Paper, statement: Statement, here: LiveCheck) -> Iterator[str]:
    if here.asks:
        if here.asks not in QUESTIONS:
            yield f"there is no question '{here.asks}'; {suggest(here.asks, QUESTIONS)}"
        return
    if here.profile not in paper.here:
        yield f"there is no live profile '{here.profile}'; {suggest(here.profile, paper.here)}"
    if statement.rule and not here.judge:
        return
    judge = here.judge or statement.judge
    if judge is None:
        yield "here needs a judge, since the statement has none"
        return
    yield from _check_judge(judge, here.number, statement.than if here.than is None else here.than)
    if judge == "higher":
        yield "here cannot compare the highest of two curves: ask for 'more'"
    if here.control and here.control.profile and here.control.profile not in paper.here:
        yield f"there is no live profile '{here.control.profile}'; {suggest(here.control.profile, paper.here)}"
    try:
        live_curve(statement, here)
    except ValidationError as error:
        yield f"here: {error.errors()[0]['msg']}"


def live_curve(statement: Statement, here: LiveCheck) -> Curve:
    """Returns the statement's curve with the keys of `here.curve`, which differ on the user's machine. A key or column
    of value "" is removed; without a column, records of any value match."""
    from nearfield.reproduce.schema import Curve  # imported late, since validators of schema import this module

    own = statement.curve.model_dump(exclude_none=True) if statement.curve else {}
    own |= {**here.curve, "where": _apply_changes(own.get("where", {}), here.curve), "profile": here.profile}
    return Curve.model_validate({name: value for name, value in own.items() if value != ""})


def curves_of(statement: Statement) -> list[Curve]:
    """Returns the statement's curve, followed by the curve with which it is compared, if any."""
    if statement.curve is None:
        return []
    return [statement.curve, *([other_curve(statement)] if statement.than is not None else [])]


def other_curve(statement: Statement) -> Curve:
    """Returns the curve with which the statement's curve is compared: the same curve with the changes of `than`. A
    column of value "" is removed."""
    assert statement.curve is not None
    changed = dict(statement.than or {})
    where = _apply_changes(statement.curve.where, changed)
    return type(statement.curve).model_validate({**statement.curve.model_dump(), **changed, "where": where})


def _apply_changes(where: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Returns the columns with the changes applied. A column of value "" is removed; without a column, records of any
    value match."""
    return {name: value for name, value in {**where, **changes.get("where", {})}.items() if value != ""}
