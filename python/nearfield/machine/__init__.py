"""Described machines (`machines/NAME.toml`): hardware that is not present, with a source for every number. Plans read
message costs from it; the simulator takes `native(machine)`."""

from nearfield.machine.files import load_machine, machine_files
from nearfield.machine.quantity import SourcedFact, facts
from nearfield.machine.schema import DescribedMachine

__all__ = ["DescribedMachine", "SourcedFact", "facts", "load_machine", "machine_files"]
