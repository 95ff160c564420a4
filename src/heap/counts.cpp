#include "heap/counts.hpp"

#include <atomic>

namespace nearfield::heap {
namespace {

// A thread's counts must outlive it, so those of the first threads lie here; all further threads share one.
constexpr int most_threads = 256;
constinit Counts threads[most_threads];
constinit std::atomic<int> used{0};
[[gnu::tls_model("initial-exec")]] thread_local constinit Counts* mine = nullptr;

}  // namespace

void count_message(Way way, std::size_t bytes) {
  if (!mine) {
    const int number = used.fetch_add(1);
    mine = &threads[number < most_threads ? number : most_threads - 1];
  }
  ++mine->messages[static_cast<int>(way)];
  mine->bytes[static_cast<int>(way)] += bytes;
}

Counts all_counts() {
  Counts sum;
  for (const Counts& thread : threads)
    for (int way = 0; way < ways; ++way) {
      sum.messages[way] += thread.messages[way];
      sum.bytes[way] += thread.bytes[way];
    }
  return sum;
}

void forget_counts() {
  for (Counts& thread : threads) thread = Counts{};
}

}  // namespace nearfield::heap
