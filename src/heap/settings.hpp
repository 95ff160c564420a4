// What the launcher tells this library, in one environment variable:
//
//   NEARFIELD_HEAP="from=4096,stream_from=65536,stream_upto=2097152"
//
// Every key may be left out. Set by `nearfield run` from rules.toml; docs/heap.md describes the keys.
#pragma once

#include <cstddef>

namespace nearfield::heap {

struct Settings {
  std::size_t from = 4096;             // bytes: shorter blocks stay in the C library's heap
  std::size_t stream_from = 65536;     // bytes: from here on copies bypass the caches ...
  std::size_t stream_upto = 2097152;   // ... up to here
  std::size_t far_stream_from = 4096;  // the same where the cores are far apart
  std::size_t far_stream_upto = 0;     // 0: no limit
  std::size_t far_ns = 150;            // a line that takes so long to come is of a core far away
  std::size_t huge = 1;                // 0: never asks for huge pages
  char report[256] = "";               // a folder: at its end, every process writes there what it did
};

// Reads the variable. What is not understood is said in one line on standard error, and left as it was.
void read_settings(const char* text, Settings& settings);

}  // namespace nearfield::heap
