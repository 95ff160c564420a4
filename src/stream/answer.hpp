// The format of what a simulation tells a rank that runs meanwhile. The first word says what it is (Told), and the second
// one how many words follow.
#pragma once

#include <cstdint>

namespace nearfield::stream {

enum class Told : std::int64_t {
  matched,  // a receive's request, and the source and tag of its message; unasked, as soon as it is known
  done,     // the places of those that are done among the requests that the rank asked about
  message,  // source and tag of the message that a probe finds; nothing if it finds none
  clock,    // the picoseconds since the beginning
};

}  // namespace nearfield::stream
