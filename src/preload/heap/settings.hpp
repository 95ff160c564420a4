// The settings of this library, which the launcher passes in one environment variable:
//
//   NEARFIELD_HEAP="stream=65536-262144+16777216-"
//
// Keys are separated by commas and optional. `nearfield run` sets the variable from rules.toml;
// docs/reference/environment.md describes the keys.
#pragma once

#include <cstddef>

namespace nearfield::heap {

// A set of message sizes in bytes, as inclusive ranges; the last range may have no upper bound.
struct MessageSizes {
  static constexpr int max_ranges = 8;
  struct Range {
    std::size_t from, upto;
  };
  Range range[max_ranges] = {};
  int count = 0;

  bool contains(std::size_t bytes) const {
    for (int i = 0; i < count; ++i)
      if (bytes >= range[i].from && bytes <= range[i].upto) return true;
    return false;
  }
};

struct Settings {
  std::size_t enabled = 1;             // key `on`; 0: the library does nothing
  std::size_t min_block_bytes = 8192;  // key `from`: shorter blocks stay in the C library's heap
  std::size_t far_threshold_ns = 150;  // key `far_ns`: cache line latency from which on a peer is far
  std::size_t huge = 1;                // 0: never requests huge pages
  std::size_t at_start = 0;            // 1: the heap opens at program start, not when MPI has been initialized
  std::size_t share_first = 0;         // 1: pages are shared at the first message through them, not at the second
  MessageSizes stream{{{16777216, static_cast<std::size_t>(-1)}}, 1};        // copied by streaming stores
  MessageSizes stream_when_far{{{16384, static_cast<std::size_t>(-1)}}, 1};  // key `far_stream`: the same for far peers
  MessageSizes cooperate{{{32768, static_cast<std::size_t>(-1)}}, 1};        // key `help`: cooperative copies
  static constexpr std::size_t key_bytes = 32;
  char key[key_bytes] = {};  // of the job (copy_service.hpp), without a final '\0'; begins with '\0' if there is none
  char report[256] = "";     // a folder in which every process writes a report when it ends
};

// Parses the value of NEARFIELD_HEAP. Reports invalid parts on standard error and ignores them.
void read_settings(const char* text, Settings& settings);

// Returns whether every part of a text is valid, and none names a folder for reports, as in rules for other users.
bool are_valid_settings(const char* text);

// Reads the job's key from the value of NEARFIELD_HEAP_KEY. Ignores a value whose length is not key_bytes.
void read_job_key(const char* text, Settings& settings);

}  // namespace nearfield::heap
