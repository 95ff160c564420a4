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
  window_end_ = cluster_.network ? begin + cluster_.network->min_latency() : never;
  active_nodes_.clear();
  for (const auto& node_state : cluster_.node_states)
    if (node_state->engine.next_event_time() < window_end_) active_nodes_.push_back(node_state.get());
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
  const auto start = std::chrono::steady_clock::now();
  const bool is_parallel =
      pool_.size() > 1 && active_nodes_.size() > 1 && last_window_cpu_us_ >= min_parallel_window_us_;
  if (is_parallel)
    pool_.parallel_for(active_nodes_.size(),
                       [this](std::size_t index) { active_nodes_[index]->run_events_until(window_end_); });
  else
    for (NodeState* const node_state : active_nodes_) node_state->run_events_until(window_end_);
  if (pool_.size() == 1) return;
  const Microseconds elapsed = std::chrono::steady_clock::now() - start;
  last_window_cpu_us_ = elapsed.count() * (is_parallel ? static_cast<double>(pool_.size()) : 1);
}

// If nodes have failed, rethrows the failure with the earliest simulated time, among all shards.
void WindowScheduler::rethrow_first_failure() const {
  const NodeState* first = nullptr;
  for (const NodeState* const node_state : active_nodes_)
    if (node_state->engine.failure() && (!first || node_state->engine.now() < first->engine.now())) first = node_state;
  if (!first) return;
  cluster_.shards->report_failure(first->engine.now());
  std::rethrow_exception(first->engine.failure());
}

// With several shards, runs the callback after each window, so that a shard with few events also notices a
// cancellation; otherwise after every Engine::events_per_callback events.
void WindowScheduler::run_progress_callback() {
  std::uint64_t events = 0;
  for (const auto& node_state : cluster_.node_states) events += node_state->engine.num_events_run();
  if (events - num_events_at_last_callback_ < Engine::events_per_callback && cluster_.shards->num_shards() == 1) return;
  num_events_at_last_callback_ = events;
  cluster_.run_progress_callback();
}

WindowScheduler::BarrierState WindowScheduler::local_barrier_state() const {
  BarrierState local;
  for (const auto& node_state : cluster_.node_states) local.num_ranks += node_state->ranks_in_barrier.size();
  const auto ranks = cluster_.local_ranks();
  if (local.num_ranks < ranks.size()) return local;
  local.latest_clock = ranks.front()->now();
  for (const auto& rank : ranks) local.latest_clock = later(local.latest_clock, rank->now());
  return local;
}

void WindowScheduler::collect_departures() {
  for (NodeState* const node_state : active_nodes_)
    for (const DepartedTransfer& departed : node_state->transfers.departed_transfers())
      departures_.push_back({departed.departure_time, departures_.size(), &departed});
}

// Exchanges with the other shards the time of the next event, the state of the barrier, and the departed transfers.
void WindowScheduler::receive_remote_departures() {
  Packing packing;
  Ps next = never;
  for (const auto& node_state : cluster_.node_states) next = std::min(next, node_state->engine.next_event_time());
  packing(next, barrier_.num_ranks, barrier_.latest_clock);
  for (NodeState* const node_state : active_nodes_)
    for (DepartedTransfer& departed : node_state->transfers.departed_transfers())
      pack_fields(packing, departed, cluster_);
  const std::vector<std::string> all = cluster_.shards->exchange(packing.bytes());
  const auto own_shard = static_cast<std::size_t>(cluster_.shards->shard_number());
  remote_departures_.clear();
  std::size_t num_from_lower_shards = 0;  // departures of shards with lower numbers
  for (std::size_t shard = 0; shard < all.size(); ++shard) {
    if (shard == own_shard) {
      num_from_lower_shards = remote_departures_.size();
      continue;
    }
    Unpacking unpacking(all[shard]);
    BarrierState remote;
    unpacking(next, remote.num_ranks, remote.latest_clock);
    next_remote_event_ = std::min(next_remote_event_, next);
    barrier_.num_ranks += remote.num_ranks;
    if (barrier_.latest_clock.num_variants() == remote.latest_clock.num_variants())
      barrier_.latest_clock = later(barrier_.latest_clock, remote.latest_clock);
    while (!unpacking.empty()) pack_fields(unpacking, remote_departures_.emplace_back(), cluster_);
  }
  const auto add = [this](const DepartedTransfer& departed) {
    departures_.push_back({departed.departure_time, departures_.size(), &departed});
  };
  std::for_each(remote_departures_.begin(),
                remote_departures_.begin() + static_cast<std::ptrdiff_t>(num_from_lower_shards), add);
  collect_departures();
  std::for_each(remote_departures_.begin() + static_cast<std::ptrdiff_t>(num_from_lower_shards),
                remote_departures_.end(), add);
}

void WindowScheduler::exchange_departures() {
  departures_.clear();
  next_remote_event_ = never;
  barrier_ = local_barrier_state();
  if (cluster_.shards->num_shards() > 1)
    receive_remote_departures();
  else
    collect_departures();
  std::ranges::sort(departures_, {}, [](const Departure& one) { return std::pair(one.departure_time, one.order); });
  for (const Departure& one : departures_) {
    const NicTransfer& transfer = one.transfer->transfer;
    MessageTimes message_times = one.transfer->message_times;
    const int to = transfer.to->node_number();
    cluster_.network->route_message(transfer.from->node_number(), to, transfer.bytes, message_times);
    const Ps when =
        std::max(message_times.first_byte_arrival.first(), one.departure_time + cluster_.network->min_latency());
    if (cluster_.local_nodes.contains(to))
      transfer.to->node_state().transfers.schedule_arrival(*one.transfer, message_times, when);
    else
      next_remote_event_ = std::min(next_remote_event_, when);
  }
  for (NodeState* const node_state : active_nodes_) node_state->transfers.clear_departed_transfers();
}

// If all ranks have arrived at the barrier, resumes them at the clock of the latest rank, plus the network's latency,
// since nodes may already have been simulated up to the end of the window.
void WindowScheduler::release_barrier() {
  if (barrier_.num_ranks < cluster_.ranks.size()) return;
  ConfigClock when = barrier_.latest_clock;
  if (cluster_.network) when += cluster_.network->min_latency();
  for (const auto& node_state : cluster_.node_states) {
    for (const auto& [rank, coroutine] : node_state->ranks_in_barrier) {
      rank->node().wait_until(rank->core(), when);
      node_state->engine.resume_from_remote(when.first(), coroutine);
    }
    node_state->ranks_in_barrier.clear();
  }
  if (cluster_.shards->num_shards() > 1) next_remote_event_ = std::min(next_remote_event_, when.first());
}

}  // namespace nearfield::sim
