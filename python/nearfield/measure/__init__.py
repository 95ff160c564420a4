"""The measuring core. A request names scenarios, a machine (this host or a described machine) and axes. A backend
measures the request (`live` with MPI on this host, `sim` on a simulated machine) and returns records with the same
columns. `nearfield probe`, `probe --on`, `simulate` and `reproduce` make such requests."""

from nearfield.measure.request import TIERS, Request

__all__ = ["TIERS", "Request"]
