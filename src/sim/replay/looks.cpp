// Tests, probes and waits for one of several requests (ReplayedRank): what they were told then is imposed, and it is
// tallied on which clocks they would have been told something else.
#include <algorithm>

#include "sim/replay/program.hpp"

namespace nearfield::sim::replay {
namespace {

constexpr std::uint64_t accesses_of_polling = 16;  // at most, between two looks of a loop that only looks

Clock first_of(const std::vector<Clock>& times) {
  Clock first = times[0];
  for (const Clock& one : times)
    for (int v = 0; v < first.variants(); ++v) first[v] = earlier(first[v], one[v]);
  return first;
}

// Returns the time on the clocks where it is after `since`, and 0 on the others.
Clock those_after(const Clock& since, Clock time) {
  for (int v = 0; v < time.variants(); ++v)
    for (int speed = 0; speed < speeds; ++speed)
      if (time[v][speed] <= since[v][speed]) time[v][speed] = 0;
  return time;
}

}  // namespace

// The last look was in vain, and next to nothing happened since.
bool ReplayedRank::is_polling() const {
  return looked_in_vain_ && accesses_ + skipped_ - *looked_in_vain_ <= accesses_of_polling;
}

Task<> ReplayedRank::look_in_vain(bool again) {
  ++dependence_.failed_looks;
  looked_in_vain_ = accesses_ + skipped_;
  if (!again) co_await endpoint_.look();
}

// Tallies whether what the program was told is what the first clock decides.
void ReplayedRank::compare(bool same, bool in_vain) {
  if (!same) endpoint_.tally().other_on_first();
  other_in_vain_ = !same && in_vain;
}

// A loop that only looks is a wait: how soon it ends leads nowhere else.
void ReplayedRank::forget_look_in_vain() {
  endpoint_.forget_probe_in_vain();
  if (std::exchange(other_in_vain_, false)) endpoint_.tally().not_other_on_first();
  if (!in_vain_) return;
  endpoint_.tally().take_back(in_vain_->otherwise);
  in_vain_->counts = false;
  in_vain_ = nullptr;
}

Task<> ReplayedRank::on(const stream::Tested& event) {
  const bool was_asked = std::exchange(asked_, false);
  const bool polling = was_asked ? asked_again_ : !event.waited && is_polling();
  if (polling && !was_asked) forget_look_in_vain();
  const Clock since = was_asked ? asked_since_ : endpoint_.now();
  if (was_asked && !polling) compare(event.done == decided_, event.done.empty());
  if (event.waited) {
    if (event.at.size() > 1) ++dependence_.waits_for_any;
  } else {
    ++dependence_.looks;
    if (event.done.empty())
      co_await look_in_vain(polling || was_asked);
    else if (!was_asked)
      co_await endpoint_.look();
  }
  std::vector<Clock> ready;
  for (const stream::Number request : event.done) {
    co_await finish(std::exchange(pending(request), {}));
    ready.push_back(ready_);
  }
  const bool waited = event.waited || polling;
  if (waited ? event.at.size() > 1 && !event.done.empty() : !event.at.empty()) weigh(event, waited, since, ready);
}

// Waitany may tell of any request that is done when it is called; if none is, of the first one. Waitsome and Testsome
// tell of all that are, Test and Testany of one or none, Testall of all or none.
void ReplayedRank::weigh(const stream::Tested& event, bool waited, const Clock& since,
                         const std::vector<Clock>& ready) {
  const std::string name = text(call_.name);
  const bool some = name.ends_with("some");
  const Clock never(since.variants());
  const auto choice = std::make_shared<Choice>();
  choice->of_all = name.ends_with("all");
  choice->limit = since + 1;
  OnClocks late = 0;  // on which something was ready only after the program had been told so
  if (waited && some) choice->limit = later(since, first_of(ready)) + 1;
  if (!waited || some)
    for (const Clock& one : ready) late |= before(choice->limit, one + 1);
  if (waited && !some)
    choice->limit = those_after(since, ready[0]);
  else if (!some && !ready.empty())
    choice->limit = never;
  Tally& tally = endpoint_.tally();
  ++tally.outcomes;
  tally.add(choice->otherwise, late);
  for (const stream::Number request : event.at) {
    if (std::ranges::find(event.done, request) != event.done.end()) continue;
    ++choice->open;
    pending(request).choices.push_back(choice);
  }
  if (event.done.empty()) in_vain_ = choice;
}

void ReplayedRank::settle(Choice& choice, const Clock& ready) {
  if (!choice.counts) return;
  const OnClocks early = before(ready, choice.limit);
  --choice.open;
  choice.late |= ~early;
  if (!choice.of_all)
    endpoint_.tally().add(choice.otherwise, early);
  else if (choice.open == 0)
    endpoint_.tally().add(choice.otherwise, early & ~choice.late);
}

Task<> ReplayedRank::on(const stream::Probe& event) {
  const auto outcome = std::exchange(probed_, {});
  if (!event.waited) ++dependence_.looks;
  const bool was_asked = std::exchange(asked_, false);
  if (event.peer == stream::proc_null) co_return;
  const bool polling = was_asked ? asked_again_ : !event.waited && is_polling();
  if (polling && !was_asked) forget_look_in_vain();
  if (was_asked && !polling) compare(event.found == (decided_message_ != nullptr), !event.found);
  const Pattern asked = pattern(group(event.communicator), event.peer, event.tag);
  if (!event.waited && !event.found) {
    co_await look_in_vain(polling || was_asked);
    if (!polling) endpoint_.probed_in_vain(asked);
    co_return;
  }
  const bool any = event.peer == stream::any || event.tag == stream::any;
  if (any) ++dependence_.from_any;
  const auto& seen = outcome ? *outcome : stream::Outcome{0, event.peer, event.tag, 0};
  const Pattern message = pattern(group(event.communicator), seen.peer, seen.tag);
  const Message* const decided = was_asked ? decided_message_ : nullptr;
  if (decided) compare(message.takes(decided->from->rank(), decided->tag, decided->context), false);
  const bool waited = event.waited || polling;
  const std::optional<Pattern> by_time = any || !waited ? std::optional(asked) : std::nullopt;
  if (was_asked)
    co_await endpoint_.probed(message, by_time, waited, asked_since_);
  else
    co_await endpoint_.probe(message, by_time, waited);
}

}  // namespace nearfield::sim::replay
