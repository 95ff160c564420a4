"""Whatever becomes of a file that a user is given, is it taken or refused in words, by all who read it?

Random edits with a fixed seed: values that no file should have, lines that are gone or there twice.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearfield.apply.formats import FORMATS
from nearfield.base.errors import NearfieldError, ProfileError
from nearfield.cli.verbs.export import export_text
from nearfield.cli.verbs.tune import print_rules
from nearfield.machine.captured import machine_from_profile
from nearfield.machine.native import to_native
from nearfield.plan.cost_source import measured_model
from nearfield.profile import load
from nearfield.report.findings.tuned import find_tuned_gains
from nearfield.rules.schema import load_rules

DATA = Path(__file__).parents[1] / "data"
TIMES = 80
VALUES = [
    "0", "-1", "1", "0.5", "1e300", "-1e300", "1e-320", "nan", "inf", "true", '""', '"x"', r'"\u001b[2J"', "[]", "{}",
    '[""]', "100000000000000000", "9223372036854775807", "9" * 400, '"0-99999999999"',
]  # fmt: skip


def edited(text: str, seed: str) -> Iterator[str]:
    chance = random.Random(seed)
    for _ in range(TIMES):
        lines = text.splitlines()
        place = chance.choice([number for number, line in enumerate(lines) if " = " in line or line.startswith("[")])
        key, equals, _ = lines[place].partition(" = ")
        match chance.choice(["value"] * 6 + ["gone", "twice", "bytes"]):
            case "value" if equals:
                lines[place] = f"{key} = {chance.choice(VALUES)}"
            case "twice":
                lines.insert(chance.randrange(len(lines)), lines[place])
            case "bytes":
                lines[place] = "".join(chr(ord(c) ^ (chance.random() < 0.1)) for c in lines[place])
            case _:
                del lines[place]
        yield "\n".join(lines)


def refused(read: object, *arguments: object) -> bool:
    try:
        read(*arguments)  # type: ignore[operator]
    except NearfieldError as error:
        assert error.message
        return True
    return False


def use_rules(file: Path) -> None:
    rules = load_rules(file)
    print_rules(rules)
    find_tuned_gains(rules, "")
    for form in FORMATS:
        refused(export_text, rules, "", form, file)


def test_edited_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = (DATA / "rules" / "openmpi-5.0.11.toml").read_text().split("[[rule.point]]")
    file, answers = tmp_path / "rules.toml", set()
    for text in edited("[[rule.point]]".join(points[:4]), "rules"):
        file.write_text(text)
        answers.add(refused(use_rules, file))
    assert answers == {True, False}, "some edits are harmless"


@pytest.mark.parametrize(("text", "says"), [("", "is empty"), (" \n", "is empty"), ("# x", "nothing but comments")])
def test_empty_files(tmp_path: Path, text: str, says: str) -> None:
    """Is a file without content refused in one sentence, and not key by key?"""
    file = tmp_path / "rules.toml"
    file.write_text(text)
    with pytest.raises(ProfileError, match=says):
        load_rules(file)


def use_profile(folder: Path) -> None:
    profile = load(folder)
    refused(lambda: to_native(machine_from_profile(profile)))
    measured_model(profile)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["machine.toml", "run.toml"])
def test_edited_profiles(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "p"
    shutil.copytree(DATA / "epyc-vm-quiet", folder)
    answers = set()
    for text in edited((folder / name).read_text(), name):
        (folder / name).write_text(text)
        answers.add(refused(use_profile, folder))
    assert answers == {True, False}, "some edits are harmless"
