"""Judges claims from the records of simulated profiles. Also lists the free parameters that affect the claims, which
are the values in machine files and claims files that no source states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nearfield._native import simulation
from nearfield.machine import load_machine
from nearfield.machine.quantity import facts
from nearfield.profile import Profile
from nearfield.report.rules import evaluate_guidelines
from nearfield.reproduce.adverbs import degree_of
from nearfield.reproduce.checks import other_curve, profile_names_of
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
from nearfield.reproduce.papers import Paper
from nearfield.reproduce.schema import Claim, CurveSpec, Statement
from nearfield.reproduce.score import score_claim
from nearfield.reproduce.writers import NUMBER_FORMATTERS, parameter_formatter


@dataclass(frozen=True)
class Evidence:
    """The completely simulated profiles, and their records as dicts (rows), by profile name."""

    profiles: Mapping[str, Profile]
    rows: Mapping[str, list[Row]]

    @classmethod
    def from_profiles(cls, profiles: Mapping[str, Profile]) -> Evidence:
        return cls(
            profiles,
            {name: [_add_whole_buffer_bytes(row) for row in p.records.to_dicts()] for name, p in profiles.items()},
        )

    def points_of(self, curve: CurveSpec) -> Points:
        return points_of(curve, self.rows, self._cache_line_bytes_by_profile())

    def alternative_curves(self, curve: CurveSpec) -> list[Points]:
        return alternatives_of(curve, self.rows, self._cache_line_bytes_by_profile())

    def _cache_line_bytes_by_profile(self) -> dict[str, int]:
        return {name: profile.machine.line_bytes for name, profile in self.profiles.items()}


def judge_claim(
    claim: Claim, evidence: Evidence, **answer_by_field: Callable[[Statement], Answer] | None
) -> JudgedClaim:
    """Returns the claim with its verdict and judged statements. `answer_by_field` are functions that add answers of
    live measurements (`here`) and traces (`traced`) to each statement; these never change the verdict."""
    active_answers = {name: answer for name, answer in answer_by_field.items() if answer}
    statements = [
        judge_statement(one, evidence).model_copy(update={name: answer(one) for name, answer in active_answers.items()})
        for one in claim.statement
    ]
    needed = {name for one in claim.statement for name in profile_names_of(one)}
    is_complete = bool(needed) and needed <= evidence.profiles.keys()
    return JudgedClaim(id=claim.id, says=claim.says, where=claim.where, weight=claim.weight,
                       verdict=verdict_of_claim(statements), score=score_claim(statements) if is_complete else None,
                       statements=statements, note=claim.note if is_complete else "")  # fmt: skip


def judge_statement(statement: Statement, evidence: Evidence) -> JudgedStatement:
    """Judges a statement. Returns whether it holds, the simulated and the paper's numbers, and the evidence."""
    holds, numbers_text, shown_evidence = evaluate_statement(statement, evidence)
    return JudgedStatement(
        says=statement.says,
        paper=statement.paper,
        ours=numbers_text,
        holds=holds,
        is_undecided=holds is None and shown_evidence is not None,
        is_number=statement.number is not None,
        is_question=not statement.is_control and _live_judge_name(statement) != "given",
        is_control=statement.is_control,
        not_counted=statement.not_counted,
        degree=degree_of(statement.paper, JUDGES[statement.judge].degree_kind).word if statement.judge else "",
        why=statement.why if holds is False else "",
        number=_to_range(statement.number),
        at=_to_range(statement.at),
        shown=shown_evidence,
    )


def _live_judge_name(statement: Statement) -> str | None:
    return (statement.here and statement.here.judge) or statement.judge


def evaluate_statement(statement: Statement, evidence: Evidence) -> tuple[bool | None, str, ShownEvidence | None]:
    """Returns whether the statement holds (None if it cannot be judged), the simulated numbers or the reason as text,
    and the records from which it was judged."""
    if statement.not_simulated:
        return None, statement.not_simulated, None
    missing = [name for name in profile_names_of(statement) if name not in evidence.profiles]
    if missing:
        return None, f"{', '.join(missing)}: not simulated to the end", None
    if statement.rule:
        return *_evaluate_placement_rule(evidence.profiles[statement.rule.profile], statement.rule.number), None
    judge_input = make_judge_input(statement, evidence)
    if not judge_input.curve or judge_input.other_curve == {}:
        return None, "no record tells", None
    result = JUDGES[statement.judge or ""].judge(judge_input)
    return (
        result.holds,
        result.numbers_text,
        collect_evidence(statement, judge_input.curve, judge_input.other_curve, evidence.rows),
    )


