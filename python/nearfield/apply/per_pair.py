"""Sets parameters per pair of ranks in MPIs that support this.

Open MPI 4 loads nearfield's component, which wraps its shared-memory transport (src/preload/openmpi): it sets eager
limit, fragment size and single copy per pair. MPICH 4.3 and later loads nearfield's shim (src/preload/mpich), which
sets single copy per pair. Parameters that must be equal for all pairs (cells, fast boxes, segments, the shared heap)
come from the rule that is best for all pairs."""

from __future__ import annotations

from collections.abc import Mapping

from nearfield import mpi
from nearfield.base.errors import MpiError
from nearfield.base.topology import CORE_DISTANCES
from nearfield.mpi import Installation
from nearfield.rules.knobs import Settings
from nearfield.rules.schema import Rules

SINGLE_COPY_NEVER = "never"
_PER_PAIR_LIMIT_KNOBS = ("eager_limit", "max_send_size")


def have_different_parameters(rules: Rules) -> bool:
    """Returns whether the rules of different core distances have different parameters."""
    return any(rule.parameters != rules.rule[0].parameters for rule in rules.rule)


def per_pair_environment(rules: Rules, inst: Installation, inherited_environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables that make each pair of ranks follow the rule of its core distance; pairs
    without a rule get the MPI's defaults. Builds the library on first use. Raises MpiError with the reason if this MPI
    cannot load it."""
    way = {"component": _component_environment, "shim": _shim_environment}.get(rules.find_knob_file().per_pair or "")
    if way is None:
        raise MpiError(f"{inst.name} takes no parameters per pair of ranks")
    return way(rules, inst, inherited_environment)


def settings_by_distance(rules: Rules) -> dict[str, Settings]:
    """Returns the values of all knobs for every core distance within a node."""
    knobs = rules.find_knob_file()
    given = {rule.distance: rule.parameters for rule in rules.rule}
    return {distance: knobs.with_defaults(given.get(distance, {})) for distance in CORE_DISTANCES}


def component_variables(inst: Installation, inherited_environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables that load nearfield's component into Open MPI 4. Builds the component on first
    use. Raises MpiError."""
    file = mpi.build_target(inst, mpi.COMPONENT_TARGET)
    # Open MPI's own component folders
    path = inherited_environment.get("OMPI_MCA_mca_base_component_path") or "SYSTEM_DEFAULT:USER_DEFAULT"
    return {"OMPI_MCA_mca_base_component_path": f"{file.parent}:{path}"}


def _component_environment(
    rules: Rules, inst: Installation, inherited_environment: Mapping[str, str]
) -> dict[str, str]:
    knobs, settings = rules.find_knob_file(), settings_by_distance(rules)
    common = dict(rules.best_rule_for_all_pairs().parameters)
    # the transport's own limits must be at least those of every distance
    for name in (*_PER_PAIR_LIMIT_KNOBS, "segment_size"):
        common[name] = max(int(one[name]) for one in settings.values())
    if any(one["single_copy"] != "none" for one in settings.values()):
        common.pop("single_copy", None)
    texts = []
    for distance, one in settings.items():
        limits = [f"{name}={one[name]}" for name in _PER_PAIR_LIMIT_KNOBS]
        limits += [f"single_copy_from={SINGLE_COPY_NEVER}"] if one["single_copy"] == "none" else []
        texts.append(f"{distance}:{','.join(limits)}")
    component = component_variables(inst, inherited_environment) | {"OMPI_MCA_btl_nearfield_rules": ";".join(texts)}
    return knobs.launch_environment(common, inherited_environment) | component


def _shim_environment(rules: Rules, inst: Installation, inherited_environment: Mapping[str, str]) -> dict[str, str]:
    library = mpi.build_target(inst, mpi.SHIM_TARGET)
    knobs = rules.find_knob_file()
    common = {n: value for n, value in rules.best_rule_for_all_pairs().parameters.items() if n != "cma_threshold"}
    never = knobs["cma_threshold"].high
    limits = {rule.distance: rule.parameters.get("cma_threshold") for rule in rules.rule}
    texts = [
        f"{distance}:single_copy_from={SINGLE_COPY_NEVER if limit == never else limit}"
        for distance, limit in limits.items()
        if limit is not None
    ]
    preloaded = " ".join([str(library), *filter(None, [inherited_environment.get("LD_PRELOAD")])])
    shim = {"NEARFIELD_PAIR_RULES": ";".join(texts), "LD_PRELOAD": preloaded}
    return shim | knobs.launch_environment(common, {**inherited_environment, "LD_PRELOAD": preloaded})
