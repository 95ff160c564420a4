"""Writes the schedules of a simulated program in GOAL, the language of LogGOPSim and ATLAHS (T. Hoefler, C. Siebert,
A. Lumsdaine: Group Operation Assembly Language, ICPP 2009).

A rank of the file is a node, and its CPUs are the ranks of MPI on that node. What happens inside a node is computed:
the times of `calc` contain caches, memory, and the copies of messages between ranks of the node, which `requires` puts
into their order. Messages between nodes, with those of protocols, are `send` and `recv`. The last CPU of a node stands
for its NIC, on which all `recv` are, so that a message arrives while the cores compute."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from nearfield._native import replay
from nearfield.base.errors import UsageError
from nearfield.observe.replay import Cluster, Replay

MAX_CPUS = 255  # on a node, besides the one of the NIC: GOAL's tools store the number of a CPU in a byte

StepId = tuple[int, int]  # rank of MPI, and number of the step, from 1
Label = str
Kind = replay.StepKind


@dataclass(frozen=True)
class LogGopsParameters:
    """The parameters of LogGOPS that describe the simulated network. o, O are 0, since `calc` contains the times of
    cores, and S is infinite, since the protocols' messages are in the schedule."""

    latency_ns: float = 0.0  # L: the mean over all messages, with the time in the NICs
    gap_ns: float = 0.0  # g
    ns_per_byte: float = 0.0  # G

    def options(self) -> str:
        """Returns the options of LogGOPSim."""
        return f"-L {self.latency_ns:.0f} -o 0 -g {self.gap_ns:.0f} -G {self.ns_per_byte:.3g} -O 0 -S 4294967295"


def to_goal(found: Replay, command: str) -> tuple[str, LogGopsParameters]:
    """Returns the schedules that were recorded with `found` as GOAL, and the parameters of the network, which are also
    in the first lines of the text. Raises UsageError if a node has more ranks than GOAL has CPUs."""
    cluster = found.cluster
    if cluster.ranks_per_node > MAX_CPUS:
        raise UsageError(f"GOAL has at most {MAX_CPUS} CPUs on a node", "simulate more nodes (--nodes)")
    schedules, policy = found.schedules(), cluster.policies[found.scheduled_policy or 0]
    network = _network_parameters(cluster, schedules)
    lines = [
        f"// GOAL, simulated by nearfield: {cluster.nodes} nodes of {cluster.machine.name}, policy {policy}.",
        f"// {' '.join(command.split())}",
        "// A rank is a node, a CPU is a rank of MPI, the last CPU is the NIC, and times are in ns.",
        f"// The machine's network: {network.options()}",
        f"num_ranks {cluster.nodes}",
    ]
    transfers = _Transfers(schedules, cluster.ranks_per_node)
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


class _Transfers:
    """The transfers between nodes: which node sends which, and the tags that pair each `send` with its `recv`."""

    def __init__(self, schedules: list[list[replay.Step]], ranks_per_node: int) -> None:
        self.ranks_per_node = ranks_per_node
        self.tags: dict[StepId, int] = {}
        self.arriving: dict[int, list[tuple[StepId, replay.Step]]] = defaultdict(list)  # node -> its transfers
        next_tags: Counter[tuple[int, int]] = Counter()
        for rank, steps in enumerate(schedules):
            for number, step in enumerate(steps, start=1):
                if step.kind != Kind.send:
                    continue
                pair = self.node_of(rank), self.node_of(step.peer)
                self.tags[rank, number] = next_tags[pair]
                next_tags[pair] += 1
                self.arriving[pair[1]].append(((rank, number), step))

    def node_of(self, rank: int) -> int:
        return rank // self.ranks_per_node


class _NodeSchedule:
    """Writes the block of one node: first all operations, then all dependences, which may refer to later ones."""

    def __init__(self, node: int, schedules: list[list[replay.Step]], transfers: _Transfers) -> None:
        self._schedules, self._transfers = schedules, transfers
        self._ranks = range(node * transfers.ranks_per_node, (node + 1) * transfers.ranks_per_node)
        self._operations: list[str] = []
        self._dependences: list[tuple[Label, Label | StepId]] = []
        self._label_of: dict[StepId, Label] = {}  # what has been done when a step was taken
        for step_id, step in transfers.arriving[node]:
            sender = transfers.node_of(step_id[0])
            text = f"recv {max(step.bytes, 1)}b from {sender} tag {transfers.tags[step_id]}"
            self._label_of[step_id] = self._add(text, len(self._ranks))
        for cpu, rank in enumerate(self._ranks):
            self._add_rank(rank, cpu)

    def lines(self) -> Iterator[str]:
        yield from self._operations
        for label, needed in self._dependences:
            yield f"{label} requires {needed if isinstance(needed, Label) else self._label_of[needed]}"

    def _add_rank(self, rank: int, cpu: int) -> None:
        done: Label | None = None  # the rank's last operation
        needed: list[StepId] = []  # the steps for which its next operation waits
        worked_ns, written_ns = 0.0, 0  # rounding errors must not add up
        for number, step in enumerate(self._schedules[rank], start=1):
            worked_ns += step.end_ns - step.begin_ns
            duration = round(worked_ns) - written_ns
            lacks_label = step.kind == Kind.notify and done is None  # other ranks will wait for it
            if duration > 0 or needed and step.kind != Kind.wait or lacks_label:
                written_ns += duration
                done = self._add(f"calc {duration}", cpu, after=done)
                self._dependences += [(done, origin) for origin in needed]
                needed = []
            if step.kind == Kind.wait:
                needed.append(step.origin)
            elif step.kind == Kind.notify:
                assert done is not None
                self._label_of[rank, number] = done
            elif step.kind == Kind.send:
                to, tag = self._transfers.node_of(step.peer), self._transfers.tags[rank, number]
                done = self._add(f"send {max(step.bytes, 1)}b to {to} tag {tag}", cpu, after=done)
                self._label_of[rank, number] = done

    def _add(self, text: str, cpu: int, after: Label | None = None) -> Label:
        """Adds an operation, which begins after another one has ended, and returns its label."""
        label = f"l{len(self._operations) + 1}"
        self._operations.append(f"{label}: {text} cpu {cpu}" if cpu else f"{label}: {text}")
        if after:
            self._dependences.append((label, after))
        return label
