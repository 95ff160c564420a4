#include "preload/heap/counts.hpp"

#include <atomic>

namespace nearfield::heap {
namespace {

// The counts must outlive their threads, so they are static. All threads from the 256th on share the last element.
constexpr int max_threads = 256;
constinit Counts threads[max_threads];
constinit std::atomic<int> thread_count{0};
[[gnu::tls_model("initial-exec")]] thread_local constinit Counts* own_counts = nullptr;

}  // namespace

void count_message(CopyPath path, std::size_t bytes) {
  if (!own_counts) {
    const int number = thread_count.fetch_add(1);
    own_counts = &threads[number < max_threads ? number : max_threads - 1];
  }
  ++own_counts->messages[static_cast<int>(path)];
  own_counts->bytes[static_cast<int>(path)] += bytes;
}

Counts all_counts() {
  Counts sum;
  for (const Counts& thread : threads)
    for (int path = 0; path < copy_paths; ++path) {
      sum.messages[path] += thread.messages[path];
      sum.bytes[path] += thread.bytes[path];
    }
  return sum;
}

void reset_counts() {
  for (Counts& thread : threads) thread = Counts{};
}

}  // namespace nearfield::heap
