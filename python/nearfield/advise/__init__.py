"""Estimates how much time an observed MPI program loses in its MPI calls, from the message times in a profile of the
machine.

`run` reads a trace, each file of `rules` is one check, and `advising` combines their notes."""

from nearfield.advise.advising import DEFAULT_MIN_LOSS_SHARE, Advice, advise
from nearfield.advise.run import ObservedRun, read_run

__all__ = ["DEFAULT_MIN_LOSS_SHARE", "Advice", "ObservedRun", "advise", "read_run"]
