// A heap that places the small arrays of a simulated program contiguously, as malloc() does. Rank::allocate() alone
// would align each array to a page, and all arrays would conflict in the same cache sets.
#pragma once

#include "sim/mpi/rank.hpp"

namespace nearfield::sim {

class RankHeap {
 public:
  explicit RankHeap(Rank& rank) : rank_(rank) {}

  Address allocate(std::uint64_t bytes) {
    const std::uint64_t whole = (bytes + header + alignment - 1) / alignment * alignment;
    if (whole > left_) {
      left_ = std::max(whole, chunk);
      next_ = rank_.allocate(left_);
    }
    left_ -= whole;
    return std::exchange(next_, next_ + whole) + header;
  }
  // Allocates and writes the array.
  Task<> allocate(Address& array, std::uint64_t bytes) {
    array = allocate(bytes);
    return rank_.write(array, bytes);
  }

 private:
  static constexpr std::uint64_t chunk = 1 << 20, alignment = 16, header = 16;
  Rank& rank_;
  Address next_ = 0;
  std::uint64_t left_ = 0;
};

}  // namespace nearfield::sim
