// The format of a live simulation's messages to a rank. The first word is a ReplyKind, the second the number of words
// that follow.
#pragma once

#include <cstdint>

namespace nearfield::stream {

enum class ReplyKind : std::int64_t {
  matched,  // a receive's request, and its message's source and tag; sent without a query as soon as it is known
  done,     // indices, among the queried requests, of those that have completed
  message,  // source and tag of the message that a probe finds; empty if it finds none
  clock,    // simulated time since the start, in picoseconds
};

}  // namespace nearfield::stream
