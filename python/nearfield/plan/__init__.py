"""Plans: how a grid is best split over ranks and nodes, from what messages cost (src/halo/plan.hpp decides)."""

from nearfield.plan.known import Known, default, described, measured, text_of, written
from nearfield.plan.machines import DescribedMachine, load_machine, machine_files
from nearfield.plan.splits import splits

__all__ = [
    "DescribedMachine",
    "Known",
    "default",
    "described",
    "load_machine",
    "machine_files",
    "measured",
    "splits",
    "text_of",
    "written",
]
