"""Reads the log of UCX, through which several MPI families pass messages."""

import re


def ucx_lanes(text: str) -> str | None:
    """Returns the lanes for tagged messages to the other rank of this node, from the log level `info`:
    `ep_cfg[1]: tag(sysv/memory cma/memory) ...` or `intra-node cfg#1 tag(...)`."""
    for lanes in re.findall(r"(?:ep_cfg\[\d+\]:|intra-node cfg#\d+)\s+tag\(([^)]*)\)", text):
        names = [lane.split("/")[0] for lane in lanes.split()]
        if names and names[0] != "self":
            return "+".join(dict.fromkeys(names))
    return None
