"""Converts rules to the environment of a launch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from nearfield.apply import native, per_pair
from nearfield.apply.distance_check import RecordedLatency, depends_on_core_latency
from nearfield.apply.launch_plan import AppliedRules, LaunchPlan, merge_environment
from nearfield.apply.rules_library import has_rules_for
from nearfield.base import own_command
from nearfield.base.errors import MpiError, NearfieldError, UsageError
from nearfield.base.topology import Topology
from nearfield.mpi.detect_command import DetectedMpi, detect_mpi, installation_of_detected_mpi
from nearfield.rules import collectives, paths
from nearfield.rules.applicability import make_machine_table, rules_mismatches
from nearfield.rules.collective_tables import format_selection
from nearfield.rules.schema import (
    MAKE_RULES_PREFIX,
    Rules,
    find_rules_path,
    load_rules,
    load_rules_of_mpi,
)


def plan_launch(
    argv: Sequence[str], rules_path: Path | None, force: bool, mpi_name: str | None
) -> tuple[LaunchPlan, list[Path] | None]:
    """Returns the plan for a command, and the files from which its MPI was detected; None instead of the files if the
    plan must not be cached. Raises errors if the rules do not apply to this command or machine."""
    path = _find_rules_or_explain(rules_path, argv, mpi_name)
    found: DetectedMpi | None = None
    if path.is_dir():
        found = detect_mpi(argv, mpi_name)
        path, rules = load_rules_of_mpi(path, found.family, found.version)
    else:
        rules = load_rules(path)
        try:
            found = detect_mpi(argv, mpi_name)
        except MpiError:
            if not force:
                raise
    if found and not force:
        require_matching_rules(rules, found, str(path))
    plan, lasts = _make_plan(rules, found, os.environ)
    return plan, list(found.files if found else ()) if lasts else None


def apply_rules(
    rules: Rules, detected_mpi: DetectedMpi | None = None, inherited_environment: Mapping[str, str] = os.environ
) -> AppliedRules:
    """Returns the variables that these rules add to the inherited environment. Rules of several core distances are set
    per pair of ranks if the MPI supports that; otherwise one rule is used for all pairs."""
    return merge_environment(_make_plan(rules, detected_mpi, inherited_environment)[0], inherited_environment)


def _make_plan(
    rules: Rules, detected_mpi: DetectedMpi | None, inherited_environment: Mapping[str, str]
) -> tuple[LaunchPlan, bool]:
    """Returns the plan, and whether it may be cached. A plan with failures may not, because their cause may be
    fixed."""
    plan = LaunchPlan({}, tuned_on_host=rules.host)
    plan.no_variables_reason = next((rule.reason for rule in rules.rule if rule.reason), "")
    plan.recorded_latencies = [
        vars(RecordedLatency.from_latency(rule.pair, rule.c2c_latency_ns))
        for rule in rules.rule
        if depends_on_core_latency(rules, rule)
    ]
    lasts = _add_messages(plan, rules, detected_mpi, inherited_environment)
    if rules.loads_collectives and detected_mpi:
        lasts &= _add_collectives(plan, rules, detected_mpi, inherited_environment)
    if rules.selects_native_algorithms and detected_mpi:
        lasts &= _add_native(plan, rules, detected_mpi)
    return plan, lasts and not plan.warnings


def _add_collectives(
    plan: LaunchPlan, rules: Rules, detected_mpi: DetectedMpi, inherited_environment: Mapping[str, str]
) -> bool:
    """Adds the variables that preload nearfield's collectives. Returns whether the plan may be cached."""
    inst = installation_of_detected_mpi(detected_mpi)
    try:
        if inst is None:
            raise MpiError(f"{detected_mpi.family} {detected_mpi.version} is not among the MPIs that are found here")
        plan.variables |= collectives.collectives_variables(inst, {**inherited_environment, **plan.variables})
    except MpiError as error:
        plan.warnings.append(f"collectives are the MPI's own: {error.message}")
        return False
    plan.variables[collectives.COLLECTIVES_VARIABLE] = format_selection(rules.collective_tables())
    return True


