// The schedule of a simulated rank: how long it worked, what it sent and what it waited for, in the order of its
// program. A wait names the step that ended it, so the schedules of all ranks form a graph, from which another
// simulator can compute the times with another network. Times are those of one variant at the first memory speed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/engine/config_clock.hpp"

namespace nearfield::sim {

// Identifies a step of a rank. Steps count from 1; 0 means no step.
struct StepId {
  int rank = 0;
  std::uint32_t step = 0;
};

struct ScheduleStep {
  enum class Kind : std::uint8_t {
    notify,  // the rank wrote a packet into shared memory that a rank of its node polls
    send,    // the rank posted a transfer of `bytes` bytes to the rank `peer` of another node
    wait,    // the rank needed the packet of the step `origin`
    end,     // the rank's program ended
  };
  Kind kind = Kind::end;
  Ps begin = 0, end = 0;  // the rank worked during this interval, then took the step
  int peer = 0;
  std::uint64_t bytes = 0;
  // Members of waits. A wait for a send of the rank's own ends when the NIC has read the data.
  StepId origin;
  // Latency of the two NICs and of the network for a packet from another node, without the transmission time of its
  // bytes and without waiting for links, in variant 0. Zero for a packet from the same node.
  Ps latency = 0;
};

class Schedule {
 public:
  Schedule(int rank, int variant) : rank_(rank), variant_(variant) {}

  // Each function is called with the rank's clock.
  StepId add_notify(const ConfigClock& now) { return add_step({.kind = ScheduleStep::Kind::notify}, now); }
  StepId add_send(const ConfigClock& now, int peer, std::uint64_t bytes) {
    return add_step({.kind = ScheduleStep::Kind::send, .peer = peer, .bytes = bytes}, now);
  }
  // Adds a wait for a packet that becomes visible at `visible_time`, which may be past. A wait without origin counts as
  // work.
  void add_wait(StepId origin, Ps latency, const ConfigClock& now, const ConfigClock& visible_time) {
    if (origin.step == 0) return;
    add_step({.kind = ScheduleStep::Kind::wait, .origin = origin, .latency = latency}, now);
    work_begin_ = std::max(work_begin_, time_of(visible_time));
  }
  // Ends the schedule, and returns its steps.
  std::vector<ScheduleStep> end(const ConfigClock& now) {
    add_step({}, now);
    return std::move(steps_);
  }

  // Returns the time of the recorded variant at the first memory speed.
  Ps time_of(const ConfigClock& clock) const { return clock[variant_][0]; }

 private:
  StepId add_step(ScheduleStep step, const ConfigClock& now) {
    step.begin = work_begin_;
    step.end = work_begin_ = time_of(now);
    steps_.push_back(step);
    return {rank_, static_cast<std::uint32_t>(steps_.size())};
  }

  int rank_, variant_;
  Ps work_begin_ = 0;  // begin of the work that the next step ends
  std::vector<ScheduleStep> steps_;
};

}  // namespace nearfield::sim
