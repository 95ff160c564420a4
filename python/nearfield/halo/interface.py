"""Declares the structures and functions of include/nearfield/halo.h for ctypes, with errors as exceptions."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any

from nearfield.base.errors import NearfieldError

if TYPE_CHECKING:
    from typing_extensions import Self

FIELD_IN_PLACE, FIELD_GHOSTED = 0, 1
TYPE_NUMBER_BY_NAME = {
    name: number for number, name in enumerate(("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"))
}


class HaloError(NearfieldError):
    """An error of the halo library. `code` is an error code of include/nearfield/halo.h: LOST if a neighbour has died,
    MEMORY, ORDER, ..."""

    ARGUMENT, MEMORY, LOST, LATE, UNAVAILABLE, ORDER, INTERNAL = range(1, 8)

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ClosingContext(ABC):
    """A context manager whose end calls close(), but not after an exception: close() is collective, and the other ranks
    might never call it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    @abstractmethod
    def close(self) -> None:
        """Frees the resources of the object."""


class GridOptions(ctypes.Structure):
    """The struct nf_grid_options of halo.h."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("dimensions", c_int),
        ("extents", c_int64 * 3),
        ("halo", (c_int * 2) * 3),
        ("periodic", (c_int * 2) * 3),
        ("corners", c_int),
        ("dims", c_int * 3),
        ("reorder", c_int),
        ("protocol", c_char_p),
        ("limit_s", c_double),
        ("costs", c_char_p),
    ]


class GridInfo(ctypes.Structure):
    """The struct nf_grid_info of halo.h."""

    _fields_ = [
        ("dimensions", c_int),
        ("rank", c_int),
        ("ranks", c_int),
        ("ranks_per_node", c_int),
        ("dims", c_int * 3),
        ("place", c_int * 3),
        ("start", c_int64 * 3),
        ("count", c_int64 * 3),
        ("neighbours_in_place", c_int),
        ("neighbours_on_node", c_int),
    ]


class ArrayDescription(ctypes.Structure):
    """The struct nf_array of halo.h."""

    _fields_ = [("first", c_void_p), ("strides_bytes", c_int64 * 3), ("type", c_int), ("components", c_int)]


_FUNCTION_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "nf_grid_options_init": (c_int, [POINTER(GridOptions), c_size_t]),
    "nf_grid_create_f": (c_int, [c_int, POINTER(GridOptions), POINTER(c_void_p)]),
    "nf_grid_free": (c_int, [POINTER(c_void_p)]),
    "nf_grid_get_info": (c_int, [c_void_p, POINTER(GridInfo)]),
    "nf_grid_explain": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "nf_grid_costs": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "nf_field_create": (c_int, [c_void_p, c_int, c_int, c_int, POINTER(c_void_p)]),
    "nf_field_free": (c_int, [POINTER(c_void_p)]),
    "nf_field_data": (c_void_p, [c_void_p]),
    "nf_field_strides": (None, [c_void_p, POINTER(c_int64)]),
    "nf_field_in_place": (c_int, [c_void_p]),
    "nf_start": (c_int, [c_void_p, c_void_p, c_int]),
    "nf_finish": (c_int, [c_void_p]),
    "nf_exchange_fields": (c_int, [c_void_p, c_void_p, c_int]),
    "nf_start_width": (c_int, [c_void_p, c_void_p, c_int, c_void_p]),
    "nf_accumulate": (c_int, [c_void_p, c_void_p, c_int]),
    "nf_exchange_create": (c_int, [c_void_p, POINTER(ArrayDescription), c_int, c_char_p, POINTER(c_void_p)]),
    "nf_exchange_free": (c_int, [POINTER(c_void_p)]),
    "nf_exchange_start": (c_int, [c_void_p]),
    "nf_exchange_finish": (c_int, [c_void_p]),
    "nf_exchange_run": (c_int, [c_void_p]),
    "nf_exchange_accumulate": (c_int, [c_void_p]),
    "nf_exchange_protocol": (c_char_p, [c_void_p]),
    "nf_protocol_name": (c_char_p, [c_int]),
    "nf_protocol_summary": (c_char_p, [c_int]),
    "nf_error_text": (c_char_p, []),
}


def declare_functions(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declares argument and result types of all functions of the library for ctypes. Returns the library."""
    for name, (result, arguments) in _FUNCTION_SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def raise_on_error(library: ctypes.CDLL, code: int) -> None:
    """Raises HaloError with the message of the library if `code` is an error."""
    if code:
        raise HaloError(code, library.nf_error_text().decode(errors="replace"))
