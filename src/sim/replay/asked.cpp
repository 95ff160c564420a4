// Answers what a running program asks (ReplayedRank): outcomes are those of the first policy at the first memory speed.
// A stream that was kept has the questions, too, and takes the same time for them; then comes what the program was told,
// which is imposed (looks.cpp) and is the same if the machine is.
//
// A question that was answered in vain, and is asked again with hardly an access since, is answered when something has
// come for the rank: so a loop that only looks is a wait, and asks no more often than there is anything new.
#include <algorithm>
#include <cmath>

#include "sim/replay/program.hpp"

namespace nearfield::sim::replay {
namespace {

constexpr std::uint64_t accesses_of_looking = 16;  // at most, between two questions of a loop that only looks

}  // namespace

void ReplayedRank::tell(stream::ReplyKind what, const std::vector<std::int64_t>& words) const {
  if (!tell_) return;
  std::vector<std::int64_t> all{static_cast<std::int64_t>(what), static_cast<std::int64_t>(words.size())};
  all.insert(all.end(), words.begin(), words.end());
  tell_(all);
}

void ReplayedRank::tell_match(stream::Number request, int from, int tag) {
  const auto found = told_.find(request);
  const auto& peers = group(found->second).peers;
  const auto peer = std::ranges::find(peers, from) - peers.begin();
  told_.erase(found);
  tell(stream::ReplyKind::matched, {static_cast<std::int64_t>(request), peer, tag});
}

// The rank waits, and is told nothing: what it waits for is done on the host as soon as its messages are there.
Task<> ReplayedRank::on(const stream::WaitStarted& event) {
  for (const stream::Number request : event.requests) co_await finish(std::exchange(pending(request), {}));
}

Task<> ReplayedRank::on(const stream::Ask& event) {
  co_await boundary();
  if (event.question == stream::Question::clock) {
    co_await endpoint_.look();  // or a loop that waits for a time would never get there
    tell(stream::ReplyKind::clock, {std::llround(endpoint_.first())});
    co_return;
  }
  asked_ = true;
  asked_again_ = !event.waited && asked_before(event);
  if (asked_again_) {
    forget_look_in_vain();
    in_vain_asked_.clear();
    co_await endpoint_.something();
  }
  asked_since_ = endpoint_.now();
  if (!event.waited && !asked_again_) co_await endpoint_.look();
  if (event.question == stream::Question::message)
    co_await decide_message(event);
  else
    co_await decide_requests(event);
}

bool ReplayedRank::asked_before(const stream::Ask& event) {
  if (looked_in_vain_ && accesses_ + skipped_ - *looked_in_vain_ > accesses_of_looking) in_vain_asked_.clear();
  return std::ranges::find(in_vain_asked_, event) != in_vain_asked_.end();
}

bool ReplayedRank::is_done(const Pending& its) const {
  if (its.collective) return its.collective->background.over;
  const Operation* const operation = its.message.operation;
  return !operation || operation->serial != its.message.serial || operation->done;
}

std::vector<std::int64_t> ReplayedRank::places_of_done(const stream::Ask& event) {
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < event.at.size(); ++i)
    if (is_done(pending(event.at[i]))) places.push_back(static_cast<std::int64_t>(i));
  if (event.question == stream::Question::one && places.size() > 1) places.resize(1);
  if (event.question == stream::Question::all && places.size() < event.at.size()) places.clear();
  return places;
}

Task<> ReplayedRank::decide_requests(const stream::Ask& event) {
  auto places = places_of_done(event);
  while (event.waited && places.empty()) {
    co_await endpoint_.next_item();
    places = places_of_done(event);
  }
  if (places.empty())
    in_vain_asked_.push_back(event);
  else
    in_vain_asked_.clear();
  decided_.clear();
  for (const std::int64_t place : places) decided_.push_back(event.at[static_cast<std::size_t>(place)]);
  tell(stream::ReplyKind::done, places);
}

Task<> ReplayedRank::decide_message(const stream::Ask& event) {
  const Group& its = group(event.communicator);
  const Pattern asked = pattern(its, event.peer, event.tag);
  if (event.waited) co_await endpoint_.probe(asked);
  const Message* const message = decided_message_ = endpoint_.there(asked);
  if (!message) {
    in_vain_asked_.push_back(event);
    tell(stream::ReplyKind::message, {});
    co_return;
  }
  in_vain_asked_.clear();
  const auto peer = std::ranges::find(its.peers, message->from->rank()) - its.peers.begin();
  tell(stream::ReplyKind::message, {peer, message->tag});
}

}  // namespace nearfield::sim::replay
