"""The sim backend: scenarios on a described machine. Every number is exact: who simulates it again gets the same, and
how often a case is repeated says only how warm its caches are."""

from nearfield.measure.sim import pool
from nearfield.measure.sim.cases import Case
from nearfield.measure.sim.store import Listener

__all__ = ["Case", "Listener", "pool"]
