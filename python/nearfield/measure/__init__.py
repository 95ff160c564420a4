"""The measuring core: a request names scenarios, a machine (present or described) and axes; a backend measures them
(`live` with MPI on this machine, `sim` on a simulated one) and returns records with the same columns. `nearfield
probe`, `probe --on`, `simulate` and `reproduce` are such requests."""

from nearfield.measure.request import TIERS, Request

__all__ = ["TIERS", "Request"]
