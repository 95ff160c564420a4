// The format of messages from a live simulation to a rank: the first word is a ReplyKind, the second the number of
// words that follow.
#pragma once

#include <cstdint>

namespace nearfield::stream {

enum class ReplyKind : std::int64_t {
  // request of a receive, source and tag of its message; sent when the receive matches, without a query
  matched_receive,
  completed_requests,  // indices of the completed requests in the list of queried requests
  probed_message,      // source and tag of the message that a probe finds; no words if it finds none
  simulated_time,      // simulated time since the start, in picoseconds
};

}  // namespace nearfield::stream
