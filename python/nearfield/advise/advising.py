"""Runs all checks of an observed program, ranks their notes by lost time, and describes what was examined."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield.advise.judged import JudgedCalls, judge_calls
from nearfield.advise.rule import RuleSpec, has_delay
from nearfield.advise.rules import all_rules
from nearfield.advise.run import SLOWDOWN_BY_RECORDER, ObservedRun
from nearfield.base import own_command
from nearfield.base.units import counted, format_ns, format_rounded
from nearfield.notes import Note, SourcePlace, rank_by_loss
from nearfield.observe.symbols import missing_names_advice

_NO_RECORDED_ACCESSES = "loads and stores were not recorded"
# Fraction of the run without a core from which a rank gets a warning; ranks on a quiet machine stay below it.
_MIN_REPORTED_DELAY_SHARE = 0.05
DEFAULT_MIN_LOSS_SHARE = 0.01  # default fraction of the run's time from which a loss gets a note
RECORDER_NAMES = {"hooks": "hooks", "valgrind": "Valgrind"}  # recorder -> its name in sentences


@dataclass(frozen=True)
class Advice:
    """The result of all checks of an observed program: notes, with the largest loss first, and sentences on the data
    that they are based on."""

    run: ObservedRun
    min_share: float  # fraction of the run's time from which a loss gets a note
    notes: list[Note]
    notes_below_min_share: list[Note]  # notes with losses below min_share, the largest first
    undecided_notes: list[Note]  # notes on waits that a lack of cores may explain
    evaluated_rules: list[RuleSpec]  # the checks that could be evaluated
    judged_calls: JudgedCalls
    warnings: list[str]  # reasons to doubt all losses
    remarks: list[str]

    @property
    def headline(self) -> str:
        """Returns the first line of the advice: how many calls could not be judged and why, or that there is nothing to
        gain; '' if there are notes and all calls were judged."""
        return self.judged_calls.headline(self.min_share, bool(self.notes))

    @property
    def is_decided(self) -> bool:
        """Returns whether any MPI call could be judged."""
        return bool(self.notes) or not self.judged_calls.has_judged_none


def advise(run: ObservedRun, min_share: float = DEFAULT_MIN_LOSS_SHARE) -> Advice:
    """Returns the notes on an observed program whose losses are at least `min_share` of the run's time."""
    rules = [spec for spec in all_rules() if not _reason_not_evaluated(run, spec)]
    ranked_notes = rank_by_loss(note for spec in rules for note in spec.find_notes(run))
    losing_notes = [note for note in ranked_notes if note.loss and note.loss.seconds > 0]
    notes = [note for note in losing_notes if _loss_share(note) >= min_share]
    undecided = [note for note in ranked_notes if note not in notes and _may_be_worth_a_note(note, run, min_share)]
    judged = judge_calls(run, rules, undecided)
    notes_below_min = [note for note in losing_notes if note not in notes and note not in undecided]
    return Advice(
        run, min_share, notes, notes_below_min, undecided, rules, judged, _reasons_to_doubt(run), _make_remarks(run)
    )


def _loss_share(note: Note) -> float:
    """Returns a note's loss as a share of the run's time; 0 without a loss."""
    return (note.loss.share or 0.0) if note.loss else 0.0


def _may_be_worth_a_note(note: Note, run: ObservedRun, min_share: float) -> bool:
    """Returns whether a wait would exceed the minimum loss of a note if no part of it was due to a lack of cores."""
    return bool(note.loss and has_delay(note) and 0 < note.loss.high >= min_share * run.seconds)


def _reason_not_evaluated(run: ObservedRun, spec: RuleSpec) -> str:
    """Returns the reason why a check cannot be evaluated for a run; '' if it can."""
    measured = set(run.profile.records["scenario"].unique())
    if spec.needs_recorded_accesses and not run.num_accesses:
        return _NO_RECORDED_ACCESSES
    if spec.needs_program_times and run.assumed_machine:
        return "waiting times of the simulated machine are unknown"
    if spec.needs_program_times and not run.has_program_times:
        return f"times are those of a run with {RECORDER_NAMES[run.timing_run.trace.metadata.recorder]}"
    if spec.scenarios and not measured & set(spec.scenarios):
        return f"the profile has no records of {' or '.join(spec.scenarios)}"
    return ""


