"""Converts findings to data, for `nearfield report --json`. The table in docs/reference/findings.md is generated from
the field descriptions in this module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from nearfield.base.toml import Table
from nearfield.profile import Profile
from nearfield.report.findings import Finding, FindingLevel


class FindingTable(Table):
    """One finding in the output of `nearfield report --json`."""

    topic: str = Field(description="what it is about: `headroom`, `steps`, `tuned`, ...; there may be several of one")
    level: FindingLevel = Field(
        description="a reason to read the other findings with care; time that could be saved; a property of this "
        "machine or MPI; a good result without action; a note on the measurement"
    )
    title: str = Field(description="in a few words")
    text: str = Field(description="what the records show, in sentences")
    action: str = Field(description="what to do about it; empty if there is nothing")
    numbers: dict[str, float | int | str] = Field(
        description="what the text says: times in ns, sizes in bytes, shares and factors plain; a name is a string"
    )


class FindingsTable(Table):
    """The whole output of `nearfield report --json`."""

    schema_version: Literal[1] = Field(description="version of this format; within one, keys may be added")
    nearfield: str = Field(description="version of nearfield that measured or simulated")
    profile: str = Field(description="path of the profile, as it was given")
    machine: str = Field(description="the processor, as it names itself")
    mpi: str = Field(description="the installation, as `nearfield mpi` lists it")
    backend: Literal["live", "sim"] = Field(description="measured or simulated")
    created: str = Field(description="when the run began (ISO 8601)")
    complete: bool = Field(description="false: the run is unfinished")
    finding: list[FindingTable] = Field(description="most important first, as on the page")


def findings_as_data(profile: Profile, findings: Iterable[Finding]) -> FindingsTable:
    """Converts findings to the output of `nearfield report --json`."""
    run = profile.run
    return FindingsTable(
        schema_version=1,
        nearfield=run.nearfield,
        profile=str(profile.path),
        machine=profile.machine.cpu_model,
        mpi=run.mpi.name,
        backend=run.backend,
        created=run.created.isoformat(),
        complete=run.complete,
        finding=[
            FindingTable(
                topic=f.topic, level=f.level, title=f.title, text=f.statement, action=f.action, numbers=dict(f.numbers)
            )
            for f in findings
        ],
    )
