// Puts the cache lines of a buffer into a coherence state, and verifies the state by comparing the load or flush times
// of sampled lines with latencies that were calibrated at start. The states `shared` and `owned` are not supported,
// since a single core can neither establish nor detect them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace nearfield::probe {

/// Flushes the lines from all caches; dirty lines are written back.
void make_invalid(std::span<std::byte> memory, std::size_t cache_line_bytes);
/// Makes the lines exclusive and clean in this core's caches: flushes them from all caches, then loads them.
void make_exclusive(std::span<std::byte> memory, std::size_t cache_line_bytes);
/// Makes the lines modified in this core's caches, without changing their content.
void make_modified(std::span<std::byte> memory, std::size_t cache_line_bytes);
/// Calls make_invalid(), make_exclusive() or make_modified(), depending on `state` ("invalid", "exclusive",
/// "modified"). Throws std::invalid_argument for any other state.
void put_into_state(const std::string& state, std::span<std::byte> memory, std::size_t cache_line_bytes);

/// Load latencies of a line in each cache level and in memory, and thresholds between them, in clock ticks, including
/// the overhead of reading the clock.
struct LineLatencies {
  std::vector<double> load_ticks_by_level;  ///< median load latency from L1, L2, ... the last level
  double memory_load_ticks = 0;             ///< median load latency after make_invalid()
  double max_cached_load_ticks = 0;  ///< a load is from a cache if it takes at most this; 0: caches and memory overlap
  double max_clean_flush_ticks =
      0;  ///< a line is dirty if its flush takes longer than this; 0: dirty and clean overlap
};

/// Measures the latencies on this core, in about 10 ms. `cache_bytes` are the capacities of the cache levels, L1 first.
LineLatencies calibrate_latencies(std::span<const std::int64_t> cache_bytes, std::size_t cache_line_bytes);

/// Counts of sampled lines, accumulated over repetitions and buffers.
struct LineSamples {
  double num_timed_loads = 0;    ///< lines whose load was timed
  double num_cached = 0;         ///< timed loads that came from a cache
  double num_timed_flushes = 0;  ///< lines whose flush was timed
  double num_dirty = 0;          ///< timed flushes that showed a dirty line
  double latency_ticks = 0;      ///< sum of the load latencies

  LineSamples& operator+=(const LineSamples& other);
};

/// Times a load or a flush of up to 64 lines of `memory`, which changes the state of these lines.
LineSamples sample_lines(std::span<std::byte> memory, const std::string& state, std::size_t cache_line_bytes,
                         const LineLatencies& latencies);

/// Returns "unverifiable" if no line was sampled or the latencies do not distinguish caches from memory; "verified" if
/// at least 90 % of the sampled lines were in `state`; otherwise "refuted".
const char* judge_cache_state(const LineSamples& samples, const std::string& state, const LineLatencies& latencies);

}  // namespace nearfield::probe
