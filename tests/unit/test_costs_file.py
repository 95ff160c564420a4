"""The file by which the halo library knows what a profile says: is what is read what was written, and all of it?"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from nearfield.base.errors import UsageError
from nearfield.cli.verbs.halo import command
from nearfield.plan import costs_file_text, default_model, measured_model, parse_model
from nearfield.profile import load

ROOT = Path(__file__).parents[2]
QUIET = ROOT / "tests" / "data" / "epyc-vm-quiet"
TEXT = costs_file_text(default_model())


def test_what_is_read_is_what_was_written() -> None:
    """Are all costs read to the last digit, with curves, absent ones, and their origin?"""
    known = measured_model(load(QUIET))
    known.costs.network.banked = {64: 0.1, 4096: 1 / 3}
    known.costs.same_node.load_factor, known.costs.same_node.load_from_bytes = 1.7, 1 << 20
    known.costs.sweep_ns_per_cell = {16: 2.5}
    again = parse_model(costs_file_text(known), "file")
    assert costs_file_text(again) == costs_file_text(known) and again.origin == known.origin
    assert again.costs.network.banked == known.costs.network.banked and not again.costs.same_node.banked
    assert again.costs.copy_ns_per_byte == known.costs.copy_ns_per_byte != default_model().costs.copy_ns_per_byte


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("network.latency_ns 1500", "network.latency 1500", "line 14: there is no 'network.latency', did you mean"),
        ("network.latency_ns 1500", "network.latency_ns", "line 14: network.latency_ns: '' is no number"),
        ("network.latency_ns 1500", "network.latency_ns 1500 ns", "'1500 ns' is no number"),
        ("network.latency_ns 1500", "network.latency_ns -1", "'-1' is not from 0 to 1e+09, as on any machine"),
        ("network.latency_ns 1500", "network.latency_ns 1e300", "'1e300' is not from 0 to"),
        ("network.ns_per_byte 0.08", "network.ns_per_byte 8e-8", "network.ns_per_byte: '8e-8' is not from 1e-05"),
        ("network.ns_per_byte 0.08", "network.ns_per_byte 0", "network.ns_per_byte: '0' is not from 1e-05"),
        ("network.load_factor 1", "network.load_factor 0.5", "network.load_factor: '0.5' is not from 1 to"),
        ("network.load_from_bytes 0", "network.load_from_bytes -1", "network.load_from_bytes: '-1' is not from 0 to"),
        ("in_place.strided 8:", "in_place.strided 0:", "in_place.strided: '0' is not from 1 to"),
        ("in_place.strided 8:", "in_place.strided 8:1e9 16:", "in_place.strided: '1e9' is not from 1e-05 to 1e+05"),
        ("network.latency_ns 1500", "network.latency_ns nan", "'nan' is no number"),
        ("network.latency_ns 1500", "network.latency_ns inf", "'inf' is no number"),
        ("network.latency_ns 1500\n", "", "after line 21: 'network.latency_ns' is missing"),
        ("network.latency_ns 1500", "in_place.latency_ns 1500", "line 14: 'in_place.latency_ns' stands there twice"),
        ("in_place.strided 8:", "in_place.strided 8=", "line 4: in_place.strided: '8=0"),
        ("origin ", "origin \x1b[2J", "a control character"),
        ("in_place.strided 8:", "in_place.strided x:", "line 4: in_place.strided: 'x' is no number"),
    ],
)
def test_a_wrong_line_is_named(old: str, new: str, said: str) -> None:
    """And the file, and what to do?"""
    assert old in TEXT
    with pytest.raises(UsageError) as caught:
        parse_model(TEXT.replace(old, new), "my/costs")
    assert str(caught.value).startswith("my/costs, ") and said in str(caught.value)
    assert "verb halo and --costs PROFILE" in str(caught.value)


@pytest.mark.parametrize("length", [0, 1, 100, 400, TEXT.index("origin") - 1, TEXT.index("origin") + 3])
def test_a_file_that_was_cut_short_is_refused(length: int) -> None:
    """Is a file refused that was cut short, wherever its end is?"""
    with pytest.raises(UsageError):
        parse_model(TEXT[:length], "costs")


def test_remarks_and_order_do_not_matter() -> None:
    """Are the costs the same with a person's lines, empty lines, and any order?"""
    mixed = "# mine\n\n" + "\n".join(reversed(TEXT.splitlines())) + "\r\n"
    assert costs_file_text(parse_model(mixed, "costs")) == TEXT


def test_command_prints_a_profiles_costs() -> None:
    """Does `nearfield halo --costs` print such a file, and nothing else, and say apart what the profile lacks?"""
    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(app, ["--costs", str(QUIET)], catch_exceptions=False)
    assert parse_model(done.stdout, "costs").origin == measured_model(load(QUIET)).origin
    assert "no stable strides" in done.stderr and "no stable strides" not in done.stdout


@pytest.mark.slow
def test_the_documented_build_is_free_of_warnings(tmp_path: Path) -> None:
    """With the optimisation of a build by default, at which GCC 12 takes some ways to join strings for overlaps."""
    source, flags = ROOT / "src" / "plan" / "costs_file.cpp", ["-std=c++20", "-O3", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run(
        ["g++", *flags, f"-I{ROOT / 'src'}", "-c", source, "-o", tmp_path / "o"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
