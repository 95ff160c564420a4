// Detects that a neighbour for which a rank waits has died or exceeds the time limit.
#pragma once

#include <cstdint>

#include "halo/node.hpp"

namespace nearfield::halo {

/// Watches one neighbour at a time.
class PeerLiveness {
 public:
  PeerLiveness(const Node& node, double limit_s);

  /// Called repeatedly while this rank waits for `local_rank`; checks every 20 ms whether that rank's process still
  /// exists. Throws Error(lost) if the process has died, and Error(late) if the wait exceeds the time limit. `action`
  /// and `phase` complete the message of Error(late): "started phase" and 12 give "rank 3 has not started phase 12".
  void check_peer(int local_rank, const char* action, std::uint64_t phase);
  /// Ends the current wait; the next check_peer() begins a new wait.
  void end_wait() { waiting_since_s_ = 0; }

 private:
  const Node& node_;
  double wait_limit_s_;
  bool can_see_processes_;  ///< false if ranks have separate process namespaces, so that neighbours cannot be watched
  double waiting_since_s_ = 0, last_check_s_ = 0;
};

}  // namespace nearfield::halo
