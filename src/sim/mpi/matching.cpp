// Message matching (Endpoint). Most programs name peer and tag in every receive, so posted receives and unexpected
// messages are kept in lists per peer.
#include <stdexcept>

#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {

RequestState* Endpoint::match(Message& message, const ConfigClock& visible) {
  Peer& sender = peer(message.from->rank_);
  if (message.sequence != sender.arrived++) throw std::logic_error("a message has overtaken another one");
  message.arrival = ++arrived_;
  message.visible = extrapolate_completion(message.sent, visible);
  if (!forced_.empty()) record_match_races(message);
  RequestState* const receive = extract_posted(message);
  if (!recent_.empty()) update_race_counts(message, receive);
  if (receive) {
    check_fits(message, *receive);
    report_match(*receive, message);
    if (receive->allowed) {
      std::erase(forced_, receive);
      record_match_choice({*receive->allowed, message.from->rank_, receive->number, message.visible}, nullptr);
    }
    return receive;
  }
  sender.unexpected.push(&message);
  if ((probing_ || polling_) && sleeper_) {  // the NIC matches, so no packet wakes the rank
    const auto wake = [](void* me) {
      if (auto& sleeper = static_cast<Endpoint*>(me)->sleeper_) std::exchange(sleeper, {}).resume();
    };
    node_state_.engine.at(node_state_.engine.now(), wake, this);
  }
  return nullptr;
}

// Removes and returns the oldest posted receive that matches the message. Most programs post none for any rank.
RequestState* Endpoint::extract_posted(const Message& message) {
  const int from = message.from->rank_;
  const auto wanted = [&](const RequestState& one) { return one.takes(from, message.tag, message.context); };
  List<RequestState>& posted = peer(from).posted;
  if (posted_to_any_.empty()) return posted.extract(wanted);
  const RequestState *named = posted.find(wanted), *any = posted_to_any_.find(wanted);
  return (any && (!named || any->number < named->number) ? posted_to_any_ : posted).extract(wanted);
}

Message* Endpoint::oldest_unexpected(const Pattern& pattern) {
  const auto oldest_of = [&](int from, const Peer& peer) {
    return peer.unexpected.find([&](const Message& one) { return pattern.takes(from, one.tag, one.context); });
  };
  if (pattern.peer != any_rank) return oldest_of(pattern.peer, peer(pattern.peer));
  Message* oldest = nullptr;
  for (const auto& [from, sender] : peers_)
    if (Message* const message = oldest_of(from, sender); message && (!oldest || message->arrival < oldest->arrival))
      oldest = message;
  return oldest;
}

// A forced match is ambiguous if another message that matches `allowed` is unexpected when the receive is posted, or
// arrives before the receive's own message.
void Endpoint::force_match(RequestState& receive) {
  const Message *own = oldest_unexpected(receive), *first = oldest_unexpected(*receive.allowed);
  if (first != own) count_ambiguous_match(receive);
  if (!own) forced_.push_back(&receive);
}

void Endpoint::count_ambiguous_match(RequestState& receive) {
  receive.is_ambiguous = true;
  ++ambiguous_matches_;
  if (races_.decided) races_.count_divergence_on_first();
}

void Endpoint::record_match_races(const Message& message) {
  const int from = message.from->rank_;
  for (RequestState* const receive : forced_) {
    if (receive->is_ambiguous || receive->takes(from, message.tag, message.context)) continue;
    if (!receive->allowed->takes(from, message.tag, message.context)) continue;
    count_ambiguous_match(*receive);
  }
}

void Endpoint::record_match_choice(MatchChoice choice, const Message* own) {
  ++races_.outcomes;
  const ConfigMask so_far = std::exchange(choice.divergent, 0);
  races_.add(choice.divergent, so_far);
  for (const auto& [from, sender] : peers_)
    sender.unexpected.find([&](const Message& one) {
      if (&one != own && choice.allowed.takes(from, one.tag, one.context))
        races_.add(choice.divergent, before(one.visible, choice.limit));
      return false;
    });
  recent_.push_back(choice);
  if (recent_.size() > max_recent_choices) recent_.pop_front();
}

void Endpoint::update_race_counts(const Message& message, const RequestState* receive) {
  const int from = message.from->rank_;
  for (MatchChoice& choice : recent_)
    if (choice.from != from && choice.allowed.takes(from, message.tag, message.context) &&
        !(receive && receive->number < choice.number))
      races_.add(choice.divergent, before(message.visible, choice.limit));
}

void Endpoint::discard_failed_probe() {
  if (recent_.empty() || !recent_.back().is_failed_probe) return;
  races_.retract(recent_.back().divergent);
  recent_.pop_back();
}

void Endpoint::check_fits(const Message& message, const RequestState& receive) const {
  if (message.bytes <= receive.buffer.bytes()) return;
  throw std::length_error("rank " + std::to_string(rank_) + " receives " + std::to_string(receive.buffer.bytes()) +
                          " bytes at most from rank " + std::to_string(message.from->rank_) + " with tag " +
                          std::to_string(message.tag) + ", but " + std::to_string(message.bytes) + " were sent");
}

}  // namespace nearfield::sim
