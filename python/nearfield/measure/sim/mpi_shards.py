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
from nearfield.measure.sim.pool import abort_job, missing_mpi_error, num_usable_cores

if TYPE_CHECKING:
    from mpi4py import MPI
    from typing_extensions import Self

Result = TypeVar("Result")

# Length of a shard's data in bytes, and the number of memory accesses that the shard has read.
_BLOCK_HEADER = struct.Struct("<QQ")
_BLOCK_BYTES = 2048  # length of the first message: the header and the beginning of the data
_BLOCK_DATA_BYTES = _BLOCK_BYTES - _BLOCK_HEADER.size
# Shard has a core of its own -> number of MPI_Test calls before sleeping.
_NUM_TESTS_BEFORE_SLEEP = {True: 500, False: 50}
_MIN_SLEEP_S, _MAX_SLEEP_S = 1e-6, 100e-6  # shortest and longest sleep between later MPI_Test calls
_REMOTE_SHARD_FAILED = "another shard failed"
# Shards::exchange in src/sim/engine/shards.cpp interprets this time as a failure that precedes all others.
_BARRIER_MARK = struct.pack("<d", -math.inf) + b"here"
# Environment variables in which launchers pass the number of processes.
_WORLD_SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


class SingleShard:
    """A single process that simulates all nodes. Also defines the interface of MpiShards."""

    shard_index, num_shards = 0, 1
    total_accesses = 0  # memory accesses that all shards have read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        pass

    @property
    def num_cores(self) -> int:
        """Returns the number of cores for this shard's threads."""
        return num_usable_cores()

    def to_native_shards(self) -> replay.Shards | None:
        """Returns the simulator's communicator; None for a single process."""
        return None

    def report_progress(self, accesses: int) -> None:
        """Records the number of memory accesses that this shard has read."""
        self.total_accesses = accesses

    def run_on_all(self, work: Callable[[], Result]) -> Result:
        """Runs `work` on this shard and returns its result. The call is collective: all shards must make the same calls
        in the same order. If the work fails on any shard, shard 0 raises the error and the other shards raise
        SystemExit, so that the error is reported once."""
        return work()


