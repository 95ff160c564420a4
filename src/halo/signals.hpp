// Counters in shared memory by which neighbours signal their progress: one line per pair and direction, each with one
// writer and one reader. Independent of MPI, so the ranks of a test may be threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nearfield::halo {

/// Two lines, because processors fetch them in pairs.
struct alignas(128) Signal {
  std::atomic<std::uint64_t> ready{0};  ///< phases for which the writer has published its cells
  std::atomic<std::uint64_t> taken{0};  ///< phases whose cells the writer has fetched from the reader
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The signals of all ranks of a node to each other, in zeroed shared memory.
class Board {
 public:
  Board() = default;
  Board(std::byte* memory, int ranks) : signals_(reinterpret_cast<Signal*>(memory)), ranks_(ranks) {}
  static std::size_t bytes(int ranks) { return sizeof(Signal) * static_cast<std::size_t>(ranks) * ranks; }
  /// Only `writer` writes to it, only `reader` reads it.
  Signal& of(int writer, int reader) const { return signals_[static_cast<std::size_t>(reader) * ranks_ + writer]; }

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

/// Waits until the counter has reached `count`; what its writer wrote before is then visible. Spins for a while, then
/// calls idle() between polls: it should yield the core, and throws to give up.
template <class Idle>
void await(const std::atomic<std::uint64_t>& counter, std::uint64_t count, int spins, Idle&& idle) {
  for (int i = 0; counter.load(std::memory_order_acquire) < count; ++i) {
    if (i < spins)
      pause_briefly();
    else
      idle();
  }
}

}  // namespace nearfield::halo
