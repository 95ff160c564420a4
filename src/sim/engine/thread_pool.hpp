// A thread pool, which includes the calling thread. Workers sleep while there is no work. The caller does not wait for
// workers that have not started on the current work, so a thread that a busy host has descheduled delays nothing.
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
  // The indices that a thread processes first. Those before `next` have been taken, by this thread or another one.
  struct alignas(64) Share {
    std::atomic<std::size_t> next = 0;
    std::size_t end = 0;
  };

  void run_worker(std::size_t thread);
  void run_shares_starting_at(std::size_t first_share);

  std::vector<Share> shares_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::atomic<bool> has_work_ = false, is_stopping_ = false;
  alignas(64) std::atomic<int> round_ = 0;               // workers sleep until it changes
  alignas(64) std::atomic<int> num_active_workers_ = 0;  // workers that may be running
  std::vector<std::thread> workers_;
};

}  // namespace nearfield::sim
