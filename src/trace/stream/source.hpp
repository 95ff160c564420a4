// The interface for reading a stream: batches of accesses, and the events between them, in order. StreamReader
// implements it for files; tests have other implementations. A source is read once, from its beginning, by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trace/stream/events.hpp"

namespace nearfield::stream {

// The role of a load in the dependences between loads that have been found so far (events.hpp, Dependence).
enum class LoadRole : std::uint8_t {
  independent,
  index,   // returns the index or pointer from which the addresses of `gather` loads follow
  gather,  // takes its address from an `index` load
  chain,   // takes its address from a load that depends on this one's earlier data: the next element of a list
};

struct Reference {
  std::uint64_t address = 0;  // virtual address in the observed process
  std::uint32_t bytes = 0;
  bool is_store = false;
  LoadRole role = LoadRole::independent;
  std::uint32_t site = 0;  // index in StreamReader::sites()
};

//   while (true) {
//     while (const auto count = source.read_accesses(batch)) ... batch[0] to batch[count - 1]
//     const Event* event = source.next_event();
//     if (!event) break;  // the stream is over
//   }
class StreamSource {
 public:
  virtual ~StreamSource() = default;
  // Reads accesses up to the next event, at most out.size(). Returns the number of accesses read; 0 if an event or the
  // end of the stream is next. If the bytes are invalid, throws std::runtime_error with the name of the file.
  virtual std::size_t read_accesses(std::span<Reference> out) = 0;
  // Call it when read_accesses() has returned 0. Returns the next event, which remains valid until the next call of
  // either function; nullptr at the end of the stream. Throws as read_accesses() does.
  virtual const Event* next_event() = 0;
};

}  // namespace nearfield::stream
