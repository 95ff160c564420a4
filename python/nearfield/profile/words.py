"""Words for errors: the name that was probably meant, and texts as whole sentences."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(name: str, valid: Iterable[str]) -> str:
    """Returns "did you mean 'state'?" if a valid name is similar, otherwise all of them."""
    names = list(valid)
    beginning = [valid_name for valid_name in names if name and valid_name.startswith(name.lower())]
    near = beginning or difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.65)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"valid: {', '.join(names)}" if names else "there is none at all"


def sentence(text: str) -> str:
    """Returns the text with a capital letter and, unless it is a question, a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith("?") else ".")
