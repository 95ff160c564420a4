// The stream of one process: its accesses and events, the objects that their places are in, and at the end all places. It
// is compiled into the library of hooks and into Valgrind's tool, which each bring a platform; so it needs no C++ library.
#pragma once

#include <string.h>

#include <initializer_list>

#include "stream/encoder.hpp"
#include "stream/event_number.hpp"

namespace nearfield::observe {

// The executable or a shared library in memory; `base` is what its addresses are ahead of those in its file.
struct Object {
  std::uint64_t begin = 0, end = 0, base = 0;
  const char* path = "code made at run time";
};
struct Place {
  std::uint64_t object = 0, offset = 0;  // as addr2line takes it
};

namespace platform {
// Returns zeroed memory that is never given back; without any, the process ends.
void* memory(std::uint64_t bytes);
// Returns the object that has this address of code, or one of this address alone. Its path stays.
Object object_at(std::uint64_t code);
// Writes an event behind the accesses so far.
void event(const unsigned char* bytes, std::uint64_t size);
// Writes a chunk of the stream. The first failure gives a message, and then nothing is written any more.
void write_chunk(const unsigned char* raw, std::uint32_t bytes, std::uint64_t accesses);
}  // namespace platform

__attribute__((visibility("hidden"))) extern stream::Encoder encoder;

void begin_stream();
// Returns where an address of code is, after an Object event if it is in a new object.
Place place_of(std::uint64_t code);
// Returns the number of the object of a place from which MPI is called, and the offset in it. It will be among the sites.
std::uint64_t mentioned(std::uint64_t code, std::uint64_t& offset);
// Writes the Sites event, in a chunk of its own.
void end_stream();

inline unsigned char* put_text(unsigned char* to, const char* text) {
  const std::size_t length = strlen(text);
  to = stream::put(to, length);
  memcpy(to, text, length);
  return to + length;
}

// Writes an event of one number and a text, which is a path of a file or a sentence.
template <class Event>
void event_with_text(std::uint64_t first, const char* text) {
  static unsigned char bytes[4096 + 64];
  unsigned char* const end = put_text(stream::put(stream::put(bytes, stream::number_of<Event>), first), text);
  platform::event(bytes, static_cast<std::uint64_t>(end - bytes));
}

template <class Event>
void event_of_numbers(std::initializer_list<std::uint64_t> numbers) {
  unsigned char bytes[64];
  unsigned char* end = stream::put(bytes, stream::number_of<Event>);
  for (const std::uint64_t number : numbers) end = stream::put(end, number);
  platform::event(bytes, static_cast<std::uint64_t>(end - bytes));
}

// Writes, once, that threads of the program beside the recorded one accessed memory.
void tell_threads();
// Writes that the function that is the region was entered, or was left.
void tell_region(const char* name, bool begins);

}  // namespace nearfield::observe
