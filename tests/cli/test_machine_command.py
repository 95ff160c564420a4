"""Does `nearfield machine` list, show, compare and check described machines, and write a new one to start from?"""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomlkit
from machines import FILES, PROFILE, Edit, all_of, load_content, put, refusal, values
from test_command_line import completed
from tuning import in_process
from typer.testing import CliRunner

from nearfield.base.errors import ProfileError, UsageError
from nearfield.cli.verbs import machine as cli
from nearfield.machine import facts, load_machine
from nearfield.machine import simulated as simulation
from nearfield.machine.simulated import compare_with_file
from nearfield.profile import load


def test_list_show_and_diff() -> None:
    """Are all machines listed, free parameters shown, and differences named?"""
    rows = json.loads(in_process("machine", "list", "--json").out)
    assert [row["name"] for row in rows] == list(FILES)
    shown = in_process("machine", "show", "power5-redstorm").out
    assert "1920 KiB" in shown and "network.gap_ns" in shown and "S4.7" in shown
    assert "table 2: 36 MB" in in_process("machine", "show", "power5-redstorm", "-v").out
    as_json = json.loads(in_process("machine", "show", "power5-redstorm", "--json").out)
    assert as_json["cache"][1]["ways"]["value"] == 10 and as_json["network"]["gap_ns"]["kind"] == "chosen"
    changed = json.loads(in_process("machine", "diff", "fusion", "nehalem-ep", "--json").out)
    assert changed["core.clock_ghz"] == {"a": 2.53, "b": 2.27} and "cores" not in changed
    assert "same" in in_process("machine", "diff", "leo3", "leo3").out


def test_tables_as_csv() -> None:
    """Have the list and a machine one header, a row for each machine and key, and numbers without units?"""
    listed = list(csv.DictReader(io.StringIO(in_process("machine", "list", "--csv").out)))
    assert [row["name"] for row in listed] == list(FILES)
    assert next(row for row in listed if row["name"] == "leo3")["cache_bytes"] == "32768 262144 12582912"
    shown = csv.DictReader(io.StringIO(in_process("machine", "show", "leo3", "--csv").out))
    assert {row["key"]: row["value"] for row in shown} == {
        key: " ".join(map(str, fact.plain_value)) if isinstance(fact.plain_value, list) else str(fact.plain_value)
        for key, fact in facts(load_machine("leo3"))
    }


def test_check_says_consistent_or_what_is_wrong(tmp_path: Path) -> None:
    """Are all files of nearfield consistent, which is said to be no validation, and does one with a mistake give one
    line and exit code 4?"""
    right = in_process("machine", "check", *FILES)
    assert right.code == 0 and right.out.count(": consistent") == len(FILES) and "nothing was measured" in right.out
    assert [line.partition(":")[0] for line in right.out.splitlines() if ": consistent, but not reached (" in line] == [
        name for name in FILES if name in {"grace", "mic"}
    ], "their cores have too few misses in flight for the described traffic"
    file = tmp_path / "mine.toml"
    file.write_text(FILES["leo3"].read_text().replace("ways = { value = 16", "ways = { value = 17"))
    done = in_process("machine", "check", str(file))
    assert done.code == 4 and "cache[2].size_bytes" in done.err and "nearest" in done.err


