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
  struct SizeRange {
    std::size_t min_bytes, max_bytes;
  };
  SizeRange ranges[max_ranges] = {};
  int num_ranges = 0;

  bool contains(std::size_t bytes) const {
    for (int i = 0; i < num_ranges; ++i)
      if (bytes >= ranges[i].min_bytes && bytes <= ranges[i].max_bytes) return true;
    return false;
  }
};

struct Settings {
  std::size_t is_enabled = 1;          // key `on`; 0: the library does nothing
  std::size_t min_block_bytes = 8192;  // key `from`: shorter blocks stay in the C library's heap
  std::size_t far_threshold_ns = 150;  // key `far_ns`: cache line latency from which on a peer is far
  std::size_t allows_huge_pages = 1;   // 0: never requests huge pages
  std::size_t opens_at_start = 0;      // 1: the heap opens at program start, not when MPI has been initialized
  // 1: pages are shared at the first message through them, not at the second
  std::size_t shares_at_first_message = 0;
  MessageSizes streaming_sizes{{{16777216, static_cast<std::size_t>(-1)}}, 1};  // copied by streaming stores
  // key `far_stream`: the same for far peers
  MessageSizes streaming_sizes_when_far{{{16384, static_cast<std::size_t>(-1)}}, 1};
  // key `help`: cooperative copies
  MessageSizes cooperative_copy_sizes{{{32768, static_cast<std::size_t>(-1)}}, 1};
  static constexpr std::size_t key_bytes = 32;
  // of the job (copy_service.hpp), without a final '\0'; begins with '\0' if there is none
  char job_key[key_bytes] = {};
  char report_folder[256] = "";  // a folder in which every process writes a report when it ends
};

// Parses the value of NEARFIELD_HEAP. Reports invalid parts on standard error and ignores them.
void parse_settings(const char* text, Settings& settings);

// Returns whether every part of a text is valid, and none names a folder for reports, as in rules for other users.
bool are_valid_settings(const char* text);

// Reads the job's key from the value of NEARFIELD_HEAP_KEY. Ignores a value whose length is not key_bytes.
void parse_job_key(const char* text, Settings& settings);

}  // namespace nearfield::heap
