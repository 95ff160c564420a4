// Detects whether a neighbour that a rank waits for has died or exceeds the time limit.
#pragma once

#include <cstdint>

#include "halo/node.hpp"

namespace nearfield::halo {

/// Serves one wait at a time.
class Liveness {
 public:
  Liveness(const Node& node, double limit_s);

  /// Called repeatedly while a rank waits for the local rank `local`; checks every 20 ms whether its process exists.
  /// Throws Error(lost) if it has died, and Error(late) when the wait exceeds the limit, with the text that the
  /// neighbour "has not `what` `phase`".
  void check(int local, const char* what, std::uint64_t phase);
  /// Ends the wait; the next check() begins another.
  void arrived() { waiting_since_s_ = 0; }

 private:
  const Node& node_;
  double limit_s_;
  bool processes_seen_;  ///< false in separate process namespaces, where neighbours cannot be watched
  double waiting_since_s_ = 0, checked_at_s_ = 0;
};

}  // namespace nearfield::halo
