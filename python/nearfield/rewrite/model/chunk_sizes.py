"""Chooses the sizes of message chunks: from the command-line options, or from the caches of a profile's machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nearfield.base.errors import UsageError
from nearfield.base.units import parse_bytes
from nearfield.profile import Profile, load

_CACHE_SHARE_DIVISOR = (
    4  # a chunk gets 1/4 of a core's private cache: sent data, received data, the result, and spare room
)


@dataclass(frozen=True)
class ChunkSizes:
    """How messages are chunked: those of more than `threshold_bytes` are split into chunks of `chunk_bytes`."""

    chunk_bytes: int
    threshold_bytes: int


def chunk_sizes_from_options(profile_path: Path | None, chunk_size: str | None) -> ChunkSizes | None:
    """Returns the message chunk sizes that the command-line options select: the given size, or, with a profile, a
    quarter of a core's private cache for messages larger than the last-level cache. Returns None without either
    option."""
    if chunk_size is not None:
        piece_bytes = parse_bytes(chunk_size)
        if piece_bytes < 1:
            raise UsageError("a piece of no bytes is none", "Give a size with --piece, such as 64KiB.")
        return ChunkSizes(piece_bytes, piece_bytes)
    return chunk_sizes_from_caches(load(profile_path)) if profile_path is not None else None


def chunk_sizes_from_caches(profile: Profile) -> ChunkSizes | None:
    """Returns the message chunk sizes for the caches of a profile's machine; None if the profile has no caches."""
    caches = profile.machine.data_caches
    if not caches:
        return None
    min_cores = min(cache.shared_by for cache in caches)
    private_bytes = max(cache.size_bytes for cache in caches if cache.shared_by == min_cores)
    return ChunkSizes(max(private_bytes // _CACHE_SHARE_DIVISOR, 1), caches[-1].size_bytes)
