"""The profile of a machine and an MPI: a folder on disk; in memory, typed models and a data frame of records."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearfield.profile.records import from_rows, parameter_names, where
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
    "parameter_names",
    "save",
    "where",
]


def __getattr__(name: str) -> Any:
    """Imports a public name on first use, since some importers need only the schema, and polars imports slowly."""
    if name in __all__:
        modules = (import_module(f"nearfield.profile.{module}") for module in ("schema", "records", "store"))
        return next(getattr(module, name) for module in modules if hasattr(module, name))
    raise AttributeError(f"module 'nearfield.profile' has no attribute '{name}'")
