// Collects the accesses and the arithmetic of a loop, and simulates them some hundred at a time:
//
//   AccessBatch batch(rank);
//   for (...) {
//     batch.load(address, count, stride_bytes, bytes);
//     if (batch.full()) co_await batch.flush();
//   }
//   co_await batch.flush();
#pragma once

#include <vector>

#include "machine/machine.hpp"
#include "sim/mpi/rank.hpp"
#include "sim/node/node.hpp"

namespace nearfield::sim {

class AccessBatch {
 public:
  explicit AccessBatch(Rank& rank) : rank_(rank) {}

  void load(Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes) {
    add({Access::load, bytes, address, count, stride_bytes});
  }
  void store(Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes) {
    add({Access::store, bytes, address, count, stride_bytes});
  }
  // Load or store one word.
  void load(Address address) { load(address, 1, 0, 8); }
  void store(Address address) { store(address, 1, 0, 8); }
  // Load addresses (indices), and one word at such an address.
  void index(Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes) {
    add({Access::index, bytes, address, count, stride_bytes});
  }
  void gather(Address address) { add({Access::gather, 8, address, 1, 0}); }

  // Add arithmetic to each of the last accesses: a chain of dependent instructions, or independent ones. It overlaps
  // with the issue of `accesses` accesses; the remaining time is added.
  void chain(double flops, double accesses) { add_work(flops * rank_.core().flop_latency_cycles, accesses); }
  void flops(double flops, double accesses) {
    if (const double rate = rank_.core().flops_per_cycle; rate > 0) add_work(flops / rate, accesses);
  }

  bool full() const { return sweeps_.size() >= 256; }
  Task<> flush() {
    co_await rank_.sweep(sweeps_);
    sweeps_.clear();
  }

 private:
  void add(const Sweep& sweep) {
    if (sweep.count > 0) sweeps_.push_back(sweep);
  }
  void add_work(double cycles, double accesses) {
    if (!sweeps_.empty())
      sweeps_.back().work_cycles = std::max(0.0, cycles - accesses * rank_.core().cycles_per_access);
  }

  Rank& rank_;
  std::vector<Sweep> sweeps_;
};

}  // namespace nearfield::sim
