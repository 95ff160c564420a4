"""Draws a machine's topology in a terminal: the tree of objects, and the matrix of core distances."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from nearfield.base.topology import CORE_DISTANCES, Topology, format_pu_ranges
from nearfield.base.units import format_bytes
from nearfield.ui.terminal import Column, Table

# One character and one colour for each core distance, nearest first. The characters are unambiguous without colour.
SYMBOL_BY_DISTANCE = dict(zip(CORE_DISTANCES, "C23NP.", strict=True))
STYLE_BY_DISTANCE = dict(
    zip(CORE_DISTANCES, ("bold cyan", "bold green", "green", "yellow", "magenta", "dim"), strict=True)
)
FOLD_ABOVE_CORES = 32
MIN_FOLDED_RUN = 3
MATRIX_WIDTH = 72
PuRow = tuple[int, ...]


def render_topology(topology: Topology) -> RenderableType:
    """Returns the tree, the matrix of core distances, and a legend with the pair that represents each distance."""
    if len(topology.pus) < 2:
        return Group(draw_tree(topology), "", "One PU may be used here: there is no pair, hence no distance.")
    return Group(draw_tree(topology), "", draw_matrix(topology), "", draw_distances(topology))


def draw_tree(topology: Topology) -> Tree:
    """Returns the tree of topology objects. An only child shares its parent's line. On machines with more than 32
    cores, runs of more than 3 identical siblings are folded into one."""
    root = topology.tree()
    tree = Tree(Text(f"{topology.source}: {_format_counts(topology)}", style="bold"), guide_style="dim")
    _add_nodes(tree, root["children"], fold=len(topology.cores) > FOLD_ABOVE_CORES)
    return tree


def _format_counts(topology: Topology) -> str:
    parts = [(len(topology.packages), "package"), (len(topology.numa_nodes), "NUMA node")]
    parts += [(len(topology.cores), "core"), (len(topology.pus), "PU")]
    return ", ".join(f"{n} {word}{'s' if n > 1 else ''}" for n, word in parts if n)


def _add_nodes(tree: Tree, siblings: list[dict[str, Any]], *, fold: bool) -> None:
    for run in (list(alike) for _, alike in groupby(siblings, key=_subtree_shape)):
        alike = len(run) - 1 if fold and len(run) > MIN_FOLDED_RUN else 0
        for node in run[: len(run) - alike]:
            line, rest = _format_node_line(node)
            _add_nodes(tree.add(line), rest, fold=fold)
        if alike:
            pus = format_pu_ranges([pu for node in run[1:] for pu in _pus_below(node)])
            tree.add(Text(f"… {alike} more like it: PU {pus}", style="dim"))


def _format_node_line(node: dict[str, Any]) -> tuple[Text, list[dict[str, Any]]]:
    """Returns the text for a node and the chain of only children below it, and the remaining children to draw."""
    words = [_format_node_label(node)]
    while len(node["children"]) == 1:
        node = node["children"][0]
        words.append(_format_node_label(node))
    children = node["children"]
    if children and all(child["type"] == "PU" for child in children):
        words.append("PU " + format_pu_ranges([child["os_index"] for child in children]))
        children = []
    return Text(" · ".join(words)), children


def _format_node_label(node: dict[str, Any]) -> str:
    index = "" if node["os_index"] is None else f" {node['os_index']}"
    size = ""
    if "size_bytes" in node["attrs"]:
        size = f" {format_bytes(node['attrs']['size_bytes'])}"
    elif "memory_bytes" in node["attrs"]:
        size = f" {format_bytes(node['attrs']['memory_bytes'], digits=3)}"
    name = f" ({' '.join(node['name'].split())})" if node["name"] else ""
    return f"{node['type']}{index}{size}{name}"


def _subtree_shape(node: dict[str, Any]) -> tuple[Any, ...]:
    """Returns a key that is equal for two subtrees that differ only in their indices."""
    return (node["type"], node["name"], *node["attrs"].items(), *map(_subtree_shape, node["children"]))


def _pus_below(node: dict[str, Any]) -> list[int]:
    if node["type"] == "PU":
        return [node["os_index"]]
    return [pu for child in node["children"] for pu in _pus_below(child)]


def matrix_rows(topology: Topology) -> list[PuRow]:
    """Returns the PUs of each row of the distance matrix. A row is a PU; above 32 PUs, a core; above 32 cores, a block
    of cores with the same distances to all others."""
    if len(topology.pus) <= FOLD_ABOVE_CORES:
        return [(pu,) for core in topology.cores for pu in core]
    if len(topology.cores) <= FOLD_ABOVE_CORES:
        return topology.cores
    return _core_blocks(topology)


def _core_blocks(topology: Topology) -> list[PuRow]:
    """Returns blocks of cores that are mutually nearest. Because cache sharing nests, cores of a block have the same
    distances to all other cores."""
    rank = {name: i for i, name in enumerate(CORE_DISTANCES)}
    cores = {core[0]: core for core in topology.cores}
    rows = {a: {b: rank[topology.distance(a, b)] for b in cores if b != a} for a in cores}
    nearest = {a: min(row.values()) for a, row in rows.items()}
    blocks, seen = [], set()
    for a, row in rows.items():
        if a in seen:
            continue
        members = [a] + [b for b in row if row[b] == nearest[a] == nearest[b]]
        seen.update(members)
        blocks.append(tuple(pu for member in members for pu in cores[member]))
    return blocks


def draw_matrix(topology: Topology) -> Text:
    """Returns the distance matrix in the order of the tree. The diagonal shows the distance between PUs of the same
    row."""
    rows = matrix_rows(topology)
    core_of = {pu: core for core in topology.cores for pu in core}
    cells = [[_format_distance_cell(topology, core_of, a, b) for b in rows] for a in rows]
    labels = [format_pu_ranges(row) for row in rows]
    width = max(map(len, labels))
    column = max(len(str(row[0])) for row in rows) + 1
    if column * len(rows) > MATRIX_WIDTH:
        column = 1  # no room for column labels; the row labels are the same
    text = Text(f"{'PU':>{width}} ", style="default")
    if column > 1:
        text.append("".join(f"{row[0]:>{column}}" for row in rows))
    for label, line in zip(labels, cells, strict=True):
        text.append(f"\n{label:>{width}} ")
        for distance in line:
            text.append(
                SYMBOL_BY_DISTANCE.get(distance, "\\").rjust(column), style=STYLE_BY_DISTANCE.get(distance, "dim")
            )
    return text


def _format_distance_cell(
    topology: Topology, core_of: dict[int, tuple[int, ...]], a: tuple[int, ...], b: tuple[int, ...]
) -> str:
    """Returns the core distance between two rows. For the diagonal, returns the distance between the row's first two
    cores, or PUs of one core; "" if the row has only one PU."""
    if a != b:
        return topology.distance(a[0], b[0])
    others = [pu for pu in a if pu not in core_of[a[0]]] or list(a[1:])
    return topology.distance(a[0], others[0]) if others else ""


def draw_distances(topology: Topology) -> Table:
    """Returns the legend of the matrix, with the pair of PUs that represents each distance in measurements."""
    keys = (Column(key=True), Column("distance", key=True))
    table = Table(*keys, Column("pairs", right=True), Column("represented by"))
    for distance, (a, b) in topology.representative_pairs().items():
        symbol = Text(SYMBOL_BY_DISTANCE[distance], style=STYLE_BY_DISTANCE[distance])
        table.add_row(symbol, distance, str(len(topology.pairs_at_distance(distance))), f"PU {a} and PU {b}")
    return table