@pytest.mark.parametrize(("factor", "agrees"), [(1.0, True), (1.02, True), (1.05, False), (0.9, False)])
def test_what_is_simulated_must_be_what_is_described(
    factor: float, agrees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does it measure the described numbers within 3 %?"""

    def chase_latencies_ns(made: Any) -> list[float]:
        caches = [cache.latency_cycles / made.core.clock_ghz for cache in made.caches]
        return [factor * ns for ns in [*caches, made.dram.latency_ns]]

    stand_in = SimpleNamespace(
        chase_latencies_ns=chase_latencies_ns, copy_traffic_gb_per_s=lambda made: factor * made.dram.gb_per_s
    )
    monkeypatch.setattr(simulation, "memory", stand_in)
    compared = compare_with_file(load_machine("power5-redstorm"))
    assert [one.described for one in compared] == pytest.approx([2, 14, 90, 230, 9.9], rel=1e-3)
    assert all(one.agrees == agrees for one in compared)


@pytest.mark.parametrize(
    ("name", "edits", "words"),
    [
        ("leo3", [put("memory.banks", 8), put("memory.bank_interleave_bytes", 64), put("memory.bank_busy_ns", 40)],
         ("traffic of memory", "its banks conflict (memory.banks, memory.bank_busy_ns)", "a lower memory.gb_per_s")),
        ("power5-redstorm", [put("cache.1.bytes_per_cycle", 2)],
         ("latency of cache[1]", "take too long for a line (cache[1].bytes_per_cycle", "leave them out")),
    ],
)  # fmt: skip
def test_check_names_what_makes_the_simulated_machine_slower(
    name: str, edits: list[Edit], words: tuple[str, ...], tmp_path: Path
) -> None:
    """Is the key named that accounts for a difference, and what to do?"""
    machine = values(name)
    all_of(*edits)(machine)
    (tmp_path / "mine.toml").write_text(tomlkit.dumps(machine))
    done = in_process("machine", "check", str(tmp_path / "mine.toml"))
    text = " ".join(done.err.split())
    assert done.code == 4 and "not as described" in done.out and all(word in text for word in words), text


def test_no_prefetcher_changes_a_latency(tmp_path: Path) -> None:
    """Are the latencies as described, although some neighbouring lines of a short chain follow one another by chance,
    and the prefetcher then fetches far ahead into the L1?"""
    machine = values("leo3")
    for edit in (put("prefetcher.level", 0), put("prefetcher.distance_lines", 32), put("prefetcher.start", "all")):
        edit(machine)
    latencies = [one for one in compare_with_file(load_content(machine, tmp_path)) if one.what.startswith("latency")]
    assert [one.simulated for one in latencies] == pytest.approx([one.described for one in latencies], rel=0.001)


def test_the_shell_completes_names() -> None:
    assert completed("nearfield machine show po") == {"power5-redstorm"}
    assert completed("nearfield machine ch") == {"check"}
    assert completed("nearfield machine new --from he") == {"here"}


# ---- a new one


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_command(*words: str) -> Any:
    """Runs a command in this process, as the shell would."""
    return CliRunner().invoke(cli.app, list(words), catch_exceptions=False)


def test_a_new_machine_keeps_what_it_starts_from(working_folder: Path) -> None:
    """Are comments and sources kept, is it named and titled as its file, and is no file overwritten?"""
    assert "machine check mine.toml" in run_command("new", "--from", "leo3", "-o", "mine.toml").output
    text, original = Path("mine.toml").read_text(), FILES["leo3"].read_text()
    assert load_machine("mine.toml").title == "mine, changed from leo3"
    named = original.replace('name = "leo3"', 'name = "mine"')
    assert re.sub("^title = .*$", 'title = "mine, changed from leo3"', named, flags=re.MULTILINE) in text
    assert dict(facts(load_machine("mine.toml"))) == dict(facts(load_machine("leo3")))
    for words in (["-o", "mine.toml"], ["-o", "mine"], ["-o", "no/such/mine.toml"], ["--profile", "p"]):
        with pytest.raises((UsageError, ProfileError)) as caught:
            run_command("new", "--from", "leo3", *words)
        assert caught.value.remedy
    assert Path("mine.toml").read_text() == text


def test_a_new_machine_of_a_profile_is_the_profiles(working_folder: Path) -> None:
    run_command("new", "--from", str(PROFILE))
    assert dict(facts(load_machine("machine.toml"))) == dict(facts(load_machine(str(PROFILE))))


def test_this_machine_says_what_only_measuring_tells(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a profile: is all that a probe would measure a comment, and missing, and nothing else; and with one,
    is the file whole, unless the profile is another machine's?"""
    profile = load(PROFILE)
    unmeasured = profile.machine.model_copy(update={"clock": type(profile.machine.clock)()})
    monkeypatch.setattr("nearfield.measure.live.facts.capture_machine", lambda *_: unmeasured)
    assert "10 values that must be measured" in run_command("new", "--from", "here").output
    missing = refusal(Path("machine.toml").read_text(), working_folder)
    assert "9 mistakes" in missing and missing.count("is missing") == 9
    assert all(word in missing for word in ("clock_ghz", "memory.gb_per_s", "transfers.shared", "messaging.node"))
    filled = Path("machine.toml").read_text().replace('source = "" }  #', 'source = "x" }  #')
    filled = re.sub(r"^# (?=\w+ = \{)", "", filled, flags=re.MULTILINE)
    assert [c.shared_by.value for c in load_content(filled, working_folder).cache] == [1, 1, 2]
    assert "without" not in run_command("new", "--from", "here", "--profile", str(PROFILE), "-o", "whole.toml").output
    assert dict(facts(load_machine("whole.toml"))) == dict(facts(load_machine(str(PROFILE))))
    monkeypatch.setattr(
        "nearfield.measure.live.facts.capture_machine", lambda *_: profile.machine.model_copy(update={"cores": 3})
    )
    with pytest.raises(UsageError) as caught:
        run_command("new", "--from", "here", "--profile", str(PROFILE), "-o", "other.toml")
    assert "not of this machine" in caught.value.message
