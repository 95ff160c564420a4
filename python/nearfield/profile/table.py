"""The base class of the tables in nearfield's TOML files."""

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1


class Table(BaseModel):
    """One TOML table: unknown keys are errors, and so are values of another type ("4" is not 4), infinite numbers and
    nan."""

    model_config = ConfigDict(extra="forbid", strict=True, validate_assignment=True, allow_inf_nan=False)
