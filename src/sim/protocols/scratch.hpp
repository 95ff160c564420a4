// Internal buffers of a rank's library. Kept by size in powers of two; what was given back last is taken first, as its
// lines are the likeliest to be in a cache.
#pragma once

#include <array>
#include <bit>
#include <vector>

#include "sim/node.hpp"

namespace nearfield::sim {

class Scratch {
 public:
  Scratch(Node& node, int core) : node_(node), core_(core) {}

  Address take(std::uint64_t bytes) {
    auto& free = of(bytes);
    if (free.empty()) return node_.allocate(core_, std::bit_ceil(bytes));
    const Address buffer = free.back();
    free.pop_back();
    return buffer;
  }
  void give(Address buffer, std::uint64_t bytes) { of(bytes).push_back(buffer); }

 private:
  std::vector<Address>& of(std::uint64_t bytes) {
    return free_[static_cast<std::size_t>(std::bit_width(std::bit_ceil(bytes)))];
  }

  Node& node_;
  int core_;
  std::array<std::vector<Address>, 66> free_;
};

}  // namespace nearfield::sim
