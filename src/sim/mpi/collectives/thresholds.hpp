// The sizes at which MPICH switches between algorithms of a collective, from R. Thakur, R. Rabenseifner, W. Gropp:
// Optimization of Collective Communication Operations in MPICH, Int. J. High Performance Computing Applications
// 19:49-66, 2005, which MPICH 1.2.7 follows; paper S4 (papers/S4/README.md), section 4.4, gives the thresholds of bcast
// (12 KB, 512 KB) and alltoall (32 KB).
#pragma once

#include <cstdint>

namespace nearfield::sim::thresholds {

// Bcast: sizes of the whole message.
inline constexpr std::uint64_t bcast_min_long_bytes = 12288;        // at least: scatter and allgather, not binomial
inline constexpr int bcast_min_long_ranks = 8;                      // and at least this many ranks
inline constexpr std::uint64_t bcast_min_very_long_bytes = 524288;  // at least: the allgather is a ring

// Allgather: sizes of a rank's result.
inline constexpr std::uint64_t allgather_min_long_bytes = 524288;  // below: recursive doubling, for powers of two
inline constexpr std::uint64_t allgather_min_ring_bytes =
    81920;  // below: Bruck, for other rank numbers; otherwise a ring

// Allreduce and reduce: sizes of the vector.
inline constexpr std::uint64_t allreduce_max_short_bytes = 2048;  // up to this: recursive doubling; above: Rabenseifner
inline constexpr std::uint64_t reduce_max_short_bytes = 2048;     // up to this: binomial; above: Rabenseifner

// Reduce_scatter: size of a rank's contribution.
inline constexpr std::uint64_t reduce_scatter_min_long_bytes = 524288;  // below: recursive halving; otherwise pairwise

// Alltoall: sizes of the data from one rank to one other rank.
inline constexpr std::uint64_t alltoall_max_short_bytes = 256;     // up to this: Bruck
inline constexpr int alltoall_min_short_ranks = 8;                 // and at least this many ranks
inline constexpr std::uint64_t alltoall_max_medium_bytes = 32768;  // up to this: nonblocking to all; above: pairwise

}  // namespace nearfield::sim::thresholds
