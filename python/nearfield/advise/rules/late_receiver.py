"""Sends that wait for their receivers."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.advise.rule import RuleSpec, number
from nearfield.advise.rules.waiting import waits
from nearfield.advise.costs import total
from nearfield.advise.run import Run
from nearfield.notes import Note, Rule

RULE = Rule(
    "late-receiver",
    "A send waits for its receiver",
    "The call takes longer than its messages do by the profile: the receiver was not there yet, which a send beyond the eager limit waits for. This is time of the "
    "observed run, not of the profile.",
    "The time in the call against the profile's time of its messages",
)


def find(run: Run) -> Iterator[Note]:
    """Yields a note for each line whose sends take longer than their messages."""
    for site, waited in waits(run, sends=True):
        peer = waited.peers.most_common(1)[0][0]
        yield Note(
            RULE, site.place,
            f"late receiver: {site.name} waits {waited.lost.per_call().replace('call', 'message')}, mostly for rank "
            f"{peer}",
            "Receive earlier there, balance the work between these ranks, or send by MPI_Isend and wait later.",
            waited.lost.loss(run),
            evidence=(number("these messages by the profile", total(waited.took), run.inside),),
        )  # fmt: skip


SPEC = RuleSpec(RULE, find, needs_times=True, scenarios=("pingpong",))
