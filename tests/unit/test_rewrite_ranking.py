"""Does `nearfield rewrite` promise no gain that the records do not carry, weigh how long a patch is, and say both?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from report_profiles import message, profile, read
from typer.testing import CliRunner

from nearfield import mpi
from nearfield.base.estimates import Estimate
from nearfield.cli.verbs import app
from nearfield.profile import save
from nearfield.rewrite import analyze
from nearfield.rewrite.check.build import mpi_include_folders
from nearfield.rewrite.gain import ExpectedGain, MessageTimes
from nearfield.rewrite.patch import Patch
from nearfield.rewrite.ranking import MessageCosts, rank_patches

LISTING = Path(__file__).parents[1] / "programs" / "listing1.c"
KIB = 1 << 10
FAR = {"distance": "same-node", "pair": "0-2"}


def records(size: int, **place: str) -> list[dict[str, Any]]:
    """Messages that take 1,000 ns cold and 900 warm, and whose data are read in 100 ns at once and in 500 later."""
    return [
        message(size, 1000.0, "invalid", **place), message(size, 900.0, "modified", **place),
        read("receiver", "invalid", size, 100.0, **place), read("receiver", "base-invalid", size, 500.0, **place),
    ]  # fmt: skip


def ratio(costs: MessageCosts, transformation: str, size: int) -> float | None:
    gain = costs.expected_gain_of(transformation, size).message_times
    return gain.speedup.value if gain else None


def test_a_profile_ranks_by_expected_gain() -> None:
    """Is the variant first that gains most by the records at the message's size, with a gain worked out by hand?"""
    arguments = [f"-I{folder}" for folder in mpi_include_folders(mpi.choose_mpi(None))]
    found = analyze(LISTING, arguments, costs=MessageCosts(profile(records(KIB))))
    gains = {one.transformation: one.expected_gain.message_times for one in found.patches}
    values = {name: gain.speedup.value for name, gain in gains.items() if gain}
    assert values == pytest.approx({"reverse": 1500 / 1000, "late-receive": 1500 / 1100, "warm-send": 1500 / 1400})
    assert gains["overlap"] is None
    order = [one.transformation for one in found.patches if one.transformation in values]
    assert order == ["reverse", "late-receive", "warm-send"]


@pytest.mark.parametrize("missing", range(4))
def test_no_gain_is_made_up_of_records_at_other_sizes(missing: int) -> None:
    """If one of the four times is known only at 32 times the message's size: is no gain named, and the reason is?"""
    rows = records(KIB)
    rows[missing] = {**rows[missing], "size_bytes": 32 * KIB}
    expected = MessageCosts(profile([*rows, *records(64 * KIB)])).expected_gain_of("reverse", KIB)
    scenario = "pingpong" if missing < 2 else "pollution"
    assert expected.message_times is None
    assert str(expected) == f"no gain known: the profile has no stable records of {scenario} near 1 KiB"


def test_times_are_interpolated_but_not_far() -> None:
    """Is a size between two records answered up to a factor 2 from one of them, and none beyond or far from others?"""
    costs = MessageCosts(profile([row for size in (1, 2, 8, 16) for row in records(size * KIB)]))
    for size in (512, 2 * KIB, 4 * KIB, 32 * KIB):
        assert ratio(costs, "reverse", size) == pytest.approx(1.5), size
    assert ratio(costs, "reverse", 64 * KIB) is None and ratio(costs, "reverse", 256) is None
    sparse = MessageCosts(profile([*records(1 * KIB), *records(256 * KIB)]))
    assert ratio(sparse, "reverse", 2 * KIB) is None, "one end of the interpolation would be 128 times as long"


def test_all_times_of_a_gain_are_of_one_distance() -> None:
    """If reading was measured at one distance only, and messages at another: is no gain named?"""
    rows = records(KIB)[2:] + records(KIB, **FAR)[:2]
    expected = MessageCosts(profile(rows)).expected_gain_of("warm-send", KIB)
    assert expected.message_times is None and "pollution" in expected.unknown_reason


def patch(transformation: str, lines: int, gain: tuple[float, float] | None = None) -> Patch:
    """A patch that makes `lines` lines out of one; its time has this interval, and the original takes 10 ns."""
    before, after = "a;\n", "".join(f"b{line};\n" for line in range(lines))
    known = MessageTimes(Estimate(10, 10, 10), Estimate(sum(gain) / 2, *gain)) if gain else None
    return Patch(Path("x.c"), before, after, "f", transformation, "", (1, 1), expected_gain=ExpectedGain(known))


def order(*patches: Patch) -> list[str]:
    return [one.transformation for one in rank_patches(patches)]


