#include "sim/run/replay/outcomes.hpp"

namespace nearfield::sim::replay {

Request RecordedOutcomes::post_receive(const stream::Receive& event, const Pattern& program_pattern,
                                       const Buffer& buffer) {
  if (!has_wildcard(event)) return rank_.endpoint.receive(program_pattern, buffer);
  const auto outcome = recorded_matches_.next_match();
  if (!outcome) return {};
  const Pattern message = rank_.definitions.message_pattern(event.communicator, outcome->peer, outcome->tag);
  return rank_.endpoint.receive(message, buffer, program_pattern);
}

bool RecordedOutcomes::is_loop_iteration(bool waited) {
  const bool is_polling = !waited && rank_.polling.is_polling();
  if (is_polling) rank_.races.discard_failed_poll();
  return is_polling;
}

Task<CallStart> RecordedOutcomes::begin_test(const stream::RequestsTested& event) {
  const CallStart start{rank_.endpoint.now(), is_loop_iteration(event.is_blocking)};
  if (!event.is_blocking && !(start.is_polling && event.completed_requests.empty()))
    co_await rank_.endpoint.poll_packets();
  co_return start;
}

Task<CallStart> RecordedOutcomes::begin_probe(const stream::Probe& event, const Pattern&) {
  const bool is_polling = is_loop_iteration(event.is_blocking);
  if (!event.is_blocking && !event.has_message && !is_polling) co_await rank_.endpoint.poll_packets();
  co_return CallStart{{}, is_polling};
}

}  // namespace nearfield::sim::replay
