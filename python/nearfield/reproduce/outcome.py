"""The result of a reproduction: the schema of reproduction.json in the output folder, which the page and scripts
read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, ValidationError, field_validator

from nearfield.base import own_command
from nearfield.base.errors import ProfileError
from nearfield.base.files import atomic_write, read_user_file
from nearfield.base.toml import Table
from nearfield.base.units import counted
from nearfield.reproduce.writers import NUMBER_FORMATTERS

REPRODUCTION_FILE = "reproduction.json"

Verdict = Literal["within", "shape only", "in part", "not", "cannot tell", "by construction", "not simulated"]


class PlottedCurve(Table):
    """A judged curve, or the curve with which it is compared, as pairs (value of the parameter, number)."""

    name: str
    points: list[tuple[FiniteFloat, FiniteFloat]]


class RecordSeries(Table):
    """Records of one profile that differ only in the parameter `by`, as pairs (value of the parameter, value of the
    metric)."""

    profile: str
    metric: str
    unit: str
    where: dict[str, int | float | str]
    by: str
    points: list[tuple[float, float]]


class ShownEvidence(Table):
    """The judged curve, the curve with which it is compared, if any, and the records behind both. `kind` is a key of
    NUMBER_FORMATTERS."""

    by: str
    kind: str
    lines: Annotated[list[PlottedCurve], Field(min_length=1, max_length=2)]
    records: list[RecordSeries]

    @field_validator("kind")
    @classmethod
    def _check_number_kind(cls, kind: str) -> str:
        if kind not in NUMBER_FORMATTERS:
            raise ValueError(f"{kind!r} is no unit")
        return kind


class Answer(Table):
    """Whether a statement holds on the user's machine, or in a trace. "artefact" means that the effect was observed,
    but that its control measurement refutes the claimed cause. If the statement was not tested, `answer` is "" and
    `ours` is the reason."""

    answer: Literal["holds", "does not", "artefact", "cannot tell", ""] = ""
    ours: str = Field(default="", description="our numbers, each with its interval")
    control: str = Field(default="", description="what the control is, its answer and its numbers; '' without one")
    launches: int = 0
    profile: str = Field(default="", description="the profile whose records judge the statement")


class JudgedStatement(Table):
    """A statement of a paper with its judgement. `ours` has the simulated numbers as text. If the statement could not
    be judged, or the numbers do not decide it, `holds` is None and `ours` says why. `number` is the paper's number as a
    range, and `at` its position. `not_counted` is the reason why the judgement does not count; '' if it counts. `why`
    is a cause of the difference, and only set if the statement does not hold."""

    says: str
    paper: str
    ours: str
    holds: bool | None
    is_undecided: bool = Field(default=False, description="it was simulated, but the numbers do not decide it")
    is_number: bool
    is_question: bool = Field(
        default=True, description="false: it says that something was measured at all, or is a control of the claim"
    )
    is_control: bool = Field(default=False, description="it is not of the paper, but a control of the claim")
    not_counted: str = ""
    degree: str = Field(default="", description="the paper's word of degree that set the thresholds (adverbs.py)")
    why: str = ""
    number: tuple[float, float] | None = None
    at: tuple[float, float] | None = None
    shown: ShownEvidence | None = None
    here: Answer | None = Field(default=None, description="the answer of --live, which affects no verdict")
    traced: Answer | None = Field(default=None, description="the answer of --trace, which affects no verdict")


class JudgedClaim(Table):
    """A claim with its verdict. `note` explains the verdict, and is only set if everything that the claim needs was
    simulated."""

    id: str
    says: str
    where: str
    weight: int = Field(description="from 0, a description, to 3, in the abstract (schema.py)")
    verdict: Verdict
    score: float | None = Field(default=None, description="how much of it holds (score.py); null if it was not judged")
    statements: list[JudgedStatement]
    note: str = ""


class FreeParameter(Table):
    """A parameter that no source states and that had to be chosen."""

    of: str = Field(description="the machine or profile that has the parameter")
    key: str
    value: str
    reason: str
    claims: list[str]


class JudgedPaper(Table):
    """A paper with its judged claims and the free parameters that affect them. `reading` is a summary, only set if all
    claims were requested and simulated."""

    name: str
    title: str
    is_further: bool = Field(default=False, description="not one of the five papers that the score is about")
    reading: str = ""
    claims: list[JudgedClaim]
    chosen: list[FreeParameter]
    simulated: list[str] = Field(default_factory=list, description="profiles that are simulated to the end")
    missing: list[str] = Field(default_factory=list, description="needed profiles without a complete simulation")


class LiveSummary(Table):
    """The machine, the MPI and the launches of a measurement with `--live`."""

    machine: str
    cores: int = Field(description="cores that the launches were allowed to use")
    kernel: str
    virtual: str | None = Field(default=None, description="the hypervisor or container; null on bare metal")
    mpi: str
    compiler: str = Field(default="", description="the C compiler that answers what compilers do; '' if there is none")
    launches: int
    folder: str = Field(description="the folder of the live profiles, below the output folder")
    load_1m: float | None = Field(description="the highest load average when a launch began")
    complete: bool = Field(description="false: the measurement was stopped, and the same command resumes it")


class TraceSource(Table):
    """The trace of a real program that the user passed with `--trace`."""

    name: str = Field(description="the application in the claims, and its problem size")
    command: str
    ranks: int


CardVerdict = Literal["artefact", "does not", "holds in part", "holds", "cannot tell", "not measured"]


class ClaimCard(Table):
    """The verdict on a claim on the user's machine. `statement`, `paper`, `here` and `control` describe the statement
    with the most negative answer; `control` also has the control statements of the whole claim."""

    claim: str
    title: str = Field(description="of the paper")
    weight: int
    says: str
    where: str
    verdict: CardVerdict
    line: str
    statement: str
    paper: str
    here: str
    control: str
    command: str


class Score(Table):
    """The weighted fraction of the papers' claims that hold. Claims that were not judged count as 0 in `all`, and are
    excluded from `simulated`. Claims of weight 0 are excluded from both. `whole`, `half` and `less` are the numbers of
    claims with a score of 1, of at least 0.5, and of less than 0.5."""

    simulated: float | None
    all: float | None = Field(description="null if simulations are missing")
    judged: int
    claims: int
    whole: int
    half: int
    less: int


class Reproduction(Table):
    """The complete result of a reproduction."""

    nearfield: str
    created: str
    command: str
    quick: bool
    complete: bool
    seconds: float
    papers: list[JudgedPaper]
    score: Score
    here: LiveSummary | None = None
    cards: list[ClaimCard] = Field(
        default_factory=list, description="if something was measured: negative results first"
    )
    traced: list[TraceSource] = Field(default_factory=list)


def verdict_of_claim(statements: list[JudgedStatement]) -> Verdict:
    """Returns the verdict on a claim from its statements. "within": all hold. "shape only": all shapes hold, but a
    number does not. "in part": only some hold, or some were not simulated. "not": none holds. "by construction": none
    could fail. "cannot tell": the simulated numbers decide none. "not simulated": none was simulated."""
    simulated = any(one.holds is not None for one in statements)
    if not simulated and any(one.is_undecided for one in statements):
        return "cannot tell"
    statements = [one for one in statements if not one.not_counted]
    judged = [one for one in statements if one.holds is not None]
    if not judged:
        return "by construction" if simulated else "not simulated"
    if not any(one.holds for one in judged):
        return "not"
    shapes = [one for one in judged if not one.is_number]
    if len(judged) < len(statements) or not all(one.holds for one in shapes):
        return "in part"
    if all(one.holds for one in judged):
        return "within"
    return "shape only" if shapes else "in part"


def count_holding_statements(statements: Iterable[JudgedStatement]) -> tuple[int, int]:
    """Returns the number of statements that hold, and the number of statements with a verdict that counts."""
    outcomes = [bool(one.holds) for one in statements if one.holds is not None and not one.not_counted]
    return sum(outcomes), len(outcomes)


def format_statement_counts(papers: Sequence[JudgedPaper]) -> str:
    """Returns for example '3 of 5 statements hold'. If some profiles are not simulated completely, their number is
    appended."""
    held, judged = count_holding_statements(
        one for paper in papers for claim in paper.claims for one in claim.statements
    )
    simulated, missing = (
        {name for paper in papers for name in getattr(paper, which)} for which in _PROFILE_LIST_FIELDS
    )
    summary = f"{held} of {counted(judged, 'statement')} hold" if judged else "no statement is judged"
    if missing:
        summary += f"; simulated to the end: {len(simulated)} of {counted(len(simulated) + len(missing), 'profile')}"
    return summary


_PROFILE_LIST_FIELDS = ("simulated", "missing")


def save_reproduction(folder: Path, reproduction: Reproduction) -> None:
    """Writes reproduction.json into the folder, atomically."""
    atomic_write(
        folder / REPRODUCTION_FILE, reproduction.model_dump_json(indent=1).encode(), "Give another folder with --out."
    )


def load_reproduction(folder: Path) -> Reproduction:
    """Reads reproduction.json from the folder. Raises ProfileError if the file is missing or damaged."""
    path = folder / REPRODUCTION_FILE
    try:
        return Reproduction.model_validate_json(read_user_file(path))
    except (OSError, ValidationError) as error:
        cause = error.strerror if isinstance(error, OSError) else f"{error.error_count()} of its keys are wrong"
        raise ProfileError(
            f"{path}: {cause}", f"Make it anew with: {own_command.command_line('reproduce', '--out', folder)}"
        ) from error
