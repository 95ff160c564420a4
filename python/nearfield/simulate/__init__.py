"""The simulator from Python: collectives on described machines, over policies, memory speeds, sizes and nodes, as
records like those of a live probe."""

from nearfield.simulate.request import Request
from nearfield.simulate.session import Listener, Outcome, simulate

__all__ = ["Listener", "Outcome", "Request", "simulate"]
