// Counts the collectives that were direct (performed by this library) and those forwarded to the MPI library, and
// measures their time. If several threads of a process call MPI at the same time, counts may be lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#include "preload/collectives/call_lengths.hpp"
#include "preload/collectives/settings.hpp"

namespace nearfield::collectives {

// The counts of one MPI function: [1] of direct calls, [0] of calls forwarded to the MPI library.
struct FunctionCallCounts {
  const char* function_name;
  std::atomic<std::uint64_t> num_calls[2]{};
  std::atomic<std::uint64_t> time_ns[2]{};  // total time of the calls, if the settings request times
  FunctionCallCounts* next = nullptr;

  // Adds this object to the list of all counts. Constructed once per MPI function, in the function's first call.
  explicit FunctionCallCounts(const char* function);
};

// Counts one call and, if the settings request times, measures the time from construction to destruction.
class CountedCall {
 public:
  explicit CountedCall(FunctionCallCounts& counts)
      : counts_(counts), begin_ns_(settings().summary_level > 1 || settings().counts_lengths ? read_clock_ns() : 0) {}
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;
  ~CountedCall() {
    add_relaxed(counts_.num_calls[is_direct], 1);
    if (!begin_ns_) return;
    const std::uint64_t ns = read_clock_ns() - begin_ns_;
    add_relaxed(counts_.time_ns[is_direct], ns);
    if (settings().counts_lengths) add_call_time(ns);
  }

  bool is_direct = false;

 private:
  static void add_relaxed(std::atomic<std::uint64_t>& sum, std::uint64_t number) {
    sum.store(sum.load(std::memory_order_relaxed) + number, std::memory_order_relaxed);
  }

  static std::uint64_t read_clock_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
  }

  FunctionCallCounts& counts_;
  std::uint64_t begin_ns_;
};

// The number of sleeps of this process in waits because other threads needed its core, and of wake-ups by a peer.
inline std::atomic<std::uint64_t> num_sleeps_on_shared_core{0}, num_wakes_on_shared_core{0};

// Writes the counts of this process to standard error if the settings request a summary. Called by one rank.
void print_call_summary(int rank);

}  // namespace nearfield::collectives
