#include <stdexcept>
#include <utility>

#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {

// ---- queues

Message* MatchQueues::match_unexpected(RequestState& receive) {
  receive.number = ++posted_;
  int from = receive.peer;
  if (from == any_rank) {
    const Message* const oldest = oldest_unexpected(receive);
    if (!oldest) return nullptr;
    from = oldest->from->rank();
  }
  return peers_[from].unexpected.extract(
      [&](const Message& one) { return receive.matches(from, one.tag, one.context); });
}

// Most programs never post a receive from MPI_ANY_SOURCE. Then only the receives that name the sender are searched.
RequestState* MatchQueues::match_posted(Message& message) {
  const int from = message.from->rank();
  PeerQueues& sender = peers_[from];
  if (message.sequence != sender.arrived++) throw std::logic_error("a message has overtaken another one");
  message.arrival = ++arrived_;
  const auto wanted = [&](const RequestState& one) { return one.matches(from, message.tag, message.context); };
  if (posted_to_any_.empty()) return sender.posted.extract(wanted);
  const RequestState *named = sender.posted.find(wanted), *any = posted_to_any_.find(wanted);
  return (any && (!named || any->number < named->number) ? posted_to_any_ : sender.posted).extract(wanted);
}

void MatchQueues::add_unexpected(Message& message) { peers_[message.from->rank()].unexpected.push(&message); }

Message* MatchQueues::oldest_unexpected(const Pattern& pattern) const {
  Message* oldest = nullptr;
  const auto add = [&](int from, const PeerQueues& peer) {
    Message* const message =
        peer.unexpected.find([&](const Message& one) { return pattern.matches(from, one.tag, one.context); });
    if (message && (!oldest || message->arrival < oldest->arrival)) oldest = message;
  };
  if (pattern.peer == any_rank)
    for (const auto& [from, peer] : peers_) add(from, peer);
  else if (const auto named = peers_.find(pattern.peer); named != peers_.end())
    add(pattern.peer, named->second);
  return oldest;
}

// ---- races

// A forced match is ambiguous if another message that matches `allowed` is unexpected when the receive is posted, or
// arrives before the receive's own message.
void RaceTracker::record_forced_match(RequestState& receive) {
  const Message *own = queues_.oldest_unexpected(receive), *first = queues_.oldest_unexpected(*receive.allowed);
  if (first != own) count_ambiguous_match(receive);
  if (!own) forced_.push_back(&receive);
}

void RaceTracker::count_ambiguous_match(RequestState& receive) {
  receive.is_ambiguous = true;
  ++ambiguous_matches_;
  if (statistics_.decided) statistics_.count_divergence_on_first();
}

void RaceTracker::record_arrival(const Message& message, RequestState* receive) {
  const auto takes = [&, from = message.from->rank()](const Pattern& pattern) {
    return pattern.matches(from, message.tag, message.context);
  };
  for (RequestState* const forced : forced_)
    if (!forced->is_ambiguous && !takes(*forced) && takes(*forced->allowed)) count_ambiguous_match(*forced);
  for (MatchChoice& choice : recent_)
    if (choice.from != message.from->rank() && takes(choice.allowed) && !(receive && receive->number < choice.number))
      statistics_.add_divergence(choice.divergent, configs_before(message.visible, choice.limit));
  if (!receive || !receive->allowed) return;
  std::erase(forced_, receive);
  record_choice({*receive->allowed, message.from->rank(), receive->number, message.visible}, nullptr);
}

void RaceTracker::record_choice(MatchChoice choice, const Message* own) {
  ++statistics_.outcomes;
  const ConfigMask so_far = std::exchange(choice.divergent, 0);
  statistics_.add_divergence(choice.divergent, so_far);
  queues_.for_each_unexpected(choice.allowed, [&](const Message& one) {
    if (&one != own) statistics_.add_divergence(choice.divergent, configs_before(one.visible, choice.limit));
  });
  recent_.push_back(choice);
  if (recent_.size() > max_recent_choices) recent_.pop_front();
}

void RaceTracker::discard_failed_probe() {
  if (recent_.empty() || !recent_.back().is_failed_probe) return;
  statistics_.retract_outcome(recent_.back().divergent);
  recent_.pop_back();
}

}  // namespace nearfield::sim
