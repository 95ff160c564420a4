"""The processes that simulate one cluster, each a shard with part of its nodes (src/sim/engine/shards.hpp): those of an
MPI job, which communicate through mpi4py, or this process alone."""

from __future__ import annotations

import math
import os
import pickle
import struct
import sys
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from nearfield._native import replay
from nearfield.base.errors import NearfieldError, UsageError
from nearfield.measure.sim.pool import missing_mpi_error, usable_cores

if TYPE_CHECKING:
    from mpi4py import MPI
    from typing_extensions import Self

Result = TypeVar("Result")

_BLOCK_HEAD = struct.Struct("<QQ")  # bytes of a shard's data, and the number of accesses that it has read
_BLOCK_BYTES = 2048  # bytes of a shard's first message: the head and the data that fits
_BLOCK_DATA_BYTES = _BLOCK_BYTES - _BLOCK_HEAD.size
_TESTS_BEFORE_SLEEP = {
    True: 500,
    False: 50,
}  # calls of MPI_Test before a shard sleeps, by whether it has a core of its own
_SHORTEST_S, _LONGEST_S = 1e-6, 100e-6  # pauses between later tests
_REMOTE_FAILURE = "another shard failed"
_AT_BARRIER = (
    struct.pack("<d", -math.inf) + b"here"
)  # Shards::exchange in src/sim/engine/shards.cpp reads it as a failure before all others
_WORLD_SIZE_VARIABLES = (
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
)  # variables with the number of processes that the launcher started


class SingleProcess:
    """This process, which simulates all nodes. It also defines the interface of Shards."""

    number, count = 0, 1
    total_accesses = 0  # accesses that all shards have read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        pass

    @property
    def cores(self) -> int:
        """Returns the cores for this shard's threads."""
        return usable_cores()

    def native(self) -> replay.Shards | None:
        """Returns the simulator's communicator; None for a single process."""
        return None

    def report_progress(self, accesses: int) -> None:
        """Records the number of accesses that this shard has read."""
        self.total_accesses = accesses

    def run_on_all(self, work: Callable[[], Result]) -> Result:
        """Runs `work` and returns its result on this shard. The call is collective: all shards make the same calls in
        the same order. If the work fails on any shard, shard 0 raises that error, so that it is reported once, and
        the others raise SystemExit."""
        return work()


class Shards(SingleProcess):
    """The processes of this process's MPI job. Used as a context: if an error that the others do not know leaves it,
    the job is aborted, since the others would wait for this shard forever."""

    def __init__(self) -> None:
        """Raises UsageError without mpi4py, without an MPI that it can load, or if that MPI is not the launcher's."""
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise missing_mpi_error(error, "mpiexec -n 4 {python} -m nearfield simulate run ... --mpi") from error
        self._comm = MPI.COMM_WORLD
        self.number, self.count = self._comm.Get_rank(), self._comm.Get_size()
        _check_launcher(self.count, MPI.Get_library_version())
        self._mine, self._all = bytearray(_BLOCK_BYTES), bytearray(_BLOCK_BYTES * self.count)
        self._accesses, self._agreed = 0, False
        try:
            self._count_host_cores(MPI.COMM_TYPE_SHARED)
        except BaseException as error:
            self._abort(error)

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if error and not self._agreed:
            self._abort(error)

    def _count_host_cores(self, shared: int) -> None:
        """Determines the number of cores for this shard and for those of its host."""
        mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(usable_cores()))
        host = self._comm.Split_type(shared)
        sharing = sum(
            1 for item in host.allgather(mine) if item & mine
        )  # shards of this host that share cores with this one
        host.Free()
        self._cores = max(1, len(mine) // sharing)
        self._tests = _TESTS_BEFORE_SLEEP[sharing <= len(mine)]

    @property
    def cores(self) -> int:
        """Returns the cores for this shard's threads: its usable cores, shared evenly with the other shards of the
        host."""
        return self._cores

    def native(self) -> replay.Shards:
        """Returns the simulator's communicator."""
        return replay.Shards(self.number, self.count, self.exchange)

    def report_progress(self, accesses: int) -> None:
        """Records the number of accesses that this shard has read; the others learn it in the next exchange."""
        self._accesses = accesses

    def run_on_all(self, work: Callable[[], Result]) -> Result:
        """Runs the work and agrees with all shards on whether it failed; see SingleProcess.run_on_all."""
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
        raise SystemExit(
            0
        )  # launchers kill a job in which a process fails, and the first shard has to report the error

    def _gather_at_barrier(self, mine: bytes) -> list[bytes]:
        """Returns the data of all shards when all have arrived. Shards that still simulate see this as a failure of
        this shard, and come here next."""
        while True:
            gathered = self.exchange(_AT_BARRIER + mine)
            if all(item.startswith(_AT_BARRIER) for item in gathered):
                return [item[len(_AT_BARRIER) :] for item in gathered]

    def _picklable(self, error: BaseException) -> BaseException:
        """Returns the error in a form that can be sent to the other shards. Unexpected exceptions are printed with
        their traceback on the shard that raised them."""
        if not isinstance(error, (NearfieldError, KeyboardInterrupt)):
            traceback.print_exception(error)
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return RuntimeError(f"shard {self.number}: {error!r}")
        return error

    def exchange(self, mine: bytes) -> list[bytes]:
        """Sends bytes to all shards, and returns the bytes of each, in their order. Aborts the job if MPI fails, or on
        a second signal during the wait: the others could not learn of it otherwise."""
        try:
            return self._exchange(mine)
        except BaseException as error:
            self._abort(error)

    def _abort(self, error: BaseException) -> NoReturn:
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            code = error.code
        elif code == 1:
            traceback.print_exception(error)
        sys.stderr.flush()
        self._comm.Abort(code)
        os._exit(code)

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
        """Returns the data that did not fit into the first messages."""
        begins = [sum(lengths[:shard]) for shard in range(self.count)]
        rests = bytearray(sum(lengths))
        self._wait(self._comm.Iallgatherv(mine, [rests, lengths, begins, _byte_datatype()]))
        return [bytes(rests[at : at + length]) for at, length in zip(begins, lengths, strict=True)]

    def _wait(self, request: MPI.Request) -> None:
        """Waits for a message. A busy wait in MPI would occupy a core that late shards may need; this yields the core,
        and soon sleeps."""
        for _ in range(self._tests):
            if request.Test():
                return
            _yield_core()
        pause = _SHORTEST_S
        while not request.Test():
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_S)


def _yield_core() -> None:
    if hasattr(os, "sched_yield"):
        os.sched_yield()


def _byte_datatype() -> MPI.Datatype:
    from mpi4py import MPI

    return MPI.BYTE


def _check_launcher(count: int, library: str) -> None:
    """Raises UsageError if the launcher started several processes that are unaware of one another."""
    started = max(
        (int(os.environ[name]) for name in _WORLD_SIZE_VARIABLES if os.environ.get(name, "").isdigit()), default=1
    )
    if count == 1 and started > 1:
        raise UsageError(
            f"the launcher started {started} processes, but mpi4py's MPI is another one, which sees only this: "
            f"{library.splitlines()[0]}",
            "take the mpiexec of that MPI, or have mpi4py load the launcher's: MPI4PY_LIBMPI=/path/to/libmpi.so",
        )
