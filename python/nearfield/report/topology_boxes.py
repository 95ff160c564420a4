"""Renders the machine in HTML as nested boxes: packages, caches with their sizes, cores, hardware threads (PUs). A NUMA
node's memory is a strip above its cores; it is omitted if the profile does not have the memory size, since hwloc
invents a size for described machines. Instruction caches are omitted."""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

from nearfield.base.errors import UsageError
from nearfield.base.topology import Topology
from nearfield.base.units import format_bytes
from nearfield.profile import Profile
from nearfield.ui.html import tag, text

TopologyNode = dict[str, Any]
MAX_DRAWN_NEIGHBORS = 8  # of more equal neighbours in a row, only some are drawn
NUM_DRAWN_EQUAL_NEIGHBORS = 4
MAX_MEMORY_SIZE_DIFFERENCE = 0.1  # maximum relative difference of memory sizes that count as equal


def topology_html(profile: Profile) -> str:
    """Returns the HTML of the topology, or a sentence if the topology cannot be parsed."""
    try:
        tree = Topology.parse_xml(profile.topology_xml.encode(), "topology.xml").tree()
    except UsageError as error:
        return tag("p", f"The topology cannot be drawn: {text(error.message)}.", class_="quiet")
    measured_pus = {pu for pair in _measured_pus(profile) for pu in pair}
    total = profile.machine.memory.total_bytes
    if total is None:
        _remove_memory_nodes(tree)
    elif not math.isclose(_memory_bytes(tree), total, rel_tol=MAX_MEMORY_SIZE_DIFFERENCE):
        _remove_memory_sizes(tree)
    return tag(
        "div", _children_html(tree, measured_pus), class_="topology", role="img", aria_label="Topology of the machine"
    )


def _measured_pus(profile: Profile) -> list[list[int]]:
    """Returns the PUs (hardware threads) of each measured pair on this node."""
    pairs = profile.records["pair"].drop_nulls().unique()
    return [[int(pu) for pu in pair.split("-")] for pair in pairs if pair.replace("-", "").isdigit()]


def _remove_memory_nodes(node: TopologyNode) -> None:
    node["children"] = [child for child in node["children"] if child["type"] != "NUMANode"]
    for child in node["children"]:
        _remove_memory_nodes(child)


def _memory_bytes(node: TopologyNode) -> int:
    """Returns the total size of all memories below a node of the tree, in bytes."""
    return int(node["attrs"].get("memory_bytes", 0)) + sum(map(_memory_bytes, node["children"]))


def _remove_memory_sizes(node: TopologyNode) -> None:
    """Removes the memory sizes from the tree, because they may change at run time on a virtual machine."""
    node["attrs"].pop("memory_bytes", None)
    for child in node["children"]:
        _remove_memory_sizes(child)


def _children_html(node: TopologyNode, measured_pus: set[int]) -> str:
    memory = [c for c in node["children"] if c["type"] == "NUMANode"]
    other_children = [c for c in node["children"] if c["type"] not in ("NUMANode", "L1i", "L2i", "L3i")]
    # The instruction cache is omitted, but its children, the cores, are drawn.
    for hidden in (c for c in node["children"] if c["type"] in ("L1i", "L2i", "L3i")):
        other_children += hidden["children"]
    html = "".join(_memory_html(m) for m in memory)
    inner = "".join(
        _equal_neighbors_html(list(equal_nodes), measured_pus)
        for _, equal_nodes in groupby(other_children, key=_shape_key)
    )
    return html + (tag("div", inner, class_="row") if inner else "")


def _equal_neighbors_html(neighbors: list[TopologyNode], measured_pus: set[int]) -> str:
    if len(neighbors) <= MAX_DRAWN_NEIGHBORS:
        return "".join(_node_html(node, measured_pus) for node in neighbors)
    drawn = [n for i, n in enumerate(neighbors) if i < NUM_DRAWN_EQUAL_NEIGHBORS or measured_pus & set(_pus_below(n))][
        :MAX_DRAWN_NEIGHBORS
    ]
    more = tag("div", f"and {len(neighbors) - len(drawn)} more like it", class_="more")
    return "".join(_node_html(node, measured_pus) for node in drawn) + more


def _node_html(node: TopologyNode, measured_pus: set[int]) -> str:
    kind = node["type"]
    if kind == "PU":
        marked = " used" if node["os_index"] in measured_pus else ""
        return tag("span", str(node["os_index"]), class_=f"pu{marked}", title=f"PU {node['os_index']}")
    name = kind if node["os_index"] is None else f"{kind} {node['os_index']}"
    size = node["attrs"].get("size_bytes")
    label = tag("b", text(name)) + (f" {text(format_bytes(size, digits=3))}" if size else "")
    model = f" {text(' '.join(node['name'].split()))}" if node["name"] else ""
    style = "cache" if size else kind.lower()
    return tag(
        "div", tag("div", label + model, class_="label") + _children_html(node, measured_pus), class_=f"box {style}"
    )


def _memory_html(node: TopologyNode) -> str:
    size = node["attrs"].get("memory_bytes")
    label = f"{tag('b', 'memory')} {text(format_bytes(size, digits=3)) if size else ''}"
    return tag("div", f"{label} NUMA node {node['os_index']}", class_="memory")


def _shape_key(node: TopologyNode) -> tuple[Any, ...]:
    return (node["type"], node["attrs"].get("size_bytes"), *map(_shape_key, node["children"]))


def _pus_below(node: TopologyNode) -> list[int]:
    return [node["os_index"]] if node["type"] == "PU" else [pu for c in node["children"] for pu in _pus_below(c)]
