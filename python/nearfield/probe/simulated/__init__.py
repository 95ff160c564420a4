"""The other backend: the scenarios on a described machine instead of the one at hand. The result is a profile like a
measured one, with counts that few machines have counters for, and every number exact: n = 1, the interval is the value,
and who runs it again gets the same."""

from nearfield.probe.simulated.session import Request, Watcher, scenarios, simulate

__all__ = ["Request", "Watcher", "scenarios", "simulate"]
