// A stream as seen by its readers: batches of accesses, and the events between them, in order. Reader is the
// implementation for files; tests make their own. A source is read once, from its beginning, by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trace/stream/events.hpp"

namespace nearfield::stream {

struct Reference {
  std::uint64_t address = 0;  // in the rank's process
  std::uint32_t bytes = 0;
  bool store = false;
  std::uint32_t site = 0;  // index of the code location
};

//   while (true) {
//     while (const auto count = source.accesses(batch)) ... batch[0] to batch[count - 1]
//     const Event* event = source.event();
//     if (!event) break;  // the stream is over
//   }
class Source {
 public:
  virtual ~Source() = default;
  // Reads accesses up to the next event, at most as many as fit in `out`. Returns their number; 0 if an event or the
  // end of the stream is next. Throws std::runtime_error, with the name of the file, if the bytes are invalid.
  virtual std::size_t accesses(std::span<Reference> out) = 0;
  // To be called when accesses() has returned 0. Returns the next event, which remains valid until the next call of
  // either function; nullptr at the end of the stream. Throws as accesses() does.
  virtual const Event* event() = 0;
};

}  // namespace nearfield::stream
