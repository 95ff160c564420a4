"""The processes that simulate one cluster together, each a shard with a part of its nodes (src/sim/shards.hpp): those
of an MPI job, which talk through mpi4py, or this process alone."""

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
from nearfield.measure.sim.pool import cores, without_mpi

if TYPE_CHECKING:
    from mpi4py import MPI
    from typing_extensions import Self

Result = TypeVar("Result")

_HEAD = struct.Struct("<QQ")  # the length of what a shard gives, and how many accesses it has read
_BLOCK = 2048  # bytes of a shard's first message: the head and what fits behind it
_ROOM = _BLOCK - _HEAD.size
_TESTS = {True: 500, False: 50}  # of whether a message has come, before a shard sleeps that has, or has no, core alone
_SHORTEST_S, _LONGEST_S = 1e-6, 100e-6  # between two later ones
_ENDED = "another shard failed"
_HERE = struct.pack("<d", -math.inf) + b"here"  # to Shards::exchange of src/sim/shards.cpp, a failure before all others
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")  # by which launchers tell how many processes they started


class Alone:
    """This process, which simulates all nodes. It is also the interface of Shards."""

    number, count = 0, 1
    passed_by_all = 0  # the accesses that all shards have read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        pass

    @property
    def cores(self) -> int:
        """The cores for this shard's threads."""
        return cores()

    def native(self) -> replay.Shards | None:
        """Returns what the simulator talks through; None: nobody is there to talk to."""
        return None

    def pass_on(self, accesses: int) -> None:
        """Notes how many accesses this shard has read."""
        self.passed_by_all = accesses

    def together(self, work: Callable[[], Result]) -> Result:
        """Returns what the work returns on this shard. All shards must call it equally. If the work fails on one, all
        end: the first shard raises that error, so that it is told once, and the others SystemExit."""
        return work()


class Shards(Alone):
    """The processes of the MPI job that this one belongs to. Use as a context: if it is left by an error that the
    others have not learned, the job is aborted, since they would wait for this shard for ever."""

    def __init__(self) -> None:
        """Raises UsageError without mpi4py, without an MPI that it can load, or if that MPI is not the launcher's."""
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise without_mpi(error, "mpiexec -n 4 {python} -m nearfield simulate run ... --mpi") from error
        self._comm = MPI.COMM_WORLD
        self.number, self.count = self._comm.Get_rank(), self._comm.Get_size()
        _check_launcher(self.count, MPI.Get_library_version())
        self._mine, self._all = bytearray(_BLOCK), bytearray(_BLOCK * self.count)
        self._passed, self._agreed = 0, False
        try:
            self._look_at_host(MPI.COMM_TYPE_SHARED)
        except BaseException as error:
            self._abort(error)

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if error and not self._agreed:
            self._abort(error)

    def _look_at_host(self, shared: int) -> None:
        """Finds out how many cores there are for this shard and those of its host."""
        mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(cores()))
        here = self._comm.Split_type(shared)
        sharing = sum(1 for its in here.allgather(mine) if its & mine)  # shards of this host, on these cores
        here.Free()
        self._cores = max(1, len(mine) // sharing)
        self._tests = _TESTS[sharing <= len(mine)]

    @property
    def cores(self) -> int:
        """The cores for this shard's threads: those that it may use, shared evenly with the other shards there."""
        return self._cores

    def native(self) -> replay.Shards:
        """Returns what the simulator talks through."""
        return replay.Shards(self.number, self.count, self.exchange)

    def pass_on(self, accesses: int) -> None:
        """Notes how many accesses this shard has read; the others learn it in the next exchange."""
        self._passed = accesses

    def together(self, work: Callable[[], Result]) -> Result:
        """Runs the work and agrees with all shards on whether it failed, as Alone.together says."""
        problem: BaseException | str | None = None
        try:
            result = work()
        except replay.EndedElsewhere:
            problem = _ENDED
        except BaseException as error:
            problem = self._tellable(error)
        problems = [pickle.loads(its) for its in self._meet(pickle.dumps(problem))]
        failed = [its for its in problems if its is not None]
        if not failed:
            return result
        first = next((its for its in failed if its != _ENDED), RuntimeError(_ENDED))
        self._agreed = True
        if self.number == 0:
            raise first
        raise SystemExit(0)  # launchers kill a job in which one fails, and the first shard has to tell why

    def _meet(self, mine: bytes) -> list[bytes]:
        """Returns what all gave when all are here. Those that still simulate take it for the failure of this shard, and
        come here next."""
        while True:
            told = self.exchange(_HERE + mine)
            if all(its.startswith(_HERE) for its in told):
                return [its[len(_HERE) :] for its in told]

    def _tellable(self, error: BaseException) -> BaseException:
        """Returns the error as the others can be told it. What is no user's error is printed where it came."""
        if not isinstance(error, (NearfieldError, KeyboardInterrupt)):
            traceback.print_exception(error)
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return RuntimeError(f"shard {self.number}: {error!r}")
        return error

    def exchange(self, mine: bytes) -> list[bytes]:
        """Gives bytes to all shards, and returns what each of them gave, in their order. Ends the job if MPI fails, or
        if a second signal comes while it waits: the others could not learn of it in any other way."""
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
        begin = mine[:_ROOM]
        self._mine[: _HEAD.size + len(begin)] = _HEAD.pack(len(mine), self._passed) + begin
        self._wait(self._comm.Iallgather(self._mine, self._all))
        heads = [_HEAD.unpack_from(self._all, shard * _BLOCK) for shard in range(self.count)]
        self.passed_by_all = sum(passed for _, passed in heads)
        begins = [shard * _BLOCK + _HEAD.size for shard in range(self.count)]
        given = [bytes(self._all[at : at + min(n, _ROOM)]) for at, (n, _) in zip(begins, heads, strict=True)]
        lengths = [max(0, length - _ROOM) for length, _ in heads]
        if any(lengths):
            rests = self._exchange_rests(mine[_ROOM:], lengths)
            given = [its + rest for its, rest in zip(given, rests, strict=True)]
        return given

    def _exchange_rests(self, mine: bytes, lengths: list[int]) -> list[bytes]:
        """Returns what the first messages had no room for."""
        begins = [sum(lengths[:shard]) for shard in range(self.count)]
        rests = bytearray(sum(lengths))
        self._wait(self._comm.Iallgatherv(mine, [rests, lengths, begins, _byte()]))
        return [bytes(rests[at : at + length]) for at, length in zip(begins, lengths, strict=True)]

    def _wait(self, request: MPI.Request) -> None:
        """Waits for a message. MPIs wait busily, and so would keep the shards that are late from the cores that they
        share; this gives its core away, and sleeps before long."""
        for _ in range(self._tests):
            if request.Test():
                return
            _let_others_go_on()
        pause = _SHORTEST_S
        while not request.Test():
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_S)


def _let_others_go_on() -> None:
    if hasattr(os, "sched_yield"):
        os.sched_yield()


def _byte() -> MPI.Datatype:
    from mpi4py import MPI

    return MPI.BYTE


def _check_launcher(count: int, library: str) -> None:
    """Raises UsageError if the launcher started several processes that do not know of one another."""
    started = max((int(os.environ[name]) for name in _SIZES if os.environ.get(name, "").isdigit()), default=1)
    if count == 1 and started > 1:
        raise UsageError(
            f"the launcher started {started} processes, but mpi4py's MPI is another one, which sees only this: "
            f"{library.splitlines()[0]}",
            "take the mpiexec of that MPI, or have mpi4py load the launcher's: MPI4PY_LIBMPI=/path/to/libmpi.so",
        )
