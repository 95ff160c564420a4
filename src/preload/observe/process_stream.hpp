// The stream of one process: its accesses and events, the objects that contain its code locations, and at the end all
// locations. It is compiled into the hook library and into Valgrind's tool, each of which implements `platform`; so it
// needs no C++ library.
#pragma once

#include <string.h>

#include <initializer_list>

#include "trace/stream/encoder.hpp"
#include "trace/stream/event_number.hpp"

namespace nearfield::observe {

// The executable or a shared library in memory; `base` is the difference between addresses and file offsets.
struct Object {
  std::uint64_t begin = 0, end = 0, base = 0;
  const char* path = "code made at run time";
};
struct CodeLocation {
  std::uint64_t object = 0, offset = 0;  // as addr2line takes it
};

namespace platform {
// Returns zeroed memory that is never freed. Ends the process if there is none.
void* memory(std::uint64_t bytes);
// Returns the object that contains this code address, or an object of this address alone. Its path remains valid.
Object object_at(std::uint64_t code);
// Writes an event after the accesses so far.
void event(const unsigned char* bytes, std::uint64_t size);
// Writes a chunk of the stream. The first failure prints a message; nothing is written after that.
void write_chunk(const unsigned char* raw, std::uint32_t bytes, std::uint64_t accesses);
}  // namespace platform

__attribute__((visibility("hidden"))) extern stream::Encoder encoder;

void begin_stream();
// Returns the location of a code address. Writes an Object event first if its object is new.
CodeLocation code_location(std::uint64_t code);
// Returns the object of a code address from which MPI is called, and its offset. Sites will list it, once.
std::uint64_t emit_location_once(std::uint64_t code, std::uint64_t& offset);
// Writes the Sites event in a chunk of its own.
void end_stream();

inline unsigned char* put_text(unsigned char* to, const char* text) {
  const std::size_t length = strlen(text);
  to = stream::put_number(to, length);
  memcpy(to, text, length);
  return to + length;
}

// Writes an event that consists of a number and a text: a file's path or a sentence.
template <class Event>
void event_with_text(std::uint64_t first, const char* text) {
  static unsigned char bytes[4096 + 64];
  unsigned char* const end =
      put_text(stream::put_number(stream::put_number(bytes, stream::event_kind_number<Event>), first), text);
  platform::event(bytes, static_cast<std::uint64_t>(end - bytes));
}

template <class Event>
void event_of_numbers(std::initializer_list<std::uint64_t> numbers) {
  unsigned char bytes[64];
  unsigned char* end = stream::put_number(bytes, stream::event_kind_number<Event>);
  for (const std::uint64_t number : numbers) end = stream::put_number(end, number);
  platform::event(bytes, static_cast<std::uint64_t>(end - bytes));
}

// Records, once, that threads other than the recorded one accessed memory.
void record_other_threads();
// Records that the function that is the region was entered or left.
void record_region(const char* name, bool begins);

}  // namespace nearfield::observe
