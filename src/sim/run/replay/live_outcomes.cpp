#include <algorithm>
#include <cmath>

#include "sim/run/replay/outcomes.hpp"

namespace nearfield::sim::replay {

LiveOutcomes::LiveOutcomes(const RankParts& parts, const SendReply& send_reply)
    : OutcomeSource(parts), send_reply_(send_reply) {
  if (send_reply)
    rank_.endpoint.set_match_callback(
        [this](stream::Number request, int from, int tag) { report_match(request, from, tag); });
}

void LiveOutcomes::reply(stream::ReplyKind what, const std::vector<std::int64_t>& words) const {
  if (!send_reply_) return;
  std::vector<std::int64_t> all{static_cast<std::int64_t>(what), static_cast<std::int64_t>(words.size())};
  all.insert(all.end(), words.begin(), words.end());
  send_reply_(all);
}

Request LiveOutcomes::match(const stream::Receive& event, const Pattern& allowed, const Buffer& buffer) {
  communicators_[event.request] = event.communicator;
  const auto race_pattern = has_wildcard(event) ? std::optional(allowed) : std::nullopt;
  return rank_.endpoint.receive(allowed, buffer, race_pattern, event.request);
}

void LiveOutcomes::report_match(stream::Number request, int from, int tag) {
  const stream::Number communicator = communicators_.extract(request).mapped();
  const std::int64_t peer = rank_.definitions.peer_number(communicator, from);
  reply(stream::ReplyKind::matched, {static_cast<std::int64_t>(request), peer, tag});
}

Task<> LiveOutcomes::query(const Query& event) {
  Endpoint& endpoint = rank_.endpoint;
  co_await endpoint.flush_calls();
  if (event.question == stream::Question::clock) {
    co_await endpoint.poll();  // polling takes simulated time: a loop that waits for a time must end
    co_return reply(stream::ReplyKind::clock, {std::llround(endpoint.ordering_clock())});
  }
  const bool polling = !event.waited && rank_.polling.is_repeated_query(event);
  if (polling) {
    rank_.races.discard_failed_poll();
    rank_.polling.end_polling_loop();
    co_await endpoint.wait_for_any_event();
  }
  start_ = {endpoint.now(), polling};
  if (!event.waited && !polling) co_await endpoint.poll();
  if (event.question == stream::Question::message)
    co_await decide_message(event);
  else
    co_await decide_requests(event);
}

std::vector<std::int64_t> LiveOutcomes::indices_of_done(const Query& event) {
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < event.at.size(); ++i)
    if (rank_.requests.is_done(event.at[i])) indices.push_back(static_cast<std::int64_t>(i));
  if (event.question == stream::Question::one && indices.size() > 1) indices.resize(1);
  if (event.question == stream::Question::all && indices.size() < event.at.size()) indices.clear();
  return indices;
}

Task<> LiveOutcomes::decide_requests(const Query& event) {
  auto indices = indices_of_done(event);
  while (event.waited && indices.empty()) {
    co_await rank_.endpoint.wait_for_packet();
    indices = indices_of_done(event);
  }
  rank_.polling.record_query(event, indices.empty());
  decided_.clear();
  for (const std::int64_t index : indices) decided_.push_back(event.at[static_cast<std::size_t>(index)]);
  reply(stream::ReplyKind::done, indices);
}

Task<> LiveOutcomes::decide_message(const Query& event) {
  const Pattern allowed = rank_.definitions.pattern(event.communicator, event.peer, event.tag);
  if (event.waited) co_await rank_.endpoint.probe(allowed);
  const Message* const message = decided_message_ = rank_.endpoint.find_unexpected(allowed);
  rank_.polling.record_query(event, !message);
  if (!message) co_return reply(stream::ReplyKind::message, {});
  const std::int64_t peer = rank_.definitions.peer_number(event.communicator, message->from->rank());
  reply(stream::ReplyKind::message, {peer, message->tag});
}

Task<CallStart> LiveOutcomes::completed(const stream::Tested& event) {
  if (!start_.polling) rank_.races.compare_with_recorded(event.done == decided_, event.done.empty());
  co_return start_;
}

Task<CallStart> LiveOutcomes::probe(const stream::Probe& event, const Pattern& message) {
  const Message* const decided = decided_message_;
  if (!start_.polling) rank_.races.compare_with_recorded(event.found == (decided != nullptr), !event.found);
  if (decided && event.found)
    rank_.races.compare_with_recorded(message.matches(decided->from->rank(), decided->tag, decided->context), false);
  co_return start_;
}

}  // namespace nearfield::sim::replay
