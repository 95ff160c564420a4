"""Parses the log of UCX, which several MPI families use as their transport."""

import re


def parse_ucx_lanes(text: str) -> str | None:
    """Returns the lanes for tagged messages to the other rank on this node, from a log at level `info` with lines such
    as `ep_cfg[1]: tag(sysv/memory cma/memory) ...` or `intra-node cfg#1 tag(...)`; None if there are none."""
    for lanes in re.findall(r"(?:ep_cfg\[\d+\]:|intra-node cfg#\d+)\s+tag\(([^)]*)\)", text):
        names = [lane.split("/")[0] for lane in lanes.split()]
        if names and names[0] != "self":
            return "+".join(dict.fromkeys(names))
    return None
