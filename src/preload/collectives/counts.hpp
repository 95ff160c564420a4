// How many collectives were direct. Several threads of a process may lose counts to each other.
#pragma once

#include <atomic>
#include <cstdint>

namespace nearfield::collectives {

struct Counts {
  const char* name;  // of the MPI function
  std::atomic<std::uint64_t> direct{0}, left_to_mpi{0};
  Counts* next = nullptr;

  // Adds itself to the list of all; called once per function, at its first call.
  explicit Counts(const char* function);

  void add(bool is_direct) {
    auto& count = is_direct ? direct : left_to_mpi;
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

// Writes a line on standard error if the settings say so. Called by one rank.
void print_summary(int rank);

}  // namespace nearfield::collectives
