"""Check for receives that wait for their senders."""

from __future__ import annotations

from functools import partial

from nearfield.advise.rule import RuleSpec
from nearfield.advise.rules.waiting import find_waits
from nearfield.notes import NoteRule

RULE = NoteRule(
    "late-sender",
    "A receive waits for its sender",
    "The call takes longer than its messages do by the profile: the sender was not there yet. This is time of the "
    "observed run.",
    "The time in the call against the profile's time of its messages",
)
_ADVICE = "Send earlier there, balance the work between these ranks, or do other work before this receive."

SPEC = RuleSpec(
    RULE, partial(find_waits, rule=RULE, advice=_ADVICE, sends=False), needs_program_times=True, scenarios=("pingpong",)
)
