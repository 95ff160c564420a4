#include "sim/engine/thread_pool.hpp"

#include <system_error>

namespace nearfield::sim {

ThreadPool::ThreadPool(int threads) : shares_(static_cast<std::size_t>(threads)) {
  workers_.reserve(shares_.size());
  try {
    for (std::size_t thread = 1; thread < shares_.size(); ++thread)
      workers_.emplace_back([this, thread] { run_worker(thread); });
  } catch (const std::system_error&) {  // the pool has fewer threads
  }
}

ThreadPool::~ThreadPool() {
  is_stopping_ = true;
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
  has_work_ = true;
  ++round_;
  round_.notify_all();
  run_shares_starting_at(0);
  // Workers that wake after this find no work; those that already run are waited for.
  has_work_ = false;
  for (int active = num_active_workers_; active > 0; active = num_active_workers_) num_active_workers_.wait(active);
}

void ThreadPool::run_worker(std::size_t thread) {
  for (int last_round = 0; !is_stopping_;) {
    round_.wait(last_round);
    last_round = round_;
    ++num_active_workers_;
    if (has_work_) run_shares_starting_at(thread);
    if (--num_active_workers_ == 0) num_active_workers_.notify_one();
  }
}

void ThreadPool::run_shares_starting_at(std::size_t first_share) {
  const auto threads = static_cast<std::size_t>(size());
  for (std::size_t t = 0; t < threads; ++t) {
    Share& share = shares_[(first_share + t) % threads];
    for (std::size_t next; (next = share.next++) < share.end;) (*work_)(next);
  }
}

}  // namespace nearfield::sim
