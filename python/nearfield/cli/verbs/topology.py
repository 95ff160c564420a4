"""`nearfield topology`: shows cores, the caches and memory that they share, and which pair represents each core
distance."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from nearfield.base.errors import UsageError
from nearfield.base.topology import SYNTHETIC_EXAMPLE, Topology
from nearfield.cli.options import AsJson
from nearfield.ui.terminal import Terminal
from nearfield.ui.topology_view import render_topology


def command(
    xml: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE.xml]", help="A machine that 'lstopo FILE.xml' captured.", show_default=False),
    ] = None,
    synthetic: Annotated[
        str | None, typer.Option(help=f"A made-up machine, as in '{SYNTHETIC_EXAMPLE}'.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show cores, what they share, and which pairs represent each distance."""
    topology = load(xml, synthetic)
    if as_json:
        print(json.dumps(as_dict(topology), indent=2))
    else:
        Terminal().print(render_topology(topology))


def load(xml: Path | None, synthetic: str | None) -> Topology:
    """Returns the topology that the options name; by default that of this machine."""
    if xml is not None and synthetic is not None:
        raise UsageError(f"'{xml}' and --synthetic name two machines", "Give one of them.")
    if xml is not None:
        return Topology.from_xml(xml)
    return Topology.of_this_machine() if synthetic is None else Topology.from_synthetic(synthetic)


def as_dict(topology: Topology) -> dict[str, Any]:
    """Returns the topology for --json."""
    return {
        "source": topology.source,
        "cpu_model": topology.cpu_model,
        "pus": topology.pus,
        "cores": topology.cores,
        "caches": [asdict(cache) for cache in topology.caches],
        "numa_nodes": topology.numa_nodes,
        "packages": topology.packages,
        "distances": [
            {"distance": name, "pairs": len(topology.pairs_at_distance(name)), "representative": pair}
            for name, pair in topology.representative_pairs().items()
        ],
        "tree": topology.tree(),
    }
