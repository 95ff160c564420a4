// Marks by which ranks state whether they wait for other nodes, for the one process of their node that watches
// (base/job_watch.hpp).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace nearfield {

/// States whether threads of a rank wait. The watching process of the node reads it from the rank's memory. `state` has
/// the number of waiting threads in its upper bits, and how often a thread has begun to wait in its lower bits. So it
/// changes whenever a thread goes on, and each change is one atomic addition.
struct WaitMark {
  static constexpr std::uint64_t one_inside = std::uint64_t{1} << 48;

  std::uint64_t secret = 0;  ///< by which a reader recognises the mark; 0: nobody reads it
  std::atomic<std::uint64_t> state{0};

  void enter() { state.fetch_add(one_inside + 1, std::memory_order_relaxed); }
  void leave() { state.fetch_sub(one_inside, std::memory_order_relaxed); }
};

/// Where the mark of a rank is.
struct MarkPlace {
  int rank = 0;
  pid_t process = 0;
  std::uint64_t address = 0, secret = 0;
};

/// Reads the marks of the ranks of this node. It must be used by one thread at a time.
class WaitObserver {
 public:
  /// Where the kernel forbids to read other processes' memory (process_vm_readv), only this process is observed.
  explicit WaitObserver(const std::vector<MarkPlace>& ranks);

  /// Returns a rank that has been in the same wait for at least `patience_s`, as far as the calls of this function show,
  /// and not counting the time before `since_s` (on the clock of monotonic_s()); -1 if there is none.
  int find_waiting_rank(double since_s, double patience_s);

 private:
  struct Rank {
    MarkPlace place;
    std::uint64_t state = 0;  // at the last call
    double unchanged_since_s = 0;
  };
  std::vector<Rank> ranks_;
};

}  // namespace nearfield
