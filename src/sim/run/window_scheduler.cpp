#include "sim/run/window_scheduler.hpp"

#include <algorithm>
#include <chrono>

#include "sim/engine/packing.hpp"
#include "sim/mpi/endpoint.hpp"
#include "sim/mpi/node_state.hpp"

namespace nearfield::sim {

WindowScheduler::WindowScheduler(ClusterState& cluster, int threads, double min_parallel_window_us)
    : cluster_(cluster), pool_(threads), min_parallel_window_us_(min_parallel_window_us) {}

void WindowScheduler::run() {
  exchange_departures();
  while (open_window() || (cluster_.shards->num_shards() == 1 && wake_idle_rank() && open_window())) {
    run_window();
    rethrow_first_failure();
    run_progress_callback();
    exchange_departures();
    release_barrier();
  }
}

// Opens the next window. Returns false if no event is left.
bool WindowScheduler::open_window() {
  Ps begin = next_remote_event_;
  for (const auto& node_state : cluster_.node_states) begin = std::min(begin, node_state->engine.next_event_time());
  end_ = cluster_.network ? begin + cluster_.network->min_latency() : never;
  active_nodes_.clear();
  for (const auto& node_state : cluster_.node_states)
    if (node_state->engine.next_event_time() < end_) active_nodes_.push_back(node_state.get());
  return begin < never;
}

// If no event is left but a rank polls, wakes the rank that has polled longest, since the rank may do other work after
// the failed poll. The rank resumes at the latest time of all nodes. Returns false if no rank polls.
bool WindowScheduler::wake_idle_rank() {
  Endpoint* first = nullptr;
  Ps when = 0;
  for (const auto& rank : cluster_.ranks)
    if (rank->can_be_woken() && (!first || rank->ordering_clock() < first->ordering_clock())) first = rank.get();
  for (const auto& node_state : cluster_.node_states)
    when = std::max({when, node_state->engine.now(), cluster_.network ? node_state->engine.window_end() : 0});
  if (first) first->wake_idle(when);
  return first;
}

void WindowScheduler::run_window() {
  using Microseconds = std::chrono::duration<double, std::micro>;
  const auto begun = std::chrono::steady_clock::now();
  const bool shared = pool_.size() > 1 && active_nodes_.size() > 1 && last_us_ >= min_parallel_window_us_;
  if (shared)
    pool_.parallel_for(active_nodes_.size(),
                       [this](std::size_t which) { active_nodes_[which]->run_events_until(end_); });
  else
    for (NodeState* const node_state : active_nodes_) node_state->run_events_until(end_);
  if (pool_.size() == 1) return;
  const Microseconds elapsed = std::chrono::steady_clock::now() - begun;
  last_us_ = elapsed.count() * (shared ? static_cast<double>(pool_.size()) : 1);
}

// If nodes have failed, rethrows the failure with the earliest simulated time, among all shards.
void WindowScheduler::rethrow_first_failure() const {
  const NodeState* first = nullptr;
  for (const NodeState* const node_state : active_nodes_)
    if (node_state->engine.failure() && (!first || node_state->engine.now() < first->engine.now())) first = node_state;
  if (!first) return;
  cluster_.shards->fail(first->engine.now());
  std::rethrow_exception(first->engine.failure());
}

// With several shards, the callback runs after each window, so that a shard with few events notices a cancellation,
// too.
void WindowScheduler::run_progress_callback() {
  std::uint64_t events = 0;
  for (const auto& node_state : cluster_.node_states) events += node_state->engine.num_events_run();
  if (events - events_at_call_ < Engine::events_per_callback && cluster_.shards->num_shards() == 1) return;
  events_at_call_ = events;
  cluster_.run_progress_callback();
}

WindowScheduler::BarrierState WindowScheduler::local_barrier_state() const {
  BarrierState local;
  for (const auto& node_state : cluster_.node_states) local.ranks += node_state->in_barrier.size();
  const auto ranks = cluster_.local_ranks();
  if (local.ranks < ranks.size()) return local;
  local.latest = ranks.front()->now();
  for (const auto& rank : ranks) local.latest = later(local.latest, rank->now());
  return local;
}

void WindowScheduler::collect_departures() {
  for (NodeState* const node_state : active_nodes_)
    for (const DepartedTransfer& departed : node_state->transfers.departed_transfers())
      departures_.push_back({departed.since, departures_.size(), &departed});
}

// Exchanges with the other shards the time of the next event, the state of the barrier, and the departed transfers.
void WindowScheduler::receive_remote_departures() {
  Packing mine;
  Ps next = never;
  for (const auto& node_state : cluster_.node_states) next = std::min(next, node_state->engine.next_event_time());
  mine(next, barrier_.ranks, barrier_.latest);
  for (NodeState* const node_state : active_nodes_)
    for (DepartedTransfer& departed : node_state->transfers.departed_transfers()) fields(mine, departed, cluster_);
  const std::vector<std::string> all = cluster_.shards->exchange(mine.bytes());
  const auto me = static_cast<std::size_t>(cluster_.shards->own_number());
  remote_departures_.clear();
  std::size_t before = 0;  // departures of shards with lower numbers
  for (std::size_t shard = 0; shard < all.size(); ++shard) {
    if (shard == me) {
      before = remote_departures_.size();
      continue;
    }
    Unpacking unpacking(all[shard]);
    BarrierState remote;
    unpacking(next, remote.ranks, remote.latest);
    next_remote_event_ = std::min(next_remote_event_, next);
    barrier_.ranks += remote.ranks;
    if (barrier_.latest.variants() == remote.latest.variants()) barrier_.latest = later(barrier_.latest, remote.latest);
    while (!unpacking.empty()) fields(unpacking, remote_departures_.emplace_back(), cluster_);
  }
  const auto add = [this](const DepartedTransfer& departed) {
    departures_.push_back({departed.since, departures_.size(), &departed});
  };
  std::for_each(remote_departures_.begin(), remote_departures_.begin() + static_cast<std::ptrdiff_t>(before), add);
  collect_departures();
  std::for_each(remote_departures_.begin() + static_cast<std::ptrdiff_t>(before), remote_departures_.end(), add);
}

void WindowScheduler::exchange_departures() {
  departures_.clear();
  next_remote_event_ = never;
  barrier_ = local_barrier_state();
  if (cluster_.shards->num_shards() > 1)
    receive_remote_departures();
  else
    collect_departures();
  std::ranges::sort(departures_, {}, [](const Departure& one) { return std::pair(one.since, one.number); });
  for (const Departure& one : departures_) {
    const NicTransfer& transfer = one.departed->transfer;
    Passage passage = one.departed->passage;
    const int to = transfer.to->node_number();
    cluster_.network->route_message(transfer.from->node_number(), to, transfer.bytes, passage);
    const Ps when = std::max(passage.first.first(), one.since + cluster_.network->min_latency());
    if (cluster_.local_nodes.contains(to))
      transfer.to->node_state().transfers.schedule_arrival(*one.departed, passage, when);
    else
      next_remote_event_ = std::min(next_remote_event_, when);
  }
  for (NodeState* const node_state : active_nodes_) node_state->transfers.clear_departed_transfers();
}

// If all ranks have arrived at the barrier, resumes them at the latest rank's clock. The network's latency is added,
// since nodes may already have been simulated up to the end of the window.
void WindowScheduler::release_barrier() {
  if (barrier_.ranks < cluster_.ranks.size()) return;
  ConfigClock when = barrier_.latest;
  if (cluster_.network) when += cluster_.network->min_latency();
  for (const auto& node_state : cluster_.node_states) {
    for (const auto& [rank, coroutine] : node_state->in_barrier) {
      rank->node().wait_until(rank->core(), when);
      node_state->engine.resume_from_remote(when.first(), coroutine);
    }
    node_state->in_barrier.clear();
  }
  if (cluster_.shards->num_shards() > 1) next_remote_event_ = std::min(next_remote_event_, when.first());
}

}  // namespace nearfield::sim
