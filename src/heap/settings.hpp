// The settings of this library, which the launcher gives in one environment variable:
//
//   NEARFIELD_HEAP="stream=65536-262144+16777216-"
//
// Keys are separated by commas, and every one may be left out. Set by `nearfield run` from rules.toml;
// docs/reference/environment.md describes them.
#pragma once

#include <cstddef>

namespace nearfield::heap {

// Sizes of messages in bytes: ranges with both ends included; the last may have no end.
struct Sizes {
  static constexpr int most = 8;
  struct Range {
    std::size_t from, upto;
  };
  Range range[most] = {};
  int count = 0;

  bool has(std::size_t bytes) const {
    for (int i = 0; i < count; ++i)
      if (bytes >= range[i].from && bytes <= range[i].upto) return true;
    return false;
  }
};

struct Settings {
  std::size_t on = 1;           // 0: the library does nothing
  std::size_t from = 8192;      // bytes: shorter blocks stay in the C library's heap
  std::size_t far_ns = 150;     // a line that takes so long to come is of a core far away
  std::size_t huge = 1;         // 0: never asks for huge pages
  std::size_t at_start = 0;     // 1: the heap opens when the program starts, not when MPI has been initialized
  std::size_t share_first = 0;  // 1: pages are shared at the first message that passes through them, not at the second
  Sizes stream{{{16777216, static_cast<std::size_t>(-1)}}, 1};   // messages that are copied past the caches ...
  Sizes far_stream{{{16384, static_cast<std::size_t>(-1)}}, 1};  // ... and where the cores are far apart
  Sizes help{{{32768, static_cast<std::size_t>(-1)}}, 1};        // messages that both ends copy, where the sender waits
  char report[256] = "";  // a folder: at its end, every process writes there what it did
};

// Reads the variable. A part that is not understood keeps its default and is named on standard error.
void read_settings(const char* text, Settings& settings);

}  // namespace nearfield::heap
