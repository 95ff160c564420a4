"""The profile of a machine and an MPI: a folder on disk, and typed models with a data frame here."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearfield.profile.records import from_rows, parameters, where
    from nearfield.profile.schema import Machine, Run
    from nearfield.profile.store import Profile, ensure_writable, find_profile, load, save

__all__ = [
    "Machine",
    "Profile",
    "Run",
    "ensure_writable",
    "find_profile",
    "from_rows",
    "load",
    "parameters",
    "save",
    "where",
]


def __getattr__(name: str) -> Any:
    """Imports a name on first use: rules need this package's TOML, but not its data frames."""
    if name in __all__:
        modules = (import_module(f"nearfield.profile.{module}") for module in ("schema", "records", "store"))
        return next(getattr(module, name) for module in modules if hasattr(module, name))
    raise AttributeError(f"module 'nearfield.profile' has no attribute '{name}'")