class MpiShards(SingleShard):
    """The ranks of this process's MPI job. If an exception that was not reported to the other shards leaves the
    context, the job is aborted, because the others would wait for this shard forever."""

    def __init__(self) -> None:
        """Raises UsageError if mpi4py is missing, if mpi4py cannot load an MPI, or if that MPI is not the one of the
        launcher."""
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise missing_mpi_error(error, "mpiexec -n 4 {python} -m nearfield simulate run ... --mpi") from error
        self._comm = MPI.COMM_WORLD
        self.shard_index, self.num_shards = self._comm.Get_rank(), self._comm.Get_size()
        _check_launcher(self.num_shards, MPI.Get_library_version())
        self._send_block, self._receive_blocks = bytearray(_BLOCK_BYTES), bytearray(_BLOCK_BYTES * self.num_shards)
        self._num_accesses, self._is_failure_agreed = 0, False
        self._node_watch: _native.NodeHub | _native.NodeMember | None = None
        try:
            self._start_node_watch()
            self._count_host_cores(MPI.COMM_TYPE_SHARED)
        except BaseException as error:
            self._abort_job(error)

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if error and not self._is_failure_agreed:
            self._abort_job(error)
        if self._node_watch:
            self._node_watch.close()

    def _start_node_watch(self) -> None:
        """Starts to watch the nodes if there are several: shard 0 watches all other nodes, and the first shard of each
        other node watches shard 0 and ends its process if shard 0 dies."""
        names = self._comm.allgather(socket.gethostname())
        if len(set(names)) == 1:
            return
        hub = _native.NodeHub() if self.shard_index == 0 else None
        address = self._comm.bcast(hub.address if hub else None)
        if hub or names.index(names[self.shard_index]) != self.shard_index:
            self._node_watch = hub
        else:
            self._node_watch = _native.NodeMember(address)

    def _raise_if_node_lost(self) -> None:
        """Raises NodeLostError on shard 0 if a node has died."""
        if isinstance(self._node_watch, _native.NodeHub) and (lost := self._node_watch.lost()):
            raise NodeLostError(lost, "start the simulation again when the node is there, or without the node")

    def _count_host_cores(self, split_type: int) -> None:
        """Determines the number of cores of this shard, and whether the shards of its host have a core each."""
        own_cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(num_usable_cores()))
        host = self._comm.Split_type(split_type)
        # Number of shards of this host whose affinity overlaps with ours.
        num_sharing_shards = sum(1 for item in host.allgather(own_cores) if item & own_cores)
        host.Free()
        self._num_cores = max(1, len(own_cores) // num_sharing_shards)
        self._num_tests_before_sleep = _NUM_TESTS_BEFORE_SLEEP[num_sharing_shards <= len(own_cores)]

    @property
    def num_cores(self) -> int:
        """Returns the number of cores for this shard's threads: its usable cores divided by the number of shards that
        share them."""
        return self._num_cores

    def to_native_shards(self) -> replay.Shards:
        """Returns the simulator's communicator, which calls `exchange`."""
        return replay.Shards(self.shard_index, self.num_shards, self.exchange)

    def report_progress(self, accesses: int) -> None:
        """Records the number of memory accesses that this shard has read. The next exchange sends it to the other
        shards."""
        self._num_accesses = accesses

    def run_on_all(self, work: Callable[[], Result]) -> Result:
        """Runs the work, and exchanges with all shards whether it failed; see SingleShard.run_on_all."""
        problem: BaseException | str | None = None
        try:
            result = work()
        except replay.RemoteShardFailed:
            problem = _REMOTE_SHARD_FAILED
        except BaseException as error:
            problem = self._to_picklable_error(error)
        problems = [pickle.loads(item) for item in self._gather_at_barrier(pickle.dumps(problem))]
        failed = [item for item in problems if item is not None]
        if not failed:
            return result
        first = next((item for item in failed if item != _REMOTE_SHARD_FAILED), RuntimeError(_REMOTE_SHARD_FAILED))
        self._is_failure_agreed = True
        if self.shard_index == 0:
            raise first
        # Code 0, since a launcher kills the job after another code, before shard 0 has reported the error.
        raise SystemExit(0)

    def _gather_at_barrier(self, own_data: bytes) -> list[bytes]:
        """Returns the data of all shards once all have called this method. A shard that is still simulating takes the
        exchanged bytes for a failure of this shard, stops, and then calls this method, too."""
        while True:
            gathered = self.exchange(_BARRIER_MARK + own_data)
            if all(item.startswith(_BARRIER_MARK) for item in gathered):
                return [item[len(_BARRIER_MARK) :] for item in gathered]

    def _to_picklable_error(self, error: BaseException) -> BaseException:
        """Returns the error in a form that can be sent to other shards. Prints the traceback of an unexpected exception
        on the shard that raised it."""
        if not isinstance(error, (NearfieldError, KeyboardInterrupt)):
            traceback.print_exception(error)
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return RuntimeError(f"shard {self.shard_index}: {error!r}")
        return error

    def exchange(self, own_data: bytes) -> list[bytes]:
        """Sends bytes to all shards and returns the bytes of every shard, in order of their numbers. Aborts the job if
        MPI fails, or if a second signal interrupts the wait, since the other shards would wait forever."""
        try:
            return self._exchange_blocks(own_data)
        except BaseException as error:
            self._abort_job(error)

    def _abort_job(self, error: BaseException) -> NoReturn:
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

    def _exchange_blocks(self, own_data: bytes) -> list[bytes]:
        first_bytes = own_data[:_BLOCK_DATA_BYTES]
        self._send_block[: _BLOCK_HEADER.size + len(first_bytes)] = (
            _BLOCK_HEADER.pack(len(own_data), self._num_accesses) + first_bytes
        )
        self._wait_for_request(self._comm.Iallgather(self._send_block, self._receive_blocks))
        heads = [
            _BLOCK_HEADER.unpack_from(self._receive_blocks, shard * _BLOCK_BYTES) for shard in range(self.num_shards)
        ]
        self.total_accesses = sum(passed for _, passed in heads)
        begins = [shard * _BLOCK_BYTES + _BLOCK_HEADER.size for shard in range(self.num_shards)]
        data_by_shard = [
            bytes(self._receive_blocks[at : at + min(n, _BLOCK_DATA_BYTES)])
            for at, (n, _) in zip(begins, heads, strict=True)
        ]
        lengths = [max(0, length - _BLOCK_DATA_BYTES) for length, _ in heads]
        if any(lengths):
            remainders = self._exchange_remainders(own_data[_BLOCK_DATA_BYTES:], lengths)
            data_by_shard = [item + rest for item, rest in zip(data_by_shard, remainders, strict=True)]
        return data_by_shard

    def _exchange_remainders(self, own_remainder: bytes, lengths: list[int]) -> list[bytes]:
        """Exchanges by MPI_Iallgatherv the data that did not fit into the first messages, and returns the data of every
        shard."""
        begins = [sum(lengths[:shard]) for shard in range(self.num_shards)]
        remainders = bytearray(sum(lengths))
        self._wait_for_request(self._comm.Iallgatherv(own_remainder, [remainders, lengths, begins, _byte_datatype()]))
        return [bytes(remainders[at : at + length]) for at, length in zip(begins, lengths, strict=True)]

    def _wait_for_request(self, request: MPI.Request) -> None:
        """Waits for an MPI request. Calls MPI_Test and yields the core, later sleeps, because a busy wait inside MPI
        would occupy a core that another shard may need."""
        for _ in range(self._num_tests_before_sleep):
            if request.Test():
                return
            _yield_core()
        pause = _MIN_SLEEP_S
        while not request.Test():
            self._raise_if_node_lost()
            time.sleep(pause)
            pause = min(2 * pause, _MAX_SLEEP_S)


def _yield_core() -> None:
    if hasattr(os, "sched_yield"):
        os.sched_yield()


def _byte_datatype() -> MPI.Datatype:
    from mpi4py import MPI

    return MPI.BYTE


def _check_launcher(num_ranks: int, library: str) -> None:
    """Raises UsageError if the launcher started several processes, but each of them is alone in its MPI_COMM_WORLD."""
    num_started = max(
        (int(os.environ[name]) for name in _WORLD_SIZE_VARIABLES if os.environ.get(name, "").isdigit()), default=1
    )
    if num_ranks == 1 and num_started > 1:
        raise UsageError(
            f"the launcher started {num_started} processes, but mpi4py's MPI is another one, which sees only this: "
            f"{library.splitlines()[0]}",
            "take the mpiexec of that MPI, or have mpi4py load the launcher's: MPI4PY_LIBMPI=/path/to/libmpi.so",
        )
