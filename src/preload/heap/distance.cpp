#include "preload/heap/distance.hpp"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace nearfield::heap {
namespace {

constexpr std::uint64_t sampling_period_ns = 2'000'000'000;
constexpr std::uint32_t samples_per_round = 8, messages_per_clock_reading = 8;
// Limits of the size of messages whose cache lines are timed: shorter messages have too few lines, longer ones may not
// be in the peer's cache.
constexpr std::size_t min_timed_message_bytes = 4096, max_timed_message_bytes = std::size_t{64} << 10;
constexpr int num_timed_lines = 8;

std::uint64_t clock_ns() { return static_cast<std::uint64_t>(now_ns(CLOCK_MONOTONIC)); }

// Returns the ticks of a clock with a resolution of a few nanoseconds. Waits until all earlier instructions have
// completed.
std::uint64_t read_ticks() {
#if defined(__x86_64__)
  _mm_lfence();
  const std::uint64_t now = __rdtsc();
  _mm_lfence();
  return now;
#elif defined(__aarch64__)
  std::uint64_t now;
  __asm__ volatile("isb\nmrs %0, cntvct_el0\nisb" : "=r"(now)::"memory");
  return now;
#else
  return clock_ns();
#endif
}

std::uint64_t clock_start_ns = 0, clock_start_ticks = 0;

// Converts ticks to nanoseconds, by the number of ticks since start_tick_clock().
std::uint64_t ticks_to_ns(std::uint64_t ticks) {
  const double ns = static_cast<double>(clock_ns() - clock_start_ns),
               elapsed_ticks = static_cast<double>(read_ticks() - clock_start_ticks);
  return elapsed_ticks > 0 ? static_cast<std::uint64_t>(static_cast<double>(ticks) * ns / elapsed_ticks) : 0;
}

// Returns the mean latency in ticks of eight cache lines of a message. Each load's address depends on the value of the
// previous load, so that loads cannot overlap, and the order is irregular, so that no prefetcher predicts it.
std::uint64_t measure_message_line_ticks(const char* message) {
  static constexpr std::size_t line_numbers[num_timed_lines] = {37, 5, 50, 19, 61, 11, 44, 26};
  std::size_t chain = 0;
  const std::uint64_t start = read_ticks();
  for (const std::size_t line_number : line_numbers) {
    const auto value = *reinterpret_cast<const volatile unsigned char*>(message + line_number * 64 + chain);
    std::size_t zero = value;
    __asm__ volatile("" : "+r"(zero));
    chain = zero & 0;
    __asm__ volatile("" : "+r"(chain));
  }
  return (read_ticks() - start) / num_timed_lines;
}

// Sorts the samples and returns their lower quartile, since an interrupt of this process or of the peer makes a sample
// too long, never too short.
std::uint32_t lower_quartile(std::uint32_t (&values)[samples_per_round]) {
  for (std::uint32_t i = 1; i < samples_per_round; ++i)
    for (std::uint32_t j = i; j > 0 && values[j] < values[j - 1]; --j) {
      const std::uint32_t value = values[j];
      values[j] = values[j - 1];
      values[j - 1] = value;
    }
  return values[samples_per_round / 4];
}

// Returns the latency in ticks of a cache line from the peer; 0 if neither HeapFileHeader::tick nor the message shows
// it.
std::uint64_t measure_line_ticks(Peer& peer, const char* message, std::size_t bytes) {
  const std::uint64_t before = read_ticks();
  const std::uint64_t tick = peer.header()->tick.load(std::memory_order_relaxed);
  const std::uint64_t ticks = read_ticks() - before;
  if (tick != peer.latency.last_tick.exchange(tick, std::memory_order_relaxed)) return ticks;
  return bytes >= min_timed_message_bytes && bytes <= max_timed_message_bytes ? measure_message_line_ticks(message) : 0;
}

}  // namespace

void start_tick_clock() {
  clock_start_ns = clock_ns();
  clock_start_ticks = read_ticks();
}

void sample_line_latency(Peer& peer, const char* message, std::size_t bytes) {
  PeerLatency& latency = peer.latency;
  if (latency.remaining_samples.load(std::memory_order_relaxed) == 0) {
    const auto message_number = latency.num_messages.load(std::memory_order_relaxed) + 1;
    latency.num_messages.store(message_number, std::memory_order_relaxed);
    if (message_number % messages_per_clock_reading != 0 ||
        clock_ns() < latency.next_sampling_ns.load(std::memory_order_relaxed))
      return;
    latency.remaining_samples.store(samples_per_round, std::memory_order_relaxed);
  }
  const std::uint64_t ticks = measure_line_ticks(peer, message, bytes);
  const auto remaining = latency.remaining_samples.load(std::memory_order_relaxed);
  if (ticks == 0 || remaining == 0) return;
  latency.sample_ns[remaining - 1] = static_cast<std::uint32_t>(ticks_to_ns(ticks));
  latency.remaining_samples.store(remaining - 1, std::memory_order_relaxed);
  if (remaining > 1) return;
  latency.line_latency_ns.store(lower_quartile(latency.sample_ns), std::memory_order_relaxed);
  latency.next_sampling_ns.store(clock_ns() + sampling_period_ns, std::memory_order_relaxed);
}

}  // namespace nearfield::heap
