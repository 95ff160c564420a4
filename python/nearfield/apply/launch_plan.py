"""The environment variables that rules set for a launch. This module has almost no imports, because `nearfield run`
precedes every mpirun (cached_plan.py)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

# Variables whose inherited values are retained, with nearfield's libraries added.
EXTENDED_VARIABLES = ("LD_PRELOAD", "ASAN_OPTIONS", "OMPI_MCA_mca_base_component_path")


class LaunchPlan:
    """The environment variables that the rules set for one MPI, before the user's own variables override some of them.
    Cached between runs."""

    def __init__(
        self,
        variables: Mapping[str, str],
        notes: Iterable[str] = (),
        warnings: Iterable[str] = (),
        no_variables_reason: str = "",
        recorded_latencies: Iterable[Mapping[str, Any]] = (),
        tuned_on_host: str = "",
        node_files: Iterable[str] = (),
    ) -> None:
        self.variables = dict(variables)
        self.notes = list(notes)
        self.warnings = list(warnings)
        self.no_variables_reason = no_variables_reason  # why no variable is set, if so
        # fields of the RecordedLatency objects to check before a run
        self.recorded_latencies = list(recorded_latencies)
        self.tuned_on_host = tuned_on_host  # the host on which the rules were measured
        self.node_files = list(node_files)  # variables whose values are files that must exist on all nodes

    def referenced_files(self) -> list[str]:
        """Returns the files that the variables refer to, such as libraries to preload."""
        words = (
            " ".join(self.variables[name] for name in EXTENDED_VARIABLES if name in self.variables)
            .replace(":", " ")
            .split()
        )
        return [word for word in words if word.startswith("/")] + [self.variables[name] for name in self.node_files]


class AppliedRules:
    """The environment variables to set for a launch, notes for verbose output, and warnings that are always printed."""

    def __init__(self, notes: Iterable[str] = (), warnings: Iterable[str] = ()) -> None:
        self.environment: dict[str, str] = {}
        self.notes = list(notes)
        self.warnings = list(warnings)


def merge_environment(plan: LaunchPlan, inherited_environment: Mapping[str, str]) -> AppliedRules:
    """Returns the variables to add to the inherited environment. A variable that the user has set keeps its value."""
    made = AppliedRules(plan.notes, plan.warnings)
    for name, value in plan.variables.items():
        if name in inherited_environment and name not in EXTENDED_VARIABLES:
            made.notes.append(
                f"{name} = {inherited_environment[name]} was set before and is not changed (the rules have {value})"
            )
        else:
            made.environment[name] = value
            made.notes.append(f"{name} = {value}")
    if not plan.variables:
        why = f" ({plan.no_variables_reason})" if plan.no_variables_reason else ""
        made.warnings.append(f"the defaults of this MPI are best here; nothing is set{why}")
    elif not made.environment:
        made.notes.append("nothing is set except the variables that were set before")
    return made
