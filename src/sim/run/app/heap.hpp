// A heap that places the small arrays of a simulated program contiguously, as malloc() does. Rank::allocate() would
// align each array to a page, so that all arrays would compete for the same cache sets.
#pragma once

#include "sim/mpi/rank.hpp"

namespace nearfield::sim {

class RankHeap {
 public:
  explicit RankHeap(Rank& rank) : rank_(rank) {}

  Address allocate(std::uint64_t bytes) {
    const std::uint64_t block_bytes = (bytes + header_bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    if (block_bytes > remaining_bytes_) {
      remaining_bytes_ = std::max(block_bytes, chunk_bytes);
      next_address_ = rank_.allocate(remaining_bytes_);
    }
    remaining_bytes_ -= block_bytes;
    return std::exchange(next_address_, next_address_ + block_bytes) + header_bytes;
  }
  // Allocates and writes the array.
  Task<> allocate(Address& array, std::uint64_t bytes) {
    array = allocate(bytes);
    return rank_.write(array, bytes);
  }

 private:
  static constexpr std::uint64_t chunk_bytes = 1 << 20, alignment_bytes = 16, header_bytes = 16;
  Rank& rank_;
  Address next_address_ = 0;
  std::uint64_t remaining_bytes_ = 0;
};

}  // namespace nearfield::sim
