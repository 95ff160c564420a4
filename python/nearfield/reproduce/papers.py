"""Finds and loads the claims of papers by name: papers/NAME/claims.toml, in the source tree or in the package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from nearfield.base import own_command
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import read_file
from nearfield.base.toml import parse_toml
from nearfield.base.words import suggest
from nearfield.reproduce.schema import Claim, Paper

_REMEDY = "Mend that line; papers/S0/claims.toml of nearfield shows what claims look like."


def paper_files() -> dict[str, Path]:
    """Returns name of a paper -> its claims.toml."""
    package = Path(__file__).resolve().parents[1]
    places = [package / "papers", *(parent / "papers" for parent in package.parents[:3])]
    return next(({f.parent.name: f for f in sorted(p.glob("*/claims.toml"))} for p in places if p.is_dir()), {})


@cache
def load_paper(name: str) -> Paper:
    """Returns the paper. Raises ProfileError with the file and the invalid key; also if the folder has no README, or if
    its name is not the paper's."""
    path = paper_files()[name]
    paper = parse_toml(Paper, read_file(path), path, _REMEDY)
    if paper.name != name:
        raise ProfileError(f"{path} is of {paper.name}, and its folder is called {name}", _REMEDY)
    if not path.with_name("README.md").is_file():
        raise ProfileError(f"{path.parent} has no README.md", "Write one: which paper it is, and what is judged of it.")
    return paper


def choose_claims(names: list[str]) -> list[tuple[Paper, list[Claim]]]:
    """Returns the papers (S0) and single claims (S0.4) with these names, or all. Raises UsageError for unknown
    names."""
    papers = [load_paper(name) for name in paper_files()]
    known = [*(p.name for p in papers), *(c.id for p in papers for c in p.claim)]
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no claim '{name}'",
                f"{suggest(name, known)}; all of them: {own_command.line('reproduce', '--list')}",
            )
    chosen = [(p, [c for c in p.claim if not names or p.name in names or c.id in names]) for p in papers]
    return [(paper, claims) for paper, claims in chosen if claims]
