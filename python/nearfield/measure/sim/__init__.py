"""The sim backend: scenarios on a described machine. Every number is exact: simulating it again gives the same number.
Cases are repeated only to warm their caches."""

from nearfield.measure.sim import pool
from nearfield.measure.sim.cases import Axes, Case
from nearfield.measure.sim.running import Listener

__all__ = ["Axes", "Case", "Listener", "pool"]
