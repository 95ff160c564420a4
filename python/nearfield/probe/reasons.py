"""Why scenarios cannot run, in one sentence."""

from __future__ import annotations

from collections.abc import Iterable


def by_reason(skipped: Iterable[tuple[str, str]]) -> str:
    """Returns 'collective, pages: needs 2 free cores; there is 1' from names and reasons: every reason and every name
    once. Several reasons are sentences."""
    names: dict[str, dict[str, None]] = {}
    for name, reason in skipped:
        names.setdefault(reason, {})[name] = None
    return ". ".join(f"{', '.join(those)}: {reason}" for reason, those in names.items())
