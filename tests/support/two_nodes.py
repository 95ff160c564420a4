"""Two nodes on one machine: two network namespaces with host names of their own, joined by a virtual cable.

What is real: host names, addresses, TCP between them, and a remote shell that passes no environment on, as
ssh does. What is not: they share processors, /dev/shm and the file system. Needs root and iproute2.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NODES = ("nodea", "nodeb")
_NETWORK = "10.213.77"

# Called by launchers as `agent [options] host command...`, like ssh; the command is a line for a shell.
_AGENT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec env -i HOME="$HOME" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin \\
  ip netns exec "@PREFIX@$host" unshare --uts sh -c 'hostname "$0" && exec sh -c "$1"' "$host" "$*"
"""


@dataclass(frozen=True)
class TwoNodes:
    prefix: str  # of the namespaces' names
    agent: Path

    def on(self, node: str, argv: list[str]) -> list[str]:
        """Returns the command that runs argv on a node, with the caller's environment."""
        there = ["ip", "netns", "exec", self.prefix + node, "unshare", "--uts"]
        return [*there, "sh", "-c", 'hostname "$0" && exec "$@"', node, *argv]

    @property
    def env(self) -> dict[str, str]:
        """Makes every launcher use the agent instead of ssh. UCX must be set to use the network: it knows a
        machine by its boot id, and this is one machine."""
        agent = str(self.agent)
        return {
            "OMPI_MCA_plm_rsh_agent": agent,  # Open MPI 4
            "PRTE_MCA_plm_ssh_agent": agent,  # Open MPI 5
            "HYDRA_LAUNCHER": "ssh",
            "HYDRA_LAUNCHER_EXEC": agent,
            "I_MPI_HYDRA_BOOTSTRAP": "ssh",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
            "UCX_TLS": "tcp,self",
        }

    def bytes_sent(self, node: str) -> int:
        """Returns the bytes that have left a node through its cable."""
        return self._statistic(node, "tx_bytes")

    def packets_sent(self, node: str) -> int:
        """Returns the packets that have left a node through its cable."""
        return self._statistic(node, "tx_packets")

    def processes(self, node: str) -> list[int]:
        """Returns the ids of the processes on a node."""
        command = ["ip", "netns", "pids", self.prefix + node]
        return [
            int(word) for word in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        ]

    def unplug(self, node: str) -> None:
        """Unplugs a node's end of the cable."""
        _ip("-n", self.prefix + node, "link", "set", _cable(node), "down")

    def plug_in(self, node: str) -> None:
        """Plugs a node's end of the cable in again, and waits until both ends can be used."""
        _ip("-n", self.prefix + node, "link", "set", _cable(node), "up")
        _wait_for_cable(self.prefix)
        for one in NODES:  # or an address that did not answer stays unknown for a while
            _ip("-n", self.prefix + one, "neigh", "flush", "dev", _cable(one))

    def _statistic(self, node: str, name: str) -> int:
        file = f"/sys/class/net/{_cable(node)}/statistics/{name}"
        command = ["ip", "netns", "exec", self.prefix + node, "cat", file]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def why_not() -> str:
    """Returns why two nodes cannot be set up here; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "unshare", "hostname"):
        if not shutil.which(tool):
            return f"'{tool}' is missing (Debian: apt install iproute2 util-linux hostname)"
    probe = subprocess.run(["unshare", "--net", "--uts", "--mount", "true"], capture_output=True, text=True)
    return probe.stderr.strip() if probe.returncode else ""


@contextmanager
def two_nodes(folder: Path) -> Iterator[TwoNodes]:
    """Sets the two nodes up, and takes all of it down again. The agent is written into `folder`."""
    prefix = f"nearfield-{os.urandom(4).hex()}-"  # a process ID is not unique in PID namespaces
    agent = folder / "agent"
    agent.write_text(_AGENT.replace("@PREFIX@", prefix))
    agent.chmod(0o755)
    try:
        _create(prefix)
        yield TwoNodes(prefix, agent)
    finally:
        for node in NODES:  # takes the cable along
            subprocess.run(["ip", "netns", "del", prefix + node], capture_output=True)
            shutil.rmtree(Path("/etc/netns") / (prefix + node), ignore_errors=True)


def _create(prefix: str) -> None:
    hosts = "127.0.0.1 localhost\n" + "".join(f"{_address(n)} {n}\n" for n in NODES)
    for node in NODES:
        _ip("netns", "add", prefix + node)
        own = Path("/etc/netns") / (prefix + node)  # `ip netns exec` lays these files over /etc
        own.mkdir(parents=True, exist_ok=True)
        (own / "hosts").write_text(hosts)
    first, second = (prefix + node for node in NODES)
    _ip(
        "link",
        "add",
        _cable(NODES[0]),
        "netns",
        first,
        "type",
        "veth",
        "peer",
        _cable(NODES[1]),
        "netns",
        second,
    )
    for node in NODES:
        _ip("-n", prefix + node, "addr", "add", f"{_address(node)}/24", "dev", _cable(node))
        for device in ("lo", _cable(node)):
            _ip("-n", prefix + node, "link", "set", device, "up")
    _wait_for_cable(prefix)


def _wait_for_cable(prefix: str) -> None:
    # UCX uses no device before the kernel says that it is up, some tenths of a second later.
    deadline = time.monotonic() + 10
    while any(_operational_state(prefix, node) != "up" for node in NODES) and time.monotonic() < deadline:
        time.sleep(0.02)


def _operational_state(prefix: str, node: str) -> str:
    command = ["ip", "netns", "exec", prefix + node, "cat", f"/sys/class/net/{_cable(node)}/operstate"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def _cable(node: str) -> str:
    return f"to-{NODES[1 - NODES.index(node)]}"


def _address(node: str) -> str:
    return f"{_NETWORK}.{NODES.index(node) + 1}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
