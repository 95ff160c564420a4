"""run.toml: how the records came to be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import nearfield
from nearfield.measure.request import Request
from nearfield.measure.row import Row
from nearfield.profile import schema


def run_of(
    request: Request,
    rows: Iterable[Row],
    *,
    complete: bool,
    seconds: float,
    scenarios: Iterable[schema.Scenario],
    **circumstances: Any,
) -> schema.Run:
    """Returns what run.toml says of these records. `seconds`: how long measuring them took. `scenarios`: all that the
    backend has; those with records are described. `circumstances`: the other keys, which the backend knows."""
    present = {row["scenario"] for row in rows}
    return schema.Run(
        schema_version=1,
        nearfield=nearfield.__version__,
        created=request.created,
        tier=request.thoroughness.name,
        command=request.command,
        seconds=seconds,
        complete=complete,
        scenario=[scenario for scenario in scenarios if scenario.name in present],
        **circumstances,
    )
