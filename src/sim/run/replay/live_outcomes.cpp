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

void LiveOutcomes::send_reply(stream::ReplyKind reply_kind, const std::vector<std::int64_t>& words) const {
  if (!send_reply_) return;
  std::vector<std::int64_t> all{static_cast<std::int64_t>(reply_kind), static_cast<std::int64_t>(words.size())};
  all.insert(all.end(), words.begin(), words.end());
  send_reply_(all);
}

Request LiveOutcomes::post_receive(const stream::Receive& event, const Pattern& program_pattern, const Buffer& buffer) {
  communicator_by_request_[event.request] = event.communicator;
  const auto race_pattern = has_wildcard(event) ? std::optional(program_pattern) : std::nullopt;
  return rank_.endpoint.receive(program_pattern, buffer, race_pattern, event.request);
}

void LiveOutcomes::report_match(stream::Number request, int from, int tag) {
  const stream::Number communicator = communicator_by_request_.extract(request).mapped();
  const std::int64_t peer = rank_.definitions.peer_number(communicator, from);
  send_reply(stream::ReplyKind::matched_receive, {static_cast<std::int64_t>(request), peer, tag});
}

Task<> LiveOutcomes::query(const Query& event) {
  Endpoint& endpoint = rank_.endpoint;
  co_await endpoint.flush_calls();
  if (event.kind == stream::QueryKind::simulated_time) {
    co_await endpoint.poll_packets();  // polling takes simulated time: a loop that waits for a time must end
    co_return send_reply(stream::ReplyKind::simulated_time, {std::llround(endpoint.ordering_clock())});
  }
  const bool is_polling = !event.is_blocking && rank_.polling.is_repeated_query(event);
  if (is_polling) {
    rank_.races.discard_failed_poll();
    rank_.polling.end_polling_loop();
    co_await endpoint.wait_for_any_event();
  }
  call_start_ = {endpoint.now(), is_polling};
  if (!event.is_blocking && !is_polling) co_await endpoint.poll_packets();
  if (event.kind == stream::QueryKind::probed_message)
    co_await decide_message(event);
  else
    co_await decide_requests(event);
}

std::vector<std::int64_t> LiveOutcomes::indices_of_done(const Query& event) {
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < event.requests.size(); ++i)
    if (rank_.requests.is_done(event.requests[i])) indices.push_back(static_cast<std::int64_t>(i));
  if (event.kind == stream::QueryKind::any_request && indices.size() > 1) indices.resize(1);
  if (event.kind == stream::QueryKind::all_requests && indices.size() < event.requests.size()) indices.clear();
  return indices;
}

Task<> LiveOutcomes::decide_requests(const Query& event) {
  auto indices = indices_of_done(event);
  while (event.is_blocking && indices.empty()) {
    co_await rank_.endpoint.wait_for_packet();
    indices = indices_of_done(event);
  }
  rank_.polling.record_query(event, indices.empty());
  chosen_requests_.clear();
  for (const std::int64_t index : indices) chosen_requests_.push_back(event.requests[static_cast<std::size_t>(index)]);
  send_reply(stream::ReplyKind::completed_requests, indices);
}

Task<> LiveOutcomes::decide_message(const Query& event) {
  const Pattern program_pattern = rank_.definitions.message_pattern(event.communicator, event.peer, event.tag);
  if (event.is_blocking) co_await rank_.endpoint.probe(program_pattern);
  const Message* const message = chosen_message_ = rank_.endpoint.find_unexpected_message(program_pattern);
  rank_.polling.record_query(event, !message);
  if (!message) co_return send_reply(stream::ReplyKind::probed_message, {});
  const std::int64_t peer = rank_.definitions.peer_number(event.communicator, message->from->rank());
  send_reply(stream::ReplyKind::probed_message, {peer, message->tag});
}

Task<CallStart> LiveOutcomes::begin_test(const stream::RequestsTested& event) {
  if (!call_start_.is_polling)
    rank_.races.compare_with_recorded(event.completed_requests == chosen_requests_, event.completed_requests.empty());
  co_return call_start_;
}

Task<CallStart> LiveOutcomes::begin_probe(const stream::Probe& event, const Pattern& message) {
  const Message* const chosen = chosen_message_;
  if (!call_start_.is_polling)
    rank_.races.compare_with_recorded(event.has_message == (chosen != nullptr), !event.has_message);
  if (chosen && event.has_message)
    rank_.races.compare_with_recorded(message.matches(chosen->from->rank(), chosen->tag, chosen->context), false);
  co_return call_start_;
}

}  // namespace nearfield::sim::replay
