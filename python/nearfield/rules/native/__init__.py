"""The algorithms that MPIs have themselves for collectives: which there are, and how a program gets them without
loading anything. All differences between MPIs are in one file each, which exports its `NativeFamily` as `SPEC`."""

from nearfield.rules.native import intel, mpich, openmpi
from nearfield.rules.native.family import Algorithm, NativeFamily, Selection

FAMILIES: dict[str, NativeFamily] = {spec.name: spec for spec in (openmpi.SPEC, mpich.SPEC, intel.SPEC)}
__all__ = ["FAMILIES", "Algorithm", "NativeFamily", "Selection"]
