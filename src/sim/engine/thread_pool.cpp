#include "sim/engine/thread_pool.hpp"

#include <system_error>

namespace nearfield::sim {

ThreadPool::ThreadPool(int threads) : shares_(static_cast<std::size_t>(threads)) {
  workers_.reserve(shares_.size());
  try {
    for (std::size_t me = 1; me < shares_.size(); ++me) workers_.emplace_back([this, me] { worker(me); });
  } catch (const std::system_error&) {  // the pool has fewer threads
  }
}

ThreadPool::~ThreadPool() {
  over_ = true;
  ++round_;
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(std::size_t count, const std::function<void(std::size_t)>& work) {
  const auto threads = static_cast<std::size_t>(size());
  for (std::size_t t = 0; t < threads; ++t) {
    shares_[t].next = t * count / threads;
    shares_[t].end = (t + 1) * count / threads;
  }
  work_ = &work;
  open_ = true;
  ++round_;
  round_.notify_all();
  run_shares(0);
  // Workers that wake after this find no work; those that already run are waited for.
  open_ = false;
  for (int inside = inside_; inside > 0; inside = inside_) inside_.wait(inside);
}

void ThreadPool::worker(std::size_t me) {
  for (int seen = 0; !over_;) {
    round_.wait(seen);
    seen = round_;
    ++inside_;
    if (open_) run_shares(me);
    if (--inside_ == 0) inside_.notify_one();
  }
}

void ThreadPool::run_shares(std::size_t me) {
  const auto threads = static_cast<std::size_t>(size());
  for (std::size_t t = 0; t < threads; ++t) {
    Share& share = shares_[(me + t) % threads];
    for (std::size_t next; (next = share.next++) < share.end;) (*work_)(next);
  }
}

}  // namespace nearfield::sim
