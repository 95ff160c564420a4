"""nearfield: measures, and fixes, what caches and memory do to MPI communication.

import nearfield
profile = nearfield.load("nearfield-profile")
profile.records, profile.machine.llc_bytes
"""

from importlib.metadata import PackageNotFoundError, version

from nearfield.profile import Profile, load

try:
    __version__ = version("nearfield")
except PackageNotFoundError:  # run from a source tree that nobody installed
    __version__ = "0+source"

__all__ = ["Profile", "__version__", "load"]