def test_a_gain_counts_only_beyond_the_intervals() -> None:
    """Do overlapping intervals leave the order as it is without a profile, and does a certain gain change it?"""
    noisy = patch("reverse", 9, (1, 9)), patch("late-receive", 5, (6, 9)), patch("warm-send", 5, (7, 9))
    assert order(*noisy) == order(*noisy[::-1]) == ["warm-send", "late-receive", "reverse"]
    assert order(patch("warm-send", 5, (7, 9)), patch("reverse", 9, (4, 5))) == ["reverse", "warm-send"]


def test_of_like_gains_the_shortest_patch_is_first() -> None:
    """Does the patch that a person would write come first where no gain is known, and a slower one last?"""
    assert order(patch("warm-send", 52), patch("overlap", 12)) == ["overlap", "warm-send"]
    assert order(patch("overlap", 12), patch("warm-send", 12)) == ["warm-send", "overlap"]
    assert order(patch("overlap", 12), patch("late-receive", 5, (11, 12))) == ["overlap", "late-receive"]


def test_a_patch_says_how_long_it_is() -> None:
    """Are lines counted, and is a patch of more than three times as many lines called long?"""
    assert patch("reverse", 52).size_text == "52 lines for 1 (52 added or changed)" and patch("reverse", 4).is_long
    assert not patch("reverse", 3).is_long
    shown = CliRunner().invoke(app, ["rewrite", str(LISTING), "--only", "warm-send"]).output
    assert "10 lines for 6 (5 added or changed); no gain known: no profile is named" in shown
    assert "3 times as long" not in shown


STEP = """#include <mpi.h>
void step(int n, int m, double *restrict a, double *restrict b, int up, int down) {
  MPI_Sendrecv(&a[m], m, MPI_DOUBLE, up, 0, &a[(n - 1) * m], m, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&a[(n - 2) * m], m, MPI_DOUBLE, down, 0, &a[0], m, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 1; i < n - 1; i++)
    for (int j = 0; j < m; j++)
      b[i * m + j] = a[i * m + j] + a[(i + 1) * m + j] + a[(i - 1) * m + j];
}
"""


def test_a_long_patch_begins_with_a_warning(tmp_path: Path) -> None:
    """Of an exchange in both directions, whose patches repeat the original: do the head in the terminal and the page's
    first row say that it is long and that no gain is known, and is the shortest first?"""
    (tmp_path / "step.c").write_text(STEP)
    words = ["rewrite", str(tmp_path / "step.c"), "--report", str(tmp_path / "page.html")]
    shown = CliRunner().invoke(app, [*words, "--all"]).output
    heads = re.findall(r"more than 3 times as long as before: (\d+) lines for 5 .*; no gain known", shown)
    assert len(heads) == 4 and heads == sorted(heads, key=int), shown
    assert "<b>more than 3 times as long as before: </b>" in (tmp_path / "page.html").read_text()


def test_a_gain_is_reported_in_times() -> None:
    """Is a gain reported as two times with the interval of their ratio, and one that is not certain as such?"""
    sure = MessageTimes(Estimate(12000, 11900, 12100), Estimate(900, 890, 910))
    assert str(sure).startswith("communication of this loop would take 900 ns instead of 12.0 us: 13.33x as fast, 13.")
    assert str(MessageTimes(Estimate(10, 5, 15), Estimate(9, 5, 15))).endswith("so that no gain is certain")


def test_the_command_tells_gain_and_order(tmp_path: Path) -> None:
    """Do the words, JSON and the page have the gain with its interval and the patch's length?"""
    made = profile([*records(KIB), *records(2 * KIB)])
    save(tmp_path / "p", machine=made.machine, topology_xml=made.topology_xml, run=made.run, records=made.records)
    words = ["rewrite", str(LISTING), "-p", str(tmp_path / "p")]
    shown = CliRunner().invoke(app, [*words, "--all", "--report", str(tmp_path / "page.html")]).output
    assert "would take 1.00 us instead of 1.50 us: 1.50x as fast" in shown and "a significantly larger gain" in shown
    assert "no record says how far messages get while the program computes" in shown
    page = (tmp_path / "page.html").read_text()
    assert all(f"<dt>{name}</dt>" in page for name in ("gain", "length", "conditions"))
    assert "instead of 1.50\u00a0µs" in page
    patches = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["patches"]
    reverse = next(one for one in patches if one["transformation"] == "reverse")
    assert reverse["gain"] == pytest.approx(1.5) and reverse["gain_low"] < 1.5 < reverse["gain_high"]
    assert (reverse["before_ns"], reverse["lines_before"]) == (1500, 6) and reverse["lines_after"] > 6
    assert next(one for one in patches if one["transformation"] == "overlap")["gain"] is None