def make_judge_input(statement: Statement, evidence: Evidence) -> JudgeInput:
    """Selects the records of `evidence` that the statement is checked against, as the input of its check function."""
    curve = statement.curve
    assert curve
    other_points = (
        None if statement.than is None else select_points(statement, evidence.points_of(other_curve(statement)))
    )
    return JudgeInput(
        curve=select_points(statement, evidence.points_of(curve)),
        other_curve=other_points,
        paper_number=_to_range(statement.number),
        position_range=_to_range(statement.at),
        step_positions=tuple(statement.points or ()),
        is_difference=curve.how in ("gain", "minus"),
        is_gain=curve.how == "gain",
        is_count=curve.how == "minus" and curve.unit != "per_line",
        degree=degree_of(statement.paper, JUDGES[statement.judge or ""].degree_kind),
        alternative_curves=tuple(select_points(statement, one) for one in evidence.alternative_curves(curve)),
        format_number=NUMBER_FORMATTERS[number_kind_of(curve, evidence.rows)],
        format_x=parameter_formatter(curve.by),
    )


def _evaluate_placement_rule(profile: Profile, rule_number: int) -> tuple[bool | None, str]:
    rule = next(rule for rule in evaluate_guidelines(profile) if rule.number == rule_number)
    return (None if rule.status == "not measured" else rule.status == "supported"), f"{rule.range}: {rule.evidence}"


def select_points(statement: Statement, curve: Points) -> Points:
    """Returns the points of a curve that the statement covers: those within its range `over`, and if it has `points`,
    only these, in that order. For the judge "steps", `points` are the positions of steps and select nothing."""
    if statement.over:
        low, high = statement.over
        curve = {x: y for x, y in curve.items() if low <= x <= high}
    if statement.points and statement.judge != "steps":
        curve = {x: curve[x] for x in statement.points if x in curve}
    return curve


def _to_range(number: float | list[float] | None) -> tuple[float, float] | None:
    if number is None:
        return None
    return (number[0], number[-1]) if isinstance(number, list) else (number, number)


def _add_whole_buffer_bytes(row: Row) -> Row:
    """Returns the record. To the record of a collective, adds the column `whole_bytes` with the size of the whole
    buffer."""
    if row["scenario"] != "collective":
        return row
    spec = next(spec for spec in simulation.collectives() if spec.name == row["operation"])
    return {**row, "whole_bytes": spec.whole_bytes(row["size_bytes"], row["ranks"])}


def free_parameters(paper: Paper, claims: Iterable[Claim]) -> list[FreeParameter]:
    """Returns the free parameters that affect any of these claims."""
    profiles_by_claim = {
        claim.id: dict.fromkeys(name for s in claim.statement for name in profile_names_of(s)) for claim in claims
    }
    names = list(dict.fromkeys(name for profiles in profiles_by_claim.values() for name in profiles))
    parameters = []
    for machine in dict.fromkeys(paper.profile[name].on for name in names):
        parameters += _free_parameters_of_machine(machine, set(profiles_by_claim))
    for name in names:
        affected_claims = [claim for claim, profiles in profiles_by_claim.items() if name in profiles]
        parameters += [
            FreeParameter(
                of=name, key=setting.key, value=str(setting.value), reason=setting.reason, claims=affected_claims
            )
            for setting in paper.profile[name].set
        ]
    for choice in paper.chosen:
        if affected_claims := [claim for claim in choice.claims if claim in profiles_by_claim]:
            parameters.append(FreeParameter(of="claims", key=choice.key, value=str(choice.value), reason=choice.reason,
                                claims=affected_claims))  # fmt: skip
    return parameters


def _free_parameters_of_machine(machine_name: str, claim_ids: set[str]) -> list[FreeParameter]:
    parameters = []
    for key, fact in facts(load_machine(machine_name)):
        affected_claims = [claim for claim in fact.claims or () if claim in claim_ids]
        if fact.kind == "chosen" and affected_claims:
            parameters.append(
                FreeParameter(
                    of=machine_name, key=key, value=str(fact.plain_value), reason=fact.reason, claims=affected_claims
                )
            )
    return parameters
