"""Judges claims from the records of simulated profiles; and lists the free parameters that affect the claims: the
values that had to be chosen in machine files and claims files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nearfield._native import simulation
from nearfield.machine import load_machine
from nearfield.machine.quantity import facts
from nearfield.profile import Profile
from nearfield.report.rules import evaluate_guidelines
from nearfield.reproduce.adverbs import degree_of
from nearfield.reproduce.checks import other_curve, profiles_of
from nearfield.reproduce.curves import Points, Row, alternatives_of, points_of
from nearfield.reproduce.evidence_data import collect_evidence, number_kind_of
from nearfield.reproduce.judges import JUDGES, JudgeInput
from nearfield.reproduce.outcome import (
    Answer,
    FreeParameter,
    JudgedClaim,
    JudgedStatement,
    ShownEvidence,
    verdict_of_claim,
)
from nearfield.reproduce.schema import Claim, Curve, Paper, Statement
from nearfield.reproduce.score import score_claim
from nearfield.reproduce.writers import WRITERS, parameter_writer


@dataclass(frozen=True)
class Evidence:
    """The complete simulated profiles, and their records as rows, by name of the profile."""

    profiles: Mapping[str, Profile]
    rows: Mapping[str, list[Row]]

    @classmethod
    def of(cls, profiles: Mapping[str, Profile]) -> Evidence:
        return cls(
            profiles, {name: [_with_whole_bytes(row) for row in p.records.to_dicts()] for name, p in profiles.items()}
        )

    def points(self, curve: Curve) -> Points:
        return points_of(curve, self.rows, self._line_bytes())

    def alternatives(self, curve: Curve) -> list[Points]:
        return alternatives_of(curve, self.rows, self._line_bytes())

    def _line_bytes(self) -> dict[str, int]:
        return {name: profile.machine.line_bytes for name, profile in self.profiles.items()}


def judge_claim(claim: Claim, evidence: Evidence, **additional: Callable[[Statement], Answer] | None) -> JudgedClaim:
    """Returns the claim with its verdict and judged statements. `additional` are functions that add answers of live
    measurements (`here`) and traces (`traced`) to each statement; these never change the verdict."""
    answering = {name: answer for name, answer in additional.items() if answer}
    statements = [
        judge_statement(one, evidence).model_copy(update={name: answer(one) for name, answer in answering.items()})
        for one in claim.statement
    ]
    needed = {name for one in claim.statement for name in profiles_of(one)}
    explained = bool(needed) and needed <= evidence.profiles.keys()
    return JudgedClaim(id=claim.id, says=claim.says, where=claim.where, weight=claim.weight,
                       verdict=verdict_of_claim(statements), score=score_claim(statements) if explained else None,
                       statements=statements, note=claim.note if explained else "")  # fmt: skip


def judge_statement(statement: Statement, evidence: Evidence) -> JudgedStatement:
    """Returns the judged statement: whether it holds, our numbers and the paper's, and the evidence."""
    holds, ours, behind = evaluate_statement(statement, evidence)
    return JudgedStatement(
        says=statement.says,
        paper=statement.paper,
        ours=ours,
        holds=holds,
        is_number=statement.number is not None,
        is_question=not statement.is_control and _live_judge(statement) != "given",
        is_control=statement.is_control,
        not_counted=statement.not_counted,
        degree=degree_of(statement.paper, JUDGES[statement.judge].kind).word if statement.judge else "",
        why=statement.why if holds is False else "",
        number=_as_range(statement.number),
        at=_as_range(statement.at),
        shown=behind,
    )


def _live_judge(statement: Statement) -> str | None:
    return (statement.here and statement.here.judge) or statement.judge


