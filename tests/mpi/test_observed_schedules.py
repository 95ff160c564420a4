"""Can other tools read what ranks did when: GOAL's schedule of a simulated program, and the timelines for Perfetto?"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nearfield.base.errors import ProfileError, UsageError
from nearfield.cli import app

ON = ["--on", "epyc-9755", "--policy", "memory"]


def simulate(trace: Path, *options: object) -> Any:
    done = CliRunner().invoke(app, ["simulate", "run", str(trace), *ON, "--json", *map(str, options)])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


# ---- GOAL


@dataclass
class Schedule:
    """A schedule in GOAL. Operations are named by their node and label."""

    operations: dict[tuple[int, str], str] = field(default_factory=dict)
    needed: dict[tuple[int, str], list[tuple[int, str]]] = field(default_factory=dict)

    @staticmethod
    def read(text: str) -> "Schedule":
        schedule, node = Schedule(), -1
        for line in text.splitlines():
            if found := re.fullmatch(r"rank (\d+) \{", line):
                node = int(found[1])
            elif found := re.fullmatch(r"(l\d+): ((?:calc|send|recv) .*)", line):
                schedule.operations[node, found[1]] = found[2]
                schedule.needed[node, found[1]] = []
            elif found := re.fullmatch(r"(l\d+) requires (l\d+)", line):
                schedule.needed[node, found[1]].append((node, found[2]))
            else:
                assert line in ("", "}") or line.startswith(("//", "num_ranks ")), line
        return schedule

    def messages(self, kind: str) -> Iterator[tuple[tuple[int, str], tuple[int, int, int], int]]:
        """Yields each `send` or `recv`: its name, what pairs it with the other one (sender, receiver, tag), and its
        bytes."""
        for name, operation in self.operations.items():
            if found := re.match(rf"{kind} (\d+)b (?:to|from) (\d+) tag (\d+)", operation):
                peer = int(found[2])
                pair = (name[0], peer) if kind == "send" else (peer, name[0])
                yield name, (*pair, int(found[3])), int(found[1])

    def longest_path_ns(self, latency_ns: float, ns_per_byte: float) -> float:
        """Returns the time at which all operations have ended, if messages do not delay each other."""
        sent = {pair: (name, size) for name, pair, size in self.messages("send")}
        received = {name: pair for name, pair, _ in self.messages("recv")}

        @cache
        def end_of(name: tuple[int, str]) -> float:
            begin = max((end_of(one) for one in self.needed[name]), default=0.0)
            if name in received:
                send, size = sent[received[name]]
                return max(begin, end_of(send) + latency_ns + (size - 1) * ns_per_byte)
            duration = re.match(r"calc (\d+)", self.operations[name])
            return begin + (int(duration[1]) if duration else 0)

        return max(map(end_of, self.operations))


def test_a_schedule_of_one_node_takes_the_simulated_time(ring: Path, tmp_path: Path) -> None:
    """Do the computed times and their dependences alone take as long as the simulated program?"""
    found = simulate(ring, "--nodes", 1, "--goal", tmp_path / "one.goal")
    schedule = Schedule.read((tmp_path / "one.goal").read_text())
    assert not list(schedule.messages("send"))
    assert schedule.longest_path_ns(0, 0) == pytest.approx(found["time_ns"][0][0], abs=10)


@pytest.mark.parametrize("nodes", [2, 4])
def test_a_schedule_of_several_nodes_leaves_messages_to_the_network(ring: Path, tmp_path: Path, nodes: int) -> None:
    """Has each message one sender and one receiver, and is the time with the printed parameters about the simulated
    one?"""
    found = simulate(ring, "--nodes", nodes, "--goal", tmp_path / "app.goal")
    text = (tmp_path / "app.goal").read_text()
    schedule = Schedule.read(text)
    sent = {pair: size for _, pair, size in schedule.messages("send")}
    assert sent == {pair: size for _, pair, size in schedule.messages("recv")}
    assert len(sent) == len(list(schedule.messages("send"))) == found["messages"] > 0
    options = re.search(r"-L (\S+) -o 0 -g \S+ -G (\S+) ", text)
    assert options
    path_ns = schedule.longest_path_ns(float(options[1]), float(options[2]))
    assert path_ns == pytest.approx(found["time_ns"][0][0], rel=0.1)


def test_a_schedule_has_the_times_of_the_named_policy(ring: Path, tmp_path: Path) -> None:
    """Does a schedule under another policy differ from the base policy's as its simulated time does?"""
    found = simulate(ring, "--nodes", 4, "--policy", "payload-l3", "--goal", tmp_path / "l3.goal")
    simulate(ring, "--nodes", 4, "--goal", tmp_path / "memory.goal")
    text = (tmp_path / "l3.goal").read_text()
    assert "policy payload-l3" in text and "policy memory" in (tmp_path / "memory.goal").read_text()
    times = [Schedule.read((tmp_path / name).read_text()).longest_path_ns(0, 0) for name in ("memory.goal", "l3.goal")]
    assert found["policies"] == ["memory", "payload-l3"]
    assert (times[1] < times[0]) == (found["time_ns"][1][0] < found["time_ns"][0][0])


# ---- timelines


