"""Provides polars as `pl`, imported at first use, since importing polars takes longer than most commands: use `from
nearfield.base.frames import pl`."""

from __future__ import annotations

import importlib
import signal
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
else:

    class _LazyModule(ModuleType):
        def __getattr__(self, name: str) -> Any:
            is_new = self.__name__ not in sys.modules
            module = importlib.import_module(self.__name__)
            if is_new:
                # polars installs a signal handler before Python's, after which Linux restarts interrupted system calls:
                # Python would notice Ctrl-C only when the system call returns. siginterrupt lets Ctrl-C interrupt
                # system calls again.
                signal.siginterrupt(signal.SIGINT, True)
            return getattr(module, name)

    pl = _LazyModule("polars")

__all__ = ["pl"]
