// Marks by which ranks publish whether they wait for other nodes. The watching process of their node reads the marks
// (base/job_watch.hpp).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace nearfield {

/// Publishes how many threads of a rank wait. The watching process of the node reads it from the rank's memory. The
/// upper 16 bits of `state` count the waiting threads; the lower 48 bits count how often a thread has begun to wait. So
/// `state` changes whenever a wait begins or ends, by one atomic addition.
struct WaitMark {
  static constexpr std::uint64_t one_waiting_thread = std::uint64_t{1} << 48;

  std::uint64_t secret = 0;  ///< random number by which a reader recognises the mark; 0: no process reads it
  std::atomic<std::uint64_t> state{0};

  void enter() { state.fetch_add(one_waiting_thread + 1, std::memory_order_relaxed); }
  void leave() { state.fetch_sub(one_waiting_thread, std::memory_order_relaxed); }
};

/// The process and the address at which the mark of a rank can be read.
struct WaitMarkLocation {
  int rank = 0;
  pid_t process = 0;
  std::uint64_t address = 0, secret = 0;
};

/// Reads the marks of the ranks of this node. It must be used by one thread at a time.
class WaitObserver {
 public:
  /// If the kernel forbids reading other processes' memory (process_vm_readv), only this process is observed.
  explicit WaitObserver(const std::vector<WaitMarkLocation>& ranks);

  /// Returns a rank that has been in the same wait for at least `timeout_s` seconds; -1 if there is none. Counts only
  /// the time that this function's calls observe, and only after `since_s` (on the clock of monotonic_s()).
  int find_waiting_rank(double since_s, double timeout_s);

 private:
  struct ObservedRank {
    WaitMarkLocation mark_location;
    std::uint64_t state = 0;  // at the last call
    double unchanged_since_s = 0;
  };
  std::vector<ObservedRank> ranks_;
};

}  // namespace nearfield
