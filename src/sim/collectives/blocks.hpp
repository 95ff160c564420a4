// Parts of several collectives: a buffer cut into blocks, one per rank; places in a binomial tree; temporary memory
// that is given back.
#pragma once

#include <algorithm>
#include <bit>

#include "sim/collective.hpp"

namespace nearfield::sim {

// Blocks of equal length; the last ones may be shorter, or empty.
struct Blocks {
  Address begin = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t total_bytes = 0;

  std::uint64_t offset(int block) const {
    return std::min(static_cast<std::uint64_t>(block) * block_bytes, total_bytes);
  }
  // Blocks from `first` to before `end`.
  Buffer range(int first, int end) const { return {begin + offset(first), offset(end) - offset(first)}; }
  Buffer one(int block) const { return range(block, block + 1); }
};

inline Blocks equal_blocks(Address begin, std::uint64_t block_bytes, int ranks) {
  return {begin, block_bytes, block_bytes * static_cast<std::uint64_t>(ranks)};
}

inline bool power_of_two(int ranks) { return std::has_single_bit(static_cast<unsigned>(ranks)); }

// Convert a rank to its place, counted from the root, and back.
inline int relative_to(int root, int rank, int ranks) { return (rank - root + ranks) % ranks; }
inline int absolute(int root, int relative, int ranks) { return (relative + root) % ranks; }

// In a binomial tree over places: the distance from a place to its parent is its lowest bit; the root's is beyond all.
inline int to_parent(int place, int ranks) {
  return place == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : place & -place;
}
// Behind the last place of the tree below a place, which begins with it.
inline int subtree_end(int place, int ranks) { return std::min(place + to_parent(place, ranks), ranks); }

class Temporary {
 public:
  Temporary(Communicator& all, std::uint64_t bytes) : all_(all), bytes_(bytes), begin_(all.take(bytes)) {}
  ~Temporary() { all_.give(begin_, bytes_); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  Address begin() const { return begin_; }

 private:
  Communicator& all_;
  std::uint64_t bytes_;
  Address begin_;
};

// Every rank ends with all blocks. At first it has the one of its place, counted from `root`.
// Takes p - 1 steps: each rank sends to the right what came from the left.
Task<> allgather_by_ring(Communicator& all, Blocks blocks, int root);
// Takes log2 p steps with twice as much in each, for powers of two.
Task<> allgather_by_doubling(Communicator& all, Blocks blocks, int root);

}  // namespace nearfield::sim
