// Counts a rank's calls whose outcome depends on timing, and the configurations in which the outcome would differ.
#pragma once

#include "sim/run/replay/requests.hpp"

namespace nearfield::sim::replay {

struct TimingSensitivity {
  std::uint64_t from_any = 0;           // receives with MPI_ANY_SOURCE or MPI_ANY_TAG
  std::uint64_t ambiguous_matches = 0;  // of `from_any`: another message would have matched, too
  std::uint64_t polls = 0;              // Test, Testany, Iprobe ...
  std::uint64_t failed_polls = 0;       // of `polls`: no request was complete
  std::uint64_t waits_for_any = 0;      // Waitany, Waitsome with more than one request
  RaceStatistics races;                 // of all outcomes counted here, except polling loops, which count as waits
};

class RaceCounter {
 public:
  RaceCounter(Endpoint& endpoint, Requests& requests) : endpoint_(endpoint), requests_(requests) {}

  void count_wildcard_receive() { ++sensitivity_.from_any; }
  void count_poll() { ++sensitivity_.polls; }
  void count_failed_poll() { ++sensitivity_.failed_polls; }
  void count_wait_for_any() { ++sensitivity_.waits_for_any; }
  // Counts a divergence unless the recorded result is the same as that of the first configuration (`is_same`).
  // `is_failed_poll`: the recorded call was a poll that failed.
  void compare_with_recorded(bool is_same, bool is_failed_poll);
  // Removes the last failed poll from the races, since a polling loop counts as a wait.
  void discard_failed_poll();
  // Counts the configurations in which the call, which began at `begin`, would have returned other requests; further
  // configurations are counted when the open requests complete. `name`: the MPI function. `ready_times`: the completion
  // times of the returned requests.
  void count_alternatives(const stream::RequestsTested& event, const std::string& name, bool waited,
                          const ConfigClock& begin, const std::vector<ConfigClock>& ready_times);
  TimingSensitivity timing_sensitivity() const;

 private:
  Endpoint& endpoint_;
  Requests& requests_;
  TimingSensitivity sensitivity_;
  std::shared_ptr<RecordedChoice> failed_poll_;  // the last failed poll; nullptr: none, or discarded
  bool failed_poll_diverged_ = false;            // the last failed poll would have succeeded in the first configuration
};

}  // namespace nearfield::sim::replay
