"""Limits what the analysis of a file costs: Python's garbage collection, and the operations of isl."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import islpy as isl

MAX_ISL_OPERATIONS = 1_000_000  # maximum isl operations per region, about half a second


@contextmanager
def disable_garbage_collection() -> Iterator[None]:
    """Disables Python's garbage collection during a `with` block: scanning a million live syntax nodes would take half
    of the run time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def limit_isl_operations() -> Iterator[Callable[[], bool]]:
    """Limits the isl operations during a `with` block. Yields a function that returns, after the block, whether the
    limit was exceeded."""
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(MAX_ISL_OPERATIONS)
    is_exceeded = False
    try:
        yield lambda: is_exceeded
    except isl.Error:
        context.set_max_operations(0)
        context.reset_operations()
        is_exceeded = True
    finally:
        context.set_max_operations(0)
        context.reset_operations()
