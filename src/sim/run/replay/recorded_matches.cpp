#include "sim/run/replay/recorded_matches.hpp"

namespace nearfield::sim::replay {

std::optional<stream::Outcome> RecordedMatches::next_match() {
  constexpr std::size_t batch_accesses = 4096;
  if (!source_) {
    source_ = open_source_();
    skipped_accesses_.resize(batch_accesses);
  }
  while (started_receives_.empty() || !started_receives_.front().is_complete)
    if (!read_event()) return {};
  const auto match = started_receives_.front().match;
  started_receives_.pop_front();
  ++num_returned_;
  return match;
}

// Reads one event of the stream: records a receive with a wildcard, or the match of one. Returns false at the end of
// the stream.
bool RecordedMatches::read_event() {
  while (source_->read_accesses(skipped_accesses_) > 0) {
  }
  const stream::Event* const event = source_->next_event();
  if (!event) return false;
  if (const auto* receive = std::get_if<stream::Receive>(event); receive && has_wildcard(*receive)) {
    receive_number_by_request_[receive->request] = num_returned_ + started_receives_.size();
    started_receives_.emplace_back();
  } else if (const auto* outcome = std::get_if<stream::Outcome>(event)) {
    record_completion(outcome->request, *outcome);
  } else if (const auto* wait = std::get_if<stream::RequestsCompleted>(event)) {
    for (const auto request : wait->requests) record_completion(request, {});
  } else if (const auto* tested = std::get_if<stream::RequestsTested>(event)) {
    for (const auto request : tested->completed_requests) record_completion(request, {});
  } else if (const auto* forget = std::get_if<stream::RequestFreed>(event)) {
    record_completion(forget->request, {});
  }
  return true;
}

void RecordedMatches::record_completion(stream::Number request, const std::optional<stream::Outcome>& match) {
  const auto found = receive_number_by_request_.find(request);
  if (found == receive_number_by_request_.end()) return;
  started_receives_[found->second - num_returned_] = {true, match};
  receive_number_by_request_.erase(found);
}

}  // namespace nearfield::sim::replay
