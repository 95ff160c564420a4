"""Check for a decomposition of the grid whose faces take longer to exchange than those of another decomposition (papers
S1 and S3, papers/*/README.md)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield._native import Plan
from nearfield.advise.grid import Grid, derive_grids
from nearfield.advise.rule import LossSum, RuleSpec
from nearfield.advise.run import ObservedRun
from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.base.estimates import Estimate
from nearfield.notes import Evidence, Note, NoteRule
from nearfield.plan import CostModel, find_plans, measured_model
from nearfield.plan.words import split_text

MIN_TIME_RATIO = 1.2  # minimum ratio of the decomposition's time to the best time for a note

RULE = NoteRule(
    "bad-split",
    "Another split of the grid exchanges its faces faster",
    "The split decides how many neighbours a rank has, how large faces are, and whether they are contiguous. Plans "
    "are worked out from the profile's times of messages, bytes and strides.",
    "S3, section 5, and S1, section 3.1",
)


def find_bad_splits(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each derived grid for which `nearfield plan` finds a decomposition that is faster by
    MIN_TIME_RATIO."""
    cost_model = measured_model(run.profile)
    cost_model.costs.in_place = None  # these ranks send messages, and do not access each other's memory in place
    for grid in derive_grids(run):
        try:
            program_plan, best_plan = _program_plan_and_best_plan(run, grid, cost_model)
        except UsageError:
            continue  # too few cells for the number of ranks
        if program_plan.time_ns < MIN_TIME_RATIO * best_plan.time_ns:
            continue
        saved = program_plan.time_ns - best_plan.time_ns
        lost = LossSum()
        lost.add_calls(0, Estimate(saved, saved, saved), program_plan.time_ns, grid.num_exchanges)
        site = max(grid.messages, key=lambda m: (m.counts.bytes * m.counts.messages, -m.site.place.line)).site
        names = [split_text(plan.dims, len(grid.dims)) for plan in (program_plan, best_plan)]
        cells = "x".join(map(str, grid.extents))
        plan_command = own_command.command_line(
            "plan", cells, "--ranks", len(run.ranks), "--messages", "--profile", run.profile.path
        )
        yield Note(
            RULE, site.place,
            f"bad split: {cells} cells are split {names[0]}; split {names[1]} would save "
            f"{lost.format_loss_per_call().replace('call', 'exchange').replace(' of rank 0', '')}",
            f"Split the grid {names[1]}; all splits: {plan_command}",
            lost.as_lost_time(run),
            evidence=(
                Evidence(f"exchange of {names[0]}", program_plan.time_ns, "ns", run.node_costs.source),
                Evidence(f"exchange of {names[1]}", best_plan.time_ns, "ns", run.node_costs.source),
            ),
        )  # fmt: skip


def _program_plan_and_best_plan(run: ObservedRun, grid: Grid, cost_model: CostModel) -> tuple[Plan, Plan]:
    """Returns the plan of the program's own decomposition, and the best plan."""

    def find_best_plan(dims: tuple[int, ...] | None) -> Plan:
        return find_plans(
            grid.extents, len(run.ranks), cost_model.costs, ranks_per_node=run.max_ranks_on_node,
            periodic=grid.periodic, element_bytes=grid.element_bytes, dims=dims,
        )[0]  # fmt: skip

    return find_best_plan(grid.dims), find_best_plan(None)


SPEC = RuleSpec(RULE, find_bad_splits, scenarios=("pingpong",))
