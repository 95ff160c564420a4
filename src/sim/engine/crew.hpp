// Some threads that share work. One of them is the caller's; the others sleep while there is none. Nobody waits for a
// thread that has not begun anything, so that a busy host costs no more than what it takes away.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace nearfield::sim {

class Crew {
 public:
  // `threads`: the caller's among them. If the system gives fewer, it has fewer.
  explicit Crew(int threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int size() const { return static_cast<int>(members_.size()) + 1; }
  // Calls `work(i)` for each i below `count`, on any of the threads; returns when all are over. It must not throw. Each
  // thread begins with the same numbers whenever the count is the same, then takes some that nobody has begun.
  void each(std::size_t count, const std::function<void(std::size_t)>& work);

 private:
  // The numbers that a thread begins with; those before `next` have been begun.
  struct alignas(64) Share {
    std::atomic<std::size_t> next = 0;
    std::size_t end = 0;
  };

  void member(std::size_t me);
  void take_part(std::size_t me);

  std::vector<Share> shares_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::atomic<bool> open_ = false, over_ = false;
  alignas(64) std::atomic<int> round_ = 0;   // members sleep until it changes
  alignas(64) std::atomic<int> inside_ = 0;  // members that may be at work
  std::vector<std::thread> members_;
};

}  // namespace nearfield::sim
