"""Data frames: `from nearfield.base.frames import pl` is polars, which is imported when it is first used, since that
takes longer than most commands do."""

from __future__ import annotations

import importlib
import signal
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
else:

    class _ImportedOnUse(ModuleType):
        def __getattr__(self, name: str) -> Any:
            is_new = self.__name__ not in sys.modules
            module = importlib.import_module(self.__name__)
            if is_new:
                # polars installs a signal handler before Python's, after which Linux restarts system calls: Python
                # would notice Ctrl-C only when its system call returns. This lets Ctrl-C interrupt them again.
                signal.siginterrupt(signal.SIGINT, True)
            return getattr(module, name)

    pl = _ImportedOnUse("polars")

__all__ = ["pl"]
