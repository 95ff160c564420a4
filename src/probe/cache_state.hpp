// Puts a buffer's lines into a state and proves it: sampled lines are timed against latencies calibrated at
// start. Leaves out: `shared` and `owned`, which one core alone can neither make nor recognise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace nearfield::probe {

/// Removes the lines from every cache, writing back what is dirty. Returns when done.
void make_invalid(std::span<std::byte> memory, std::size_t line_bytes);
/// Makes lines cached by this core alone and clean: removes them everywhere, then reads them.
void make_exclusive(std::span<std::byte> memory, std::size_t line_bytes);
/// Makes lines cached by this core alone and dirty; the content stays.
void make_modified(std::span<std::byte> memory, std::size_t line_bytes);
/// make_*() by the state's name; throws std::invalid_argument for another name.
void put_into(const std::string& state, std::span<std::byte> memory, std::size_t line_bytes);

/// The time of one load of a line, by where the line is. All are in clock ticks, with the clock's overhead.
struct Latencies {
  std::vector<double> levels;  ///< median from L1, L2, ... the last level
  double memory = 0;           ///< median after make_invalid
  double cached_limit = 0;     ///< at most this: from a cache; 0 if caches and memory cannot be told apart
  double dirty_limit = 0;      ///< flushing a line takes longer than this: it was dirty; 0 if not told apart
};

/// Measures these times in some 10 ms. `cache_bytes` are capacities, nearest first.
Latencies calibrate(std::span<const std::int64_t> cache_bytes, std::size_t line_bytes);

/// The results of sampling lines, which add up over repetitions and buffers.
struct Sampled {
  double lines = 0;          ///< whose load was timed
  double cached = 0;         ///< that came from a cache
  double flushed = 0;        ///< whose flush was timed
  double dirty = 0;          ///< that flushing found dirty
  double latency_ticks = 0;  ///< sum of the loads' times

  Sampled& operator+=(const Sampled& other);
};

/// Times up to 64 lines of `memory`, and so disturbs it.
Sampled sample_lines(std::span<std::byte> memory, const std::string& state, std::size_t line_bytes,
                     const Latencies& latencies);

/// Returns "verified": at least 90 % of the lines are as `state` says; "refuted"; or "unverifiable": nothing was
/// sampled or caches and memory cannot be told apart here.
const char* judge(const Sampled& found, const std::string& state, const Latencies& latencies);

}  // namespace nearfield::probe
