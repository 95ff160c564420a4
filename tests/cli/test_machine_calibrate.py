"""Do `nearfield machine calibrate` and `validate` end as they say: files that can be loaded, scores, and exit codes for
a bar and for measurements that decide nothing?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tuning import in_process

from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.machine import facts, load_machine

QUIET = Path(__file__).parents[1] / "data" / "epyc-vm-quiet"


def test_calibrate_describes_this_machine(tmp_path: Path) -> None:
    """Is there a consistent file with fitted values, does it simulate a chain in each cache as measured, and is it not
    overwritten?"""
    out = tmp_path / "mine.toml"
    done = in_process("machine", "calibrate", "-o", str(out), "--json")
    assert done.code == 0, done.err
    machine = load_machine(str(out))
    fitted = [fact for _, fact in facts(machine) if fact.kind == "fitted"]
    assert len(fitted) > 8 and all(fact.interval and fact.probe and fact.fitted_to for fact in fitted)
    assert machine.core.mispredict_cycles and 2 < machine.core.mispredict_cycles.value < 100
    assert in_process("machine", "check", str(out)).code == 0
    assert json.loads(done.out)["files"][0]["within_10_percent"] > 0
    again = in_process("machine", "calibrate", "-o", str(out))
    assert again.code == 2 and "mine.toml" in again.err


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    """Before anything is measured?"""
    done = in_process("machine", "calibrate", "-o", str(tmp_path / "mine.txt"))
    assert done.code == 2 and ".toml" in done.err


def test_the_bar_decides_the_exit_code(tmp_path: Path) -> None:
    """A bar that everything is below, and one that nothing is below; and the page is written?"""
    times = tmp_path / "times.csv"
    times.write_text("scenario,size_bytes,state,ns\npingpong,64,reused,1000\n")
    page = tmp_path / "page.html"
    wide = in_process("machine", "validate", "leo3", "--against", str(times), "--bar", "1000", "-o", str(page))
    assert wide.code == 0 and "pingpong half_round_trip" in wide.out and page.stat().st_size > 1000
    narrow = in_process("machine", "validate", "leo3", "--against", str(times), "--bar", "1.0001")
    assert narrow.code == 1 and "beyond the limit" in narrow.err
    assert in_process("machine", "validate", "leo3", "--against", str(times), "--bar", "0.5").code == 2


def test_a_disturbed_profile_decides_nothing(tmp_path: Path) -> None:
    """Exit code 6 and the reason, no scores without --force, and the same exit code with it."""
    disturbed = tmp_path / "p"
    shutil.copytree(QUIET, disturbed)
    run = disturbed / "run.toml"
    run.write_text(run.read_text().replace("[mpi]\n", "disturbed_share = 0.79\n\n[mpi]\n", 1))
    done = in_process("machine", "validate", "leo3", "--against", str(disturbed))
    assert done.code == NOT_DECIDED_EXIT_CODE and "79%" in done.err and not done.out
    forced = in_process("machine", "validate", "leo3", "--against", str(disturbed), "--force", "--markdown")
    assert forced.code == NOT_DECIDED_EXIT_CODE and forced.out.startswith("| scenario |")


@pytest.mark.parametrize("count", [3])
def test_more_than_two_measurements_are_refused(count: int) -> None:
    """In words."""
    words = ["--against", str(QUIET)] * count
    done = in_process("machine", "validate", "leo3", *words)
    assert done.code == 2 and "3 times" in done.err
