"""The house's centre: a request names scenarios, a machine (present or described) and axes; a backend measures them
(`live` by MPI on this machine, `sim` on a simulated one), and the result is records with the same columns either way.
`nearfield probe`, `probe --on`, `simulate` and `reproduce` are requests to it."""

from nearfield.measure.request import TIERS, Request

__all__ = ["TIERS", "Request"]
