"""The processes that simulate one cluster together. Each process is a shard, which simulates part of the nodes
(src/sim/engine/shards.hpp). The shards are the ranks of an MPI job, connected by mpi4py, or this process alone."""

from __future__ import annotations

import math
import os
import pickle
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from nearfield import _native
from nearfield._native import replay
from nearfield.base.errors import NearfieldError, NodeLostError, UsageError
from nearfield.measure.sim.pool import abort_job, missing_mpi_error, usable_cores

if TYPE_CHECKING:
    from mpi4py import MPI
    from typing_extensions import Self

Result = TypeVar("Result")

# Length of a shard's data in bytes, and the number of memory accesses that the shard has read.
_BLOCK_HEAD = struct.Struct("<QQ")
_BLOCK_BYTES = 2048  # length of the first message: the head and the beginning of the data
_BLOCK_DATA_BYTES = _BLOCK_BYTES - _BLOCK_HEAD.size
# Shard has a core of its own -> number of MPI_Test calls before sleeping.
_TESTS_BEFORE_SLEEP = {True: 500, False: 50}
_SHORTEST_S, _LONGEST_S = 1e-6, 100e-6  # shortest and longest sleep between later MPI_Test calls
_REMOTE_FAILURE = "another shard failed"
# Shards::exchange in src/sim/engine/shards.cpp takes this time for a failure that precedes all others.
_AT_BARRIER = struct.pack("<d", -math.inf) + b"here"
# Environment variables in which launchers pass the number of processes.
_WORLD_SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


class SingleProcess:
    """A single process that simulates all nodes. Also defines the interface of Shards."""

    number, count = 0, 1
    total_accesses = 0  # memory accesses that all shards have read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        pass

    @property
    def cores(self) -> int:
        """Returns the number of cores for this shard's threads."""
        return usable_cores()

    def native(self) -> replay.Shards | None:
        """Returns the simulator's communicator; None for a single process."""
        return None

    def report_progress(self, accesses: int) -> None:
        """Records the number of memory accesses that this shard has read."""
        self.total_accesses = accesses

    def run_on_all(self, work: Callable[[], Result]) -> Result:
        """Runs `work` on this shard and returns its result. The call is collective: all shards must make the same calls
        in the same order. If the work fails on any shard, shard 0 raises the error, so that the error is
        reported once, and the other shards raise SystemExit."""
        return work()


