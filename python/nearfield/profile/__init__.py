"""The profile: what nearfield knows of a machine and an MPI. A folder on disk, typed models and a data frame
here."""

from nearfield.profile.records import check, from_rows, parameters, where
from nearfield.profile.schema import SCHEMA_VERSION, Machine, Run
from nearfield.profile.store import DEFAULT_NAME, Profile, ensure_writable, find_profile, load, save

__all__ = [
    "DEFAULT_NAME",
    "SCHEMA_VERSION",
    "Machine",
    "Profile",
    "Run",
    "check",
    "ensure_writable",
    "find_profile",
    "from_rows",
    "load",
    "parameters",
    "save",
    "where",
]
