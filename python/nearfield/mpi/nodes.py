"""Detects the death of a node on which nearfield has launched ranks. The measuring programs connect to a hub in this
process (src/base/node_watch.hpp), and the kernels keep the connections alive, so that a busy node is not taken for a
dead one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearfield.base import all_nodes
from nearfield.mpi.installation import Hosts

if TYPE_CHECKING:
    from nearfield import _native

NODE_WATCH_VARIABLE = "NEARFIELD_NODE_WATCH"  # the address of the hub, for the measuring programs


@dataclass(frozen=True)
class NodeWatch:
    """Monitors the nodes of one launch. `variables` are the environment variables that make the ranks connect to the
    hub."""

    hub: _native.NodeHub | None
    variables: Mapping[str, str]

    def describe_lost_node(self) -> str:
        """Returns a text that names the first node that was lost, such as "node b has not answered for 12 s"; empty if
        none was."""
        return self.hub.lost() if self.hub else ""

    def first_ended_node(self) -> str:
        """Returns the node of the first rank that ended without notice; empty if none did."""
        return self.hub.first_ended_node() if self.hub else ""


@contextmanager
def watch_nodes(hosts: Hosts | None, environment: Mapping[str, str]) -> Iterator[NodeWatch]:
    """Yields the monitor of the nodes `hosts`, on which a program is launched with the variables `environment`. Without
    hosts, it monitors no node."""
    if not hosts:
        yield NodeWatch(None, {})
        return
    from nearfield import _native  # which the guard of a launch does not find (test_the_guard_imports_what_it_needs)

    hub = _native.NodeHub()
    try:
        variables = {NODE_WATCH_VARIABLE: hub.address}
        variables |= all_nodes.open_mpi_forwarding_variable(("mpirun",), {**environment, **variables})
        yield NodeWatch(hub, variables)
    finally:
        hub.close()
