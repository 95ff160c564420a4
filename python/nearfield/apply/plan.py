"""Turns rules into the environment of a launch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from nearfield.apply import native, per_pair
from nearfield.apply.cached_plan import Application, Plan, merge_environment
from nearfield.apply.distance_check import RecordedLatency
from nearfield.base import own_command
from nearfield.base.errors import MpiError, NearfieldError, UsageError
from nearfield.base.topology import Topology
from nearfield.mpi.detect_command import Recognised, installation_of, recognise
from nearfield.rules import collectives, paths
from nearfield.rules.schema import (
    MAKE_THEM,
    Rules,
    RuleTable,
    find_rules,
    load_rules,
    machine_table,
    mismatches,
    rules_of_mpi,
)


def plan_launch(
    argv: Sequence[str], file: Path | None, force: bool, mpi_name: str | None
) -> tuple[Plan, list[Path] | None]:
    """Returns the plan for a command, and the files that identified its MPI, or None if the plan may soon change.
    Raises errors if the rules are not for this command or this machine."""
    path = _rules_at(file, argv, mpi_name)
    found: Recognised | None = None
    if path.is_dir():
        found = recognise(argv, mpi_name)
        path, rules = rules_of_mpi(path, found.family, found.version)
    else:
        rules = load_rules(path)
        try:
            found = recognise(argv, mpi_name)
        except MpiError:
            if not force:
                raise
    if found and not force:
        require_matching_rules(rules, found, str(path))
    plan, lasts = _plan(rules, found, os.environ)
    return plan, list(found.files if found else ()) if lasts else None


def application(
    rules: Rules, found: Recognised | None = None, inherited: Mapping[str, str] = os.environ
) -> Application:
    """Returns the variables that these rules add to the inherited ones. Rules of several distances are set per pair if
    the MPI allows that; otherwise all pairs get the same rule."""
    return merge_environment(_plan(rules, found, inherited)[0], inherited)


def _plan(rules: Rules, found: Recognised | None, inherited: Mapping[str, str]) -> tuple[Plan, bool]:
    """Returns the plan, and whether it lasts: a failure may be mended, and a missing MPI may be installed."""
    plan = Plan({}, host=rules.host)
    plan.reason = next((rule.reason for rule in rules.rule if rule.reason), "")
    plan.latencies = [
        vars(RecordedLatency.of(rule.pair, rule.c2c_latency_ns))
        for rule in rules.rule
        if _depends_on_distance(rules, rule)
    ]
    lasts = _add_messages(plan, rules, found, inherited)
    if rules.loads_collectives and found:
        lasts &= _add_collectives(plan, rules, found, inherited)
    if rules.selects_native and found:
        lasts &= _add_native(plan, rules, found)
    return plan, lasts and not plan.warnings


def _add_collectives(plan: Plan, rules: Rules, found: Recognised, inherited: Mapping[str, str]) -> bool:
    """Adds what loads the selected algorithms of collectives. Returns whether the plan lasts."""
    inst = installation_of(found)
    try:
        if inst is None:
            raise MpiError(f"{found.family} {found.version} is not among the MPIs that are found here")
        plan.values |= collectives.for_installation(inst, {**inherited, **plan.values})
    except MpiError as error:
        plan.warnings.append(f"collectives are the MPI's own: {error.message}")
        return False
    plan.values[collectives.VARIABLE] = collectives.selection(rules.collectives())
    return True


def _add_native(plan: Plan, rules: Rules, found: Recognised) -> bool:
    """Adds what selects the MPI's own algorithms of collectives. Returns whether the plan lasts."""
    try:
        values, plan.node_files = native.environment(rules, installation_of(found))
    except NearfieldError as error:
        plan.warnings.append(f"the MPI chooses its algorithms of collectives itself: {error.message}")
        return False
    plan.values |= values
    return True


def _add_messages(plan: Plan, rules: Rules, found: Recognised | None, inherited: Mapping[str, str]) -> bool:
    """Adds the variables for messages between two ranks. Returns whether the plan lasts."""
    lasts = True
    settings, knobs = rules.best_for_all().parameters, rules.knobs()
    if per_pair.differ(rules):
        inst = installation_of(found) if found else None
        try:
            if inst is None:
                lasts = False
                raise MpiError("it is not known which MPI will run")
            plan.values = per_pair.environment(rules, inst, inherited)
            return lasts
        except MpiError as error:
            why = f"{error.message}; one set for all pairs, that of {rules.best_for_all().distance}"
            # It is a warning only if the MPI could do better; otherwise a note suffices.
            (plan.warnings if knobs.per_pair and inst else plan.notes).append(why)
    plan.values = knobs.for_launch(settings, inherited)
    return lasts


def _depends_on_distance(rules: Rules, rule: RuleTable) -> bool:
    """Returns whether the rule only holds while the cores stay in their place. With the shared heap it always holds,
    since that measures the distance itself."""
    return bool(rule.parameters) and not rules.knobs().uses_heap(rule.parameters)


def require_matching_rules(rules: Rules, found: Recognised, where: str) -> None:
    """Raises UsageError with every reason if the rules are for another MPI, version or machine."""
    topology = Topology.live()
    machine = machine_table(topology, topology.cache_bytes(topology.pus[0]))
    if reasons := mismatches(rules, found.family, found.version, machine):
        raise UsageError(
            f"the rules in {where} do not fit: {'; '.join(reasons)}",
            f"make rules for this MPI here: {_tuning(found)}   and take them with --rules {paths.FOLDER}, or use "
            "these all the same with --force",
        )


def _tuning(found: Recognised) -> str:
    """Returns the command that tunes the MPI of a program, into the folder where rules of several MPIs are found."""
    name = f"{found.family}-{found.version}"
    return own_command.line("tune", "--mpi", name, "-o", f"{paths.FOLDER}/{name}.toml")


def _rules_at(file: Path | None, argv: Sequence[str], mpi_name: str | None) -> Path:
    """Returns where the rules are. Without any, raises UsageError with the command that makes them for the MPI of the
    program, as far as that is known."""
    try:
        return find_rules(file)
    except UsageError as error:
        if error.remedy.startswith(MAKE_THEM):  # not that an interrupted tune can be completed
            with suppress(NearfieldError):
                error.remedy = f"{MAKE_THEM}{_tuning(recognise(argv, mpi_name))}"
        raise