def _add_native(plan: LaunchPlan, rules: Rules, detected_mpi: DetectedMpi) -> bool:
    """Adds the variables that select the MPI's own algorithms of collectives. Returns whether the plan may be
    cached."""
    try:
        values, plan.node_files = native.native_environment(rules, installation_of_detected_mpi(detected_mpi))
    except NearfieldError as error:
        plan.warnings.append(f"the MPI chooses its algorithms of collectives itself: {error.message}")
        return False
    plan.variables |= values
    return True


def _add_messages(
    plan: LaunchPlan, rules: Rules, detected_mpi: DetectedMpi | None, inherited_environment: Mapping[str, str]
) -> bool:
    """Adds the variables for point-to-point messages. Returns whether the plan may be cached."""
    lasts = True
    settings, knobs = rules.best_rule_for_all_pairs().parameters, rules.find_knob_file()
    if per_pair.have_different_parameters(rules):
        inst = installation_of_detected_mpi(detected_mpi) if detected_mpi else None
        try:
            if inst is None:
                lasts = False
                raise MpiError("it is not known which MPI will run")
            plan.variables = per_pair.per_pair_environment(rules, inst, inherited_environment)
            return lasts
        except MpiError as error:
            why = f"{error.message}; one set for all pairs, that of {rules.best_rule_for_all_pairs().distance}"
            # A warning only if the MPI supports rules per pair; otherwise a note.
            (plan.warnings if knobs.per_pair and inst else plan.notes).append(why)
    plan.variables = knobs.launch_environment(settings, inherited_environment)
    return lasts


def require_matching_rules(rules: Rules, detected_mpi: DetectedMpi, rules_source: str) -> None:
    """Raises UsageError with all reasons if the rules are for another MPI, version or machine."""
    topology = Topology.of_this_machine()
    machine = make_machine_table(topology, topology.cache_bytes(topology.pus[0]))
    if reasons := rules_mismatches(rules, detected_mpi.family, detected_mpi.version, machine):
        raise UsageError(
            f"the rules in {rules_source} do not fit: {'; '.join(reasons)}",
            f"make rules for this MPI here: {_tune_command_line(detected_mpi)}   and take them with --rules "
            f"{paths.DEFAULT_RULES_FOLDER}, or use these anyway with --force",
        )


def _tune_command_line(detected_mpi: DetectedMpi) -> str:
    """Returns the command line that tunes this MPI, with its output in the default folder for rules of several MPIs."""
    name = f"{detected_mpi.family}-{detected_mpi.version}"
    return own_command.command_line("tune", "--mpi", name, "-o", f"{paths.DEFAULT_RULES_FOLDER}/{name}.toml")


def _find_rules_or_explain(rules_path: Path | None, argv: Sequence[str], mpi_name: str | None) -> Path:
    """Returns the file or folder of the rules. If there are none, raises UsageError with the command line that makes
    rules for the program's MPI."""
    try:
        return find_rules_path(rules_path)
    except UsageError as error:
        if error.remedy.startswith(MAKE_RULES_PREFIX):  # retains the remedy that completes an interrupted tune
            with suppress(NearfieldError):
                found = detect_mpi(argv, mpi_name)
                error.remedy = f"{_library_hint(found)}{MAKE_RULES_PREFIX}{_tune_command_line(found)}"
        raise


def _library_hint(detected_mpi: DetectedMpi) -> str:
    """Returns the command that takes rules of the library, if they fit; otherwise an empty text."""
    if not has_rules_for(detected_mpi.family, detected_mpi.version):
        return ""
    name = f"{detected_mpi.family}-{detected_mpi.version}"
    return f"take those of the library: {own_command.command_line('rules', 'fetch', '--mpi', name)}   or "
