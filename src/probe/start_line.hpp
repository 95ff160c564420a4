// Ranks start a repetition together: they agree, through a line of shared memory, on a clock reading in the
// near future and wait for it. Across nodes there is no common clock; there an MPI barrier has to do.
#pragma once

#include <mpi.h>

#include "base/clock.hpp"

namespace nearfield::probe {

/// Collective over `comm` in construction and wait(). One per launch.
class StartLine {
 public:
  StartLine(MPI_Comm comm, bool yield, double ticks_per_ns);
  ~StartLine();
  StartLine(const StartLine&) = delete;
  StartLine& operator=(const StartLine&) = delete;

  /// Returns on all ranks at the same time; gives the clock reading at which this rank left.
  Ticks wait();

  /// Returns half the shortest round trip of a flag between ranks 0 and 1 now, in ticks, on rank 0; 0 on the others and
  /// without shared memory. Collective. Ranks of a virtual machine do not stay as far apart as they were.
  double flag_ticks_now();

  bool shared_memory() const { return lines_ != nullptr; }
  /// Returns this rank's clock minus rank 0's, in ticks; 0 without shared memory.
  double clock_offset() const { return static_cast<double>(offset_); }
  /// Returns half the shortest round trip of a flag between rank 0 and this rank at the start, in ticks, which bounds
  /// the offset's error.
  double flag_ticks() const { return flag_ticks_; }

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
  double flag_ticks_ = 0.0;
  Ticks margin_ = 0;
  long preempted_ = 0;                           // how often other programs took this rank's core
  Ticks crowded_until_ = 0, crowded_ticks_ = 0;  // after each time, that is taken to go on for so long
};

}  // namespace nearfield::probe
