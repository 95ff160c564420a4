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
  static const bool unordered = has_clflushopt();
  if (unordered)
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

double time_load(const std::byte* line) {
  const Ticks start = now();
  load_line(line);
  return static_cast<double>(now() - start);
}

double time_flush(const std::byte* line) {
  wait_for_flushes();
  const Ticks start = now();
  flush_line(line);
  wait_for_flushes();
  return static_cast<double>(now() - start);
}

constexpr std::size_t sampled_lines = 64;

// Returns the indices of the lines to sample: spread over the buffer, in an order that no prefetcher follows, at most
// one line in eight, because a load makes prefetchers fetch the neighbours of its line.
std::vector<std::size_t> choose_lines(std::size_t lines) {
  const std::size_t count = std::clamp<std::size_t>(lines / 8, 1, sampled_lines);
  std::vector<std::size_t> chosen(count);
  for (std::size_t i = 0; i < count; ++i) chosen[i] = i * lines / count;
  std::uint64_t random = 88172645463325252ull;
  for (std::size_t i = count; i > 1; --i) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    std::swap(chosen[i - 1], chosen[random % i]);
  }
  return chosen;
}

template <class Prepare, class Time>
std::vector<double> time_lines(std::span<std::byte> memory, std::size_t line_bytes, Prepare prepare, Time time) {
  std::vector<double> samples;
  for (int round = 0; round < 8; ++round) {
    prepare();
    for (const std::size_t line : choose_lines(memory.size() / line_bytes))
      samples.push_back(time(memory.data() + line * line_bytes));
  }
  return samples;
}

// Returns a threshold between two distributions of times: the middle between the 90 % quantile of `low` and the 10 %
// quantile of `high`; 0 if they overlap.
double threshold_between(std::span<const double> low, std::span<const double> high) {
  const double low_end = quantile(low, 0.9), high_end = quantile(high, 0.1);
  return low_end < high_end ? (low_end + high_end) / 2 : 0.0;
}

}  // namespace

void make_invalid(std::span<std::byte> memory, std::size_t line_bytes) {
  wait_for_flushes();
  for (std::size_t i = 0; i < memory.size(); i += line_bytes) flush_line(memory.data() + i);
  if (!memory.empty()) flush_line(&memory.back());
  wait_for_flushes();
}

void make_exclusive(std::span<std::byte> memory, std::size_t line_bytes) {
  make_invalid(memory, line_bytes);
  for (std::size_t i = 0; i < memory.size(); i += line_bytes) load_line(&memory[i]);
  wait_for_flushes();
}

void make_modified(std::span<std::byte> memory, std::size_t line_bytes) {
  for (std::size_t i = 0; i < memory.size(); i += line_bytes) {
    auto& first = reinterpret_cast<volatile unsigned char&>(memory[i]);
    first = first;
  }
  wait_for_flushes();
}

void put_into_state(const std::string& state, std::span<std::byte> memory, std::size_t line_bytes) {
  if (state == "invalid") return make_invalid(memory, line_bytes);
  if (state == "exclusive") return make_exclusive(memory, line_bytes);
  if (state == "modified") return make_modified(memory, line_bytes);
  throw std::invalid_argument("unknown buffer state '" + state + "'");
}

LineLatencies calibrate_latencies(std::span<const std::int64_t> cache_bytes, std::size_t line_bytes) {
  const std::size_t outer = cache_bytes.size() > 1 ? static_cast<std::size_t>(cache_bytes[cache_bytes.size() - 2]) : 0;
  Buffer lines(sampled_lines * 8 * line_bytes), evict(std::max<std::size_t>(4 * outer, 4096));
  const auto memory = lines.first(lines.size());
  std::uint64_t sink = 0;

  LineLatencies found;
  std::vector<double> last;
  for (std::size_t level = 0; level < cache_bytes.size(); ++level) {
    last = time_lines(
        memory, line_bytes,
        [&] {
          sink += sum_words(memory);
          if (level > 0) sink += sum_words(evict.first(static_cast<std::size_t>(2 * cache_bytes[level - 1])));
        },
        time_load);
    found.levels.push_back(quantile(last, 0.5));
  }
  const auto cold = time_lines(memory, line_bytes, [&] { make_invalid(memory, line_bytes); }, time_load);
  found.memory = quantile(cold, 0.5);
  found.cached_limit = threshold_between(last, cold);

  const auto clean = time_lines(memory, line_bytes, [&] { make_exclusive(memory, line_bytes); }, time_flush);
  const auto dirty = time_lines(memory, line_bytes, [&] { make_modified(memory, line_bytes); }, time_flush);
  found.dirty_limit = threshold_between(clean, dirty);
  asm volatile("" ::"r"(sink));
  return found;
}

LineSamples& LineSamples::operator+=(const LineSamples& other) {
  lines += other.lines;
  cached += other.cached;
  flushed += other.flushed;
  dirty += other.dirty;
  latency_ticks += other.latency_ticks;
  return *this;
}

LineSamples sample_lines(std::span<std::byte> memory, const std::string& state, std::size_t line_bytes,
                         const LineLatencies& latencies) {
  // The duration of a flush shows whether the line is dirty, but evicts the line. So each line is tested once: every
  // other line by a load (is it cached?), the rest by a flush (is it dirty?).
  const bool distinguish_dirty = state != "invalid" && latencies.dirty_limit > 0;
  const auto chosen = choose_lines((memory.size() + line_bytes - 1) / line_bytes);
  LineSamples found;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::byte* line = memory.data() + chosen[i] * line_bytes;
    if (distinguish_dirty && i % 2 == 1) {
      ++found.flushed;
      found.dirty += time_flush(line) > latencies.dirty_limit;
    } else {
      const double ticks = time_load(line);
      ++found.lines;
      found.cached += ticks <= latencies.cached_limit;
      found.latency_ticks += ticks;
    }
  }
  return found;
}

const char* judge_state(const LineSamples& found, const std::string& state, const LineLatencies& latencies) {
  if (latencies.cached_limit == 0 || found.lines == 0) return "unverifiable";
  const double cached = found.cached / found.lines;
  bool holds = state == "invalid" ? cached <= 0.1 : cached >= 0.9;
  if (found.flushed > 0) {
    const double dirty = found.dirty / found.flushed;
    holds = holds && (state == "modified" ? dirty >= 0.9 : dirty <= 0.1);
  }
  return holds ? "verified" : "refuted";
}

}  // namespace nearfield::probe
