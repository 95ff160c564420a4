"""What one call of `nearfield tune` has for each MPI that it tunes: the request, the display, and Ctrl-C."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from types import FrameType, TracebackType

from nearfield.cli.tune_display import Display
from nearfield.errors import UsageError
from nearfield.tune.request import Request
from nearfield.tune.rules import Rules, require_writable, save_rules
from nearfield.tune.tuning import Tuning
from nearfield.tune.unfinished import Unfinished

INTERRUPTED = 130  # as shells say: 128 + SIGINT

# Options that say what is asked: the field of Request that each sets.
_ASKING = {
    "mpi_name": "mpi", "budget": "budget_s", "distance": "distances", "memory": "memory_limit_bytes",
    "ranks_per_node": "ranks_per_node", "never_below": "never_below", "sizes": "sizes", "exhaustive": "exhaustive",
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What was typed."""

    request: Request
    given: frozenset[str]  # names of the options among it
    resume: bool
    overwrite: bool

    def require_free(self, unfinished: Unfinished) -> None:
        """That a new tune destroys no interrupted one that nobody gave up."""
        if not (self.resume or self.overwrite):
            unfinished.require_free()

    def begin(self, unfinished: Unfinished, mpi_name: str | None = None) -> Request:
        """Returns what this file's tune is asked for: now, or with `--resume` when it began. UsageError if the two
        differ. `mpi_name`: of one among all."""
        if not self.resume:
            request = replace(self.request, mpi=mpi_name or self.request.mpi)
            unfinished.begun(request)
            return request
        request = unfinished.resumed()
        for name, field in _ASKING.items():
            now, then = getattr(self.request, field), getattr(request, field)
            if name in self.given and now != then:
                option = "--" + name.removesuffix("_name").replace("_", "-")
                raise UsageError(
                    f"cannot resume: {option} was {_told(then)}, and is {_told(now)} now",
                    f"leave {option} out to go on, or start anew with --overwrite",
                )
        require_writable(unfinished.rules)
        return request


def _told(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "not given"
    return "not given" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


class Sitting:
    """Use as a context. The first Ctrl-C asks the tune under way to confirm its best and to end; the second, or
    SIGTERM, which batch systems send, ends it at once."""

    def __init__(self) -> None:
        self.display = Display()
        self.stopped = False
        self._tuning: Tuning | None = None

    def __enter__(self) -> Sitting:
        self.display.__enter__()
        self._old = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        self.display.__exit__()

    def say(self, text: str) -> None:
        self.display.say(text)

    def tune(self, unfinished: Unfinished, request: Request) -> Rules | None:
        """Tunes one MPI, and saves its rules; None if that was ended at once. What was found stays in the unfinished
        file unless the rules are whole."""
        self._tuning = Tuning(request, self.display, unfinished)
        try:
            rules = self._tuning.run()
            save_rules(rules, unfinished.rules)
        except KeyboardInterrupt:
            self.stopped = True
            return None
        finally:
            self._tuning = None
            self.display.end()
        if not self.stopped:
            unfinished.end()
        return rules

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.stopped or number == signal.SIGTERM or not self._tuning:
            raise KeyboardInterrupt
        self.stopped = True
        self._tuning.stop()
        self.say("stopping: the best so far is confirmed and kept (again to end at once)")
