// Common parts of collectives: a buffer that is split into one block per rank, the places of ranks in a binomial tree,
// and a temporary buffer that its destructor frees.
#pragma once

#include <algorithm>
#include <bit>

#include "sim/mpi/collective.hpp"

namespace nearfield::sim {

// A buffer that is split into blocks of equal length, one per rank. The last blocks may be shorter, or empty.
struct Blocks {
  Address begin = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t total_bytes = 0;

  std::uint64_t block_offset(int block) const {
    return std::min(static_cast<std::uint64_t>(block) * block_bytes, total_bytes);
  }
  // Returns the blocks [first, end).
  Buffer block_range(int first, int end) const {
    return {begin + block_offset(first), block_offset(end) - block_offset(first)};
  }
  Buffer single_block(int block) const { return block_range(block, block + 1); }
};

inline Blocks equal_blocks(Address begin, std::uint64_t block_bytes, int ranks) {
  return {begin, block_bytes, block_bytes * static_cast<std::uint64_t>(ranks)};
}

inline bool is_power_of_two(int ranks) { return std::has_single_bit(static_cast<unsigned>(ranks)); }

// Convert a rank to its place in the tree, which is the rank relative to the root, and back.
inline int relative_rank(int root, int rank, int ranks) { return (rank - root + ranks) % ranks; }
inline int absolute_rank(int root, int relative, int ranks) { return (relative + root) % ranks; }

// Returns the distance from a place to its parent in a binomial tree: the lowest set bit of the place. For the root,
// returns the smallest power of two that is at least the number of ranks.
inline int distance_to_parent(int place, int ranks) {
  return place == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : place & -place;
}
// Returns the end of the places in the subtree whose root is `place`.
inline int subtree_end(int place, int ranks) { return std::min(place + distance_to_parent(place, ranks), ranks); }

class TemporaryBuffer {
 public:
  TemporaryBuffer(Communicator& comm, std::uint64_t bytes) : comm_(comm), bytes_(bytes), begin_(comm.acquire(bytes)) {}
  ~TemporaryBuffer() { comm_.release(begin_, bytes_); }
  TemporaryBuffer(const TemporaryBuffer&) = delete;
  TemporaryBuffer& operator=(const TemporaryBuffer&) = delete;
  Address begin() const { return begin_; }

 private:
  Communicator& comm_;
  std::uint64_t bytes_;
  Address begin_;
};

// Gathers all blocks on every rank by a ring, in p - 1 steps. Initially each rank has the block of its place relative
// to `root`. In each step, a rank forwards to its right neighbor the block that it received last from its left
// neighbor.
Task<> allgather_by_ring(Communicator& comm, Blocks blocks, int root);
// Gathers all blocks as allgather_by_ring() does, but in log2 p steps with doubling sizes. The number of ranks must be
// a power of two.
Task<> allgather_by_recursive_doubling(Communicator& comm, Blocks blocks, int root);

}  // namespace nearfield::sim
