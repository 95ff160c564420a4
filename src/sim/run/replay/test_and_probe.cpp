// Replays Test, Probe, Waitany and Waitsome with their recorded results, and counts the configurations in which the
// result would differ.
#include <algorithm>

#include "sim/run/replay/program.hpp"

namespace nearfield::sim::replay {
namespace {

constexpr std::uint64_t max_accesses_between_polls = 16;  // between two polls of a polling loop

ConfigClock earliest_of(const std::vector<ConfigClock>& times) {
  ConfigClock first = times[0];
  for (const ConfigClock& one : times)
    for (int v = 0; v < first.variants(); ++v) first[v] = earlier(first[v], one[v]);
  return first;
}

// Returns the time in configurations in which it is after `since`, and 0 in the others.
ConfigClock zero_unless_after(const ConfigClock& since, ConfigClock time) {
  for (int v = 0; v < time.variants(); ++v)
    for (int speed = 0; speed < num_memory_speeds; ++speed)
      if (time[v][speed] <= since[v][speed]) time[v][speed] = 0;
  return time;
}

}  // namespace

// Returns whether the last poll failed, with hardly an access since.
bool ReplayedRank::is_polling() const {
  return last_failed_poll_ && accesses_ + skipped_ - *last_failed_poll_ <= max_accesses_between_polls;
}

Task<> ReplayedRank::record_failed_poll(bool again) {
  ++timing_sensitivity_.failed_polls;
  last_failed_poll_ = accesses_ + skipped_;
  if (!again) co_await endpoint_.poll();
}

// Counts a divergence if the recorded result is not that of the first configuration.
void ReplayedRank::compare(bool same, bool failed) {
  if (!same) endpoint_.races().count_divergence_on_first();
  failed_poll_diverged_ = !same && failed;
}

// A polling loop counts as a wait, not as a race.
void ReplayedRank::discard_failed_poll() {
  endpoint_.discard_failed_probe();
  if (std::exchange(failed_poll_diverged_, false)) endpoint_.races().retract_divergence_on_first();
  if (!failed_poll_) return;
  endpoint_.races().retract(failed_poll_->divergent);
  failed_poll_->counts = false;
  failed_poll_ = nullptr;
}

Task<> ReplayedRank::on(const stream::Tested& event) {
  const bool was_queried = std::exchange(result_of_query_, false);
  const bool polling = was_queried ? query_is_repeated_ : !event.waited && is_polling();
  if (polling && !was_queried) discard_failed_poll();
  const ConfigClock since = was_queried ? query_start_ : endpoint_.now();
  if (was_queried && !polling) compare(event.done == decided_, event.done.empty());
  if (event.waited) {
    if (event.at.size() > 1) ++timing_sensitivity_.waits_for_any;
  } else {
    ++timing_sensitivity_.polls;
    if (event.done.empty())
      co_await record_failed_poll(polling || was_queried);
    else if (!was_queried)
      co_await endpoint_.poll();
  }
  std::vector<ConfigClock> ready;
  for (const stream::Number request : event.done) {
    co_await finish(std::exchange(pending(request), {}));
    ready.push_back(ready_);
  }
  const bool waited = event.waited || polling;
  if (waited ? event.at.size() > 1 && !event.done.empty() : !event.at.empty())
    score_alternatives(event, waited, since, ready);
}

// Waitany may return any request that is complete when it is called; otherwise it returns the first one to complete.
// Waitsome and Testsome return all completed requests, Test and Testany one or none, Testall all or none.
void ReplayedRank::score_alternatives(const stream::Tested& event, bool waited, const ConfigClock& since,
                                      const std::vector<ConfigClock>& ready) {
  const std::string name = text(call_.name);
  const bool some = name.ends_with("some");
  const ConfigClock never(since.variants());
  const auto choice = std::make_shared<Choice>();
  choice->of_all = name.ends_with("all");
  choice->limit = since + 1;
  ConfigMask late = 0;  // configurations in which a returned request was not ready yet
  if (waited && some) choice->limit = later(since, earliest_of(ready)) + 1;
  if (!waited || some)
    for (const ConfigClock& one : ready) late |= before(choice->limit, one + 1);
  if (waited && !some)
    choice->limit = zero_unless_after(since, ready[0]);
  else if (!some && !ready.empty())
    choice->limit = never;
  RaceStatistics& races = endpoint_.races();
  ++races.outcomes;
  races.add(choice->divergent, late);
  for (const stream::Number request : event.at) {
    if (std::ranges::find(event.done, request) != event.done.end()) continue;
    ++choice->open;
    pending(request).choices.push_back(choice);
  }
  if (event.done.empty()) failed_poll_ = choice;
}

void ReplayedRank::resolve_choice(Choice& choice, const ConfigClock& ready) {
  if (!choice.counts) return;
  const ConfigMask early = before(ready, choice.limit);
  --choice.open;
  choice.late |= ~early;
  if (!choice.of_all)
    endpoint_.races().add(choice.divergent, early);
  else if (choice.open == 0)
    endpoint_.races().add(choice.divergent, early & ~choice.late);
}

Task<> ReplayedRank::on(const stream::Probe& event) {
  const auto outcome = std::exchange(probed_, {});
  if (!event.waited) ++timing_sensitivity_.polls;
  const bool was_queried = std::exchange(result_of_query_, false);
  if (event.peer == stream::proc_null) co_return;
  const bool polling = was_queried ? query_is_repeated_ : !event.waited && is_polling();
  if (polling && !was_queried) discard_failed_poll();
  if (was_queried && !polling) compare(event.found == (decided_message_ != nullptr), !event.found);
  const Pattern allowed = pattern(group(event.communicator), event.peer, event.tag);
  if (!event.waited && !event.found) {
    co_await record_failed_poll(polling || was_queried);
    if (!polling) endpoint_.record_failed_probe(allowed);
    co_return;
  }
  const bool any = event.peer == stream::any || event.tag == stream::any;
  if (any) ++timing_sensitivity_.from_any;
  const auto& recorded = outcome ? *outcome : stream::Outcome{0, event.peer, event.tag, 0};
  const Pattern message = pattern(group(event.communicator), recorded.peer, recorded.tag);
  const Message* const decided = was_queried ? decided_message_ : nullptr;
  if (decided) compare(message.takes(decided->from->rank(), decided->tag, decided->context), false);
  const bool waited = event.waited || polling;
  const std::optional<Pattern> race_pattern = any || !waited ? std::optional(allowed) : std::nullopt;
  if (was_queried)
    co_await endpoint_.finish_probe(message, race_pattern, waited, query_start_);
  else
    co_await endpoint_.probe(message, race_pattern, waited);
}

}  // namespace nearfield::sim::replay
