#include "probe/cache_state.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/statistics.hpp"
#include "base/sum_words.hpp"
#include "probe/buffer.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace nearfield::probe {
namespace {

#if defined(__x86_64__)
bool has_clflushopt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1u << 23)) != 0;
}

void flush_line(const std::byte* line) {
  static const bool has_unordered_flush = has_clflushopt();
  if (has_unordered_flush)
    asm volatile("clflushopt %0" ::"m"(*line) : "memory");
  else
    asm volatile("clflush %0" ::"m"(*line) : "memory");
}

void wait_for_flushes() { asm volatile("mfence" ::: "memory"); }
#else
void flush_line(const std::byte* line) { asm volatile("dc civac, %0" ::"r"(line) : "memory"); }
void wait_for_flushes() { asm volatile("dsb ish" ::: "memory"); }
#endif

// Loads a byte of the line. The compiler can neither eliminate nor move the load.
void load_line(const std::byte* line) {
  const auto value = *reinterpret_cast<const volatile unsigned char*>(line);
  asm volatile("" ::"r"(value) : "memory");
}

double time_load_ticks(const std::byte* line) {
  const Ticks start = now();
  load_line(line);
  return static_cast<double>(now() - start);
}

double time_flush_ticks(const std::byte* line) {
  wait_for_flushes();
  const Ticks start = now();
  flush_line(line);
  wait_for_flushes();
  return static_cast<double>(now() - start);
}

constexpr std::size_t max_sampled_lines = 64;

// Returns the indices of the lines to sample: at most one line in eight, because a load makes prefetchers fetch
// neighbouring lines, spread over the buffer and in random order, which prefetchers do not follow.
std::vector<std::size_t> choose_sampled_lines(std::size_t lines) {
  const std::size_t count = std::clamp<std::size_t>(lines / 8, 1, max_sampled_lines);
  std::vector<std::size_t> line_indices(count);
  for (std::size_t i = 0; i < count; ++i) line_indices[i] = i * lines / count;
  std::uint64_t random = 88172645463325252ull;
  for (std::size_t i = count; i > 1; --i) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    std::swap(line_indices[i - 1], line_indices[random % i]);
  }
  return line_indices;
}

template <class Prepare, class Time>
std::vector<double> time_lines(std::span<std::byte> memory, std::size_t cache_line_bytes, Prepare prepare, Time time) {
  std::vector<double> samples;
  for (int round = 0; round < 8; ++round) {
    prepare();
    for (const std::size_t line : choose_sampled_lines(memory.size() / cache_line_bytes))
      samples.push_back(time(memory.data() + line * cache_line_bytes));
  }
  return samples;
}

// Returns a threshold between two distributions of times: the mean of the 90 % quantile of `low` and the 10 % quantile
// of `high`; 0 if the former is not below the latter.
double threshold_between(std::span<const double> low, std::span<const double> high) {
  const double low_end = quantile(low, 0.9), high_end = quantile(high, 0.1);
  return low_end < high_end ? (low_end + high_end) / 2 : 0.0;
}

}  // namespace

void make_invalid(std::span<std::byte> memory, std::size_t cache_line_bytes) {
  wait_for_flushes();
  for (std::size_t i = 0; i < memory.size(); i += cache_line_bytes) flush_line(memory.data() + i);
  if (!memory.empty()) flush_line(&memory.back());
  wait_for_flushes();
}

void make_exclusive(std::span<std::byte> memory, std::size_t cache_line_bytes) {
  make_invalid(memory, cache_line_bytes);
  for (std::size_t i = 0; i < memory.size(); i += cache_line_bytes) load_line(&memory[i]);
  wait_for_flushes();
}

void make_modified(std::span<std::byte> memory, std::size_t cache_line_bytes) {
  for (std::size_t i = 0; i < memory.size(); i += cache_line_bytes) {
    auto& first = reinterpret_cast<volatile unsigned char&>(memory[i]);
    first = first;
  }
  wait_for_flushes();
}

void put_into_state(const std::string& state, std::span<std::byte> memory, std::size_t cache_line_bytes) {
  if (state == "invalid") return make_invalid(memory, cache_line_bytes);
  if (state == "exclusive") return make_exclusive(memory, cache_line_bytes);
  if (state == "modified") return make_modified(memory, cache_line_bytes);
  throw std::invalid_argument("unknown buffer state '" + state + "'");
}

