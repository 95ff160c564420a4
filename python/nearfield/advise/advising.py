"""Puts the notes of all rules together: those worth a note, ranked, and what was examined."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield import itself
from nearfield.advise.rule import RuleSpec
from nearfield.advise.rules import all_rules
from nearfield.advise.run import SLOWER, Run
from nearfield.base.words import listed
from nearfield.notes import Note, ranked
from nearfield.units import counted, format_ns, format_rounded

LEAST = 0.01  # of the run's time: the smallest loss that is worth a note, unless somebody says otherwise


@dataclass(frozen=True)
class Advice:
    """Notes, most lost time first, and sentences on what they rest on."""

    run: Run
    notes: list[Note]
    smaller: int  # notes that lose less than was asked for
    rules: list[RuleSpec]  # that could be judged
    remarks: list[str]


def advise(run: Run, least: float = LEAST) -> Advice:
    """Returns the notes that lose at least this share of the run's time."""
    judged = [spec for spec in all_rules() if not _why_not(run, spec)]
    found = ranked(note for spec in judged for note in spec.find(run))
    worth = [note for note in found if note.loss and note.loss.seconds > 0 and (note.loss.share or 0.0) >= least]
    return Advice(run, worth, len(found) - len(worth), judged, _remarks(run))


def _why_not(run: Run, spec: RuleSpec) -> str:
    """Returns why a rule cannot be judged; empty if it can."""
    measured = set(run.profile.records["scenario"].unique())
    if spec.needs_accesses and not run.accesses:
        return "loads and stores were not recorded"
    if spec.needs_times and run.elsewhere:
        return "nobody waited on a machine that is not here"
    if spec.needs_times and not run.timed:
        return "times are those of a run with hooks"
    if spec.scenarios and not measured & set(spec.scenarios):
        return f"the profile has no records of {' or '.join(spec.scenarios)}"
    return ""


def _remarks(run: Run) -> list[str]:
    remarks = [_examined(run), _compared(run)]
    reasons: dict[str, list[str]] = {}
    for spec in all_rules():
        if why := _why_not(run, spec):
            reasons.setdefault(why, []).append(spec.rule.id)
    remedies = {
        "loads and stores were not recorded": f"compile with {itself.command('cc')}, cxx or fc, or use --valgrind",
        "times are those of a run with hooks": "--times takes a trace of the program compiled without them",
    }
    for why, rules in reasons.items():
        remedy = f"; {remedies[why]}" if why in remedies else ""
        remarks.append(f"not judged: {', '.join(rules)}, because {why}{remedy}")
    measured = set(run.profile.records["scenario"].unique())
    if lacks := sorted((run.inside.unanswered | run.across.unanswered) & measured):
        remarks.append(
            f"the profile has no stable records of {listed(lacks)} for some messages, which were not judged by them: "
            "measure again when the machine is quiet"
        )
    if not run.trace.about.complete:
        remarks.append("the observed program did not end well: this is about what it did before")
    return remarks


def _examined(run: Run) -> str:
    messages = sum(one.found.messages for one in run.messages)
    calls = sum(call.calls for rank in run.ranks for call in rank.found.calls)
    sampled = min(rank.found.sampled for rank in run.ranks)
    what = (
        f"{format_rounded(run.accesses)} accesses, {calls} MPI calls and {messages} messages of {len(run.ranks)} ranks"
    )
    return f"examined {what}" + (f"; reuse distances from one line in {1 / sampled:.0f}" if sampled < 1 else "")


def _compared(run: Run) -> str:
    profile = run.profile
    hosts = sorted({rank.found.host for rank in run.ranks})
    of = f"{'simulated ' if profile.run.backend == 'sim' else ''}{profile.machine.name}, {profile.run.mpi.name}"
    text = f"losses are from the profile {profile.path} ({of}); "
    took = format_ns(run.seconds * 1e9)
    if run.elsewhere:
        text += f"the run takes {took} there on {counted(run.elsewhere.nodes, 'node')}, simulated"
    elif run.timed:
        text += f"the run took {took}"
    else:
        recorder = run.trace.about.recorder
        text += f"the run takes about {took} without {recorder}, by which computation takes about "
        text += f"{SLOWER[recorder]:.0f} times as long"
    here = profile.run.host.name
    if profile.run.backend != "sim" and here not in hosts:
        text += (
            f". The profile is of {here}, and the program ran on {', '.join(hosts)}: losses are those that {here} has"
        )
    return text
