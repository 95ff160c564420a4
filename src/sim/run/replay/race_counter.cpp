#include "sim/run/replay/race_counter.hpp"

#include <algorithm>
#include <utility>

namespace nearfield::sim::replay {
namespace {

ConfigClock earliest_of(const std::vector<ConfigClock>& times) {
  ConfigClock first = times[0];
  for (const ConfigClock& one : times)
    for (int v = 0; v < first.variants(); ++v) first[v] = earlier(first[v], one[v]);
  return first;
}

// Returns `time` in the configurations in which it is after `since`, and 0 in the others.
ConfigClock zero_unless_after(const ConfigClock& since, ConfigClock time) {
  for (int v = 0; v < time.variants(); ++v)
    for (int speed = 0; speed < num_memory_speeds; ++speed)
      if (time[v][speed] <= since[v][speed]) time[v][speed] = 0;
  return time;
}

}  // namespace

void RaceCounter::compare_with_recorded(bool same, bool failed) {
  if (!same) endpoint_.race_statistics().count_divergence_on_first();
  failed_poll_diverged_ = !same && failed;
}

void RaceCounter::discard_failed_poll() {
  endpoint_.discard_failed_probe();
  if (std::exchange(failed_poll_diverged_, false)) endpoint_.race_statistics().retract_divergence_on_first();
  if (!failed_poll_) return;
  endpoint_.race_statistics().retract_outcome(failed_poll_->divergent);
  failed_poll_->counts = false;
  failed_poll_ = nullptr;
}

// Waitany may return any request that is complete when it is called; otherwise it returns the first one to complete.
// Waitsome and Testsome return all completed requests, Test and Testany one or none, Testall all or none.
void RaceCounter::count_alternatives(const stream::Tested& event, const std::string& name, bool waited,
                                     const ConfigClock& since, const std::vector<ConfigClock>& ready) {
  const bool some = name.ends_with("some");
  const ConfigClock never(since.variants());
  const auto choice = std::make_shared<RecordedChoice>();
  choice->of_all = name.ends_with("all");
  choice->limit = since + 1;
  ConfigMask late = 0;  // configurations in which a returned request was not ready yet
  if (waited && some) choice->limit = later(since, earliest_of(ready)) + 1;
  if (!waited || some)
    for (const ConfigClock& one : ready) late |= configs_before(choice->limit, one + 1);
  if (waited && !some)
    choice->limit = zero_unless_after(since, ready[0]);
  else if (!some && !ready.empty())
    choice->limit = never;
  RaceStatistics& races = endpoint_.race_statistics();
  ++races.outcomes;
  races.add_divergence(choice->divergent, late);
  for (const stream::Number request : event.at) {
    if (std::ranges::find(event.done, request) != event.done.end()) continue;
    ++choice->open;
    requests_.add_choice(request, choice);
  }
  if (event.done.empty()) failed_poll_ = choice;
}

TimingSensitivity RaceCounter::timing_sensitivity() const {
  TimingSensitivity all = calls_;
  all.ambiguous_matches = endpoint_.ambiguous_matches();
  all.races = endpoint_.race_statistics();
  return all;
}

}  // namespace nearfield::sim::replay
