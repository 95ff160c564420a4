"""The profile that a simulation adds to: records as those of a live probe, and the machine as it was described."""

from __future__ import annotations

import platform
import socket
from datetime import datetime, timezone
from pathlib import Path

import nearfield
from nearfield import profile
from nearfield.errors import ProfileError
from nearfield.machine import DescribedMachine
from nearfield.machine.dump import as_toml
from nearfield.machine.files import DESCRIBED
from nearfield.machine.profiled import SIMULATOR, describe_machine
from nearfield.profile import records, schema
from nearfield.profile.store import RECORDS
from nearfield.simulate.rows import Row, described
from nearfield.topology import Topology


class Folder:
    """`out`: a name that does not exist yet, or what an earlier simulation of the same machine wrote."""

    def __init__(self, out: Path, machine: DescribedMachine, command: str) -> None:
        self.out, self.machine, self.command = out, machine, command
        there = (out / RECORDS).exists()
        if there:
            self._require_same_machine()
        profile.ensure_writable(out, overwrite=there)
        self._old = profile.load(out) if there else None
        self.rows: list[Row] = _filled(self._old) if self._old else []

    def save(self, rows: list[Row], *, complete: bool, seconds: float) -> None:
        topology = Topology.from_synthetic(synthetic(self.machine))
        profile.save(
            self.out,
            machine=describe_machine(self.machine),
            topology_xml=topology.xml(),
            run=self._run(rows, complete, seconds),
            records=records.from_rows(rows),
            overwrite=True,
        )
        (self.out / DESCRIBED).write_text(as_toml(self.machine), encoding="utf-8")

    def _require_same_machine(self) -> None:
        file = self.out / DESCRIBED
        if not file.exists():
            raise ProfileError(f"the profile '{self.out}' was not simulated", "Give another name with --out.")
        if file.read_text(encoding="utf-8") != as_toml(self.machine):
            raise ProfileError(
                f"the profile '{self.out}' is of another machine than '{self.machine.name}' is now: see {file}",
                "Give another name with --out.",
            )

    def _run(self, rows: list[Row], complete: bool, seconds: float) -> schema.Run:
        old = self._old.run if self._old else None
        return schema.Run(
            schema_version=1,
            nearfield=nearfield.__version__,
            backend="sim",
            simulated=self.machine.name,
            simulator=SIMULATOR,
            created=old.created if old else datetime.now(timezone.utc),
            tier="default",
            command=self.command,
            seconds=seconds + (old.seconds if old else 0.0),
            complete=complete,
            mpi=_mpi(self.machine),
            host=schema.Host(name=socket.gethostname(), kernel=f"{platform.system()} {platform.release()}"),
            scenario=[described(name, len(self.machine.cache)) for name in sorted({row["scenario"] for row in rows})],
        )


def _filled(old: profile.Profile) -> list[Row]:
    return [{name: value for name, value in row.items() if value is not None} for row in old.records.to_dicts()]


def _mpi(machine: DescribedMachine) -> schema.Mpi:
    way = machine.messaging.network.value if machine.messaging and machine.messaging.network else None
    return schema.Mpi(
        name=f"simulated on {machine.name}",
        family="simulated",
        version="1.2.7",
        library="MPICH 1.2.7's collectives, simulated",
        transport=machine.messaging.node.value if machine.messaging and machine.messaging.node else None,
        transport_reason="the machine does not say",
        launcher="nearfield simulate" + (f" ({way} between nodes)" if way else ""),
    )


def synthetic(machine: DescribedMachine) -> str:
    """One node in hwloc's words."""
    assert machine.cores
    words, groups = ["package:1"], 1
    for level in range(len(machine.cache), 0, -1):
        cache = machine.cache[level - 1]
        here = machine.cores.value // cache.shared_by.value
        kind = "l1d" if level == 1 else f"l{level}"
        words.append(f"{kind}:{max(1, here // groups)}(size={cache.size_bytes.value})")
        groups = max(groups, here)
    return " ".join([*words, f"core:{max(1, machine.cores.value // groups)}", "pu:1"])
