// Puts a buffer's lines into a state and verifies it: sampled lines are timed against latencies calibrated at start.
// Leaves out `shared` and `owned`, which a single core can neither establish nor detect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace nearfield::probe {

/// Removes the lines from every cache and writes dirty ones back.
void make_invalid(std::span<std::byte> memory, std::size_t line_bytes);
/// Makes the lines exclusive and clean in this core's caches: removes them everywhere, then reads them.
void make_exclusive(std::span<std::byte> memory, std::size_t line_bytes);
/// Makes the lines modified in this core's caches; the content does not change.
void make_modified(std::span<std::byte> memory, std::size_t line_bytes);
/// make_*() by the state's name; throws std::invalid_argument for another name.
void put_into(const std::string& state, std::span<std::byte> memory, std::size_t line_bytes);

/// The load latency of a line, by its location, in clock ticks including the clock's overhead.
struct Latencies {
  std::vector<double> levels;  ///< median from L1, L2, ... the last level
  double memory = 0;           ///< median after make_invalid
  double cached_limit = 0;     ///< at most this: from a cache; 0 if caches and memory cannot be distinguished
  double dirty_limit = 0;      ///< longer flushes mean a dirty line; 0 if they cannot be distinguished
};

/// Measures these latencies in about 10 ms. `cache_bytes` are capacities, L1 first.
Latencies calibrate(std::span<const std::int64_t> cache_bytes, std::size_t line_bytes);

/// The results of sampling lines, accumulated over repetitions and buffers.
struct Sampled {
  double lines = 0;          ///< lines whose load was timed
  double cached = 0;         ///< of those, from a cache
  double flushed = 0;        ///< lines whose flush was timed
  double dirty = 0;          ///< of those, dirty
  double latency_ticks = 0;  ///< sum of the load latencies

  Sampled& operator+=(const Sampled& other);
};

/// Times up to 64 lines of `memory`, which changes their state.
Sampled sample_lines(std::span<std::byte> memory, const std::string& state, std::size_t line_bytes,
                     const Latencies& latencies);

/// Returns "verified" if at least 90 % of the lines are in `state`; "refuted"; or "unverifiable" if nothing was sampled
/// or caches and memory cannot be distinguished.
const char* judge(const Sampled& found, const std::string& state, const Latencies& latencies);

}  // namespace nearfield::probe
