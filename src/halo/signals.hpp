// Counters in shared memory by which neighbours signal their progress: one Signal per pair and direction, with one
// writer and one reader. Independent of MPI, so a test can run ranks as threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nearfield::halo {

/// The progress that one rank (the writer) publishes to another (the reader). Aligned to two cache lines, because CPUs
/// prefetch lines in pairs.
struct alignas(128) Signal {
  std::atomic<std::uint64_t> num_published_phases{
      0};  ///< number of phases for which the writer has published its cells
  std::atomic<std::uint64_t> num_fetched_phases{
      0};  ///< number of phases whose cells the writer has fetched from the reader
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The signals between all ranks of a node, in zeroed shared memory.
class SignalBoard {
 public:
  SignalBoard() = default;
  SignalBoard(std::byte* memory, int ranks) : signals_(reinterpret_cast<Signal*>(memory)), ranks_(ranks) {}
  static std::size_t bytes(int ranks) { return sizeof(Signal) * static_cast<std::size_t>(ranks) * ranks; }
  /// Returns the signal from rank `writer` to rank `reader` (local ranks).
  Signal& signal_of(int writer, int reader) const {
    return signals_[static_cast<std::size_t>(reader) * ranks_ + writer];
  }

 private:
  Signal* signals_ = nullptr;
  int ranks_ = 0;
};

inline void pause_briefly() {
#if defined(__x86_64__)
  asm volatile("pause");
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until the counter has reached `count`, with acquire semantics. After `spins` polls, calls idle() between
/// polls; idle() should yield the core, and may throw to end the wait.
template <class Idle>
void wait_for_counter(const std::atomic<std::uint64_t>& counter, std::uint64_t count, int spins, Idle&& idle) {
  for (int i = 0; counter.load(std::memory_order_acquire) < count; ++i) {
    if (i < spins)
      pause_briefly();
    else
      idle();
  }
}

}  // namespace nearfield::halo
