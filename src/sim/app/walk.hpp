// The accesses of a loop, gathered and then done some hundred at a time:
//
//   Walk walk(rank);
//   for (...) {
//     walk.load(address, count, stride_bytes, bytes);
//     if (walk.full()) co_await walk.go();
//   }
//   co_await walk.go();
#pragma once

#include <vector>

#include "sim/node.hpp"
#include "sim/rank.hpp"

namespace nearfield::sim {

class Walk {
 public:
  explicit Walk(Rank& rank) : rank_(rank) {}

  void load(Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes) {
    add({Access::load, bytes, address, count, stride_bytes});
  }
  void store(Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes) {
    add({Access::store, bytes, address, count, stride_bytes});
  }
  // Loads or stores one word.
  void load(Address address) { load(address, 1, 0, 8); }
  void store(Address address) { store(address, 1, 0, 8); }

  bool full() const { return sweeps_.size() >= 256; }
  Task<> go() {
    co_await rank_.sweep(sweeps_);
    sweeps_.clear();
  }

 private:
  void add(const Sweep& sweep) {
    if (sweep.count > 0) sweeps_.push_back(sweep);
  }

  Rank& rank_;
  std::vector<Sweep> sweeps_;
};

}  // namespace nearfield::sim
