// What a simulation tells a rank that runs meanwhile: words, of which the first is a Told, and the second says how many
// follow.
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