LineLatencies calibrate_latencies(std::span<const std::int64_t> cache_bytes, std::size_t cache_line_bytes) {
  const std::size_t second_to_last_cache_bytes =
      cache_bytes.size() > 1 ? static_cast<std::size_t>(cache_bytes[cache_bytes.size() - 2]) : 0;
  Buffer lines(max_sampled_lines * 8 * cache_line_bytes),
      eviction_buffer(std::max<std::size_t>(4 * second_to_last_cache_bytes, 4096));
  const auto memory = lines.first(lines.size());
  std::uint64_t sink = 0;

  LineLatencies latencies;
  std::vector<double> last;
  for (std::size_t level = 0; level < cache_bytes.size(); ++level) {
    last = time_lines(
        memory, cache_line_bytes,
        [&] {
          sink += sum_words(memory);
          if (level > 0) sink += sum_words(eviction_buffer.first(static_cast<std::size_t>(2 * cache_bytes[level - 1])));
        },
        time_load_ticks);
    latencies.load_ticks_by_level.push_back(quantile(last, 0.5));
  }
  const auto cold =
      time_lines(memory, cache_line_bytes, [&] { make_invalid(memory, cache_line_bytes); }, time_load_ticks);
  latencies.memory_load_ticks = quantile(cold, 0.5);
  latencies.max_cached_load_ticks = threshold_between(last, cold);

  const auto clean =
      time_lines(memory, cache_line_bytes, [&] { make_exclusive(memory, cache_line_bytes); }, time_flush_ticks);
  const auto dirty =
      time_lines(memory, cache_line_bytes, [&] { make_modified(memory, cache_line_bytes); }, time_flush_ticks);
  latencies.max_clean_flush_ticks = threshold_between(clean, dirty);
  asm volatile("" ::"r"(sink));
  return latencies;
}

LineSamples& LineSamples::operator+=(const LineSamples& other) {
  num_timed_loads += other.num_timed_loads;
  num_cached += other.num_cached;
  num_timed_flushes += other.num_timed_flushes;
  num_dirty += other.num_dirty;
  latency_ticks += other.latency_ticks;
  return *this;
}

LineSamples sample_lines(std::span<std::byte> memory, const std::string& state, std::size_t cache_line_bytes,
                         const LineLatencies& latencies) {
  // A timed load shows whether a line is cached, a timed flush whether it is dirty. Each test changes the state of the
  // line, so each line is tested once, alternately by a load and by a flush.
  const bool can_distinguish_dirty = state != "invalid" && latencies.max_clean_flush_ticks > 0;
  const auto line_indices = choose_sampled_lines((memory.size() + cache_line_bytes - 1) / cache_line_bytes);
  LineSamples samples;
  for (std::size_t i = 0; i < line_indices.size(); ++i) {
    const std::byte* line = memory.data() + line_indices[i] * cache_line_bytes;
    if (can_distinguish_dirty && i % 2 == 1) {
      ++samples.num_timed_flushes;
      samples.num_dirty += time_flush_ticks(line) > latencies.max_clean_flush_ticks;
    } else {
      const double ticks = time_load_ticks(line);
      ++samples.num_timed_loads;
      samples.num_cached += ticks <= latencies.max_cached_load_ticks;
      samples.latency_ticks += ticks;
    }
  }
  return samples;
}

const char* judge_cache_state(const LineSamples& samples, const std::string& state, const LineLatencies& latencies) {
  if (latencies.max_cached_load_ticks == 0 || samples.num_timed_loads == 0) return "unverifiable";
  const double cached = samples.num_cached / samples.num_timed_loads;
  bool is_in_state = state == "invalid" ? cached <= 0.1 : cached >= 0.9;
  if (samples.num_timed_flushes > 0) {
    const double dirty = samples.num_dirty / samples.num_timed_flushes;
    is_in_state = is_in_state && (state == "modified" ? dirty >= 0.9 : dirty <= 0.1);
  }
  return is_in_state ? "verified" : "refuted";
}

}  // namespace nearfield::probe
