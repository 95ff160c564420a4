// A breakdown of a rank's simulated time: in MPI calls, by function and call site, and between them.
#pragma once

#include <map>
#include <utility>

#include "sim/engine/config_clock.hpp"
#include "sim/node/perf_counters.hpp"
#include "sim/run/replay/timeline.hpp"
#include "trace/stream/events.hpp"

namespace nearfield::sim::replay {

// A sum of time, and the core's PerfCounters in it (of the first policy, if the run has count_sides).
struct Spent {
  std::uint64_t times = 0;  // number of intervals
  ConfigClock time;
  PerfCounters counters;
};

class CallTimes {
 public:
  // An MPI function and the call site.
  struct Call {
    stream::Number name = 0, call_site = 0;
    friend auto operator<=>(const Call&, const Call&) = default;
  };

  explicit CallTimes(int variants) : variants_(variants), computing_{0, ConfigClock(variants), {}} {}

  // These are called with the current clock and counters: restart() when timing begins or resumes, computed() when a
  // call begins or timing pauses, called() when a call ends.
  void restart(const ConfigClock& now, const PerfCounters& counters) { since_ = now, counters_since_ = counters; }
  void computed(const ConfigClock& now, const PerfCounters& counters) { add(computing_, now, counters); }
  void called(const Call& call, const ConfigClock& now, const PerfCounters& counters) {
    timeline_.add(call, since_.first(), now.first());
    add(calls_.try_emplace(call, Spent{0, ConfigClock(variants_), {}}).first->second, now, counters);
  }

  const Spent& computing() const { return computing_; }
  const std::map<Call, Spent>& calls() const { return calls_; }
  Timeline<Call>& timeline() { return timeline_; }

 private:
  void add(Spent& spent, const ConfigClock& now, const PerfCounters& counters) {
    ++spent.times;
    spent.time += now - since_;
    spent.counters += counters - counters_since_;
    restart(now, counters);
  }

  int variants_;
  Spent computing_;
  std::map<Call, Spent> calls_;
  Timeline<Call> timeline_;
  ConfigClock since_;
  PerfCounters counters_since_;
};

}  // namespace nearfield::sim::replay
