// Internal buffers of a rank's library or of its collectives, in one free list per power-of-two size. The buffer that
// was released last is reused first, since its lines are the most likely to be cached.
#pragma once

#include <array>
#include <bit>
#include <functional>
#include <utility>
#include <vector>

#include "sim/memory/access.hpp"

namespace nearfield::sim {

class ScratchPool {
 public:
  // `allocate` provides new buffers.
  explicit ScratchPool(std::function<Address(std::uint64_t bytes)> allocate) : allocate_(std::move(allocate)) {}

  Address acquire(std::uint64_t bytes) {
    auto& free_list = free_list_of(bytes);
    if (free_list.empty()) return allocate_(std::bit_ceil(bytes));
    const Address buffer = free_list.back();
    free_list.pop_back();
    return buffer;
  }
  void release(Address buffer, std::uint64_t bytes) { free_list_of(bytes).push_back(buffer); }

 private:
  std::vector<Address>& free_list_of(std::uint64_t bytes) {
    return free_lists_[static_cast<std::size_t>(std::bit_width(std::bit_ceil(bytes)))];
  }

  std::function<Address(std::uint64_t)> allocate_;
  std::array<std::vector<Address>, 66> free_lists_;
};

}  // namespace nearfield::sim
