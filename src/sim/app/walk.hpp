// The accesses of a loop and what it computes with them, gathered and then done some hundred at a time:
//
//   Walk walk(rank);
//   for (...) {
//     walk.load(address, count, stride_bytes, bytes);
//     if (walk.full()) co_await walk.go();
//   }
//   co_await walk.go();
#pragma once

#include <vector>

#include "machine/machine.hpp"
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
  // Loads of addresses, and of one word at such an address.
  void index(Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes) {
    add({Access::index, bytes, address, count, stride_bytes});
  }
  void gather(Address address) { add({Access::gather, 8, address, 1, 0}); }

  // The core computes with each of the last accesses: in a chain of instructions that need each other's result, or in
  // instructions that do not. It does so while it issues `accesses` accesses, and the rest of the time comes on top.
  void chain(double flops, double accesses) { beside(flops * rank_.core().flop_latency_cycles, accesses); }
  void flops(double flops, double accesses) {
    if (const double rate = rank_.core().flops_per_cycle; rate > 0) beside(flops / rate, accesses);
  }

  bool full() const { return sweeps_.size() >= 256; }
  Task<> go() {
    co_await rank_.sweep(sweeps_);
    sweeps_.clear();
  }

 private:
  void add(const Sweep& sweep) {
    if (sweep.count > 0) sweeps_.push_back(sweep);
  }
  void beside(double cycles, double accesses) {
    if (!sweeps_.empty())
      sweeps_.back().work_cycles = std::max(0.0, cycles - accesses * rank_.core().cycles_per_access);
  }

  Rank& rank_;
  std::vector<Sweep> sweeps_;
};

}  // namespace nearfield::sim
