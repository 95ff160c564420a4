// SPDX-License-Identifier: GPL-2.0-or-later
// The half of the Valgrind tool that writes the stream, by the encoder of the hook library (process_stream.hpp) and
// Valgrind's replacements for the C library. Chunks are not compressed.
#include "preload/observe/process_stream.hpp"
#include "preload/observe/valgrind/tool.h"

using namespace nearfield;
using namespace nearfield::observe;

namespace {
int file = -1;
}

void* platform::allocate_zeroed(std::uint64_t bytes) { return nearfield_allocate_zeroed(bytes); }

void platform::write_event(const unsigned char* bytes, std::uint64_t size) { encoder.encode_event(bytes, size); }

LoadedObject platform::object_at(std::uint64_t code) {
  LoadedObject found;
  found.begin = found.end = code;
  nearfield_find_object(code, &found.begin, &found.end, &found.base, &found.path);
  return found;
}

void platform::write_chunk(const unsigned char* raw, std::uint32_t bytes, std::uint64_t accesses) {
  stream::ChunkHeader header;
  header.raw_bytes = header.stored_bytes = bytes;
  header.accesses = accesses;
  header.checksum = stream::checksum(header, raw);
  if (file >= 0 && !(nearfield_write_all(file, &header, sizeof header) && nearfield_write_all(file, raw, bytes)))
    file = -1;
}

void nearfield_begin_stream(int file_descriptor) {
  file = file_descriptor;
  begin_stream();
}
void nearfield_append_event(const unsigned char* bytes, unsigned long size) { encoder.encode_event(bytes, size); }
unsigned long nearfield_resolve_code(unsigned long code, unsigned long* offset) {
  return resolve_mpi_call_site(code, *offset);
}
void nearfield_record_other_threads() { record_other_threads(); }
void nearfield_record_region(const char* name, int begins) { record_region(name, begins); }
void nearfield_finish_chunk() { encoder.finish_chunk(); }
void nearfield_end_stream() { end_stream(); }

void nearfield_record_access(unsigned long code, unsigned long kind, unsigned long address) {
  if (nearfield_is_recording) record_in_stream({code, static_cast<stream::SiteKind>(kind)}, address);
}
void nearfield_record_range(unsigned long code, unsigned long kind, unsigned long address, unsigned long bytes) {
  if (nearfield_is_recording) encoder.encode_range({code, static_cast<stream::SiteKind>(kind)}, address, bytes);
}
