// Ranks as threads in a ring, under ThreadSanitizer: Jacobi steps on two arrays that neighbours read in place, with the
// library's own signals between them and nothing else. Ends with 0 if every value is what a serial run gives.
// Compiled with -DBROKEN the reader does not wait: the sanitizer must find that.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "halo/signals.hpp"

using nearfield::halo::Signal;
using nearfield::halo::SignalBoard;

namespace {

constexpr int ranks = 4, cells = 8, steps = 300;
std::uint64_t arrays[2][ranks * cells];

std::uint64_t next_value(const std::uint64_t* old, int i) {
  constexpr int all = ranks * cells;
  return old[(i + all - 1) % all] * 3 + old[(i + 1) % all] * 5 + old[i];
}

void rank_of_ring(const SignalBoard& board, int rank) {
  const int before = (rank + ranks - 1) % ranks, after = (rank + 1) % ranks;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    const auto* old = arrays[(step + 1) % 2];
    auto* fresh = arrays[step % 2];
    for (int i = rank * cells; i < (rank + 1) * cells; ++i) fresh[i] = next_value(old, i);
    for (const int other : {before, after})
      board.signal_of(rank, other).num_published_phases.store(step, std::memory_order_release);
    for (const int other : {before, after}) {
#ifdef BROKEN
      (void)other;
#else
      nearfield::halo::wait_for_counter(board.signal_of(other, rank).num_published_phases, step, 10,
                                        [] { std::this_thread::yield(); });
#endif
    }
  }
}

}  // namespace

int main() {
  std::vector<std::uint64_t> serial(ranks * cells), other(ranks * cells);
  for (std::size_t i = 0; i < serial.size(); ++i) arrays[0][i] = serial[i] = i * i + 1;
  std::vector<Signal> memory(SignalBoard::bytes(ranks) / sizeof(Signal));
  const SignalBoard board(reinterpret_cast<std::byte*>(memory.data()), ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(rank_of_ring, board, rank);
  for (auto& thread : threads) thread.join();
  for (int step = 1; step <= steps; ++step) {
    for (std::size_t i = 0; i < serial.size(); ++i) other[i] = next_value(serial.data(), static_cast<int>(i));
    serial.swap(other);
  }
  for (std::size_t i = 0; i < serial.size(); ++i)
    if (arrays[steps % 2][i] != serial[i]) {
      std::printf("cell %zu is wrong\n", i);
      return 1;
    }
  std::puts("ok");
}
