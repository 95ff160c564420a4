"""Advice: what an observed program loses at its MPI calls, in the numbers of a profile.

`run` reads a trace, `costs` asks the profile, each file of `rules` compares them in one way, `advising` puts their
notes together."""

from nearfield.advise.advising import LEAST, Advice, advise
from nearfield.advise.run import Run, read_run

__all__ = ["LEAST", "Advice", "Run", "advise", "read_run"]
