"""Identifies the message sizes at which the MPI changes its behaviour: protocol switches that the engine detected,
matched with the MPI's own thresholds (MPI_T control variables), and steps in time that no protocol switch explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from nearfield import _native
from nearfield.profile.schema import ProtocolSwitch, SwitchKind

STEP_FACTOR = 1.25  # minimum ratio of the growth at a step to the growth of the trend

# Kind of switch -> parts of the names of MPI_T variables that set its threshold, the most specific first.
_VARIABLE_NAME_PARTS: dict[SwitchKind, tuple[str, ...]] = {
    "eager-limit": ("eager_limit", "eager_max", "cell_size", "eager_threshold", "eager"),
    "unattended-limit": ("inline", "cell_size", "fbox", "eager"),
    "single-copy": ("cma_p2p_threshold", "cma", "eager_limit", "single_copy", "ipc"),
    "step": ("max_send", "fbox", "eager", "threshold", "cell_size"),
}
_NODE_VARIABLE_PARTS = ("btl_sm", "btl_vader", "smsc", "shm", "ipc", "posix", "sm_")
DetectableSwitchKind = Literal["eager-limit", "unattended-limit", "single-copy"]
EVIDENCE_BY_KIND: dict[DetectableSwitchKind, str] = {
    "eager-limit": "beyond it MPI_Send returned only once the receive was posted",
    "unattended-limit": "beyond it MPI_Send returned only once the receiver was inside MPI",
    "single-copy": "beyond it the kernel copied the message (process_vm_readv/writev)",
}


class DetectedSwitch(NamedTuple):
    """A protocol switch that one launch detected on a pair of ranks."""

    pair: str
    distance: str | None
    kind: DetectableSwitchKind
    size_bytes: int


def name_switches(detected_switches: Iterable[DetectedSwitch], variables: dict[str, int]) -> list[ProtocolSwitch]:
    """Returns one protocol switch per pair, kind and size, with the MPI_T variable that sets it. If launches disagree
    on the size, the majority decides."""
    votes: dict[tuple[str, str | None, DetectableSwitchKind], list[int]] = {}
    for one in detected_switches:
        votes.setdefault((one.pair, one.distance, one.kind), []).append(one.size_bytes)
    switches: list[ProtocolSwitch] = []
    for (pair, distance, kind), sizes in votes.items():
        for size in _majority_sizes(kind, sizes, variables):
            name = _variable_for_payload(kind, size, variables)
            switches.append(_make_switch(pair, distance, kind, size, name, variables, EVIDENCE_BY_KIND[kind]))
    return sorted(switches, key=lambda s: (s.pair or "", s.bytes))


def _majority_sizes(kind: SwitchKind, sizes: list[int], variables: dict[str, int]) -> list[int]:
    """Returns the sizes that most launches detected. If no two launches agree, returns one size, preferably one at a
    threshold of the MPI."""
    votes = Counter(sizes)
    max_votes = max(votes.values())
    agreed = sorted(size for size in votes if votes[size] == max_votes)
    if max_votes > 1:
        return agreed
    named = [size for size in agreed if _variable_for_payload(kind, size, variables)]
    return (named or [agreed[(len(agreed) - 1) // 2]])[:1]


def add_steps(
    switches: list[ProtocolSwitch], rows: list[dict[str, Any]], variables: dict[str, int]
) -> list[ProtocolSwitch]:
    """Returns the switches, and a switch of kind "step" for every step of the ping-pong time that no protocol switch
    explains. If a switch explains a step, the step is appended to the evidence of the switch."""
    result = list(switches)
    pairs = {(r["pair"], r["distance"]) for r in rows if r["scenario"] == "pingpong"}
    for pair, distance in sorted(pairs, key=str):
        curve = sorted(
            (r["size_bytes"], r["value"])
            for r in rows
            if r["scenario"] == "pingpong" and r["metric"] == "half_round_trip" and r.get("state") == "reused"
            and r["pair"] == pair and r["stable"]
        )  # fmt: skip
        for size, beyond, factor in _find_steps(curve):
            _explain_step(result, pair, distance, size, beyond, factor, variables)
    return result


def _find_steps(curve: list[tuple[int, float]]) -> Iterable[tuple[int, int, float]]:
    """Yields (size before the step, size after it, ratio to the trend) for each step of a curve of (size, time)."""
    sizes, times = [float(s) for s, _ in curve], [t for _, t in curve]
    for step in _native.find_steps(sizes, times, STEP_FACTOR):
        yield curve[step.index][0], curve[step.index + 1][0], step.factor


def _explain_step(
    switches: list[ProtocolSwitch],
    pair: str | None,
    distance: str | None,
    size_before: int,
    size_after: int,
    factor: float,
    variables: dict[str, int],
) -> None:
    percent = 100 * (factor - 1)
    evidence = f"half_round_trip grows by {percent:.0f} % more than its trend between {size_before} and {size_after} B"
    causes = [s for s in switches if s.pair == pair and size_before <= s.bytes < size_after and s.kind != "step"]
    for cause in causes:
        cause.evidence = f"{cause.evidence}; {evidence}"
    if not causes:
        name = _variable_with_value("step", size_before, size_after, variables)
        switches.append(_make_switch(pair, distance, "step", size_before, name, variables, evidence))


def _variable_for_payload(kind: SwitchKind, size: int, variables: dict[str, int]) -> str | None:
    """Returns the variable whose value is a threshold of `size` bytes or slightly more, since the threshold may include
    the message header; None if there is none."""
    return _variable_with_value(kind, size, int(1.1 * size) + 64, variables)


def _variable_with_value(kind: SwitchKind, min_value: int, max_value: int, variables: dict[str, int]) -> str | None:
    """Returns the variable with a value from `min_value` to `max_value` whose name fits the kind best; None if there is
    none."""
    candidates = [name for name, value in variables.items() if max(min_value, 2) <= value <= max_value]
    node_variables = [name for name in candidates if any(word in name.lower() for word in _NODE_VARIABLE_PARTS)]
    for word in _VARIABLE_NAME_PARTS[kind]:
        fitting = [name for name in node_variables if word in name.lower()]
        if fitting:
            return min(fitting, key=lambda name: (variables[name], name))
    return None


def _make_switch(
    pair: str | None,
    distance: str | None,
    kind: SwitchKind,
    size: int,
    name: str | None,
    variables: dict[str, int],
    evidence: str,
) -> ProtocolSwitch:
    value = variables[name] if name else None
    return ProtocolSwitch(
        pair=pair, distance=distance, kind=kind, bytes=size, name=name, value=value, evidence=evidence
    )
