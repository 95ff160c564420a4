"""Are notes on source code written as compilers write them, and as SARIF 2.1.0 wants them?"""

import json
from pathlib import Path

import pytest

from nearfield.notes import (
    Evidence,
    Fix,
    LineEdit,
    LostTime,
    Note,
    NoteRule,
    RelatedPlace,
    SourcePlace,
    notes_as_dicts,
    notes_as_sarif,
    notes_as_text,
    rank_by_loss,
)

RULE = NoteRule("cold-send", "A message is sent late", "Caches forget.", "S0, rule 1")

# What SARIF 2.1.0 (sections 3.14 to 3.57) requires of the objects that we write, and allows: object -> (required, all).
OBJECTS = {
    "log": ("version runs", "$schema version runs"),
    "run": ("tool", "tool invocations originalUriBaseIds columnKind results"),
    "tool": ("driver", "driver"),
    "driver": ("name", "name version rules"),
    "rule": ("id", "id name shortDescription fullDescription help helpUri"),
    "result": ("message", "ruleId ruleIndex level message locations relatedLocations fixes rank properties"),
    "location": ("", "id physicalLocation logicalLocations message"),
    "physicalLocation": ("artifactLocation", "artifactLocation region"),
    "artifactLocation": ("uri", "uri uriBaseId"),
    "region": ("", "startLine startColumn endLine endColumn"),
    "fix": ("artifactChanges", "description artifactChanges"),
    "artifactChange": ("artifactLocation replacements", "artifactLocation replacements"),
    "replacement": ("deletedRegion", "deletedRegion insertedContent"),
}
INSIDE = {  # key -> what its value, or each of its values, is
    "runs": "run", "tool": "tool", "driver": "driver", "rules": "rule", "results": "result", "locations": "location",
    "relatedLocations": "location", "physicalLocation": "physicalLocation", "artifactLocation": "artifactLocation",
    "region": "region", "deletedRegion": "region", "fixes": "fix", "artifactChanges": "artifactChange",
    "replacements": "replacement",
}  # fmt: skip


def problems(kind: str, value: dict) -> list[str]:
    required, allowed = (words.split() for words in OBJECTS[kind])
    found = [f"{kind} lacks {key}" for key in required if key not in value]
    found += [f"{kind} must not have {key}" for key in value if key not in allowed]
    for key, inner in value.items():
        if key in INSIDE:
            for one in inner if isinstance(inner, list) else [inner]:
                found += problems(INSIDE[key], one)
    return found


def a_note(file: str, seconds: float = 1e-3, line: int = 12) -> Note:
    return Note(
        RULE, SourcePlace(file, line, 3, "main"), "cold send: 1 MiB is touched", "Move it.",
        LostTime(seconds, 0.9 * seconds, 1.1 * seconds, 0.02),
        evidence=(Evidence("cold", 40.0, "us", "measured"),),
        related=(RelatedPlace(SourcePlace(file, 7), "written here"),),
        fixes=(Fix("swap two lines", (LineEdit(file, 3, 4, "b\na\n"), LineEdit(file, 9, 8, "new\n"))),),
    )  # fmt: skip


def test_text_is_a_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would an editor that knows gcc's messages find file, line and column?"""
    monkeypatch.chdir(tmp_path)
    lines = notes_as_text([a_note(str(tmp_path / "src/a.c"))]).splitlines()
    assert lines[0] == "src/a.c:12:3: note: cold send: 1 MiB is touched [cold-send]"
    assert lines[1] == "src/a.c:7: note: written here"
    assert lines[2].strip() == "lost: 1.00 ms (900 us to 1.10 ms), 2 % of the run"
    assert [line.split(":")[0].strip() for line in lines[3:]] == ["do", "rule"]


def test_rank_is_by_loss() -> None:
    """Does the note that loses most come first, and one without a number last?"""
    none = Note(RULE, SourcePlace("a.c", 1), "no number")
    assert [n.loss and n.loss.seconds for n in rank_by_loss([none, a_note("b.c", 1e-3), a_note("a.c", 2e-3)])] == [
        2e-3, 1e-3, None,
    ]  # fmt: skip


def test_sarif_has_what_the_standard_requires(tmp_path: Path) -> None:
    """Has each object of the log what SARIF requires, and nothing that it does not know?"""
    log = json.loads(
        json.dumps(notes_as_sarif([a_note(str(tmp_path / "a b.c")), a_note("/usr/x.c", line=0)], root_folder=tmp_path))
    )
    assert problems("log", log) == []
    run = log["runs"][0]
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"] == tmp_path.resolve().as_uri() + "/"
    first, second = run["results"]
    assert first["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "a%20b.c", "uriBaseId": "SRCROOT"}
    assert second["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "file:///usr/x.c"}}
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == first["ruleId"] == "cold-send"
    assert first["rank"] == pytest.approx(2.0)


def test_fixes_are_whole_lines(tmp_path: Path) -> None:
    """Does a replacement cover whole lines, and an insertion nothing?"""
    result = notes_as_sarif([a_note(str(tmp_path / "a.c"))], root_folder=tmp_path)["runs"][0]["results"][0]
    regions = [one["deletedRegion"] for one in result["fixes"][0]["artifactChanges"][0]["replacements"]]
    ends = [(r["startLine"], r["startColumn"], r["endLine"], r["endColumn"]) for r in regions]
    assert ends == [(3, 1, 5, 1), (9, 1, 9, 1)]


def test_json_has_all_numbers() -> None:
    """Is nothing of a note lost in --json?"""
    plain = json.loads(json.dumps(notes_as_dicts([a_note("a.c")])))[0]
    assert (plain["rule"], plain["file"], plain["line"]) == ("cold-send", "a.c", 12)
    assert plain["loss"]["low"] == pytest.approx(0.9e-3)
    assert plain["evidence"][0]["value"] == 40.0
    assert plain["fixes"][0]["edits"][1]["first"] == 9
