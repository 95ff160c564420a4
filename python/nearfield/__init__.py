"""nearfield: measures, and fixes, what caches and memory do to MPI communication.

import nearfield
profile = nearfield.load("nearfield-profile")
profile.records, profile.machine.llc_bytes
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing.TYPE_CHECKING would import typing, which is slow
if TYPE_CHECKING:
    from typing import Any

    from nearfield.profile import Profile, load

    __version__: str

__all__ = ["Profile", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """Imports a public name on first use, since `nearfield run` needs no profile and polars imports slowly."""
    if name == "__version__":
        return _version()
    if name in __all__:
        from nearfield import profile

        return getattr(profile, name)
    raise AttributeError(f"module 'nearfield' has no attribute '{name}'")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("nearfield")
    except PackageNotFoundError:  # a source tree that is not installed
        return "0+source"
