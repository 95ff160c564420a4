"""Handles terminating signals: SIGINT (Ctrl-C), SIGTERM from batch systems, and SIGHUP from a closed terminal."""

from __future__ import annotations

import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_TERMINATING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_RETRY_DELAY_S = 0.02
_IMPORTS = "<frozen importlib"
_deferred_signal = 0  # number of the signal to send again; 0: none


def install_handlers() -> None:
    """Installs handlers that convert terminating signals to an exception, so that cleanup ends the command's ranks and
    compilers. A signal that is ignored stays ignored, such as SIGINT in a shell's background and SIGHUP under nohup."""
    for number in _TERMINATING_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise_exit)
    signal.signal(signal.SIGALRM, _raise_again)


def raise_deferred() -> None:
    """Ends the command if a deferred signal is pending. Must be called before exec, because the new program would
    inherit the timer."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    _raise_again()


def restore_default_handlers() -> None:
    """Restores the default disposition of terminating signals, which end the process without an exception. Call it when
    nothing is left to clean up."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in _TERMINATING_SIGNALS:
        if signal.getsignal(number) is _raise_exit:
            signal.signal(number, signal.SIG_DFL)


def _raise_exit(number: int, frame: FrameType | None) -> None:
    """Signal handler that ends the command by an exception. If an exception cannot be raised safely at this point,
    defers the signal by _RETRY_DELAY_S."""
    global _deferred_signal
    if _is_unsafe_to_raise(frame):
        _deferred_signal = number
        signal.setitimer(signal.ITIMER_REAL, _RETRY_DELAY_S)
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        sys.exit(128 + number)


def _raise_again(*_: object) -> None:
    """Raises the deferred signal again, if there is one, for its current handler."""
    global _deferred_signal
    number, _deferred_signal = _deferred_signal, 0
    if number:
        signal.raise_signal(number)


def _is_unsafe_to_raise(frame: FrameType | None) -> bool:
    """Returns whether an exception would be lost, converted or abort the process at this point: anywhere below an
    import, since the initialisation of an extension module, and the construction of schemas by pydantic, catch it."""
    while frame:
        if _IMPORTS in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