def _reasons_to_doubt(run: ObservedRun) -> list[str]:
    """Returns sentences with the reasons to doubt all losses of a run."""
    warnings = []
    measured_mpi, observed_mpi = run.profile.run.mpi, run.trace.metadata.mpi
    if run.profile.run.backend != "sim" and observed_mpi not in (
        measured_mpi.name,
        f"{measured_mpi.family}-{measured_mpi.version}",
    ):
        warnings.append(
            f"the profile was measured with {measured_mpi.name}, but the program ran under {observed_mpi}: its calls "
            "may cost something else. Measure a profile with that MPI: "
            f"{own_command.command_line('probe', '--quick', '--mpi', observed_mpi)}"
        )
    if run.has_program_times and not run.has_delay_times:
        warnings.append(
            "this system does not report how long ranks had no core, so other programs on these cores may have "
            "caused the waiting"
        )
    if run.has_program_times and (sentence := _missing_core_sentence(run)):
        warnings.append(sentence)
    return warnings


def _missing_core_sentence(run: ObservedRun) -> str:
    """Returns a sentence on the rank that was ready to run but had no core for the longest time; '' if that is a small
    part of the run."""
    rank = max(range(len(run.timing_run.ranks)), key=run.time_without_core_ns)
    share = run.time_without_core_ns(rank) / 1e9 / run.seconds if run.seconds else 0.0
    if share < _MIN_REPORTED_DELAY_SHARE:
        return ""
    return (
        f"rank {rank} was ready to run but had no core for {share * 100:.0f} % of the run, because other processes ran "
        "there: its times, and those of ranks that wait for it, are not the program's own"
    )


def _make_remarks(run: ObservedRun) -> list[str]:
    """Returns sentences on what was examined, which profile was used, and which checks could not be evaluated."""
    remarks = [_describe_examined(run), _describe_profile(run)]
    measured = set(run.profile.records["scenario"].unique())
    reasons: dict[str, list[str]] = {}
    for spec in all_rules():
        if reason := _reason_not_evaluated(run, spec):
            reasons.setdefault(reason, []).append(spec.rule.id)
    for reason, rules in reasons.items():
        remarks.append(f"not judged: {', '.join(rules)}, because {reason}{_remedy_by_reason(reason)}")
    if any(one.costs.unanswered_scenarios & measured for one in run.messages):
        remarks.append("to judge more calls, measure the profile again when the machine is quiet")
    if not run.trace.metadata.complete:
        remarks.append("the observed program did not end normally: this covers the part until then")
    if naming_advice := missing_names_advice(
        site.place.file for sites in run.call_sites for site in sites if not is_resolved_place(site.place)
    ):
        remarks.append(naming_advice)
    return remarks


def _remedy_by_reason(reason: str) -> str:
    """Returns what the user can do so that a check can be evaluated, given the reason why it could not; '' if
    nothing."""
    if reason == _NO_RECORDED_ACCESSES:
        return f"; compile with {own_command.command_line('cc')}, cxx or fc, or use --valgrind"
    if reason.startswith("times are"):
        return "; --times takes a trace of the program that was recorded without them"
    return ""


def is_resolved_place(place: SourcePlace) -> bool:
    """Returns whether the source line or the function of a place is known."""
    return bool(place.line or place.function)


def _describe_examined(run: ObservedRun) -> str:
    """Returns a sentence with the numbers of accesses, calls and messages that were examined."""
    messages = sum(one.counts.messages for one in run.messages)
    calls = sum(call.calls for rank in run.ranks for call in rank.result.calls)
    sampled = min(rank.result.sampled for rank in run.ranks)
    accesses = format_rounded(run.num_accesses)
    counts_text = f"{accesses} accesses, {calls} MPI calls and {messages} messages of {len(run.ranks)} ranks"
    return f"examined {counts_text}" + (f"; reuse distances from one line in {1 / sampled:.0f}" if sampled < 1 else "")


def _describe_profile(run: ObservedRun) -> str:
    """Returns a sentence on the profile from which losses are computed, and on the run's duration."""
    profile = run.profile
    hosts = sorted({rank.result.host for rank in run.ranks})
    description = (
        f"{'simulated ' if profile.run.backend == 'sim' else ''}{profile.machine.name}, {profile.run.mpi.name}"
    )
    text = f"losses are from the profile {profile.path} ({description}); "
    duration_text = format_ns(run.seconds * 1e9)
    if run.assumed_machine:
        text += f"the run takes {duration_text} there on {counted(run.assumed_machine.num_nodes, 'node')}, simulated"
    elif run.has_program_times:
        text += f"the run took {duration_text}"
    else:
        recorder = run.trace.metadata.recorder
        text += (
            f"the run takes about {duration_text} without {RECORDER_NAMES[recorder]}, by which computation takes about "
        )
        text += f"{SLOWDOWN_BY_RECORDER[recorder]:.0f} times as long"
    host = profile.run.host.name
    if profile.run.backend != "sim" and host not in hosts:
        text += f". The profile is of {host}, and the program ran on {', '.join(hosts)}: "
        text += f"losses are those that {host} has"
    return text
