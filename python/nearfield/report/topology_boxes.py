"""Draws the machine in HTML as nested boxes: packages, caches with their sizes, cores, hardware threads. Memory is a
strip above the cores that it serves, if the profile contains its size (hwloc invents a size for described machines).
Instruction caches are omitted."""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

from nearfield.base.errors import UsageError
from nearfield.base.topology import Topology
from nearfield.base.units import format_bytes
from nearfield.profile import Profile
from nearfield.ui.html import tag, text

Node = dict[str, Any]
MAX_EQUAL_NEIGHBOURS = 8  # if there are more equal neighbours, only some of them are drawn
DRAWN_ALIKE = 4
SAME_MEMORY = 0.1  # max relative difference of memory sizes that count as equal


def topology_html(profile: Profile) -> str:
    """Returns the HTML of the topology, or a sentence if the topology cannot be parsed."""
    try:
        tree = Topology.parse_xml(profile.topology_xml.encode(), "topology.xml").tree()
    except UsageError as error:
        return tag("p", f"The topology cannot be drawn: {text(error.message)}.", class_="quiet")
    used = {pu for pair in _measured_pus(profile) for pu in pair}
    total = profile.machine.memory.total_bytes
    if total is None:
        _forget_memory(tree)
    elif not math.isclose(_memory_bytes(tree), total, rel_tol=SAME_MEMORY):
        _forget_sizes(tree)
    return tag("div", _children(tree, used), class_="topology", role="img", aria_label="Topology of the machine")


def _measured_pus(profile: Profile) -> list[list[int]]:
    """Returns the PUs of each measured pair on this node."""
    pairs = profile.records["pair"].drop_nulls().unique()
    return [[int(pu) for pu in pair.split("-")] for pair in pairs if pair.replace("-", "").isdigit()]


def _forget_memory(node: Node) -> None:
    node["children"] = [child for child in node["children"] if child["type"] != "NUMANode"]
    for child in node["children"]:
        _forget_memory(child)


def _memory_bytes(node: Node) -> int:
    """Returns the total size of all memories below a node of the tree, in bytes."""
    return int(node["attrs"].get("memory_bytes", 0)) + sum(map(_memory_bytes, node["children"]))


def _forget_sizes(node: Node) -> None:
    """Removes the sizes of memories from the tree, because a virtual machine may change them at run time."""
    node["attrs"].pop("memory_bytes", None)
    for child in node["children"]:
        _forget_sizes(child)


def _children(node: Node, used: set[int]) -> str:
    memory = [c for c in node["children"] if c["type"] == "NUMANode"]
    others = [c for c in node["children"] if c["type"] not in ("NUMANode", "L1i", "L2i", "L3i")]
    # Cores are children of the instruction cache, which is omitted.
    for hidden in (c for c in node["children"] if c["type"] in ("L1i", "L2i", "L3i")):
        others += hidden["children"]
    html = "".join(_memory(m) for m in memory)
    inner = "".join(_run(list(alike), used) for _, alike in groupby(others, key=_shape))
    return html + (tag("div", inner, class_="row") if inner else "")


def _run(run: list[Node], used: set[int]) -> str:
    if len(run) <= MAX_EQUAL_NEIGHBOURS:
        return "".join(_box(node, used) for node in run)
    shown = [n for i, n in enumerate(run) if i < DRAWN_ALIKE or used & set(_pus(n))][:MAX_EQUAL_NEIGHBOURS]
    more = tag("div", f"and {len(run) - len(shown)} more like it", class_="more")
    return "".join(_box(node, used) for node in shown) + more


def _box(node: Node, used: set[int]) -> str:
    kind = node["type"]
    if kind == "PU":
        marked = " used" if node["os_index"] in used else ""
        return tag("span", str(node["os_index"]), class_=f"pu{marked}", title=f"PU {node['os_index']}")
    name = kind if node["os_index"] is None else f"{kind} {node['os_index']}"
    size = node["attrs"].get("size_bytes")
    label = tag("b", text(name)) + (f" {text(format_bytes(size, digits=3))}" if size else "")
    model = f" {text(' '.join(node['name'].split()))}" if node["name"] else ""
    style = "cache" if size else kind.lower()
    return tag("div", tag("div", label + model, class_="label") + _children(node, used), class_=f"box {style}")


def _memory(node: Node) -> str:
    size = node["attrs"].get("memory_bytes")
    label = f"{tag('b', 'memory')} {text(format_bytes(size, digits=3)) if size else ''}"
    return tag("div", f"{label} NUMA node {node['os_index']}", class_="memory")


def _shape(node: Node) -> tuple[Any, ...]:
    return (node["type"], node["attrs"].get("size_bytes"), *map(_shape, node["children"]))


def _pus(node: Node) -> list[int]:
    return [node["os_index"]] if node["type"] == "PU" else [pu for c in node["children"] for pu in _pus(c)]
