"""Finds the time that an observed MPI program loses in its calls, by the message times in a profile.

`run` reads a trace, each file of `rules` is one check, and `advising` combines their notes."""

from nearfield.advise.advising import MIN_SHARE, Advice, advise
from nearfield.advise.run import ObservedRun, read_run

__all__ = ["MIN_SHARE", "Advice", "ObservedRun", "advise", "read_run"]
