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
// needs_core_counters).
struct TimeSpent {
  std::uint64_t num_intervals = 0;  // number of intervals
  ConfigClock time;
  PerfCounters counters;
};

// The start and the end of one MPI call.
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

  // If `stored_variant` is given, stores the interval of each call, with the times of this variant at the first memory
  // speed.
  CallTimes(int variants, std::optional<int> stored_variant)
      : num_variants_(variants), stored_variant_(stored_variant), compute_time_{0, ConfigClock(variants), {}} {}

  // Must be called with the current clock and counters: restart_interval() when timing begins or resumes,
  // add_compute_time() when an MPI call begins or timing pauses, add_call_time() when an MPI call ends.
  void restart_interval(const ConfigClock& now, const PerfCounters& counters) {
    interval_begin_ = now, counters_at_begin_ = counters;
  }
  void add_compute_time(const ConfigClock& now, const PerfCounters& counters) {
    add_interval(compute_time_, now, counters);
  }
  void add_call_time(const CallKey& call, const ConfigClock& now, const PerfCounters& counters) {
    timeline_.add_interval(call, interval_begin_.first(), now.first());
    if (stored_variant_) intervals_[call].push_back({interval_begin_[*stored_variant_][0], now[*stored_variant_][0]});
    add_interval(times_by_call_.try_emplace(call, TimeSpent{0, ConfigClock(num_variants_), {}}).first->second, now,
                 counters);
  }

  const TimeSpent& compute_time() const { return compute_time_; }
  const std::map<CallKey, TimeSpent>& times_by_call() const { return times_by_call_; }
  Timeline<CallKey>& timeline() { return timeline_; }
  // Returns the intervals of a call, in order; empty if they are not stored.
  const std::vector<CallInterval>& intervals_of(const CallKey& call) { return intervals_[call]; }

 private:
  void add_interval(TimeSpent& spent, const ConfigClock& now, const PerfCounters& counters) {
    ++spent.num_intervals;
    spent.time += now - interval_begin_;
    spent.counters += counters - counters_at_begin_;
    restart_interval(now, counters);
  }

  int num_variants_;
  std::optional<int> stored_variant_;
  TimeSpent compute_time_;
  std::map<CallKey, TimeSpent> times_by_call_;
  std::map<CallKey, std::vector<CallInterval>> intervals_;
  Timeline<CallKey> timeline_;
  ConfigClock interval_begin_;
  PerfCounters counters_at_begin_;
};

}  // namespace nearfield::sim::replay
