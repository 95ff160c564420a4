// Which receive a message is for (Endpoint). Most programs name peer and tag in every receive: those are found in the
// lists of their peer.
#include <stdexcept>

#include "sim/endpoint.hpp"

namespace nearfield::sim {

Operation* Endpoint::match(Message& message, const Clock& visible) {
  Peer& sender = peer(message.from->rank_);
  if (message.sequence != sender.arrived++) throw std::logic_error("a message has overtaken another one");
  message.arrival = ++arrived_;
  message.visible = estimate(message.sent, visible);
  if (!imposed_.empty()) contest(message);
  Operation* const receive = take_posted(message);
  if (!recent_.empty()) reconsider(message, receive);
  if (receive) {
    fits(message, *receive);
    tell_match(*receive, message);
    if (receive->asked) {
      std::erase(imposed_, receive);
      chosen({*receive->asked, message.from->rank_, receive->number, message.visible}, nullptr);
    }
    return receive;
  }
  sender.unexpected.push(&message);
  if ((probing_ || polling_) && sleeper_) {  // it was the NIC that matched
    const auto wake = [](void* me) {
      if (auto& sleeper = static_cast<Endpoint*>(me)->sleeper_) std::exchange(sleeper, {}).resume();
    };
    site_.engine.at(site_.engine.now(), wake, this);
  }
  return nullptr;
}

// Takes the oldest receive for the message. Most programs have none that names no peer.
Operation* Endpoint::take_posted(const Message& message) {
  const int from = message.from->rank_;
  const auto wanted = [&](const Operation& one) { return one.takes(from, message.tag, message.context); };
  List<Operation>& posted = peer(from).posted;
  if (posted_to_any_.empty()) return posted.take(wanted);
  const Operation *named = posted.find(wanted), *any = posted_to_any_.find(wanted);
  return (any && (!named || any->number < named->number) ? posted_to_any_ : posted).take(wanted);
}

Message* Endpoint::unexpected(const Pattern& pattern) {
  const auto oldest_of = [&](int from, const Peer& peer) {
    return peer.unexpected.find([&](const Message& one) { return pattern.takes(from, one.tag, one.context); });
  };
  if (pattern.peer != any_rank) return oldest_of(pattern.peer, peer(pattern.peer));
  Message* oldest = nullptr;
  for (const auto& [from, its] : peers_)
    if (Message* const message = oldest_of(from, its); message && (!oldest || message->arrival < oldest->arrival))
      oldest = message;
  return oldest;
}

// An imposed receive is contested by every other message that has not been taken when it is posted, or comes before
// its own.
void Endpoint::impose(Operation& receive) {
  const Message *own = unexpected(receive), *first = unexpected(*receive.asked);
  if (first != own) contested(receive);
  if (!own) imposed_.push_back(&receive);
}

void Endpoint::contested(Operation& receive) {
  receive.contested = true;
  ++contested_;
  if (tally_.decided) tally_.other_on_first();
}

void Endpoint::contest(const Message& message) {
  const int from = message.from->rank_;
  for (Operation* const receive : imposed_) {
    if (receive->contested || receive->takes(from, message.tag, message.context)) continue;
    if (!receive->asked->takes(from, message.tag, message.context)) continue;
    contested(*receive);
  }
}

void Endpoint::chosen(Chosen choice, const Message* own) {
  ++tally_.outcomes;
  const OnClocks so_far = std::exchange(choice.otherwise, 0);
  tally_.add(choice.otherwise, so_far);
  for (const auto& [from, its] : peers_)
    its.unexpected.find([&](const Message& one) {
      if (&one != own && choice.asked.takes(from, one.tag, one.context))
        tally_.add(choice.otherwise, before(one.visible, choice.limit));
      return false;
    });
  recent_.push_back(choice);
  if (recent_.size() > most_recent) recent_.pop_front();
}

void Endpoint::reconsider(const Message& message, const Operation* receive) {
  const int from = message.from->rank_;
  for (Chosen& choice : recent_)
    if (choice.from != from && choice.asked.takes(from, message.tag, message.context) &&
        !(receive && receive->number < choice.number))
      tally_.add(choice.otherwise, before(message.visible, choice.limit));
}

void Endpoint::forget_probe_in_vain() {
  if (recent_.empty() || !recent_.back().in_vain) return;
  tally_.take_back(recent_.back().otherwise);
  recent_.pop_back();
}

void Endpoint::fits(const Message& message, const Operation& receive) const {
  if (message.bytes <= receive.buffer.bytes()) return;
  throw std::length_error("rank " + std::to_string(rank_) + " receives " + std::to_string(receive.buffer.bytes()) +
                          " bytes at most from rank " + std::to_string(message.from->rank_) + " with tag " +
                          std::to_string(message.tag) + ", but " + std::to_string(message.bytes) + " were sent");
}

}  // namespace nearfield::sim
