"""Check for sends that wait for their receivers."""

from __future__ import annotations

from functools import partial

from nearfield.advise.rule import RuleSpec
from nearfield.advise.rules.waiting import find_waits
from nearfield.notes import NoteRule

RULE = NoteRule(
    "late-receiver",
    "A send waits for its receiver",
    "The call takes longer than its messages do by the profile: the receiver was not there yet, and beyond the eager "
    "limit a send waits for it. This is time of the observed run.",
    "The time in the call against the profile's time of its messages",
)
_ADVICE = "Receive earlier there, balance the work between these ranks, or send by MPI_Isend and wait later."

SPEC = RuleSpec(
    RULE, partial(find_waits, rule=RULE, advice=_ADVICE, sends=True), needs_program_times=True, scenarios=("pingpong",)
)
