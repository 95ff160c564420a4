"""Describes why a run is incomplete, from the [[launch]] tables in run.toml."""

from __future__ import annotations

from nearfield.base.units import counted
from nearfield.profile.schema import Launch, LaunchState, Run

_STATE_PHRASES: dict[LaunchState, str] = {
    "failed": "failed",
    "stopped": "stopped before the end",
    "pending": "did not begin",
}


def describe_unfinished(run: Run) -> str:
    """Returns for example 'unfinished: 1 of 2 launches failed (no end after 196 s)'; 'unfinished: it was interrupted'
    if no launch has a reason, as after Ctrl-C; '' for a complete run."""
    if run.complete:
        return ""
    states = {launch.state for launch in run.launch}
    counts = [_describe_launches(run.launch, state) for state in _STATE_PHRASES if state in states]
    return f"unfinished: {'; '.join(counts) or 'it was interrupted'}"


def _describe_launches(launches: list[Launch], state: LaunchState) -> str:
    """Returns the launches in this state with their reasons, for example '1 of 2 launches failed (no end after 196 s)'.
    A stopped launch without a reason was interrupted."""
    in_state = [launch for launch in launches if launch.state == state]
    reasons = dict.fromkeys(launch.reason or ("interrupted" if state == "stopped" else "") for launch in in_state)
    why = "; ".join(filter(None, reasons))
    return f"{len(in_state)} of {counted(len(launches), 'launch', 'launches')} {_STATE_PHRASES[state]}" + (
        f" ({why})" if why else ""
    )
