// How many collectives were direct, and what they took. Several threads of a process may lose counts to each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#include "preload/collectives/call_lengths.hpp"
#include "preload/collectives/settings.hpp"

namespace nearfield::collectives {

// Of one MPI function, [1] of direct calls and [0] of those that were left to the MPI library.
struct Counts {
  const char* name;
  std::atomic<std::uint64_t> calls[2]{};
  std::atomic<std::uint64_t> ns[2]{};  // if the settings ask for times
  Counts* next = nullptr;

  // Adds itself to the list of all; called once per function, at its first call.
  explicit Counts(const char* function);
};

// Counts a call, and measures it if the settings ask for times, from its construction to its destruction.
class CountedCall {
 public:
  explicit CountedCall(Counts& counts)
      : counts_(counts), begin_ns_(settings().summary > 1 || settings().counts_lengths ? read_clock_ns() : 0) {}
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;
  ~CountedCall() {
    add(counts_.calls[is_direct], 1);
    if (!begin_ns_) return;
    const std::uint64_t ns = read_clock_ns() - begin_ns_;
    add(counts_.ns[is_direct], ns);
    if (settings().counts_lengths) add_time(ns);
  }

  bool is_direct = false;

 private:
  static void add(std::atomic<std::uint64_t>& sum, std::uint64_t number) {
    sum.store(sum.load(std::memory_order_relaxed) + number, std::memory_order_relaxed);
  }

  static std::uint64_t read_clock_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
  }

  Counts& counts_;
  std::uint64_t begin_ns_;
};

// How often this process slept in waits because other threads needed its core, and how often a peer woke it.
inline std::atomic<std::uint64_t> sleeps_on_shared_core{0}, wakes_on_shared_core{0};

// Writes the counts on standard error if the settings say so. Called by one rank.
void print_summary(int rank);

}  // namespace nearfield::collectives
