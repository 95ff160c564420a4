"""The MPIs' own algorithms of collectives: how to list them, and how to select them in a program without preloading
anything. All differences between MPIs are in one file per family, which exports a `NativeFamily` as `SPEC`."""

from nearfield.rules.native import intel, mpich, openmpi
from nearfield.rules.native.family import NativeAlgorithm, NativeFamily, NativeSelection

FAMILIES: dict[str, NativeFamily] = {spec.name: spec for spec in (openmpi.SPEC, mpich.SPEC, intel.SPEC)}
__all__ = ["FAMILIES", "NativeAlgorithm", "NativeFamily", "NativeSelection"]
