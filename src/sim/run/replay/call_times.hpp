// A breakdown of a rank's simulated time into time in MPI calls, by function and call site, and time between calls.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/config_clock.hpp"
#include "sim/node/perf_counters.hpp"
#include "sim/run/replay/timeline.hpp"
#include "trace/stream/events.hpp"

namespace nearfield::sim::replay {

// The sum of several intervals of time, and of the core's PerfCounters during them (of the first policy, if the run has
// count_sides).
struct TimeSpent {
  std::uint64_t times = 0;  // number of intervals
  ConfigClock time;
  PerfCounters counters;
};

// The begin and the end of one MPI call.
struct CallInterval {
  Ps begin = 0, end = 0;
};

class CallTimes {
 public:
  // An MPI function and the call site.
  struct CallKey {
    stream::Number name = 0, call_site = 0;
    friend auto operator<=>(const CallKey&, const CallKey&) = default;
  };

  // Stores the interval of each call, with the times of this variant at the first memory speed, if it is given.
  CallTimes(int variants, std::optional<int> stored_variant)
      : variants_(variants), stored_variant_(stored_variant), computing_{0, ConfigClock(variants), {}} {}

  // Called with the current clock and counters. restart_interval(): timing begins or resumes. add_compute_time(): an
  // MPI call begins, or timing pauses. add_call_time(): an MPI call ends.
  void restart_interval(const ConfigClock& now, const PerfCounters& counters) {
    since_ = now, counters_since_ = counters;
  }
  void add_compute_time(const ConfigClock& now, const PerfCounters& counters) {
    add_interval(computing_, now, counters);
  }
  void add_call_time(const CallKey& call, const ConfigClock& now, const PerfCounters& counters) {
    timeline_.add_interval(call, since_.first(), now.first());
    if (stored_variant_) intervals_[call].push_back({since_[*stored_variant_][0], now[*stored_variant_][0]});
    add_interval(calls_.try_emplace(call, TimeSpent{0, ConfigClock(variants_), {}}).first->second, now, counters);
  }

  const TimeSpent& compute_time() const { return computing_; }
  const std::map<CallKey, TimeSpent>& times_by_call() const { return calls_; }
  Timeline<CallKey>& timeline() { return timeline_; }
  // Returns the intervals of a call, in order; empty if they are not stored.
  const std::vector<CallInterval>& intervals_of(const CallKey& call) { return intervals_[call]; }

 private:
  void add_interval(TimeSpent& spent, const ConfigClock& now, const PerfCounters& counters) {
    ++spent.times;
    spent.time += now - since_;
    spent.counters += counters - counters_since_;
    restart_interval(now, counters);
  }

  int variants_;
  std::optional<int> stored_variant_;
  TimeSpent computing_;
  std::map<CallKey, TimeSpent> calls_;
  std::map<CallKey, std::vector<CallInterval>> intervals_;
  Timeline<CallKey> timeline_;
  ConfigClock since_;
  PerfCounters counters_since_;
};

}  // namespace nearfield::sim::replay
