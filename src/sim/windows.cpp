#include "sim/windows.hpp"

#include <algorithm>
#include <chrono>

#include "sim/endpoint.hpp"
#include "sim/site.hpp"

namespace nearfield::sim {

Windows::Windows(World& world, int threads, double worth_sharing_us)
    : world_(world), crew_(threads), worth_sharing_us_(worth_sharing_us) {}

void Windows::run() {
  while (open() || (release() && open())) {
    run_window();
    check();
    ask_caller();
    exchange();
    let_go_on();
  }
}

// Sets the next window; returns false if nothing is left to happen.
bool Windows::open() {
  Ps begin = never;
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

// Of several failures in a window, the first one is told, as if the others had not come to theirs.
void Windows::check() const {
  const Site* first = nullptr;
  for (const Site* const site : awake_)
    if (site->engine.failure() && (!first || site->engine.now() < first->engine.now())) first = site;
  if (first) std::rethrow_exception(first->engine.failure());
}

void Windows::ask_caller() {
  std::uint64_t events = 0;
  for (const auto& site : world_.sites) events += site->engine.events();
  if (events - events_at_call_ < Engine::often) return;
  events_at_call_ = events;
  world_.now_and_then();
}

void Windows::exchange() {
  leaving_.clear();
  for (const Site* const site : awake_)
    for (const Gone& gone : site->shipping.gone()) leaving_.push_back({gone.since, leaving_.size(), &gone});
  std::ranges::sort(leaving_, {}, [](const Leaving& one) { return std::pair(one.since, one.number); });
  for (const Leaving& one : leaving_) {
    const Shipment& shipment = one.gone->shipment;
    Passage passage = one.gone->passage;
    world_.network->carry(shipment.from->node_number(), shipment.to->node_number(), shipment.bytes, passage);
    shipment.to->site().shipping.expect(*one.gone, passage, one.since + world_.network->least_latency());
  }
  for (Site* const site : awake_) site->shipping.forget_gone();
}

// If all ranks have lined up, lets them go on at the time of the latest, to which the network's latency is added, since
// nodes may have gone on for so long.
void Windows::let_go_on() {
  std::size_t lined_up = 0;
  for (const auto& site : world_.sites) lined_up += site->lined_up.size();
  if (lined_up < world_.ranks.size()) return;
  Clock when = world_.ranks.front()->now();
  for (const auto& rank : world_.ranks) when = later(when, rank->now());
  if (world_.network) when += world_.network->least_latency();
  for (const auto& site : world_.sites) {
    for (const auto& [rank, coroutine] : site->lined_up) {
      rank->node().wait_until(rank->core(), when);
      site->engine.resume_from_outside(when.first(), coroutine);
    }
    site->lined_up.clear();
  }
}

}  // namespace nearfield::sim
