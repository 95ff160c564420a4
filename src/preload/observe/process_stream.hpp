// The stream of one process: its memory accesses and events, the objects (executable and shared libraries) that contain
// its code locations, and at the end the list of all locations. Compiled into the hook library and into Valgrind's
// tool, each of which implements `platform`. Does not need the C++ library.
#pragma once

#include <string.h>

#include <initializer_list>

#include "trace/stream/encoder.hpp"
#include "trace/stream/event_number.hpp"

namespace nearfield::observe {

// The executable or a shared library in memory. `base` is the difference between addresses in memory and the offsets in
// the file that addr2line takes.
struct LoadedObject {
  std::uint64_t begin = 0, end = 0, base = 0;
  const char* path = "code made at run time";
};
struct CodeLocation {
  std::uint64_t object = 0, offset = 0;  // `object`: number of the object; `offset`: for addr2line
};

namespace platform {
// Returns zeroed memory that is never freed. Aborts the process if there is no memory.
void* allocate_zeroed(std::uint64_t bytes);
// Returns the object that contains the code address; if there is none, an object that contains only this address. The
// object's path remains valid.
LoadedObject object_at(std::uint64_t code);
// Appends an event to the stream, after the accesses recorded so far.
void write_event(const unsigned char* bytes, std::uint64_t size);
// Writes a chunk of the stream that contains `accesses` accesses. The first failure prints a message; later calls do
// nothing.
void write_chunk(const unsigned char* raw, std::uint32_t bytes, std::uint64_t accesses);
}  // namespace platform

__attribute__((visibility("hidden"))) extern stream::Encoder encoder;

// Records an access before the program makes it. For a load of 4 or 8 bytes, reads the loaded value as well.
inline void record_in_stream(stream::Encoder::SiteKey key, std::uint64_t address) {
  if (key.kind == stream::load8) {
    std::uint64_t value;
    __builtin_memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
    encoder.encode_load(key, address, value);
  } else if (key.kind == stream::load4) {
    std::uint32_t value;
    __builtin_memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
    encoder.encode_load(key, address, value);
  } else {
    encoder.encode_access(key, address);
  }
}

void begin_stream();
// Returns the object and the offset of a code address. If the object is new, writes an Object event first.
CodeLocation resolve_code_location(std::uint64_t code);
// Returns the number of the object that contains `code`, a code address from which MPI is called, and sets `offset`.
// Adds the address to the Sites event, once.
std::uint64_t resolve_mpi_call_site(std::uint64_t code, std::uint64_t& offset);
// Writes the Sites event, which lists all objects and code locations, in a separate chunk.
void end_stream();

inline unsigned char* put_text(unsigned char* to, const char* text) {
  const std::size_t length = strlen(text);
  to = stream::put_number(to, length);
  memcpy(to, text, length);
  return to + length;
}

// Writes an event that consists of a number and a text, such as the path of a file.
template <class Event>
void write_event_with_text(std::uint64_t number, const char* text) {
  static unsigned char bytes[4096 + 64];
  unsigned char* const end =
      put_text(stream::put_number(stream::put_number(bytes, stream::event_kind_number<Event>), number), text);
  platform::write_event(bytes, static_cast<std::uint64_t>(end - bytes));
}

template <class Event>
void write_event_of_numbers(std::initializer_list<std::uint64_t> numbers) {
  unsigned char bytes[64];
  unsigned char* end = stream::put_number(bytes, stream::event_kind_number<Event>);
  for (const std::uint64_t number : numbers) end = stream::put_number(end, number);
  platform::write_event(bytes, static_cast<std::uint64_t>(end - bytes));
}

// Records that a thread other than the recorded thread has accessed memory. Further calls do nothing.
void record_other_threads();
// Records that the function to which recording is restricted was entered (`begins`) or left.
void record_region(const char* name, bool begins);

}  // namespace nearfield::observe
