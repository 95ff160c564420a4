// Collects the accesses and the arithmetic of a loop, and simulates them in batches:
//
//   AccessBatch batch(rank);
//   for (...) {
//     batch.add_load(address, count, stride_bytes, bytes);
//     if (batch.is_full()) co_await batch.flush();
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

  void add_load(Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes) {
    add_sweep({Access::load, bytes, address, count, stride_bytes});
  }
  void add_store(Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes) {
    add_sweep({Access::store, bytes, address, count, stride_bytes});
  }
  // Add the load or store of one word.
  void add_load(Address address) { add_load(address, 1, 0, 8); }
  void add_store(Address address) { add_store(address, 1, 0, 8); }
  // Adds the load of an array of indices.
  void add_index_load(Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes) {
    add_sweep({Access::index, bytes, address, count, stride_bytes});
  }
  // Adds the load of one word at an address that an index determines.
  void add_gather(Address address) { add_sweep({Access::gather, 8, address, 1, 0}); }

  // Add arithmetic to each access of the last call: a chain of dependent floating-point instructions, or independent
  // instructions. The arithmetic overlaps with the issue of `accesses` accesses; only the time beyond that counts.
  void add_dependent_flops(double flops, double accesses) {
    add_cycles(flops * rank_.core().flop_latency_cycles, accesses);
  }
  void add_independent_flops(double flops, double accesses) {
    if (const double rate = rank_.core().flops_per_cycle; rate > 0) add_cycles(flops / rate, accesses);
  }

  bool is_full() const { return sweeps_.size() >= 256; }
  Task<> flush() {
    co_await rank_.sweep(sweeps_);
    sweeps_.clear();
  }

 private:
  void add_sweep(const Sweep& sweep) {
    if (sweep.count > 0) sweeps_.push_back(sweep);
  }
  void add_cycles(double cycles, double accesses) {
    if (!sweeps_.empty())
      sweeps_.back().work_cycles = std::max(0.0, cycles - accesses * rank_.core().cycles_per_access);
  }

  Rank& rank_;
  std::vector<Sweep> sweeps_;
};

}  // namespace nearfield::sim
