"""Text utilities for error messages: the name that was probably meant, capital letters, lists."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def suggest_name(name: str, valid_names: Iterable[str]) -> str:
    """Returns "did you mean 'state'?" if a valid name is similar, otherwise a list of all valid names."""
    names = list(valid_names)
    beginning = [valid_name for valid_name in names if name and valid_name.startswith(name.lower())]
    near = beginning or difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.65)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"valid: {', '.join(names)}" if names else "there is none at all"


def capitalize(text: str) -> str:
    """Returns the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def as_sentence(text: str) -> str:
    """Returns the text with a capital letter and, unless it is a question, a full stop."""
    return capitalize(text) + ("" if text.endswith("?") else ".")


def join_and(words: Sequence[str]) -> str:
    """Joins words as 'a', 'a and b' or 'a, b and c'."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def group_by_reason(names_with_reasons: Iterable[tuple[str, str]]) -> str:
    """Returns text such as 'collective, pages: needs 2 free cores; there is 1' from pairs (name, reason): names with
    the same reason are grouped."""
    names: dict[str, dict[str, None]] = {}
    for name, reason in names_with_reasons:
        names.setdefault(reason, {})[name] = None
    return ". ".join(f"{', '.join(those)}: {reason}" for reason, those in names.items())
