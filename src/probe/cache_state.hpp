// Puts the lines of a buffer into a cache state, and verifies the state: the load or flush time of sampled lines is
// compared with latencies that were calibrated at start. Leaves out the states `shared` and `owned`, which a single
// core can neither establish nor detect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace nearfield::probe {

/// Flushes the lines from all caches; dirty lines are written back.
void make_invalid(std::span<std::byte> memory, std::size_t line_bytes);
/// Makes the lines exclusive and clean in this core's caches: flushes them from all caches, then loads them.
void make_exclusive(std::span<std::byte> memory, std::size_t line_bytes);
/// Makes the lines modified in this core's caches; the content does not change.
void make_modified(std::span<std::byte> memory, std::size_t line_bytes);
/// Calls make_invalid(), make_exclusive() or make_modified() by the name of the state. Throws std::invalid_argument for
/// another name.
void put_into_state(const std::string& state, std::span<std::byte> memory, std::size_t line_bytes);

/// Load latencies of a line by where it is cached, and thresholds between them; in clock ticks, including the overhead
/// of reading the clock.
struct LineLatencies {
  std::vector<double> levels;  ///< median load latency from L1, L2, ... the last level
  double memory = 0;           ///< median load latency after make_invalid()
  double cached_limit = 0;     ///< a load is from a cache if it takes at most this; 0: caches and memory overlap
  double dirty_limit = 0;      ///< a line is dirty if its flush takes longer than this; 0: dirty and clean overlap
};

/// Measures the latencies on this core in about 10 ms. `cache_bytes`: capacities of the cache levels, L1 first.
LineLatencies calibrate_latencies(std::span<const std::int64_t> cache_bytes, std::size_t line_bytes);

/// Counts of sampled lines, accumulated over repetitions and buffers.
struct LineSamples {
  double lines = 0;          ///< lines whose load was timed
  double cached = 0;         ///< timed loads that came from a cache
  double flushed = 0;        ///< lines whose flush was timed
  double dirty = 0;          ///< timed flushes that showed a dirty line
  double latency_ticks = 0;  ///< sum of the load latencies

  LineSamples& operator+=(const LineSamples& other);
};

/// Times a load or a flush of up to 64 lines of `memory`, which changes the state of these lines.
LineSamples sample_lines(std::span<std::byte> memory, const std::string& state, std::size_t line_bytes,
                         const LineLatencies& latencies);

/// Returns "verified" if at least 90 % of the sampled lines were in `state`, "unverifiable" if no line was sampled or
/// the latencies do not distinguish caches from memory, and "refuted" otherwise.
const char* judge_state(const LineSamples& found, const std::string& state, const LineLatencies& latencies);

}  // namespace nearfield::probe