def evaluate_statement(statement: Statement, evidence: Evidence) -> tuple[bool | None, str, ShownEvidence | None]:
    """Returns whether the statement holds (None if no record decides), our numbers or the reason as text, and the
    records behind the judgement."""
    if statement.not_simulated:
        return None, statement.not_simulated, None
    missing = [name for name in profiles_of(statement) if name not in evidence.profiles]
    if missing:
        return None, f"{', '.join(missing)}: not simulated to the end", None
    if statement.rule:
        return *_evaluate_rule(evidence.profiles[statement.rule.profile], statement.rule.number), None
    question = judge_input(statement, evidence)
    if not question.curve or question.than == {}:
        return None, "no record tells", None
    found = JUDGES[statement.judge or ""].judge(question)
    return found.holds, found.ours, collect_evidence(statement, question.curve, question.than, evidence.rows)


def judge_input(statement: Statement, evidence: Evidence) -> JudgeInput:
    """Returns the input of the statement's judge from the records of `evidence`."""
    curve = statement.curve
    assert curve
    other = None if statement.than is None else select_points(statement, evidence.points(other_curve(statement)))
    return JudgeInput(
        curve=select_points(statement, evidence.points(curve)),
        than=other,
        number=_as_range(statement.number),
        at=_as_range(statement.at),
        steps=tuple(statement.points or ()),
        is_difference=curve.how in ("gain", "minus"),
        is_gain=curve.how == "gain",
        is_count=curve.how == "minus" and curve.unit != "per_line",
        degree=degree_of(statement.paper, JUDGES[statement.judge or ""].kind),
        alternatives=tuple(select_points(statement, one) for one in evidence.alternatives(curve)),
        write=WRITERS[number_kind_of(curve, evidence.rows)],
        write_x=parameter_writer(curve.by),
    )


def _evaluate_rule(profile: Profile, number: int) -> tuple[bool | None, str]:
    rule = next(rule for rule in evaluate_guidelines(profile) if rule.number == number)
    return (None if rule.status == "not measured" else rule.status == "supported"), f"{rule.range}: {rule.evidence}"


def select_points(statement: Statement, curve: Points) -> Points:
    """Returns the points of a curve within the statement's `over`; with `points`, only these, in that order, unless
    they are the positions of steps."""
    if statement.over:
        low, high = statement.over
        curve = {x: y for x, y in curve.items() if low <= x <= high}
    if statement.points and statement.judge != "steps":
        curve = {x: curve[x] for x in statement.points if x in curve}
    return curve


def _as_range(number: float | list[float] | None) -> tuple[float, float] | None:
    if number is None:
        return None
    return (number[0], number[-1]) if isinstance(number, list) else (number, number)


def _with_whole_bytes(row: Row) -> Row:
    """Returns the record of a collective with the size of its whole buffer as `whole_bytes`; other records
    unchanged."""
    if row["scenario"] != "collective":
        return row
    spec = next(spec for spec in simulation.collectives() if spec.name == row["operation"])
    return {**row, "whole_bytes": spec.whole_bytes(row["size_bytes"], row["ranks"])}


def free_parameters(paper: Paper, claims: Iterable[Claim]) -> list[FreeParameter]:
    """Returns the free parameters that affect any of these claims."""
    used = {claim.id: {name for s in claim.statement for name in profiles_of(s)} for claim in claims}
    names = list(dict.fromkeys(name for profiles in used.values() for name in profiles))
    found = []
    for machine in dict.fromkeys(paper.profile[name].on for name in names):
        found += _free_parameters_of_machine(machine, set(used))
    for name in names:
        touched = [claim for claim, profiles in used.items() if name in profiles]
        found += [
            FreeParameter(of=name, key=setting.key, value=str(setting.value), reason=setting.reason, claims=touched)
            for setting in paper.profile[name].set
        ]
    for choice in paper.chosen:
        if touched := [claim for claim in choice.claims if claim in used]:
            found.append(FreeParameter(of="claims", key=choice.key, value=str(choice.value), reason=choice.reason,
                                claims=touched))  # fmt: skip
    return found


def _free_parameters_of_machine(name: str, claims: set[str]) -> list[FreeParameter]:
    found = []
    for key, fact in facts(load_machine(name)):
        touched = [claim for claim in fact.claims or () if claim in claims]
        if fact.kind == "chosen" and touched:
            found.append(FreeParameter(of=name, key=key, value=str(fact.plain), reason=fact.reason, claims=touched))
    return found
