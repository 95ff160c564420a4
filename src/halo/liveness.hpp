// Checks whether a neighbour that a rank waits for still lives, and comes within the time limit.
#pragma once

#include <cstdint>

#include "halo/node.hpp"

namespace nearfield::halo {

/// Serves one wait at a time.
class Liveness {
 public:
  Liveness(const Node& node, double limit_s);

  /// Is called repeatedly while a rank waits for the local rank `local`, and looks every 20 ms whether its process
  /// exists. Throws Error(lost) if it has died, and Error(late) once the wait has lasted for the limit, whose text says
  /// that the neighbour "has not `what` `phase`".
  void look(int local, const char* what, std::uint64_t phase);
  /// The wait has ended; the next look() begins another.
  void arrived() { waiting_since_s_ = 0; }

 private:
  const Node& node_;
  double limit_s_;
  bool processes_seen_;  ///< false in separate process namespaces, where neighbours cannot be watched
  double waiting_since_s_ = 0, looked_at_s_ = 0;
};

}  // namespace nearfield::halo
