"""Does `nearfield probe --hostfile` measure across two nodes, as well as inside the first?

The nodes share this machine's processors: `cpus=` puts the two ranks on different ones. Times are therefore not those
of any network; what is tested is what gets measured, and where.
"""

import os
import subprocess
from pathlib import Path

import polars as pl
import pytest
from cli_runner import COMMAND, CORES, SHORT
from two_nodes import TwoNodes

import nearfield
from nearfield.mpi import Installation
from nearfield.profile import Profile, where

pytestmark = [
    pytest.mark.skipif(len(CORES) < 2, reason="two ranks that spin need two cores"),
]
FIRST, SECOND = CORES[:2]
ACROSS = f"nodea:{FIRST}-nodeb:{SECOND}"


def probe_on(nodes: TwoNodes, out: Path, hosts: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Started on the first node, as a user would."""
    hostfile = out.with_name("hosts")
    hostfile.write_text(hosts)
    command = nodes.on("nodea", [*COMMAND, *SHORT, *arguments, "--hostfile", str(hostfile), "--out", str(out)])
    done = subprocess.run(command, env={**os.environ, **nodes.env}, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def measured(done: subprocess.CompletedProcess[str], out: Path) -> Profile:
    assert done.returncode == 0, done.stderr
    return nearfield.load(out)


@pytest.mark.families
def test_pair_across_the_network(installation: Installation, nodes: TwoNodes, tmp_path: Path) -> None:
    """Is the pair across the network measured at its distance, by messages that cross the cable, and floor skipped
    there because the ranks share no memory?"""
    before = nodes.bytes_sent("nodea"), nodes.bytes_sent("nodeb")
    out = tmp_path / "p"
    arguments = [
        "--mpi",
        installation.name,
        "--scenario",
        "pingpong",
        "--scenario",
        "floor",
        "--scenario",
        "collective",
    ]
    hosts = f"nodea cpus={FIRST}\nnodeb cpus={SECOND}\n"
    profile = measured(probe_on(nodes, out, hosts, *arguments, "--sizes", "8,64KiB"), out)
    trips = where(profile.records, scenario="pingpong", metric="half_round_trip")
    assert set(trips.select("distance", "pair").iter_rows()) == {("network-1", ACROSS)}
    assert set(trips["size_bytes"]) == {8, 65536}
    assert trips["value"].null_count() == 0
    assert [(s.scenario, s.distance) for s in profile.run.skipped] == [("floor", "network-1")]
    assert "share no memory" in profile.run.skipped[0].reason
    assert {tuple(launch.hosts) for launch in profile.run.launch} == {("nodea", "nodeb")}
    assert {tuple(launch.cpus) for launch in profile.run.launch} == {(FIRST, SECOND)}
    assert not profile.run.calibration or not profile.run.calibration.common_clock
    everybody = where(profile.records, scenario="collective", metric="time")
    assert set(everybody["ranks"]) == {2}
    assert everybody["pair"].null_count() == everybody.height
    sent = [nodes.bytes_sent(node) - was for node, was in zip(("nodea", "nodeb"), before, strict=True)]
    assert min(sent) > 1 << 20, "the messages did not cross the cable"


def test_pairs_inside_the_first_node_and_across(nodes: TwoNodes, tmp_path: Path) -> None:
    """Are distances inside the first node measured there beside the one across, each with its own floor or reason?"""
    out = tmp_path / "p"
    hosts = f"nodea cpus={FIRST},{SECOND}\nnodeb cpus={SECOND}\n"
    arguments = ["--scenario", "pingpong", "--scenario", "floor", "--sizes", "8"]
    profile = measured(probe_on(nodes, out, hosts, *arguments), out)
    inside = f"nodea:{FIRST}-nodea:{SECOND}"
    trips = where(profile.records, scenario="pingpong", metric="half_round_trip")
    assert set(trips["pair"]) == {inside, ACROSS}
    assert "network-1" not in set(trips.filter(pl.col("pair") == inside)["distance"])
    assert set(where(profile.records, scenario="floor", metric="time")["pair"]) == {inside}
    assert [s.distance for s in profile.run.skipped] == ["network-1"]


def test_floor_alone_across_is_a_profile_of_reasons(nodes: TwoNodes, tmp_path: Path) -> None:
    """If nothing of what is requested can be measured there, does the profile say so, and nothing else?"""
    out = tmp_path / "p"
    hosts = f"nodea cpus={FIRST}\nnodeb cpus={SECOND}\n"
    profile = measured(probe_on(nodes, out, hosts, "--scenario", "floor", "--sizes", "8"), out)
    assert profile.records.height == 0
    assert "share no memory" in profile.run.skipped[0].reason


@pytest.mark.parametrize(
    ("hosts", "code", "words"),
    [
        ("nodea cpus={first}\nnodeb cpus=1000\n", 5, "cannot bind to CPU 1000"),
        ("nodea cpus={first}\nnodec cpus={second}\n", 5, "no rank could be started on nodea, nodec: "),
        ("nodea cpu={first}\n", 2, "unknown key 'cpu'"),
    ],
    ids=["no-such-cpu", "no-such-host", "no-such-key"],
)
def test_wrong_hosts_are_reported(nodes: TwoNodes, tmp_path: Path, hosts: str, code: int, words: str) -> None:
    """Is a hostfile that does not fit the nodes an error in words, and no profile?"""
    out = tmp_path / "p"
    text = hosts.format(first=FIRST, second=SECOND)
    done = probe_on(nodes, out, text, "--scenario", "protocol", "--sizes", "8")
    assert done.returncode == code, done.stderr
    assert words in " ".join(done.stderr.split())
    assert not out.exists()
