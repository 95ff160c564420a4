#include <stdexcept>
#include <utility>

#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {

// ---- queues

Message* MatchQueues::match_unexpected(RequestState& receive) {
  receive.number = ++num_posted_;
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
  if (message.sequence != sender.num_arrived++) throw std::logic_error("a message has overtaken another one");
  message.arrival_number = ++num_arrived_;
  const auto is_match = [&](const RequestState& one) { return one.matches(from, message.tag, message.context); };
  if (any_source_receives_.empty()) return sender.posted_receives.extract(is_match);
  const RequestState *named = sender.posted_receives.find(is_match), *any = any_source_receives_.find(is_match);
  return (any && (!named || any->number < named->number) ? any_source_receives_ : sender.posted_receives)
      .extract(is_match);
}

void MatchQueues::add_unexpected(Message& message) { peers_[message.from->rank()].unexpected.push(&message); }

Message* MatchQueues::oldest_unexpected(const Pattern& pattern) const {
  Message* oldest = nullptr;
  const auto add = [&](int from, const PeerQueues& peer) {
    Message* const message =
        peer.unexpected.find([&](const Message& one) { return pattern.matches(from, one.tag, one.context); });
    if (message && (!oldest || message->arrival_number < oldest->arrival_number)) oldest = message;
  };
  if (pattern.peer == any_rank)
    for (const auto& [from, peer] : peers_) add(from, peer);
  else if (const auto named = peers_.find(pattern.peer); named != peers_.end())
    add(pattern.peer, named->second);
  return oldest;
}

// ---- races

// A forced match is ambiguous if another message that matches `program_pattern` is unexpected when the receive is
// posted, or arrives before the receive's own message.
void RaceTracker::record_forced_match(RequestState& receive) {
  const Message *matched_message = queues_.oldest_unexpected(receive),
                *first = queues_.oldest_unexpected(*receive.program_pattern);
  if (first != matched_message) count_ambiguous_match(receive);
  if (!matched_message) forced_receives_.push_back(&receive);
}

void RaceTracker::count_ambiguous_match(RequestState& receive) {
  receive.is_ambiguous = true;
  ++ambiguous_matches_;
  if (statistics_.is_decided_by_first_config) statistics_.count_divergence_on_first();
}

void RaceTracker::record_arrival(const Message& message, RequestState* receive) {
  const auto takes = [&, from = message.from->rank()](const Pattern& pattern) {
    return pattern.matches(from, message.tag, message.context);
  };
  for (RequestState* const forced : forced_receives_)
    if (!forced->is_ambiguous && !takes(*forced) && takes(*forced->program_pattern)) count_ambiguous_match(*forced);
  for (MatchChoice& choice : recent_choices_)
    if (choice.from != message.from->rank() && takes(choice.program_pattern) &&
        !(receive && receive->number < choice.number))
      statistics_.add_divergence(choice.divergent_configs, configs_before(message.visible_time, choice.limit));
  if (!receive || !receive->program_pattern) return;
  std::erase(forced_receives_, receive);
  record_choice({*receive->program_pattern, message.from->rank(), receive->number, message.visible_time}, nullptr);
}

void RaceTracker::record_choice(MatchChoice choice, const Message* matched_message) {
  ++statistics_.outcomes;
  const ConfigMask counted_configs = std::exchange(choice.divergent_configs, 0);
  statistics_.add_divergence(choice.divergent_configs, counted_configs);
  queues_.for_each_unexpected(choice.program_pattern, [&](const Message& one) {
    if (&one != matched_message)
      statistics_.add_divergence(choice.divergent_configs, configs_before(one.visible_time, choice.limit));
  });
  recent_choices_.push_back(choice);
  if (recent_choices_.size() > max_recent_choices) recent_choices_.pop_front();
}

void RaceTracker::discard_unmatched_probe() {
  if (recent_choices_.empty() || !recent_choices_.back().is_unmatched_probe) return;
  statistics_.retract_outcome(recent_choices_.back().divergent_configs);
  recent_choices_.pop_back();
}

}  // namespace nearfield::sim
