// Collectives on a simulated rank. Keep it from run to run, as the library keeps memory that free() gave back.
#pragma once

#include <array>
#include <bit>
#include <vector>

#include "sim/collective.hpp"

namespace nearfield::sim {

class RankCommunicator final : public Communicator {
 public:
  // The rank must outlive it. `tag`: of all messages, no program's own.
  RankCommunicator(Rank& rank, int tag) : rank_(rank), tag_(tag) {}

  int rank() const override { return rank_.rank(); }
  int size() const override { return rank_.size(); }
  Request send(int to, const Buffer& from_here) override { return rank_.send(to, from_here, tag_); }
  Request receive(int from, const Buffer& to_here) override { return rank_.receive(from, to_here, tag_); }
  Task<> wait(std::span<const Request> requests) override { return rank_.wait_all(requests); }
  Task<> copy(Address to, Address from, std::uint64_t bytes) override { return rank_.copy(to, from, bytes); }
  Task<> combine(Address into, Address from, std::uint64_t bytes) override { return rank_.combine(into, from, bytes); }

  // Memory that was given back last is taken first, since its lines are the likeliest to be in a cache.
  Address take(std::uint64_t bytes) override {
    auto& free = of(bytes);
    if (free.empty()) return rank_.allocate(std::bit_ceil(bytes));
    const Address buffer = free.back();
    free.pop_back();
    return buffer;
  }
  void give(Address buffer, std::uint64_t bytes) override { of(bytes).push_back(buffer); }

 private:
  std::vector<Address>& of(std::uint64_t bytes) {
    return free_[static_cast<std::size_t>(std::bit_width(std::bit_ceil(bytes)))];
  }

  Rank& rank_;
  int tag_;
  std::array<std::vector<Address>, 66> free_;
};

}  // namespace nearfield::sim
