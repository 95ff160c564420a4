// The format of messages from a live simulation to a rank: the first word is a ReplyKind, the second the number of
// words that follow.
#pragma once

#include <cstdint>

namespace nearfield::stream {

enum class ReplyKind : std::int64_t {
  matched,  // request of a receive, source and tag of its message; sent when the receive matches, without a query
  done,     // indices of the completed requests in the list of queried requests
  message,  // source and tag of the message that a probe finds; no words if it finds none
  clock,    // simulated time since the start, in picoseconds
};

}  // namespace nearfield::stream
