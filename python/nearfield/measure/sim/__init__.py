"""The sim backend: scenarios on a described machine. Every number is exact: simulating it again gives the same number.
Cases are repeated only to warm their caches."""

from nearfield.measure.sim import pool
from nearfield.measure.sim.cases import Case
from nearfield.measure.sim.store import Listener

__all__ = ["Case", "Listener", "pool"]
