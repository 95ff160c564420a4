"""Writes the schedules of a simulated program in GOAL, the language of LogGOPSim and ATLAHS (T. Hoefler, C. Siebert,
A. Lumsdaine: Group Operation Assembly Language, ICPP 2009).

A rank in the file is a node, and its CPUs are the MPI ranks on that node. All work inside a node is `calc`: its times
include caches, memory, and the copies of messages between ranks of the node, whose order is given by `requires`.
Messages between nodes, including those of protocols, are `send` and `recv`. The last CPU of a node stands for its NIC,
on which all `recv` are, so that a message arrives while the cores compute."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from nearfield._native import replay
from nearfield.base.errors import UsageError
from nearfield.observe.replay import Cluster, Replay

MAX_CPUS = 255  # maximum on a node without that of the NIC: GOAL's tools store the number of a CPU in a byte

StepId = tuple[int, int]  # rank of MPI, and number of the step, from 1
Label = str
StepKind = replay.StepKind


@dataclass(frozen=True)
class LogGopsParameters:
    """The parameters of LogGOPS that describe the simulated network. o, O are 0, since `calc` contains the times of
    cores, and S is infinite, since the protocols' messages are in the schedule."""

    latency_ns: float = 0.0  # L: the mean over all messages, with the time in the NICs
    gap_ns: float = 0.0  # g
    ns_per_byte: float = 0.0  # G

    def to_options(self) -> str:
        """Returns the options of LogGOPSim."""
        return f"-L {self.latency_ns:.0f} -o 0 -g {self.gap_ns:.0f} -G {self.ns_per_byte:.3g} -O 0 -S 4294967295"


def to_goal(program_replay: Replay, command: str) -> tuple[str, LogGopsParameters]:
    """Returns the schedules that were recorded with `program_replay` as GOAL, and the parameters of the network, which
    are also in the first lines of the text. Raises UsageError if a node has more ranks than GOAL has CPUs."""
    cluster = program_replay.cluster
    if cluster.ranks_per_node > MAX_CPUS:
        raise UsageError(f"GOAL has at most {MAX_CPUS} CPUs on a node", "simulate more nodes (--nodes)")
    schedules, policy = program_replay.schedules(), cluster.policies[program_replay.scheduled_policy or 0]
    network = _network_parameters(cluster, schedules)
    lines = [
        f"// GOAL, simulated by nearfield: {cluster.nodes} nodes of {cluster.machine.name}, policy {policy}.",
        f"// {' '.join(command.split())}",
        "// A rank is a node, a CPU is a rank of MPI, the last CPU is the NIC, and times are in ns.",
        f"// The machine's network: {network.to_options()}",
        f"num_ranks {cluster.nodes}",
    ]
    transfers = _TransfersBetweenNodes(schedules, cluster.ranks_per_node)
    for node in range(cluster.nodes):
        lines += ["", f"rank {node} {{", *_NodeSchedule(node, schedules, transfers).lines(), "}"]
    return "\n".join(lines) + "\n", network


def _network_parameters(cluster: Cluster, schedules: list[list[replay.Step]]) -> LogGopsParameters:
    latencies = [step.latency_ns for steps in schedules for step in steps if step.latency_ns > 0]
    network, nic = cluster.machine.network, cluster.machine.nic
    if not latencies or not network or not nic:
        return LogGopsParameters()
    slowest = min(nic.gb_per_s.value, network.link_gb_per_s.value)
    return LogGopsParameters(sum(latencies) / len(latencies), network.gap_ns.value, 1 / slowest)


class _TransfersBetweenNodes:
    """The transfers between nodes, grouped by receiving node, and the tags that match each `send` with its `recv`."""

    def __init__(self, schedules: list[list[replay.Step]], ranks_per_node: int) -> None:
        self.ranks_per_node = ranks_per_node
        self.tag_by_step: dict[StepId, int] = {}
        self.arriving_by_node: dict[int, list[tuple[StepId, replay.Step]]] = defaultdict(list)  # node -> its transfers
        next_tags: Counter[tuple[int, int]] = Counter()
        for rank, steps in enumerate(schedules):
            for number, step in enumerate(steps, start=1):
                if step.kind != StepKind.send:
                    continue
                pair = self.node_of(rank), self.node_of(step.peer)
                self.tag_by_step[rank, number] = next_tags[pair]
                next_tags[pair] += 1
                self.arriving_by_node[pair[1]].append(((rank, number), step))

    def node_of(self, rank: int) -> int:
        return rank // self.ranks_per_node


class _NodeSchedule:
    """Writes the block of one node: first all operations, then all dependences, which may refer to later operations."""

    def __init__(self, node: int, schedules: list[list[replay.Step]], transfers: _TransfersBetweenNodes) -> None:
        self._schedules, self._transfers = schedules, transfers
        self._ranks = range(node * transfers.ranks_per_node, (node + 1) * transfers.ranks_per_node)
        self._operations: list[str] = []
        self._dependences: list[tuple[Label, Label | StepId]] = []
        self._label_by_step: dict[StepId, Label] = {}  # step -> operation whose end completes the step
        for step_id, step in transfers.arriving_by_node[node]:
            sender = transfers.node_of(step_id[0])
            text = f"recv {max(step.bytes, 1)}b from {sender} tag {transfers.tag_by_step[step_id]}"
            self._label_by_step[step_id] = self._add_operation(text, len(self._ranks))
        for cpu, rank in enumerate(self._ranks):
            self._add_rank(rank, cpu)

    def lines(self) -> Iterator[str]:
        yield from self._operations
        for label, needed in self._dependences:
            yield f"{label} requires {needed if isinstance(needed, Label) else self._label_by_step[needed]}"

    def _add_rank(self, rank: int, cpu: int) -> None:
        last_operation: Label | None = None  # the rank's last operation
        awaited_steps: list[StepId] = []  # the steps for which its next operation waits
        worked_ns, written_ns = 0.0, 0  # rounding errors must not add up
        for number, step in enumerate(self._schedules[rank], start=1):
            worked_ns += step.end_ns - step.begin_ns
            duration = round(worked_ns) - written_ns
            lacks_label = step.kind == StepKind.notify and last_operation is None  # other ranks will wait for it
            if duration > 0 or awaited_steps and step.kind != StepKind.wait or lacks_label:
                written_ns += duration
                last_operation = self._add_operation(f"calc {duration}", cpu, required_label=last_operation)
                self._dependences += [(last_operation, origin) for origin in awaited_steps]
                awaited_steps = []
            if step.kind == StepKind.wait:
                awaited_steps.append(step.origin)
            elif step.kind == StepKind.notify:
                assert last_operation is not None
                self._label_by_step[rank, number] = last_operation
            elif step.kind == StepKind.send:
                receiver_node, tag = self._transfers.node_of(step.peer), self._transfers.tag_by_step[rank, number]
                last_operation = self._add_operation(
                    f"send {max(step.bytes, 1)}b to {receiver_node} tag {tag}", cpu, required_label=last_operation
                )
                self._label_by_step[rank, number] = last_operation

    def _add_operation(self, text: str, cpu: int, required_label: Label | None = None) -> Label:
        """Adds an operation, which begins after another one has ended, and returns its label."""
        label = f"l{len(self._operations) + 1}"
        self._operations.append(f"{label}: {text} cpu {cpu}" if cpu else f"{label}: {text}")
        if required_label:
            self._dependences.append((label, required_label))
        return label
