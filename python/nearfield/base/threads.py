"""Runs independent tasks in threads, so that Ctrl-C ends them soon and finished results are not lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Event
from typing import TypeVar

Result = TypeVar("Result")
_POLL_INTERVAL_S = 0.1  # time between two calls of `poll`


def run_in_threads(
    num_works: int, work: Callable[[int, Callable[[], None]], Result], num_threads: int, poll: Callable[[], None]
) -> Iterator[tuple[int, Result]]:
    """Yields (number, result) of each task as it completes. `work(number, raise_if_ended)` runs a task in a thread, and
    must call `raise_if_ended` often. Calls `poll` in the caller's thread several times a second, which may raise an
    exception, such as KeyboardInterrupt, to end all works. Raises the first exception of a work, and ends the others.

    Results come through a queue, because an exception that a signal raises in `concurrent.futures.wait` leaves locks
    held that the threads need to end."""
    ended, results = Event(), SimpleQueue[tuple[int, Future[Result]]]()

    def raise_if_ended() -> None:
        if ended.is_set():
            raise KeyboardInterrupt

    def run(number: int) -> None:
        done = Future[Result]()
        try:
            done.set_result(work(number, raise_if_ended))
        except BaseException as error:  # raised again by the caller's thread
            done.set_exception(error)
        results.put((number, done))

    with ThreadPoolExecutor(num_threads) as executor:
        try:
            for number in range(num_works):
                executor.submit(run, number)
            for _ in range(num_works):
                number, done = _next_result(results, poll)
                yield number, done.result()
        finally:
            ended.set()
            executor.shutdown(cancel_futures=True)


def _next_result(
    results: SimpleQueue[tuple[int, Future[Result]]], poll: Callable[[], None]
) -> tuple[int, Future[Result]]:
    while True:
        poll()
        try:
            return results.get(timeout=_POLL_INTERVAL_S)
        except Empty:
            continue
