"""Checks of a claims file that the schema's types cannot express, for example that every referenced profile exists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from nearfield.base.words import suggest_name
from nearfield.reproduce.judges import JUDGES
from nearfield.reproduce.live.questions import QUESTIONS
from nearfield.reproduce.schema import CurveSpec, LiveCheck, PaperTables, Statement


def find_claim_errors(paper: PaperTables) -> Iterator[str]:
    """Yields an error message for each inconsistency in a claims file."""
    num_claims_by_id = Counter(claim.id for claim in paper.claim)
    yield from (f"claim {name} is there {count} times" for name, count in num_claims_by_id.items() if count > 1)
    yield from _check_quotes_in(paper, paper.reading)
    for name, quote in paper.quote.items():
        if quote.profile not in paper.profile:
            yield f"quote {name}: there is no profile '{quote.profile}'; {suggest_name(quote.profile, paper.profile)}"
    for claim in paper.claim:
        if not claim.id.startswith(f"{paper.name}."):
            yield f"claim {claim.id} is not of {paper.name}"
        yield from (f"claim {claim.id}: {what}" for what in _check_quotes_in(paper, claim.note))
        for statement in claim.statement:
            yield from (f"claim {claim.id}, '{statement.says}': {what}" for what in _check_statement(paper, statement))


def _check_quotes_in(paper: PaperTables, text: str) -> Iterator[str]:
    for name in re.findall(r"\{(\w+)\}", text):
        if name not in paper.quote:
            yield f"there is no quote '{name}'; {suggest_name(name, paper.quote)}"


def profile_names_of(statement: Statement) -> list[str]:
    """Returns the names of the profiles whose records are needed to judge the statement."""
    if statement.rule:
        return [statement.rule.profile]
    return list(dict.fromkeys(name for curve in curves_of(statement) for name in (curve.profile, curve.base) if name))


def _check_statement(paper: PaperTables, statement: Statement) -> Iterator[str]:
    for name in profile_names_of(statement):
        if name not in paper.profile:
            yield f"there is no profile '{name}'; {suggest_name(name, paper.profile)}"
    yield from _check_quotes_in(paper, statement.why)
    if statement.judge:
        yield from _check_judge(statement.judge, statement.number, statement.than)
    if statement.here:
        yield from _check_live(paper, statement, statement.here)


def _check_judge(judge_name: str, paper_number: object, than: object) -> Iterator[str]:
    judge = JUDGES.get(judge_name)
    if judge is None:
        yield f"there is no judge '{judge_name}'; {suggest_name(judge_name, JUDGES)}"
        return
    if judge.needs_number != (paper_number is not None):
        yield f"the judge '{judge_name}' {'needs a' if judge.needs_number else 'takes no'} number"
    if than is not None and not judge.can_compare_curves:
        yield f"the judge '{judge_name}' compares with nothing: leave `than` out"


def _check_live(paper: PaperTables, statement: Statement, live_check: LiveCheck) -> Iterator[str]:
    if live_check.asks:
        if live_check.asks not in QUESTIONS:
            yield f"there is no question '{live_check.asks}'; {suggest_name(live_check.asks, QUESTIONS)}"
        return
    if live_check.profile not in paper.here:
        yield f"there is no live profile '{live_check.profile}'; {suggest_name(live_check.profile, paper.here)}"
    if statement.rule and not live_check.judge:
        return
    judge = live_check.judge or statement.judge
    if judge is None:
        yield "here needs a judge, since the statement has none"
        return
    yield from _check_judge(judge, live_check.number, statement.than if live_check.than is None else live_check.than)
    if judge == "higher":
        yield "here cannot compare the highest of two curves: ask for 'more'"
    if judge == "mean-between":
        yield "here cannot judge a mean: ask for 'at-least' or 'at-most'"
    control = live_check.control
    if control and control.profile and control.profile not in paper.here:
        yield f"there is no live profile '{control.profile}'; {suggest_name(control.profile, paper.here)}"
    try:
        live_curve(statement, live_check)
    except ValidationError as error:
        yield f"here: {error.errors()[0]['msg']}"


def live_curve(statement: Statement, live_check: LiveCheck) -> CurveSpec:
    """Returns the statement's curve for the user's machine: with the keys of `live_check.curve` replaced. A key or
    column whose new value is "" is removed; without a column, records with any value of it match."""
    curve_fields = statement.curve.model_dump(exclude_none=True) if statement.curve else {}
    curve_fields |= {
        **live_check.curve,
        "where": _apply_column_changes(curve_fields.get("where", {}), live_check.curve),
        "profile": live_check.profile,
    }
    return CurveSpec.model_validate({name: value for name, value in curve_fields.items() if value != ""})


def curves_of(statement: Statement) -> list[CurveSpec]:
    """Returns the statement's curve, followed by the curve with which it is compared, if any."""
    if statement.curve is None:
        return []
    return [statement.curve, *([other_curve(statement)] if statement.than is not None else [])]


def other_curve(statement: Statement) -> CurveSpec:
    """Returns the curve with which the statement's curve is compared: the same curve with the changes of `than`. A
    column whose new value is "" is removed."""
    assert statement.curve is not None
    changed = dict(statement.than or {})
    where = _apply_column_changes(statement.curve.where, changed)
    return type(statement.curve).model_validate({**statement.curve.model_dump(), **changed, "where": where})


def _apply_column_changes(columns: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Returns the columns with the changes applied. A column whose new value is "" is removed, so that records with any
    value of it match."""
    return {name: value for name, value in {**columns, **changes.get("where", {})}.items() if value != ""}
