#include "sim/windows.hpp"

#include <algorithm>
#include <chrono>

#include "sim/endpoint.hpp"
#include "sim/packing.hpp"
#include "sim/site.hpp"

namespace nearfield::sim {

Windows::Windows(World& world, int threads, double worth_sharing_us)
    : world_(world), crew_(threads), worth_sharing_us_(worth_sharing_us) {}

void Windows::run() {
  exchange();
  while (open() || (world_.shards->count() == 1 && release() && open())) {
    run_window();
    check();
    ask_caller();
    exchange();
    let_go_on();
  }
}

// Sets the next window; returns false if nothing is left to happen.
bool Windows::open() {
  Ps begin = next_elsewhere_;
  for (const auto& site : world_.sites) begin = std::min(begin, site->engine.next());
  end_ = world_.network ? begin + world_.network->least_latency() : never;
  awake_.clear();
  for (const auto& site : world_.sites)
    if (site->engine.next() < end_) awake_.push_back(site.get());
  return begin < never;
}

// Where all ranks wait, one that only looks whether anything came may do something else after having looked in vain: the
// one that has looked longest goes on. By then everybody's time has come. Returns false if there is none.
bool Windows::release() {
  Endpoint* first = nullptr;
  Ps when = 0;
  for (const auto& rank : world_.ranks)
    if (rank->may_be_released() && (!first || rank->first() < first->first())) first = rank.get();
  for (const auto& site : world_.sites)
    when = std::max({when, site->engine.now(), world_.network ? site->engine.end() : 0});
  if (first) first->release(when);
  return first;
}

void Windows::run_window() {
  using Microseconds = std::chrono::duration<double, std::micro>;
  const auto begun = std::chrono::steady_clock::now();
  const bool shared = crew_.size() > 1 && awake_.size() > 1 && last_us_ >= worth_sharing_us_;
  if (shared)
    crew_.each(awake_.size(), [this](std::size_t which) { awake_[which]->run_until(end_); });
  else
    for (Site* const site : awake_) site->run_until(end_);
  if (crew_.size() == 1) return;
  const Microseconds took = std::chrono::steady_clock::now() - begun;
  last_us_ = took.count() * (shared ? static_cast<double>(crew_.size()) : 1);
}

// Of several failures in a window, on any shard, the first one is told, as if the others had not come to theirs.
void Windows::check() const {
  const Site* first = nullptr;
  for (const Site* const site : awake_)
    if (site->engine.failure() && (!first || site->engine.now() < first->engine.now())) first = site;
  if (!first) return;
  world_.shards->fail(first->engine.now());
  std::rethrow_exception(first->engine.failure());
}

// Shards ask after each window: one that has little to do must notice, too, that it is to end.
void Windows::ask_caller() {
  std::uint64_t events = 0;
  for (const auto& site : world_.sites) events += site->engine.events();
  if (events - events_at_call_ < Engine::often && world_.shards->count() == 1) return;
  events_at_call_ = events;
  world_.now_and_then();
}

Windows::LinedUp Windows::lined_up_here() const {
  LinedUp here;
  for (const auto& site : world_.sites) here.ranks += site->lined_up.size();
  const auto ranks = world_.ranks_here();
  if (here.ranks < ranks.size()) return here;
  here.latest = ranks.front()->now();
  for (const auto& rank : ranks) here.latest = later(here.latest, rank->now());
  return here;
}

void Windows::leave_from_here() {
  for (Site* const site : awake_)
    for (const Gone& gone : site->shipping.gone()) leaving_.push_back({gone.since, leaving_.size(), &gone});
}

// Tells the other shards when something happens here, who has lined up and what has left, and learns it of theirs.
void Windows::hear_of_others() {
  Packing mine;
  Ps next = never;
  for (const auto& site : world_.sites) next = std::min(next, site->engine.next());
  mine(next, lined_up_.ranks, lined_up_.latest);
  for (Site* const site : awake_)
    for (Gone& gone : site->shipping.gone()) fields(mine, gone, world_);
  const std::vector<std::string> all = world_.shards->exchange(mine.bytes());
  const auto me = static_cast<std::size_t>(world_.shards->number());
  of_others_.clear();
  std::size_t before = 0;  // of shards before this one
  for (std::size_t shard = 0; shard < all.size(); ++shard) {
    if (shard == me) {
      before = of_others_.size();
      continue;
    }
    Unpacking its(all[shard]);
    LinedUp there;
    its(next, there.ranks, there.latest);
    next_elsewhere_ = std::min(next_elsewhere_, next);
    lined_up_.ranks += there.ranks;
    if (lined_up_.latest.variants() == there.latest.variants())
      lined_up_.latest = later(lined_up_.latest, there.latest);
    while (!its.empty()) fields(its, of_others_.emplace_back(), world_);
  }
  const auto leave = [this](const Gone& gone) { leaving_.push_back({gone.since, leaving_.size(), &gone}); };
  std::for_each(of_others_.begin(), of_others_.begin() + static_cast<std::ptrdiff_t>(before), leave);
  leave_from_here();
  std::for_each(of_others_.begin() + static_cast<std::ptrdiff_t>(before), of_others_.end(), leave);
}

void Windows::exchange() {
  leaving_.clear();
  next_elsewhere_ = never;
  lined_up_ = lined_up_here();
  if (world_.shards->count() > 1)
    hear_of_others();
  else
    leave_from_here();
  std::ranges::sort(leaving_, {}, [](const Leaving& one) { return std::pair(one.since, one.number); });
  for (const Leaving& one : leaving_) {
    const Shipment& shipment = one.gone->shipment;
    Passage passage = one.gone->passage;
    const int to = shipment.to->node_number();
    world_.network->carry(shipment.from->node_number(), to, shipment.bytes, passage);
    const Ps when = std::max(passage.first.first(), one.since + world_.network->least_latency());
    if (world_.here.has(to))
      shipment.to->site().shipping.expect(*one.gone, passage, when);
    else
      next_elsewhere_ = std::min(next_elsewhere_, when);
  }
  for (Site* const site : awake_) site->shipping.forget_gone();
}

// If all ranks have lined up, lets them go on at the time of the latest, to which the network's latency is added, since
// nodes may have gone on for so long.
void Windows::let_go_on() {
  if (lined_up_.ranks < world_.ranks.size()) return;
  Clock when = lined_up_.latest;
  if (world_.network) when += world_.network->least_latency();
  for (const auto& site : world_.sites) {
    for (const auto& [rank, coroutine] : site->lined_up) {
      rank->node().wait_until(rank->core(), when);
      site->engine.resume_from_outside(when.first(), coroutine);
    }
    site->lined_up.clear();
  }
  if (world_.shards->count() > 1) next_elsewhere_ = std::min(next_elsewhere_, when.first());
}

}  // namespace nearfield::sim
