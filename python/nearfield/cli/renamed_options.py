"""Renamed options. For one release, an old name still works and prints a one-line notice.

Remove an entry in the release after the one that renamed the option.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class RenamedOption(NamedTuple):
    """The new name of an option, and a function that converts values of the old option."""

    name: str
    convert: Callable[[str], str] = str


def _to_regression(share: str) -> str:
    """Converts a fraction of the baseline's speed to a loss: '0.8' to '20%'."""
    try:
        return f"{100 * (1 - float(share)):.6g}%"
    except ValueError:
        return share  # the new option rejects the unchanged value


def _to_filter(words: str) -> str:
    """Converts 'pingpong state reused' to 'pingpong:state=reused'."""
    scenario, _, rest = words.partition(" ")
    parameter, _, values = rest.partition(" ")
    return f"{scenario}:{parameter}={','.join(values.split())}"


RENAMED_OPTIONS_BY_VERB: dict[str, dict[str, RenamedOption]] = {
    "advise": {"--least": RenamedOption("--min-loss")},
    "probe": {"--only": RenamedOption("--filter", _to_filter)},
    "reproduce": {"--here": RenamedOption("--live"), "--here-only": RenamedOption("--live-only")},
    "rewrite": {
        "--assume-alike": RenamedOption("--assume-uniform"),
        "--bytes": RenamedOption("--message-size"),
        "--run-in": RenamedOption("--input-dir"),
        "--link": RenamedOption("--extra-source"),
    },
    "simulate": {
        "--apart": RenamedOption("--independent-runs"),
        "--whole": RenamedOption("--total-bytes"),
        "--bytes": RenamedOption("--sizes"),
    },
    "simulate run": {
        "--apart": RenamedOption("--independent-runs"),
        "--as-observed": RenamedOption("--replay-outcomes"),
        "--wtime": RenamedOption("--virtual-wtime"),
    },
    "tune": {"--never-below": RenamedOption("--max-regression", _to_regression)},
}


def with_current_names(ctx: Any, command: Any, arguments: Iterable[str]) -> list[str]:
    """Replaces renamed options in the words of a command line. `command` is the verb's click command, which defines
    which options take a value, and `ctx` is its context. Does not change the words of a program that the verb
    starts."""
    renamed = RENAMED_OPTIONS_BY_VERB.get(ctx.info_name, {})
    with_value = {name for option in command.params for name in option.opts if not getattr(option, "is_flag", True)}
    rest, current = list(arguments), []
    while rest and rest[0] != "--" and (rest[0].startswith("-") or ctx.allow_interspersed_args):
        name, equals, value = rest.pop(0).partition("=")
        new = renamed.get(name, RenamedOption(name))
        values = [value] if equals else [rest.pop(0)] if new.name in with_value and rest else []
        if name in renamed:
            print(f"nearfield: {name} is called {new.name} now; the old name will go", file=sys.stderr)
            values = [new.convert(value) for value in values]
        current += [f"{new.name}={values[0]}"] if equals else [new.name, *values]
    return current + rest
