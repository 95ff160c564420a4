// Common parts of collectives: a buffer split into blocks, one per rank; places in a binomial tree; a temporary buffer
// that is freed by its destructor.
#pragma once

#include <algorithm>
#include <bit>

#include "sim/mpi/collective.hpp"

namespace nearfield::sim {

// Blocks of equal length; the last ones may be shorter, or empty.
struct Blocks {
  Address begin = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t total_bytes = 0;

  std::uint64_t offset(int block) const {
    return std::min(static_cast<std::uint64_t>(block) * block_bytes, total_bytes);
  }
  // Returns the blocks [first, end).
  Buffer range(int first, int end) const { return {begin + offset(first), offset(end) - offset(first)}; }
  Buffer one(int block) const { return range(block, block + 1); }
};

inline Blocks equal_blocks(Address begin, std::uint64_t block_bytes, int ranks) {
  return {begin, block_bytes, block_bytes * static_cast<std::uint64_t>(ranks)};
}

inline bool power_of_two(int ranks) { return std::has_single_bit(static_cast<unsigned>(ranks)); }

// Convert a rank to its place relative to the root, and back.
inline int relative_to(int root, int rank, int ranks) { return (rank - root + ranks) % ranks; }
inline int absolute(int root, int relative, int ranks) { return (relative + root) % ranks; }

// Returns the distance from a place to its parent in a binomial tree: its lowest set bit. The root's is a power of two
// of at least the number of ranks.
inline int to_parent(int place, int ranks) {
  return place == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : place & -place;
}
// Returns the end of the places of the subtree that begins at a place.
inline int subtree_end(int place, int ranks) { return std::min(place + to_parent(place, ranks), ranks); }

class Temporary {
 public:
  Temporary(Communicator& all, std::uint64_t bytes) : all_(all), bytes_(bytes), begin_(all.acquire(bytes)) {}
  ~Temporary() { all_.release(begin_, bytes_); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  Address begin() const { return begin_; }

 private:
  Communicator& all_;
  std::uint64_t bytes_;
  Address begin_;
};

// Gathers all blocks on every rank. Initially a rank has the block of its place relative to `root`. Takes p - 1 steps:
// each rank forwards to the right the block that it received from the left.
Task<> allgather_by_ring(Communicator& all, Blocks blocks, int root);
// The same in log2 p steps with doubling sizes, for powers of two.
Task<> allgather_by_doubling(Communicator& all, Blocks blocks, int root);

}  // namespace nearfield::sim
