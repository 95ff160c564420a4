"""Determines which MPI calls of a run could be judged by the checks, and why the others could not. "Nothing to gain"
may only be reported for calls that were judged."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nearfield.advise.rule import RuleSpec
from nearfield.advise.rules import collective_jump, late_to_collective
from nearfield.advise.run import ObservedRun
from nearfield.base.words import join_and
from nearfield.notes import Note, SourcePlace

_CallId = tuple[int, int]  # (rank, index of the rank's call)


@dataclass(frozen=True)
class JudgedCalls:
    """The number of calls that communicate (send, receive, or are collectives), the number of these that could not be
    judged, and the reason."""

    num_calls: int
    num_unjudged: int
    reason: str

    @property
    def has_judged_none(self) -> bool:
        """Returns whether the run has communicating calls, but none of them could be judged."""
        return 0 < self.num_calls == self.num_unjudged

    def headline(self, min_share: float, has_notes: bool) -> str:
        """Returns the first line of the advice; '' if all calls were judged and there are notes (`has_notes`).
        `min_share` is the fraction of the run's time from which a loss gets a note."""
        unjudged_text = (
            f"cannot tell for {self.num_unjudged} of {self.num_calls} calls: {self.reason}" if self.num_unjudged else ""
        )
        if has_notes or self.has_judged_none:
            return unjudged_text
        if not self.num_calls:
            return "nothing to gain: the program sends no messages and calls no collectives"
        where = f"{unjudged_text}; nothing to gain at the others" if unjudged_text else "nothing to gain"
        return f"{where}: no rule finds a loss of {min_share * 100:g} % of the run's time or more"


def judge_calls(run: ObservedRun, rules: Collection[RuleSpec], undecided_notes: Sequence[Note]) -> JudgedCalls:
    """Returns the numbers of judged and unjudged calls. The checks `rules` must have been run before, since this reads
    which look-ups in the profile failed. `undecided_notes` are notes on waits that a lack of cores may explain."""
    measured_scenarios = set(run.profile.records["scenario"].unique()) | {"pingpong"}
    missing_scenarios_by_call: dict[_CallId, set[str]] = {}
    for one in run.messages:
        one.costs.message_time(
            one.counts.bytes
        )  # no check judges a message if this look-up fails; `unanswered` says so
        if missing_scenarios := one.costs.unanswered_scenarios & measured_scenarios:
            missing_scenarios_by_call.setdefault((one.rank, one.counts.call), set()).update(missing_scenarios)
    unjudged_collectives = _unjudged_collectives(run, rules)
    waits = _calls_at_places(run, {note.place for note in undecided_notes})
    reasons = []
    if missing_scenarios_by_call:
        scenarios = join_and(sorted({name for names in missing_scenarios_by_call.values() for name in names}))
        reasons.append(f"the profile has no stable records of {scenarios} for their messages")
    if unjudged_collectives:
        reasons.append("the profile has no stable records of some collectives, and no rule here judges waiting in them")
    if waits:
        reasons.append("ranks waited there, but may have done so because other processes had taken the cores")
    unjudged_calls = missing_scenarios_by_call.keys() | unjudged_collectives | waits
    return JudgedCalls(
        _count_executions(run, _communicating_calls(run) | waits),
        _count_executions(run, unjudged_calls),
        "; ".join(reasons),
    )


def _communicating_calls(run: ObservedRun) -> set[_CallId]:
    """Returns the calls that post messages, wait for messages, or are collectives."""
    calls = {(one.rank, one.counts.call) for one in run.messages}
    for rank_number, rank in enumerate(run.ranks):
        calls |= {(rank_number, one.call) for one in rank.result.ended_in}
        calls |= {(rank_number, one.call) for one in rank.result.collectives}
    return calls


def _unjudged_collectives(run: ObservedRun, rules: Collection[RuleSpec]) -> set[_CallId]:
    """Returns the collective calls that no check judged: neither is the operation's time in the profile, nor was
    waiting in the call analyzed."""
    ids = {spec.rule.id for spec in rules}
    judges_sizes, judges_waiting = collective_jump.RULE.id in ids, late_to_collective.RULE.id in ids
    unjudged = set()
    for rank_number, rank in enumerate(run.ranks):
        calls_with_judged_wait = (
            {call for one in rank.result.synchronisations for call in one.calls} if judges_waiting else set()
        )
        for one in rank.result.collectives:
            operation = collective_jump.OPERATION_BY_KIND.get(one.kind)
            is_size_judged = judges_sizes and operation and run.node_costs.collective_times(operation, one.ranks)
            if not is_size_judged and one.call not in calls_with_judged_wait:
                unjudged.add((rank_number, one.call))
    return unjudged


def _calls_at_places(run: ObservedRun, places: Collection[SourcePlace]) -> set[_CallId]:
    """Returns the calls at the given source lines, as pairs of rank and call index."""
    return {
        (rank_number, call)
        for rank_number, sites in enumerate(run.call_sites)
        for call, site in enumerate(sites)
        if site.place in places
    }


def _count_executions(run: ObservedRun, calls: Collection[_CallId]) -> int:
    """Returns how often the given call sites were executed."""
    return sum(run.ranks[rank].result.calls[call].calls for rank, call in calls)
