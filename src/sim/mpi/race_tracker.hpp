// Tracks the matches of one rank that depend on timing: those of receives and probes that would have matched another
// message if the messages had arrived in the order of another configuration.
#pragma once

#include <deque>
#include <vector>

#include "sim/mpi/match_queues.hpp"
#include "sim/mpi/race_statistics.hpp"

namespace nearfield::sim {

// The match of a receive or a probe. Another message that arrives before `limit` would have matched instead.
struct MatchChoice {
  Pattern program_pattern;
  int from;
  std::uint64_t number;  // receives with lower numbers were posted before
  ConfigClock limit;
  ConfigMask divergent_configs = 0;
  bool is_unmatched_probe = false;
};

class RaceTracker {
 public:
  explicit RaceTracker(const MatchQueues& queues) : queues_(queues) {}

  RaceStatistics& statistics() { return statistics_; }
  // Returns the number of receives with a forced match that could have matched another message.
  std::uint64_t ambiguous_matches() const { return ambiguous_matches_; }
  // Must be called for a receive with a forced match, before the receive is matched or posted.
  void record_forced_match(RequestState& receive);
  // Must be called for each message that arrives, with the posted receive that it matches, or nullptr.
  void record_arrival(const Message& message, RequestState* receive);
  // Counts the configurations in which, of the messages that have arrived, another one than `matched_message` would
  // have matched. Stores the choice for messages that arrive later.
  void record_choice(MatchChoice choice, const Message* matched_message);
  // Removes the choice of the last unmatched probe, if no other choice followed.
  void discard_unmatched_probe();

 private:
  static constexpr std::size_t max_recent_choices = 32;
  void count_ambiguous_match(RequestState& receive);

  const MatchQueues& queues_;
  std::vector<RequestState*> forced_receives_;  // receives with a forced match, not yet matched
  std::uint64_t ambiguous_matches_ = 0;
  RaceStatistics statistics_;
  std::deque<MatchChoice> recent_choices_;  // the last max_recent_choices
};

}  // namespace nearfield::sim
