"""From rules to what must be in the environment of a launch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from nearfield import _native, mpi
from nearfield.errors import MpiError, UsageError
from nearfield.mpi import Installation
from nearfield.topology import Topology
from nearfield.tune import per_pair
from nearfield.tune.gains import FARTHER
from nearfield.tune.recognise import Recognised
from nearfield.tune.rules import Rules, machine_table, mismatches


@dataclass
class Application:
    """What to set for a launch, and what to tell the person who asked how; warnings even one who did not."""

    environment: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def application(rules: Rules, found: Recognised | None = None, here: Mapping[str, str] = os.environ) -> Application:
    """What these rules set beside an environment. Several distances: per pair where the MPI that was found can be given
    that, else one set for all. A variable that is set there already stays: the user knows better."""
    made = Application()
    for name, value in _wanted(rules, found, here, made).items():
        if name in here and name not in ("LD_PRELOAD", "OMPI_MCA_mca_base_component_path"):
            made.notes.append(f"{name} = {here[name]} stays, as it was set before (the rules have {value})")
        else:
            made.environment[name] = value
            made.notes.append(f"{name} = {value}")
    if not made.environment:
        reason = next((rule.reason for rule in rules.rule if rule.reason), "stock is best")
        made.notes.append(f"nothing is set: {reason}")
    return made


def _wanted(rules: Rules, found: Recognised | None, here: Mapping[str, str], made: Application) -> dict[str, str]:
    if per_pair.differ(rules):
        inst = installation_of(found) if found else None  # asks every MPI here, which takes a while
        try:
            if inst is None:
                raise MpiError("it is not known which MPI will run")
            return per_pair.environment(rules, inst, here)
        except MpiError as error:
            why = f"{error.message}; one set for all pairs, that of {rules.best_for_all().distance}"
            # Only where it could be otherwise is it worth a word to everybody.
            (made.warnings if rules.knobs().per_pair and inst else made.notes).append(why)
    settings = rules.best_for_all().parameters
    if not rules.knobs().need_component(settings):
        return rules.knobs().environment(settings)
    try:
        theirs = found or Recognised(rules.mpi.family, rules.mpi.version, "the rules")
        inst = installation_of(theirs)
        if inst is None:
            raise MpiError(f"{theirs.family} {theirs.version} is not here to build nearfield's component for")
        return rules.knobs().environment(settings) | per_pair.loading(inst, here)
    except MpiError as error:
        made.warnings.append(f"{error.message}; nothing is set, the program runs stock")
        return {}


def installation_of(found: Recognised) -> Installation | None:
    """The MPI of this machine that was recognised."""
    same = [i for i in mpi.discover() if (i.family, i.version) == (found.family, found.version)]
    return same[0] if same else None


def require_fit(rules: Rules, found: Recognised, where: str) -> None:
    """UsageError, with every reason, if the rules are for another MPI, version or machine."""
    topology = Topology.live()
    machine = machine_table(topology, topology.cache_bytes(topology.pus[0]))
    if reasons := mismatches(rules, found.family, found.version, machine):
        raise UsageError(
            f"the rules in {where} do not fit: {'; '.join(reasons)}",
            "tune here (nearfield tune), or use them all the same with --force",
        )


def farther_apart(rules: Rules) -> str:
    """Why the rules do not hold now, in words; empty if they do. A virtual machine's cores move: they may be farther
    apart than when it was tuned. Takes some milliseconds."""
    for rule in rules.rule:
        if rule.parameters and rule.flag_ns:
            now = _native.flag_ns(*map(int, rule.pair.split("-")))
            if now > FARTHER * rule.flag_ns:
                return (
                    f"cores {rule.pair} are farther apart now, {now:.0f} ns for a flag, than when this was tuned, "
                    f"{rule.flag_ns:.0f} ns: this run is stock (tune again, or use the rules all the same with --force)"
                )
    return ""


def environment_of(made: Application) -> dict[str, str]:
    return {**os.environ, **made.environment}
