"""Writes notes as SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/), for editors and CI.

Paths of files below the root folder are relative to it, so that the log is valid where the sources have another
location. Other absolute paths become file: URIs; relative paths are unchanged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nearfield
from nearfield.notes.note import Fix, LineEdit, Note, NoteRule, RelatedPlace, SourcePlace

SARIF_SCHEMA_URL = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT_BASE_ID = "SRCROOT"


def notes_as_sarif(
    notes: Sequence[Note],
    *,
    evaluated_rules: Sequence[NoteRule] = (),
    root_folder: Path | None = None,
    command_line: str = "",
) -> dict[str, Any]:
    """Returns a SARIF log with one run. `evaluated_rules` are those that were evaluated, whether or not they have
    notes; `root_folder` is the folder of the sources, by default the current one; `command_line` is the user's command
    line."""
    all_rules = list({rule.id: rule for rule in (*evaluated_rules, *(note.rule for note in notes))}.values())
    root_folder_ = (root_folder or Path.cwd()).resolve()
    driver = {"name": "nearfield", "version": nearfield.__version__, "rules": [_sarif_rule(rule) for rule in all_rules]}
    invocation = {"executionSuccessful": True, **({"commandLine": command_line} if command_line else {})}
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "originalUriBaseIds": {
            _ROOT_BASE_ID: {"uri": root_folder_.as_uri() + ("" if root_folder_.parent == root_folder_ else "/")}
        },
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(note, all_rules, root_folder_) for note in notes],
    }
    return {"$schema": SARIF_SCHEMA_URL, "version": "2.1.0", "runs": [run]}


def _sarif_rule(rule: NoteRule) -> dict[str, Any]:
    """Returns a rule as a SARIF reportingDescriptor."""
    explanation = f"{rule.explanation} {rule.source}".strip()
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.split("-")),
        "shortDescription": {"text": f"{rule.summary}."},
        **({"fullDescription": {"text": explanation}, "help": {"text": explanation}} if explanation else {}),
        **({"helpUri": rule.help_uri} if rule.help_uri else {}),
    }


def _sarif_result(note: Note, rules: list[NoteRule], root_folder: Path) -> dict[str, Any]:
    """Returns a note as a SARIF result."""
    result: dict[str, Any] = {
        "ruleId": note.rule.id,
        "ruleIndex": [rule.id for rule in rules].index(note.rule.id),
        "level": note.level,
        "message": {"text": f"{note.message}. {note.advice}".replace("..", ".").strip()},
        "locations": [_sarif_location(note.place, root_folder)],
    }
    if note.related:
        result["relatedLocations"] = [
            _sarif_related_location(number, one, root_folder) for number, one in enumerate(note.related)
        ]
    if note.fixes:
        result["fixes"] = [_sarif_fix(fix, root_folder) for fix in note.fixes]
    if note.loss:
        result["rank"] = min(100.0, 100 * (note.loss.share or 0.0))
        loss = note.loss
        result["properties"] = {
            "lossSeconds": loss.seconds, "lossLow": loss.low, "lossHigh": loss.high, "lossShare": loss.share,
        }  # fmt: skip
    if note.evidence:
        numbers = [{name: value for name, value in vars(one).items() if value is not None} for one in note.evidence]
        result.setdefault("properties", {})["evidence"] = numbers
    return result


def _sarif_location(place: SourcePlace, root_folder: Path) -> dict[str, Any]:
    """Returns a source line or code offset as a SARIF location."""
    physical: dict[str, Any] = {"artifactLocation": _sarif_artifact(place.file, root_folder)}
    if place.line:
        column = {"startColumn": place.column} if place.column else {}
        physical["region"] = {"startLine": place.line, **column}
    elif place.offset:
        physical["address"] = {"relativeAddress": place.offset, "kind": "instruction"}
    location: dict[str, Any] = {"physicalLocation": physical}
    if place.function:
        location["logicalLocations"] = [{"name": place.function, "kind": "function"}]
    return location


def _sarif_related_location(number: int, related: RelatedPlace, root_folder: Path) -> dict[str, Any]:
    """Returns another line that a note mentions as a SARIF location with an id."""
    return {"id": number, **_sarif_location(related.place, root_folder), "message": {"text": related.message}}


def _sarif_fix(fix: Fix, root_folder: Path) -> dict[str, Any]:
    """Returns the edits of a fix as a SARIF fix."""
    files = dict.fromkeys(edit.file for edit in fix.edits)
    changes = [
        {
            "artifactLocation": _sarif_artifact(file, root_folder),
            "replacements": [_sarif_replacement(edit) for edit in fix.edits if edit.file == file],
        }
        for file in files
    ]
    return {"description": {"text": fix.description}, "artifactChanges": changes}


def _sarif_replacement(edit: LineEdit) -> dict[str, Any]:
    """Returns an edit as a SARIF replacement. The region ends at the first column of the line after `last`, so that it
    covers whole lines with their line ends."""
    region = {"startLine": edit.first, "startColumn": 1, "endLine": edit.last + 1, "endColumn": 1}
    return {"deletedRegion": region, "insertedContent": {"text": edit.text}}


def _sarif_artifact(file: str, root_folder: Path) -> dict[str, str]:
    """Returns the path of a file as a SARIF artifactLocation, relative to the root folder if it lies below."""
    path = Path(os.path.normpath(file))
    if not path.is_absolute():
        path = root_folder / path
    try:
        return {"uri": quote(os.fsencode(path.relative_to(root_folder).as_posix())), "uriBaseId": _ROOT_BASE_ID}
    except ValueError:
        return {"uri": path.as_uri()}
