// Ranks start a repetition at the same time: they agree, through a line of shared memory, on a clock reading in the
// near future and wait for it. Across nodes there is no common clock, so an MPI barrier is used.
#pragma once

#include <mpi.h>

#include "base/clock.hpp"

namespace nearfield::probe {

/// The constructor and wait() are collective over `comm`. A process creates one object.
class SynchronizedStart {
 public:
  SynchronizedStart(MPI_Comm comm, bool yield, double ticks_per_ns);
  ~SynchronizedStart();
  SynchronizedStart(const SynchronizedStart&) = delete;
  SynchronizedStart& operator=(const SynchronizedStart&) = delete;

  /// Returns on all ranks at the same time, with the clock reading at which this rank returned.
  Ticks wait();

  /// Returns the current core-to-core latency between ranks 0 and 1, half the shortest round trip of a flag in ticks,
  /// on rank 0; 0 on the others and without shared memory. Collective. The hypervisor of a virtual machine may change
  /// it by migrating CPUs.
  double measure_core_latency_ticks();

  bool shared_memory() const { return lines_ != nullptr; }
  /// Returns this rank's clock minus rank 0's, in ticks; 0 without shared memory.
  double clock_offset() const { return static_cast<double>(offset_); }
  /// Returns half the shortest round trip of a flag between rank 0 and this rank at construction, in ticks, with the
  /// clock's overhead, which bounds the error of the offset.
  double core_latency_ticks() const { return core_latency_ticks_; }

 private:
  struct Line;
  struct Exchange;
  Exchange fastest_exchange(int peer, int tries);
  void measure_offsets();
  void relax(unsigned& spins) const;
  void relax_long(unsigned& spins);
  bool is_crowded();
  template <class Relax, class Release>
  void gather(Relax relax_once, Release release);

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  bool yield_;
  MPI_Win window_ = MPI_WIN_NULL;
  Line* lines_ = nullptr;  // [0] the root's, [1 + r] rank r's
  std::uint64_t epoch_ = 0;
  std::int64_t offset_ = 0;
  double core_latency_ticks_ = 0.0;
  double clock_overhead_ticks_ = 0;
  Ticks margin_ = 0;
  long preempted_ = 0;                           // preemptions of this rank so far
  Ticks crowded_until_ = 0, crowded_ticks_ = 0;  // a preemption is assumed to last this long
};

}  // namespace nearfield::probe
