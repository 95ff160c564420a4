"""One call of `nearfield tune` for one MPI or several: its options, the display, and Ctrl-C."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from types import FrameType

from nearfield.cli.tune_display import Display
from nearfield.errors import UsageError
from nearfield.tune.request import Request
from nearfield.tune.rules import Rules, require_writable, save_rules
from nearfield.tune.tuning import Tuning
from nearfield.tune.unfinished import Unfinished

INTERRUPTED = 130  # as shells say: 128 + SIGINT

# From the name of an option to the field of Request that it sets.
_ASKING = {
    "mpi_name": "mpi", "budget": "budget_s", "distance": "distances", "memory": "memory_limit_bytes",
    "ranks_per_node": "ranks_per_node", "never_below": "never_below", "sizes": "sizes", "exhaustive": "exhaustive",
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """Holds the options that the user typed."""

    request: Request
    given: frozenset[str]  # the names of the options that were typed
    resume: bool
    overwrite: bool

    def require_free(self, unfinished: Unfinished) -> None:
        """Raises ProfileError if a new tune would destroy an interrupted one, unless --overwrite gave that up."""
        if not (self.resume or self.overwrite):
            unfinished.require_free()

    def begin(self, unfinished: Unfinished, mpi_name: str | None = None) -> Request:
        """Returns the request for the rules of this file. With `--resume` that is the request of the interrupted tune,
        and UsageError is raised if an option that was typed now differs from it. `mpi_name` is the MPI of this file
        when all MPIs are tuned."""
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


def is_saved(rules: Rules) -> bool:
    """Returns whether these rules are written to a file: not if they set nothing because nothing could be decided."""
    return rules.sets_something or not rules.undecided


class Sitting:
    """One sitting; use it as a context. The first Ctrl-C asks the tune that is running to confirm its best settings and
    to end. The second Ctrl-C ends it at once, and so does SIGTERM, which batch systems send."""

    def __init__(self) -> None:
        self.display = Display()
        self.stopped = False
        self._tuning: Tuning | None = None

    def __enter__(self) -> Sitting:
        self.display.__enter__()
        self._old = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        self.display.__exit__()

    def say(self, text: str) -> None:
        self.display.say(text)

    def tune(self, unfinished: Unfinished, request: Request) -> Rules | None:
        """Tunes one MPI, saves its rules and returns them; returns None if the tune was ended at once. Nothing is saved
        if some distances are not decided and the others set nothing. The unfinished file is removed only when the rules
        are complete."""
        self._tuning = Tuning(request, self.display, unfinished)
        try:
            rules = self._tuning.run()
            if is_saved(rules):
                save_rules(rules, unfinished.rules)
        except KeyboardInterrupt:
            self.stopped = True
            return None
        finally:
            self._tuning = None
            self.display.end()
        if not (self.stopped or rules.undecided):
            unfinished.end()
        return rules

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.stopped or number == signal.SIGTERM or not self._tuning:
            raise KeyboardInterrupt
        self.stopped = True
        self._tuning.stop()
        self.say("stopping: the best so far is confirmed and kept (again to end at once)")
