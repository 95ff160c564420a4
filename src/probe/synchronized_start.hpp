// Starts a repetition on all ranks at the same time: rank 0 publishes a clock reading in the near future in shared
// memory, and each rank spins until its clock has reached it. Ranks on different nodes have no common clock and use
// MPI_Barrier instead.
#pragma once

#include <mpi.h>

#include "base/clock.hpp"

namespace nearfield::probe {

/// The constructor, the destructor and wait() are collective over `comm`. A process must create only one object.
class SynchronizedStart {
 public:
  SynchronizedStart(MPI_Comm comm, bool should_yield, double ticks_per_ns);
  ~SynchronizedStart();
  SynchronizedStart(const SynchronizedStart&) = delete;
  SynchronizedStart& operator=(const SynchronizedStart&) = delete;

  /// Waits for all ranks, and returns on all of them at the same time. Returns this rank's clock reading at that time.
  Ticks wait();

  /// Measures the current core-to-core latency between ranks 0 and 1: half the shortest round trip of a flag. Returns
  /// the latency in ticks on rank 0; returns 0 on other ranks, and if the ranks share no memory. Collective. In a
  /// virtual machine the latency changes when the hypervisor migrates CPUs.
  double measure_core_latency_ticks();

  bool has_shared_memory() const { return flag_lines_ != nullptr; }
  /// Returns this rank's clock minus rank 0's, in ticks; 0 without shared memory.
  double clock_offset_ticks() const { return static_cast<double>(clock_offset_); }
  /// Returns half the shortest round trip of a flag between rank 0 and another rank at construction, in ticks,
  /// including the overhead of reading the clock; for several ranks, the largest of these. It bounds the error of
  /// clock_offset_ticks().
  double core_latency_ticks() const { return core_latency_ticks_; }

 private:
  struct FlagLine;
  struct FlagRoundTrip;
  FlagRoundTrip measure_fastest_round_trip(int peer, int num_tries);
  void measure_offsets();
  void pause_spinning(unsigned& spins) const;
  void pause_or_sleep(unsigned& spins);
  bool was_preempted_recently();
  template <class Pause, class Release>
  void wait_for_all_ranks(Pause pause_once, Release release);

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  bool should_yield_;
  MPI_Win window_ = MPI_WIN_NULL;
  FlagLine* flag_lines_ = nullptr;  // [0]: release flag of rank 0; [1 + r]: arrival flag of rank r
  std::uint64_t epoch_ = 0;
  std::int64_t clock_offset_ = 0;
  double core_latency_ticks_ = 0.0;
  double clock_overhead_ticks_ = 0;
  Ticks start_margin_ticks_ = 0;
  long num_preemptions_ = 0;  // preemptions of this rank so far
  Ticks preemption_counts_until_ = 0,
        preemption_memory_ticks_ = 0;  // preemption_memory_ticks_: time for which a preemption counts
};

}  // namespace nearfield::probe
