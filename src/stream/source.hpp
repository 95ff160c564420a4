// A stream as its readers see it: accesses many at a time, and the events between them, in order. The decoder of files
// is one; tests make their own. One thread reads a source, once, from its beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stream/events.hpp"

namespace nearfield::stream {

struct Reference {
  std::uint64_t address = 0;  // of the rank's process
  std::uint32_t bytes = 0;
  bool store = false;
  std::uint32_t site = 0;  // the place in the program, counted by the stream
};

//   while (true) {
//     while (const auto count = source.accesses(batch)) ... batch[0] to batch[count - 1]
//     const Event* event = source.event();
//     if (!event) break;  // the stream is over
//   }
class Source {
 public:
  virtual ~Source() = default;
  // Reads accesses up to the next event, as many as `out` has room for at most. Returns how many there were; 0 if an
  // event or the end of the stream comes next. Throws std::runtime_error, which names the file, for broken bytes.
  virtual std::size_t accesses(std::span<Reference> out) = 0;
  // Is called when accesses() returned 0. Returns the next event, which holds until the next call of either function;
  // nullptr at the end of the stream. Throws as accesses() does.
  virtual const Event* event() = 0;
};

}  // namespace nearfield::stream
