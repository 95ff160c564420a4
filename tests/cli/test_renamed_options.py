"""Do options that have another name now still work under the old one, with a notice?"""

from __future__ import annotations

import pytest
from tuning import in_process
from typer.testing import CliRunner

from nearfield.cli.renamed_options import RENAMED_OPTIONS_BY_VERB, with_current_names
from nearfield.cli.verbs import app


def current(verb: str, *words: str) -> list[str]:
    """Returns the words with current names, as the command parses them."""
    found: list[list[str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "nearfield.cli.help.with_current_names",
            lambda ctx, command, rest: found.append(with_current_names(ctx, command, rest)) or ["--help"],
        )
        CliRunner().invoke(app, [*verb.split(), *words])
    return found[-1]


@pytest.mark.parametrize(
    ("verb", "old"), [(verb, old) for verb, options in RENAMED_OPTIONS_BY_VERB.items() for old in options]
)
def test_a_new_name_is_one_of_the_command_and_the_old_one_is_not(verb: str, old: str) -> None:
    shown = CliRunner().invoke(app, [*verb.split(), "--help"]).output
    assert RENAMED_OPTIONS_BY_VERB[verb][old].name in shown and f"{old} " not in shown


@pytest.mark.parametrize(
    ("verb", "words", "now"),
    [
        ("tune", ["--never-below", "0.8", "--sizes", "8"], ["--max-regression", "20%", "--sizes", "8"]),
        ("tune", ["--never-below=0.97"], ["--max-regression=3%"]),
        ("tune", ["--never-below", "x"], ["--max-regression", "x"]),
        ("probe", ["--only", "pingpong state reused fresh"], ["--filter", "pingpong:state=reused,fresh"]),
        ("simulate", ["bcast", "--whole", "--bytes", "64K"], ["bcast", "--total-bytes", "--sizes", "64K"]),
        ("simulate run", ["--apart", "--", "./app", "--apart"], ["--independent-runs", "--", "./app", "--apart"]),
        ("rewrite", ["a.c", "--link", "b.c", "--", "--link"], ["a.c", "--extra-source", "b.c", "--", "--link"]),
        ("probe", ["--on", "", "--on=", "x"], ["--on", "", "--on=", "x"]),
        ("advise", ["--out", "--least", "--least", "2%"], ["--out", "--least", "--min-loss", "2%"]),
    ],
)
def test_words_are_rewritten_where_they_are_options(
    verb: str, words: list[str], now: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Are values, words of other commands and values of other options left as they are?"""
    assert current(verb, *words) == now


def test_the_notice_is_one_line_and_the_command_runs() -> None:
    done = in_process("simulate", "bcast", "--list", "--bytes", "64K")
    assert "nearfield: --bytes is called --sizes now" in done.err
