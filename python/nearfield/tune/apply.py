"""From rules to what must be in the environment of a launch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nearfield.errors import UsageError
from nearfield.topology import Topology
from nearfield.tune.recognise import Recognised
from nearfield.tune.rules import Rules, RuleTable, machine_table, mismatches


@dataclass
class Application:
    """What to set for a launch, and what to tell the person who asked how."""

    environment: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def application(rules: Rules, here: Mapping[str, str] = os.environ) -> Application:
    """What these rules set beside an environment. A variable that is set there already stays: the user knows better."""
    made = Application()
    chosen = _chosen(rules, made)
    for name, value in rules.knobs().environment(chosen.parameters).items():
        if name in here:
            made.notes.append(f"{name} = {here[name]} stays, as it was set before (the rules have {value})")
        else:
            made.environment[name] = value
    if not chosen.parameters:
        made.notes.append(f"nothing is set: {chosen.reason or 'stock is best'}")
    made.notes += [f"{name} = {value}" for name, value in made.environment.items()]
    return made


def _chosen(rules: Rules, made: Application) -> RuleTable:
    """One set of parameters for the whole launch."""
    chosen = rules.best_of()
    if len(rules.rule) > 1:
        made.notes.append(
            f"one set for all pairs, that of {chosen.distance}: this MPI takes no parameters per pair of ranks"
        )
    return chosen


def require_fit(rules: Rules, found: Recognised, where: str) -> None:
    """UsageError, with every reason, if the rules are for another MPI, version or machine."""
    topology = Topology.live()
    machine = machine_table(topology, topology.cache_bytes(topology.pus[0]))
    if reasons := mismatches(rules, found.family, found.version, machine):
        raise UsageError(
            f"the rules in {where} do not fit: {'; '.join(reasons)}",
            "tune here (nearfield tune), or use them all the same with --force",
        )


def environment_of(made: Application) -> dict[str, str]:
    return {**os.environ, **made.environment}


def command_line(argv: Sequence[str], made: Application) -> str:
    """How one would type it."""
    return " ".join([*(f"{name}={value}" for name, value in made.environment.items()), *argv])
