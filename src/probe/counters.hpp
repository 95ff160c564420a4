// Counts events during run_timed() by perf_event_open: software events (page faults, context switches) always, hardware
// events if the machine supports them. For an event that cannot be counted, the reason is known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nearfield::probe {

class EventCounters {
 public:
  EventCounters();
  ~EventCounters();
  EventCounters(const EventCounters&) = delete;
  EventCounters& operator=(const EventCounters&) = delete;

  struct Event {
    std::string name;
    std::string unsupported_reason;  ///< why the event cannot be counted; empty if it can be
    int fd = -1;
  };
  const std::vector<Event>& events() const { return events_; }

  void start();
  /// Returns the counts since start(), in the order of events(); -1 for an event that cannot be counted.
  std::vector<std::int64_t> stop();

 private:
  std::vector<Event> events_;
  std::vector<std::int64_t> counts_at_start_;
};

}  // namespace nearfield::probe
