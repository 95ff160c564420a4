"""Combines the notes of all checks of an observed program: ranks those with enough lost time, and says what was
examined."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield.advise.judged import JudgedCalls, judge_calls
from nearfield.advise.rule import RuleSpec, has_delay
from nearfield.advise.rules import all_rules
from nearfield.advise.run import SLOWER, ObservedRun
from nearfield.base import own_command
from nearfield.base.units import counted, format_ns, format_rounded
from nearfield.notes import Note, SourcePlace, rank_by_loss
from nearfield.observe.symbols import how_to_name

_NO_ACCESSES = "loads and stores were not recorded"
_MAX_DELAYED_SHARE = 0.05  # share of the run in which a rank waits for a core; lower on quiet machines
MIN_SHARE = 0.01  # default: a loss of at least this share of the run's time gets a note
RECORDERS = {"hooks": "hooks", "valgrind": "Valgrind"}  # names of the recorders in sentences


@dataclass(frozen=True)
class Advice:
    """The result of all checks of an observed program: notes, the largest loss first, and sentences on what they are
    based on."""

    run: ObservedRun
    min_share: float  # a loss of at least this share of the run's time gets a note
    notes: list[Note]
    below: list[Note]  # notes with smaller losses, the largest first
    undecided: list[Note]  # notes on waits that a lack of cores may explain
    rules: list[RuleSpec]  # the checks that could be evaluated
    judged: JudgedCalls
    warnings: list[str]  # reasons to doubt all losses
    remarks: list[str]

    @property
    def headline(self) -> str:
        """Returns the first line of the advice: which calls could not be judged, or that nothing can be gained; '' if
        there are notes and all calls were judged."""
        return self.judged.headline(self.min_share, bool(self.notes))

    @property
    def is_decided(self) -> bool:
        """Returns whether any MPI call could be judged."""
        return bool(self.notes) or not self.judged.has_judged_none


def advise(run: ObservedRun, min_share: float = MIN_SHARE) -> Advice:
    """Returns the notes on an observed program whose losses are at least `min_share` of the run's time."""
    rules = [spec for spec in all_rules() if not _reason_not_evaluated(run, spec)]
    found = rank_by_loss(note for spec in rules for note in spec.find(run))
    lost = [note for note in found if note.loss and note.loss.seconds > 0]
    notes = [note for note in lost if _loss_share(note) >= min_share]
    undecided = [note for note in found if note not in notes and _may_be_worth_a_note(note, run, min_share)]
    judged = judge_calls(run, rules, undecided)
    below = [note for note in lost if note not in notes and note not in undecided]
    return Advice(run, min_share, notes, below, undecided, rules, judged, _reasons_to_doubt(run), _remarks(run))


def _loss_share(note: Note) -> float:
    """Returns a note's loss as a share of the run's time; 0 without a loss."""
    return (note.loss.share or 0.0) if note.loss else 0.0


def _may_be_worth_a_note(note: Note, run: ObservedRun, min_share: float) -> bool:
    """Returns whether a wait would be worth a note if none of it came from a lack of cores."""
    return bool(note.loss and has_delay(note) and 0 < note.loss.high >= min_share * run.seconds)


def _reason_not_evaluated(run: ObservedRun, spec: RuleSpec) -> str:
    """Returns the reason why a check cannot be evaluated for a run; '' if it can."""
    measured = set(run.profile.records["scenario"].unique())
    if spec.needs_accesses and not run.accesses:
        return _NO_ACCESSES
    if spec.needs_times and run.assumed:
        return "nobody waited on a machine that is not here"
    if spec.needs_times and not run.has_program_times:
        return f"times are those of a run with {RECORDERS[run.timing_run.trace.about.recorder]}"
    if spec.scenarios and not measured & set(spec.scenarios):
        return f"the profile has no records of {' or '.join(spec.scenarios)}"
    return ""


