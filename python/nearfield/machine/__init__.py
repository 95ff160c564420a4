"""Described machines (`machines/NAME.toml`): hardware that need not be present, with a source for every number. Plans
read message costs from a description; the simulator takes the struct that `machine.native.to_native` returns."""

from nearfield.machine.described import DescribedMachine
from nearfield.machine.files import load_machine, machine_files
from nearfield.machine.quantity import SourcedFact, facts

__all__ = ["DescribedMachine", "SourcedFact", "facts", "load_machine", "machine_files"]