class Shards(SingleProcess):
    """The ranks of this process's MPI job. If an error that the other shards do not know about leaves the context, the
    job is aborted, because the others would wait for this shard forever."""

    def __init__(self) -> None:
        """Raises UsageError if mpi4py is missing, if mpi4py cannot load an MPI, or if that MPI is not the one of the
        launcher."""
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise missing_mpi_error(error, "mpiexec -n 4 {python} -m nearfield simulate run ... --mpi") from error
        self._comm = MPI.COMM_WORLD
        self.number, self.count = self._comm.Get_rank(), self._comm.Get_size()
        _check_launcher(self.count, MPI.Get_library_version())
        self._mine, self._all = bytearray(_BLOCK_BYTES), bytearray(_BLOCK_BYTES * self.count)
        self._accesses, self._agreed = 0, False
        self._watch: _native.NodeHub | _native.NodeMember | None = None
        try:
            self._watch_nodes()
            self._count_host_cores(MPI.COMM_TYPE_SHARED)
        except BaseException as error:
            self._abort(error)

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if error and not self._agreed:
            self._abort(error)
        if self._watch:
            self._watch.close()

    def _watch_nodes(self) -> None:
        """Starts to watch the nodes if there are several: shard 0 watches all others, and the first shard of each other
        node watches shard 0, without which its process ends."""
        names = self._comm.allgather(socket.gethostname())
        if len(set(names)) == 1:
            return
        hub = _native.NodeHub() if self.number == 0 else None
        address = self._comm.bcast(hub.address if hub else None)
        if hub or names.index(names[self.number]) != self.number:
            self._watch = hub
        else:
            self._watch = _native.NodeMember(address)

    def _check_nodes(self) -> None:
        """Raises NodeLostError on shard 0 if a node has died."""
        if isinstance(self._watch, _native.NodeHub) and (lost := self._watch.lost()):
            raise NodeLostError(lost, "start the simulation again when the node is there, or without the node")

    def _count_host_cores(self, shared: int) -> None:
        """Determines the number of cores of this shard, and whether the shards of its host have a core each."""
        mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(usable_cores()))
        host = self._comm.Split_type(shared)
        # Number of shards of this host whose affinity overlaps with ours.
        sharing = sum(1 for item in host.allgather(mine) if item & mine)
        host.Free()
        self._cores = max(1, len(mine) // sharing)
        self._tests = _TESTS_BEFORE_SLEEP[sharing <= len(mine)]

    @property
    def cores(self) -> int:
        """Returns the number of cores for this shard's threads: its usable cores divided by the number of shards that
        share them."""
        return self._cores

    def native(self) -> replay.Shards:
        """Returns the simulator's communicator, which calls `exchange`."""
        return replay.Shards(self.number, self.count, self.exchange)

    def report_progress(self, accesses: int) -> None:
        """Records the number of memory accesses that this shard has read. The next exchange sends it to the other
        shards."""
        self._accesses = accesses

    def run_on_all(self, work: Callable[[], Result]) -> Result:
        """Runs the work, and exchanges with all shards whether it failed; see SingleProcess.run_on_all."""
        problem: BaseException | str | None = None
        try:
            result = work()
        except replay.RemoteShardFailed:
            problem = _REMOTE_FAILURE
        except BaseException as error:
            problem = self._picklable(error)
        problems = [pickle.loads(item) for item in self._gather_at_barrier(pickle.dumps(problem))]
        failed = [item for item in problems if item is not None]
        if not failed:
            return result
        first = next((item for item in failed if item != _REMOTE_FAILURE), RuntimeError(_REMOTE_FAILURE))
        self._agreed = True
        if self.number == 0:
            raise first
        # Code 0, since a launcher kills the job after another code, before shard 0 has reported the error.
        raise SystemExit(0)

    def _gather_at_barrier(self, mine: bytes) -> list[bytes]:
        """Returns the data of all shards once all have arrived here. To shards that are still simulating, the exchanged
        bytes look like a failure of this shard, which makes them stop and come here next."""
        while True:
            gathered = self.exchange(_AT_BARRIER + mine)
            if all(item.startswith(_AT_BARRIER) for item in gathered):
                return [item[len(_AT_BARRIER) :] for item in gathered]

    def _picklable(self, error: BaseException) -> BaseException:
        """Returns the error in a form that can be sent to other shards. Prints the traceback of an unexpected exception
        on the shard that raised it."""
        if not isinstance(error, (NearfieldError, KeyboardInterrupt)):
            traceback.print_exception(error)
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return RuntimeError(f"shard {self.number}: {error!r}")
        return error

    def exchange(self, mine: bytes) -> list[bytes]:
        """Sends bytes to all shards and returns the bytes of every shard, in order of their numbers. Aborts the job if
        MPI fails, or if a second signal interrupts the wait, since the other shards would wait forever."""
        try:
            return self._exchange(mine)
        except BaseException as error:
            self._abort(error)

    def _abort(self, error: BaseException) -> NoReturn:
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            code = error.code
        elif isinstance(error, NodeLostError):
            print(f"error: {error.message}\n  → {error.remedy}", file=sys.stderr, flush=True)
            _native.end_job("the simulation is ended")  # MPI_Abort would wait for the dead node
        elif code == 1:
            traceback.print_exception(error)
        sys.stderr.flush()
        abort_job(self._comm, code)

    def _exchange(self, mine: bytes) -> list[bytes]:
        begin = mine[:_BLOCK_DATA_BYTES]
        self._mine[: _BLOCK_HEAD.size + len(begin)] = _BLOCK_HEAD.pack(len(mine), self._accesses) + begin
        self._wait(self._comm.Iallgather(self._mine, self._all))
        heads = [_BLOCK_HEAD.unpack_from(self._all, shard * _BLOCK_BYTES) for shard in range(self.count)]
        self.total_accesses = sum(passed for _, passed in heads)
        begins = [shard * _BLOCK_BYTES + _BLOCK_HEAD.size for shard in range(self.count)]
        given = [
            bytes(self._all[at : at + min(n, _BLOCK_DATA_BYTES)]) for at, (n, _) in zip(begins, heads, strict=True)
        ]
        lengths = [max(0, length - _BLOCK_DATA_BYTES) for length, _ in heads]
        if any(lengths):
            rests = self._exchange_remainders(mine[_BLOCK_DATA_BYTES:], lengths)
            given = [item + rest for item, rest in zip(given, rests, strict=True)]
        return given

    def _exchange_remainders(self, mine: bytes, lengths: list[int]) -> list[bytes]:
        """Exchanges by MPI_Iallgatherv the data that did not fit into the first messages, and returns the data of every
        shard."""
        begins = [sum(lengths[:shard]) for shard in range(self.count)]
        rests = bytearray(sum(lengths))
        self._wait(self._comm.Iallgatherv(mine, [rests, lengths, begins, _byte_datatype()]))
        return [bytes(rests[at : at + length]) for at, length in zip(begins, lengths, strict=True)]

    def _wait(self, request: MPI.Request) -> None:
        """Waits for an MPI request. Calls MPI_Test and yields the core, later sleeps, because a busy wait inside MPI
        would occupy a core that another shard may need."""
        for _ in range(self._tests):
            if request.Test():
                return
            _yield_core()
        pause = _SHORTEST_S
        while not request.Test():
            self._check_nodes()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_S)


def _yield_core() -> None:
    if hasattr(os, "sched_yield"):
        os.sched_yield()


def _byte_datatype() -> MPI.Datatype:
    from mpi4py import MPI

    return MPI.BYTE


def _check_launcher(count: int, library: str) -> None:
    """Raises UsageError if the launcher started several processes, but each of them is alone in its MPI_COMM_WORLD."""
    started = max(
        (int(os.environ[name]) for name in _WORLD_SIZE_VARIABLES if os.environ.get(name, "").isdigit()), default=1
    )
    if count == 1 and started > 1:
        raise UsageError(
            f"the launcher started {started} processes, but mpi4py's MPI is another one, which sees only this: "
            f"{library.splitlines()[0]}",
            "take the mpiexec of that MPI, or have mpi4py load the launcher's: MPI4PY_LIBMPI=/path/to/libmpi.so",
        )
