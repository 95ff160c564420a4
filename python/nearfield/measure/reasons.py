"""Says why scenarios cannot run."""

from __future__ import annotations

from collections.abc import Iterable


def by_reason(skipped: Iterable[tuple[str, str]]) -> str:
    """Returns 'collective, pages: needs 2 free cores; there is 1' from pairs of a name and its reason. Names with the
    same reason stand together."""
    names: dict[str, dict[str, None]] = {}
    for name, reason in skipped:
        names.setdefault(reason, {})[name] = None
    return ". ".join(f"{', '.join(those)}: {reason}" for reason, those in names.items())
