"""Makes machine.toml of a simulated profile from a described machine. Facts that the description lacks are absent."""

from __future__ import annotations

from nearfield.machine.schema import DescribedMachine
from nearfield.profile import schema

SIMULATOR = "2"  # changes whenever the same input gives other numbers


def describe_machine(machine: DescribedMachine) -> schema.Machine:
    """Returns the machine as machine.toml of a simulated profile has it."""
    assert machine.cores and machine.memory
    cores, memory = machine.cores.value, machine.memory
    pages = machine.pages
    return schema.Machine(
        schema_version=1,
        name=machine.name,
        cpu_model=machine.title,
        cores=cores,
        pus=cores,
        line_bytes=machine.cache[-1].line_bytes.value,
        cache=[
            schema.Cache(
                level=level,
                kind="unified" if level > 1 else "data",
                size_bytes=cache.size_bytes.value,
                ways=cache.ways.value,
                line_bytes=cache.line_bytes.value,
                shared_by=cache.shared_by.value,
                count=max(1, cores // cache.shared_by.value),
            )
            for level, cache in enumerate(machine.cache, 1)
        ],
        memory=schema.Memory(numa_nodes=max(1, cores // memory.shared_by.value) if memory.shared_by else 1),
        pages=schema.Pages(base_bytes=pages.page_bytes.value if pages else 4096),
    )
