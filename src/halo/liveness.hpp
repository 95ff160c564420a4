// Detects that a neighbour for which a rank waits has died or exceeds the time limit.
#pragma once

#include <cstdint>

#include "halo/node.hpp"

namespace nearfield::halo {

/// Watches one neighbour at a time.
class Liveness {
 public:
  Liveness(const Node& node, double limit_s);

  /// Called repeatedly while this rank waits for the local rank `local`; checks every 20 ms whether the process of that
  /// rank exists. Throws Error(lost) if it has died, and Error(late) if the wait exceeds the limit, with the text that
  /// the neighbour "has not `what` `phase`".
  void check_peer(int local, const char* what, std::uint64_t phase);
  /// Ends the wait; the next check_peer() begins a new wait.
  void end_wait() { waiting_since_s_ = 0; }

 private:
  const Node& node_;
  double limit_s_;
  bool can_see_processes_;  ///< false if ranks have separate process namespaces, so that neighbours cannot be watched
  double waiting_since_s_ = 0, checked_at_s_ = 0;
};

}  // namespace nearfield::halo
