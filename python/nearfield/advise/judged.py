"""Determines which MPI calls of a run were judged, and why others were not. Only a call that was judged can be said to
have nothing to gain."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nearfield.advise.rule import RuleSpec
from nearfield.advise.rules import collective_jump, late_to_collective
from nearfield.advise.run import ObservedRun
from nearfield.base.words import join_and
from nearfield.notes import Note, SourcePlace

_Call = tuple[int, int]  # a rank, and the index of its call


@dataclass(frozen=True)
class JudgedCalls:
    """The number of calls that send, receive or are collectives, the number of these that could not be judged, and the
    reason."""

    calls: int
    unjudged: int
    why: str

    @property
    def has_judged_none(self) -> bool:
        """Returns whether the run has such calls, but none of them was judged."""
        return 0 < self.calls == self.unjudged

    def headline(self, min_share: float, noted: bool) -> str:
        """Returns the first line of the advice; '' if all calls were judged and there are notes (`noted`). A loss of at
        least `min_share` of the run's time gets a note."""
        cannot = f"cannot tell for {self.unjudged} of {self.calls} calls: {self.why}" if self.unjudged else ""
        if noted or self.has_judged_none:
            return cannot
        if not self.calls:
            return "nothing to gain: the program sends no messages and calls no collectives"
        where = f"{cannot}; nothing to gain at the others" if cannot else "nothing to gain"
        return f"{where}: no rule finds a loss of {min_share * 100:g} % of the run's time or more"


def judge_calls(run: ObservedRun, rules: Collection[RuleSpec], undecided: Sequence[Note]) -> JudgedCalls:
    """Returns which calls the checks `rules` judged, after these have found their notes. `undecided` are notes on waits
    that a lack of cores may explain."""
    measured = set(run.profile.records["scenario"].unique()) | {"pingpong"}
    lacking: dict[_Call, set[str]] = {}
    for one in run.messages:
        one.costs.message(one.found.bytes)  # looks up the time without which no check judges a message
        if lacks := one.costs.unanswered & measured:
            lacking.setdefault((one.rank, one.found.call), set()).update(lacks)
    collectives = _unjudged_collectives(run, rules)
    waits = _calls_at_places(run, {note.place for note in undecided})
    reasons = []
    if lacking:
        scenarios = join_and(sorted({name for names in lacking.values() for name in names}))
        reasons.append(f"the profile has no stable records of {scenarios} for their messages")
    if collectives:
        reasons.append("the profile has no stable records of some collectives, and no rule here judges waiting in them")
    if waits:
        reasons.append("ranks waited there, but may have done so because other processes had taken the cores")
    unjudged = lacking.keys() | collectives | waits
    return JudgedCalls(
        _count_executions(run, _communicating_calls(run) | waits), _count_executions(run, unjudged), "; ".join(reasons)
    )


def _communicating_calls(run: ObservedRun) -> set[_Call]:
    """Returns the calls that post messages or wait for messages, and the collectives."""
    calls = {(one.rank, one.found.call) for one in run.messages}
    for at, rank in enumerate(run.ranks):
        calls |= {(at, one.call) for one in rank.found.ended_in}
        calls |= {(at, one.call) for one in rank.found.collectives}
    return calls


def _unjudged_collectives(run: ObservedRun, rules: Collection[RuleSpec]) -> set[_Call]:
    """Returns the collectives for which neither the time at their size nor the waiting was judged."""
    ids = {spec.rule.id for spec in rules}
    sizes, waiting = collective_jump.RULE.id in ids, late_to_collective.RULE.id in ids
    found = set()
    for at, rank in enumerate(run.ranks):
        waited = {call for one in rank.found.synchronisations for call in one.calls} if waiting else set()
        for one in rank.found.collectives:
            operation = collective_jump.OPERATIONS.get(one.kind)
            known = sizes and operation and run.inside.collective(operation, one.ranks)
            if not known and one.call not in waited:
                found.add((at, one.call))
    return found


def _calls_at_places(run: ObservedRun, places: Collection[SourcePlace]) -> set[_Call]:
    """Returns the calls at the given source lines, as pairs of rank and call index."""
    return {(at, call) for at, sites in enumerate(run.sites) for call, site in enumerate(sites) if site.place in places}


def _count_executions(run: ObservedRun, calls: Collection[_Call]) -> int:
    """Returns how often the given call sites were executed."""
    return sum(run.ranks[rank].found.calls[call].calls for rank, call in calls)
