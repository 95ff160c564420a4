"""The exception for errors that the halo library reports."""

from nearfield.errors import NearfieldError


class HaloError(NearfieldError):
    """`code` is that of include/nearfield/halo.h: LOST if a neighbour has died, MEMORY, ORDER, ..."""

    ARGUMENT, MEMORY, LOST, LATE, UNAVAILABLE, ORDER, INTERNAL = range(1, 8)

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