def _reasons_to_doubt(run: ObservedRun) -> list[str]:
    """Returns sentences with the reasons to doubt all losses of a run."""
    warnings = []
    measured_mpi, observed = run.profile.run.mpi, run.trace.about.mpi
    if run.profile.run.backend != "sim" and observed not in (
        measured_mpi.name,
        f"{measured_mpi.family}-{measured_mpi.version}",
    ):
        warnings.append(
            f"the profile was measured with {measured_mpi.name}, but the program ran under {observed}: its calls may "
            f"cost something else. Measure a profile with that MPI: "
            f"{own_command.line('probe', '--quick', '--mpi', observed)}"
        )
    if run.has_program_times and not run.reports_delays:
        warnings.append(
            "this system does not tell how long ranks had no core: waiting may come from other programs on these cores"
        )
    if run.has_program_times and (sentence := _missing_core_sentence(run)):
        warnings.append(sentence)
    return warnings


def _missing_core_sentence(run: ObservedRun) -> str:
    """Returns a sentence on the rank that was ready to run without a core for the longest time; '' if that is a small
    part of the run."""
    rank = max(range(len(run.timing_run.ranks)), key=run.delayed_ns)
    share = run.delayed_ns(rank) / 1e9 / run.seconds if run.seconds else 0.0
    if share < _MAX_DELAYED_SHARE:
        return ""
    return (
        f"rank {rank} was ready to run but had no core for {share * 100:.0f} % of the run, because other processes ran "
        "there: its times, and those of ranks that wait for it, are not the program's own"
    )


def _remarks(run: ObservedRun) -> list[str]:
    """Returns sentences on what was examined, which profile was used, and which checks could not be evaluated."""
    remarks = [_describe_examined(run), _describe_profile(run)]
    measured = set(run.profile.records["scenario"].unique())
    reasons: dict[str, list[str]] = {}
    for spec in all_rules():
        if why := _reason_not_evaluated(run, spec):
            reasons.setdefault(why, []).append(spec.rule.id)
    for why, rules in reasons.items():
        remarks.append(f"not judged: {', '.join(rules)}, because {why}{_remedy_for(why)}")
    if any(one.costs.unanswered & measured for one in run.messages):
        remarks.append("to judge more calls, measure the profile again when the machine is quiet")
    if not run.trace.about.complete:
        remarks.append("the observed program did not end well: this is about what it did before")
    if lack := how_to_name(site.place.file for sites in run.sites for site in sites if not is_named(site.place)):
        remarks.append(lack)
    return remarks


def _remedy_for(why: str) -> str:
    """Returns the advice on how to evaluate a check that could not be evaluated, by the reason."""
    if why == _NO_ACCESSES:
        return f"; compile with {own_command.line('cc')}, cxx or fc, or use --valgrind"
    if why.startswith("times are"):
        return "; --times takes a trace of the program that was recorded without them"
    return ""


def is_named(place: SourcePlace) -> bool:
    """Returns whether the source line or the function of a place is known."""
    return bool(place.line or place.function)


def _describe_examined(run: ObservedRun) -> str:
    """Returns a sentence with the numbers of accesses, calls and messages that were examined."""
    messages = sum(one.found.messages for one in run.messages)
    calls = sum(call.calls for rank in run.ranks for call in rank.found.calls)
    sampled = min(rank.found.sampled for rank in run.ranks)
    what = (
        f"{format_rounded(run.accesses)} accesses, {calls} MPI calls and {messages} messages of {len(run.ranks)} ranks"
    )
    return f"examined {what}" + (f"; reuse distances from one line in {1 / sampled:.0f}" if sampled < 1 else "")


def _describe_profile(run: ObservedRun) -> str:
    """Returns a sentence on the profile that losses come from, and on the run's duration."""
    profile = run.profile
    hosts = sorted({rank.found.host for rank in run.ranks})
    of = f"{'simulated ' if profile.run.backend == 'sim' else ''}{profile.machine.name}, {profile.run.mpi.name}"
    text = f"losses are from the profile {profile.path} ({of}); "
    took = format_ns(run.seconds * 1e9)
    if run.assumed:
        text += f"the run takes {took} there on {counted(run.assumed.nodes, 'node')}, simulated"
    elif run.has_program_times:
        text += f"the run took {took}"
    else:
        recorder = run.trace.about.recorder
        text += f"the run takes about {took} without {RECORDERS[recorder]}, by which computation takes about "
        text += f"{SLOWER[recorder]:.0f} times as long"
    host = profile.run.host.name
    if profile.run.backend != "sim" and host not in hosts:
        text += f". The profile is of {host}, and the program ran on {', '.join(hosts)}: "
        text += f"losses are those that {host} has"
    return text
