// Where MPICH changes from one algorithm to another. All from R. Thakur, R. Rabenseifner, W. Gropp: Optimization of
// Collective Communication Operations in MPICH, Int. J. High Performance Computing Applications 19:49-66, 2005, which
// MPICH 1.2.7 follows; study S4, section 4.4, names those of bcast (12 KB, 512 KB) and alltoall (32 KB).
#pragma once

#include <cstdint>

namespace nearfield::sim::thresholds {

// Of the whole message.
inline constexpr std::uint64_t bcast_long_bytes = 12288;        // from here on scatter and allgather, not binomial
inline constexpr int bcast_long_ranks = 8;                      // and if there are as many ranks
inline constexpr std::uint64_t bcast_very_long_bytes = 524288;  // from here on the allgather is a ring

// Of what a rank has in the end.
inline constexpr std::uint64_t allgather_long_bytes = 524288;  // below: recursive doubling, if a power of two
inline constexpr std::uint64_t allgather_short_bytes = 81920;  // below: Bruck, if not; a ring otherwise

// Of the vector.
inline constexpr std::uint64_t allreduce_short_bytes = 2048;  // up to here recursive doubling, beyond Rabenseifner
inline constexpr std::uint64_t reduce_short_bytes = 2048;     // up to here binomial, beyond Rabenseifner

// Of what a rank gives.
inline constexpr std::uint64_t reduce_scatter_long_bytes = 524288;  // below: recursive halving, from here on pairwise

// Of what goes from one rank to one other.
inline constexpr std::uint64_t alltoall_short_bytes = 256;     // up to here Bruck
inline constexpr int alltoall_short_ranks = 8;                 // if there are as many ranks
inline constexpr std::uint64_t alltoall_medium_bytes = 32768;  // up to here all at once, beyond pairwise

}  // namespace nearfield::sim::thresholds
