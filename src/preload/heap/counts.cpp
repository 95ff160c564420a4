#include "preload/heap/counts.hpp"

#include <atomic>

namespace nearfield::heap {
namespace {

// The counts must outlive their threads, so they are static. All threads from the 256th on share the last element.
constexpr int max_counted_threads = 256;
constinit CopyCounts counts_by_thread[max_counted_threads];
constinit std::atomic<int> num_counted_threads{0};
[[gnu::tls_model("initial-exec")]] thread_local constinit CopyCounts* thread_counts = nullptr;

}  // namespace

void count_message(CopyPath path, std::size_t bytes) {
  if (!thread_counts) {
    const int number = num_counted_threads.fetch_add(1);
    thread_counts = &counts_by_thread[number < max_counted_threads ? number : max_counted_threads - 1];
  }
  ++thread_counts->num_messages[static_cast<int>(path)];
  thread_counts->num_bytes[static_cast<int>(path)] += bytes;
}

CopyCounts sum_copy_counts() {
  CopyCounts sum;
  for (const CopyCounts& thread : counts_by_thread)
    for (int path = 0; path < num_copy_paths; ++path) {
      sum.num_messages[path] += thread.num_messages[path];
      sum.num_bytes[path] += thread.num_bytes[path];
    }
  return sum;
}

void reset_copy_counts() {
  for (CopyCounts& thread : counts_by_thread) thread = CopyCounts{};
}

}  // namespace nearfield::heap
