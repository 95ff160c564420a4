"""Finds and loads the claims of papers by name (S0 to S4, Acoll) from papers/NAME/claims.toml, in the installed package
or in the source tree."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import model_validator

from nearfield.base import own_command
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import find_shipped_folder, read_user_file
from nearfield.base.toml import parse_toml
from nearfield.base.words import suggest_name
from nearfield.reproduce.checks import find_claim_errors
from nearfield.reproduce.schema import Claim, PaperTables

_REMEDY = "Mend that line; papers/S0/claims.toml of nearfield shows what claims look like."


class Paper(PaperTables):
    """A paper with its claims and their simulated profiles."""

    @model_validator(mode="after")
    def _check_references(self) -> Paper:
        if problem := next(find_claim_errors(self), None):
            raise ValueError(problem)
        return self


def claims_file_by_paper() -> dict[str, Path]:
    """Returns a dict from the name of each paper to the path of its claims.toml."""
    return {file.parent.name: file for file in sorted(find_shipped_folder("papers").glob("*/claims.toml"))}


@cache
def load_paper(name: str) -> Paper:
    """Returns the paper with its claims. Raises ProfileError if its claims.toml is invalid, if the folder has no
    README.md, or if the folder is not named after the paper."""
    path = claims_file_by_paper()[name]
    paper = parse_toml(Paper, read_user_file(path), path, _REMEDY)
    if paper.name != name:
        raise ProfileError(f"{path} is of {paper.name}, and its folder is called {name}", _REMEDY)
    if not path.with_name("README.md").is_file():
        raise ProfileError(f"{path.parent} has no README.md", "Write one: which paper it is, and what is judged of it.")
    return paper


def select_claims(names: list[str]) -> list[tuple[Paper, list[Claim]]]:
    """Returns the papers (named like S0) and single claims (named like S0.4) with these names; all if `names` is empty.
    Raises UsageError for unknown names."""
    papers = [load_paper(name) for name in claims_file_by_paper()]
    known_names = [*(p.name for p in papers), *(c.id for p in papers for c in p.claim)]
    for name in names:
        if name not in known_names:
            raise UsageError(
                f"there is no claim '{name}'",
                f"{suggest_name(name, known_names)}; all of them: {own_command.command_line('reproduce', '--list')}",
            )
    selected = [(p, [c for c in p.claim if not names or p.name in names or c.id in names]) for p in papers]
    return [(paper, claims) for paper, claims in selected if claims]
