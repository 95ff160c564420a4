"""Collects free parameters: values that a machine's file or a paper's claims chose, with the claims that they touch."""

from __future__ import annotations

from collections.abc import Iterable

from nearfield.machine import load_machine
from nearfield.machine.quantity import facts
from nearfield.reproduce.checks import profiles_of
from nearfield.reproduce.outcome import Chosen
from nearfield.reproduce.schema import Claim, Paper


def chosen(paper: Paper, claims: Iterable[Claim]) -> list[Chosen]:
    """Returns the free parameters that touch one of the claims."""
    used = {claim.id: {name for s in claim.statement for name in profiles_of(s)} for claim in claims}
    names = list(dict.fromkeys(name for profiles in used.values() for name in profiles))
    found = []
    for machine in dict.fromkeys(paper.profile[name].on for name in names):
        found += _of_machine(machine, set(used))
    for name in names:
        touched = [claim for claim, profiles in used.items() if name in profiles]
        found += [
            Chosen(of=name, key=setting.key, value=str(setting.value), reason=setting.reason, claims=touched)
            for setting in paper.profile[name].set
        ]
    for choice in paper.chosen:
        if touched := [claim for claim in choice.claims if claim in used]:
            found.append(Chosen(of="claims", key=choice.key, value=str(choice.value), reason=choice.reason,
                                claims=touched))  # fmt: skip
    return found


def _of_machine(name: str, claims: set[str]) -> list[Chosen]:
    found = []
    for key, fact in facts(load_machine(name)):
        touched = [claim for claim in fact.claims or () if claim in claims]
        if fact.kind == "chosen" and touched:
            found.append(Chosen(of=name, key=key, value=str(fact.plain), reason=fact.reason, claims=touched))
    return found
