"""Counts the stable times of a profile. The demo and the report print the result in their first lines."""

from __future__ import annotations

from nearfield.base.frames import pl
from nearfield.profile.compare import declared_metrics
from nearfield.profile.store import Profile

MAX_UNSTABLE_SHARE = 0.5  # maximum share of unstable times in a usable profile


def declared_records(profile: Profile) -> pl.DataFrame:
    """Returns the records of declared metrics; all records if the run declares no metrics."""
    declared = declared_metrics(profile.run)
    if not declared:
        return profile.records
    pairs = pl.concat_str("scenario", pl.lit("/"), "metric").is_in([f"{s}/{m}" for s, m in declared])
    return profile.records.filter(pairs)


def measured_times(profile: Profile) -> pl.DataFrame:
    """Returns the declared records that hold a time, stable or not."""
    return declared_records(profile).filter((pl.col("unit") == "ns") & pl.col("value").is_not_null())


def unstable_share(profile: Profile) -> float:
    """Returns the share of the profile's times that are unstable; 0 without times."""
    times = measured_times(profile)
    return 1 - int(times["stable"].sum()) / times.height if times.height else 0.0
