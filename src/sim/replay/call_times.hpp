// Where a rank's simulated time went: in its calls of MPI, by function and call site, and between them.
#pragma once

#include <map>
#include <utility>

#include "sim/clock.hpp"
#include "sim/replay/timeline.hpp"
#include "sim/seen.hpp"
#include "stream/events.hpp"

namespace nearfield::sim::replay {

// Time that was spent, and what the rank's core saw in it (Seen of the first policy, if the run counts sides).
struct Spent {
  std::uint64_t times = 0;  // how often
  Clock time;
  Seen seen;
};

class CallTimes {
 public:
  // A function of MPI, and the place from which it was called.
  struct Call {
    stream::Number name = 0, call_site = 0;
    friend auto operator<=>(const Call&, const Call&) = default;
  };

  explicit CallTimes(int variants) : variants_(variants), computing_{0, Clock(variants), {}} {}

  // Is called with the clock and all that the core has seen so far, whenever a call begins or ends, and when timing
  // begins again or pauses.
  void go_on(const Clock& now, const Seen& seen) { since_ = now, seen_since_ = seen; }
  void computed(const Clock& now, const Seen& seen) { add(computing_, now, seen); }
  void called(const Call& call, const Clock& now, const Seen& seen) {
    timeline_.add(call, since_.first(), now.first());
    add(calls_.try_emplace(call, Spent{0, Clock(variants_), {}}).first->second, now, seen);
  }

  const Spent& computing() const { return computing_; }
  const std::map<Call, Spent>& calls() const { return calls_; }
  Timeline<Call>& timeline() { return timeline_; }

 private:
  void add(Spent& spent, const Clock& now, const Seen& seen) {
    ++spent.times;
    spent.time += now - since_;
    spent.seen += seen - seen_since_;
    go_on(now, seen);
  }

  int variants_;
  Spent computing_;
  std::map<Call, Spent> calls_;
  Timeline<Call> timeline_;
  Clock since_;
  Seen seen_since_;
};

}  // namespace nearfield::sim::replay
