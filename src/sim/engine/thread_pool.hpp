// A thread pool, which includes the calling thread. Workers sleep while there is no work. The caller never waits for a
// worker that has not begun any work, so on a busy host a descheduled thread delays nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace nearfield::sim {

class ThreadPool {
 public:
  // Starts `threads` - 1 workers; the caller is the remaining thread. If the system provides fewer threads, the pool
  // has fewer.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }
  // Calls `work(i)` for each i below `count`, on any of the threads; returns when all calls have returned. `work` must
  // not throw. For equal counts, each thread begins with the same share of the indices, then steals from the shares of
  // other threads.
  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& work);

 private:
  // The share of the indices with which a thread begins. Indices before `next` have been taken.
  struct alignas(64) Share {
    std::atomic<std::size_t> next = 0;
    std::size_t end = 0;
  };

  void worker(std::size_t me);
  void run_shares(std::size_t me);

  std::vector<Share> shares_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::atomic<bool> open_ = false, over_ = false;
  alignas(64) std::atomic<int> round_ = 0;   // workers sleep until it changes
  alignas(64) std::atomic<int> inside_ = 0;  // workers that may be running
  std::vector<std::thread> workers_;
};

}  // namespace nearfield::sim
