#include "sim/run/replay/recorded_matches.hpp"

namespace nearfield::sim::replay {

std::optional<stream::Outcome> RecordedMatches::next_match() {
  constexpr std::size_t at_a_time = 4096;
  if (!source_) {
    source_ = open_();
    skipped_.resize(at_a_time);
  }
  while (begun_.empty() || !begun_.front().over)
    if (!read_event()) return {};
  const auto got = begun_.front().got;
  begun_.pop_front();
  ++returned_;
  return got;
}

// Reads one event of the stream: records a receive with a wildcard, or the match of one. Returns false at the end of
// the stream.
bool RecordedMatches::read_event() {
  while (source_->accesses(skipped_) > 0) {
  }
  const stream::Event* const event = source_->event();
  if (!event) return false;
  if (const auto* receive = std::get_if<stream::Receive>(event); receive && has_wildcard(*receive)) {
    by_request_[receive->request] = returned_ + begun_.size();
    begun_.emplace_back();
  } else if (const auto* outcome = std::get_if<stream::Outcome>(event)) {
    record_completion(outcome->request, *outcome);
  } else if (const auto* wait = std::get_if<stream::Completed>(event)) {
    for (const auto request : wait->requests) record_completion(request, {});
  } else if (const auto* looked = std::get_if<stream::Tested>(event)) {
    for (const auto request : looked->done) record_completion(request, {});
  } else if (const auto* forget = std::get_if<stream::Forget>(event)) {
    record_completion(forget->request, {});
  }
  return true;
}

void RecordedMatches::record_completion(stream::Number request, const std::optional<stream::Outcome>& got) {
  const auto found = by_request_.find(request);
  if (found == by_request_.end()) return;
  begun_[found->second - returned_] = {true, got};
  by_request_.erase(found);
}

}  // namespace nearfield::sim::replay