def slices(file: Path) -> Iterator[tuple[int, str, float]]:
    """Yields the rank, the name and the duration in ns of each slice; each must end inside the one that contains it."""
    open_slices: dict[int, list[tuple[str, float]]] = {}
    for event in json.loads(file.read_text())["traceEvents"]:
        stack = open_slices.setdefault(event.get("tid", -1), [])
        if event["ph"] == "B":
            stack.append((event["name"], event["ts"]))
        elif event["ph"] == "E":
            name, begin = stack.pop()
            assert name == event["name"] and event["ts"] >= begin
            yield event["tid"], name, (event["ts"] - begin) * 1e3
    assert not any(open_slices.values())


def test_a_simulated_timeline_has_the_times_of_the_calls(ring: Path, tmp_path: Path) -> None:
    """Do the slices of each MPI function last as long as its simulated calls, and do arrows end where waits do?"""
    found = simulate(ring, "--nodes", 2, "--timeline", tmp_path / "app.json")
    lasted: Counter[str] = Counter()
    for _, name, duration_ns in slices(tmp_path / "app.json"):
        lasted[name] += duration_ns
    for call in found["calls"]:
        assert lasted[call["name"]] == pytest.approx(call["time_ns"][0][0], abs=20), call["name"]
    assert any(name.startswith("waits for rank ") for name in lasted)
    events = json.loads((tmp_path / "app.json").read_text())["traceEvents"]
    arrows = Counter((event["id"], event["ph"]) for event in events if event["ph"] in "sf")
    assert arrows and set(arrows.values()) == {1} and {(number, "f") for number, _ in arrows} <= set(arrows)
    assert {event["args"]["name"] for event in events if event["name"] == "process_name"} == {"node 0", "node 1"}


def test_an_observed_timeline_has_the_times_of_the_run(ring: Path, tmp_path: Path) -> None:
    """Do the slices of each rank last as long as the calls that `observe show` lists, and are ranks aligned?"""
    runner, file = CliRunner(), tmp_path / "observed.json"
    done = runner.invoke(app, ["observe", "show", str(ring), "--timeline", str(file)])
    assert done.exit_code == 0, done.output
    lasted: Counter[tuple[int, str]] = Counter()
    for rank, name, duration_ns in slices(file):
        lasted[rank, name] += duration_ns
    ranks = json.loads(runner.invoke(app, ["observe", "show", str(ring), "--json"]).stdout)["ranks"]
    assert len(ranks) == 4
    shown: Counter[tuple[int, str]] = Counter()
    for rank in ranks:
        for call in rank["calls"]:  # a function has one entry for each line that calls it
            shown[rank["rank"], call["name"]] += call["seconds"] * 1e9
    assert lasted == pytest.approx(shown, abs=10)
    events = json.loads(file.read_text())["traceEvents"]
    ends = [event["ts"] for event in events if event["ph"] == "E" and event["name"] == "MPI_Allreduce"]
    assert len(ends) == 4 and max(ends) == min(ends)


# ---- errors


@pytest.mark.parametrize("options", [["--region", "pcontrol"], ["--independent-runs"]], ids=lambda words: words[0])
def test_a_part_of_a_program_has_no_schedule(ring: Path, tmp_path: Path, options: list[str]) -> None:
    """Is it an error to ask for the schedule of a region, or of several runs?"""
    done = CliRunner().invoke(app, ["simulate", "run", str(ring), *options, "--goal", str(tmp_path / "app.goal")])
    assert isinstance(done.exception, UsageError) and "the whole program" in done.exception.message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--goal", "--timeline"])
def test_a_file_that_cannot_be_written_is_noticed_first(ring: Path, tmp_path: Path, option: str) -> None:
    """Is a file in a folder that is not there an error before the simulation?"""
    done = CliRunner().invoke(app, ["simulate", "run", str(ring), option, str(tmp_path / "none" / "file")])
    assert isinstance(done.exception, ProfileError) and "cannot write" in done.exception.message
    assert "accesses" not in done.stdout


def test_no_other_file_is_replaced(ring: Path, tmp_path: Path) -> None:
    """Is a file that is no timeline or schedule, a folder, or one file for both an error before the simulation; and is
    a timeline replaced by a new one?"""
    mine, timeline = tmp_path / "mine.c", tmp_path / "app.json"
    mine.write_text("// GOAL of this program\nint main() {}")
    for words in (["--goal", mine], ["--timeline", mine], ["--goal", tmp_path], ["--goal", "a", "--timeline", "a"]):
        done = CliRunner().invoke(app, ["simulate", "run", str(ring), *map(str, words)])
        assert isinstance(done.exception, UsageError) and "accesses" not in done.stdout, words
    assert mine.read_text().endswith("int main() {}")
    for _ in range(2):
        simulate(ring, "--nodes", 1, "--timeline", timeline, "--goal", tmp_path / "app.goal")
    shown = CliRunner().invoke(app, ["observe", "show", str(ring), "--timeline", str(mine)])
    assert isinstance(shown.exception, UsageError)


def test_a_cut_stream_is_drawn_up_to_the_cut(ring: Path, tmp_path: Path) -> None:
    """If a stream ends in the middle, does the timeline have the other ranks and say which one is cut?"""
    cut = tmp_path / "cut"
    shutil.copytree(ring, cut)
    stream = cut / "rank-3.nfs"
    stream.write_bytes(stream.read_bytes()[:500])
    done = CliRunner().invoke(app, ["observe", "show", str(cut), "--timeline", str(tmp_path / "cut.json")])
    assert done.exit_code == 0 and "rank 3: " in done.output, done.output
    assert {rank for rank, _, _ in slices(tmp_path / "cut.json")} >= {0, 1, 2}
