#include "sim/run/replay/race_counter.hpp"

#include <algorithm>
#include <utility>

namespace nearfield::sim::replay {
namespace {

ConfigClock earliest_of(const std::vector<ConfigClock>& times) {
  ConfigClock earliest = times[0];
  for (const ConfigClock& time : times)
    for (int v = 0; v < earliest.num_variants(); ++v) earliest[v] = earlier(earliest[v], time[v]);
  return earliest;
}

// Returns `time` in the configurations in which it is after `begin`, and 0 in the others.
ConfigClock zero_unless_after(const ConfigClock& begin, ConfigClock time) {
  for (int v = 0; v < time.num_variants(); ++v)
    for (int speed = 0; speed < num_memory_speeds; ++speed)
      if (time[v][speed] <= begin[v][speed]) time[v][speed] = 0;
  return time;
}

}  // namespace

void RaceCounter::compare_with_recorded(bool is_same, bool is_failed_poll) {
  if (!is_same) endpoint_.race_statistics().count_divergence_on_first();
  failed_poll_diverged_ = !is_same && is_failed_poll;
}

void RaceCounter::discard_failed_poll() {
  endpoint_.discard_unmatched_probe();
  if (std::exchange(failed_poll_diverged_, false)) endpoint_.race_statistics().retract_divergence_on_first();
  if (!failed_poll_) return;
  endpoint_.race_statistics().retract_outcome(failed_poll_->divergent_configs);
  failed_poll_->is_counted = false;
  failed_poll_ = nullptr;
}

// Waitany may return any request that is complete when it is called; if there is none, it returns the first request
// that completes. Waitsome and Testsome return all completed requests, Test and Testany one or none, Testall all or
// none.
void RaceCounter::count_alternatives(const stream::RequestsTested& event, const std::string& name, bool waited,
                                     const ConfigClock& begin, const std::vector<ConfigClock>& ready_times) {
  const bool returns_some = name.ends_with("some");
  const ConfigClock never(begin.num_variants());
  const auto choice = std::make_shared<RecordedChoice>();
  choice->needs_all = name.ends_with("all");
  choice->limit = begin + 1;
  ConfigMask late_configs = 0;  // configurations in which a returned request was not ready yet
  if (waited && returns_some) choice->limit = later(begin, earliest_of(ready_times)) + 1;
  if (!waited || returns_some)
    for (const ConfigClock& time : ready_times) late_configs |= configs_before(choice->limit, time + 1);
  if (waited && !returns_some)
    choice->limit = zero_unless_after(begin, ready_times[0]);
  else if (!returns_some && !ready_times.empty())
    choice->limit = never;
  RaceStatistics& races = endpoint_.race_statistics();
  ++races.outcomes;
  races.add_divergence(choice->divergent_configs, late_configs);
  for (const stream::Number request : event.requests) {
    if (std::ranges::find(event.completed_requests, request) != event.completed_requests.end()) continue;
    ++choice->num_open_requests;
    requests_.add_choice(request, choice);
  }
  if (event.completed_requests.empty()) failed_poll_ = choice;
}

TimingSensitivity RaceCounter::timing_sensitivity() const {
  TimingSensitivity all = sensitivity_;
  all.ambiguous_matches = endpoint_.ambiguous_matches();
  all.races = endpoint_.race_statistics();
  return all;
}

}  // namespace nearfield::sim::replay
