#include "sim/run/replay/outcomes.hpp"

namespace nearfield::sim::replay {

Request RecordedOutcomes::match(const stream::Receive& event, const Pattern& allowed, const Buffer& buffer) {
  if (!has_wildcard(event)) return rank_.endpoint.receive(allowed, buffer);
  const auto outcome = matches_.next_match();
  if (!outcome) return {};
  const Pattern message = rank_.definitions.pattern(event.communicator, outcome->peer, outcome->tag);
  return rank_.endpoint.receive(message, buffer, allowed);
}

bool RecordedOutcomes::continues_loop(bool waited) {
  const bool polling = !waited && rank_.polling.is_polling();
  if (polling) rank_.races.discard_failed_poll();
  return polling;
}

Task<CallStart> RecordedOutcomes::completed(const stream::Tested& event) {
  const CallStart start{rank_.endpoint.now(), continues_loop(event.waited)};
  if (!event.waited && !(start.polling && event.done.empty())) co_await rank_.endpoint.poll();
  co_return start;
}

Task<CallStart> RecordedOutcomes::probe(const stream::Probe& event, const Pattern&) {
  const bool polling = continues_loop(event.waited);
  if (!event.waited && !event.found && !polling) co_await rank_.endpoint.poll();
  co_return CallStart{{}, polling};
}

}  // namespace nearfield::sim::replay
