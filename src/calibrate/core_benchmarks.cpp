// The benchmarks of one core and its caches.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>

#include "base/sum_words.hpp"
#include "calibrate/benchmarks.hpp"
#include "calibrate/timing.hpp"

namespace nearfield::calibrate {
namespace {

constexpr std::size_t steps_per_sample = 4096;
constexpr double min_sample_ns = 4000;
constexpr std::size_t max_read_bytes = std::size_t{1} << 20;

// Calls `work` `calls` times. Returns the mean time of a call in ns.
template <class Work>
double time_calls(std::size_t calls, Work&& work) {
  const Ticks start = now();
  for (std::size_t i = 0; i < calls; ++i) work();
  return static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(calls);
}

// Returns the time of `work` in ns. Each sample is the mean of as many calls as take about min_sample_ns.
template <class Work>
Samples sample_calls(int samples, Work&& work) {
  const double first_ns = time_calls(2, work);
  const auto calls = static_cast<std::size_t>(std::clamp(min_sample_ns / std::max(first_ns, 1.0), 1.0, 1e4));
  Samples all;
  for (int i = 0; i < samples; ++i) all.push_back(time_calls(calls, work));
  return all;
}

// Follows one chain, in a loop of its own, so that the compiler keeps the address in a register.
void* follow_chain(void* at, std::size_t steps) {
  for (; steps > 0; --steps) at = *static_cast<void**>(at);
  return at;
}

void follow_chains(std::array<void*, max_chains>& chains, int count, std::size_t rounds) {
  for (; rounds > 0; --rounds)
    for (int c = 0; c < count; ++c)
      chains[static_cast<std::size_t>(c)] = *static_cast<void**>(chains[static_cast<std::size_t>(c)]);
}

// Branches on each byte. The instructions on both sides keep the compiler from selecting without a branch.
void branch_on(const std::vector<std::uint8_t>& conditions) {
  std::uint64_t ones = 0, zeros = 0;
  for (const std::uint8_t condition : conditions)
    if (condition)
      asm volatile("" : "+r"(ones) : "r"(ones + 1));
    else
      asm volatile("" : "+r"(zeros) : "r"(zeros + 1));
}

}  // namespace

Samples clock_reading_ns(int samples) {
  Samples all;
  for (int i = 0; i < samples; ++i) {
    constexpr int readings = 64;
    const Ticks start = now();
    for (int k = 1; k < readings; ++k) now();
    all.push_back(static_cast<double>(now() - start) * ns_per_tick() / readings);
  }
  return all;
}

Samples misprediction_ns(int samples) {
  constexpr std::size_t branches = 1 << 16;  // more than a predictor learns
  std::vector<std::uint8_t> equal(branches, 1), random(branches);
  std::mt19937 generator(1);
  for (std::uint8_t& condition : random) condition = generator() >> 31;
  // Other programs only lengthen a sample, so the least time of predicted branches is that of all of them.
  double predicted = time_calls(1, [&] { branch_on(equal); });
  for (int i = 1; i < samples; ++i) predicted = std::min(predicted, time_calls(1, [&] { branch_on(equal); }));
  Samples all;
  for (int i = 0; i < samples; ++i)
    all.push_back(2 * (time_calls(1, [&] { branch_on(random); }) - predicted) / branches);
  return all;
}

// Adds two registers: processors that execute additions of constants during register renaming still take a cycle for an
// addition of two registers.
Samples addition_ns(int samples) {
  std::uint64_t sum = 1, term = 3;
  hide_from_compiler(term);
  constexpr int unrolled = 16;
  Samples all = sample_calls(samples, [&] {
    for (std::size_t i = 0; i < steps_per_sample / unrolled; ++i)
      for (int k = 0; k < unrolled; ++k) {
        sum += term;
        asm volatile("" : "+r"(sum));
      }
  });
  for (double& ns : all) ns /= steps_per_sample;
  return all;
}

Samples chase_ns(const MemoryBlock& block, const PointerChase& chase, int samples) {
  const std::size_t elements = chase.stride_bytes > 0 ? chase.bytes / chase.stride_bytes : 0;
  if (chase.bytes > block.size() || chase.stride_bytes < sizeof(void*))
    throw std::invalid_argument("the chain does not fit into its block");
  if (chase.chains < 1 || chase.chains > max_chains || elements < static_cast<std::size_t>(chase.chains))
    throw std::invalid_argument("there must be 1 to 48 chains, and an element for each");
  void* const first = link_pointer_chain(block.data(), elements, chase.stride_bytes, chase.in_order);
  std::array<void*, max_chains> chains{};
  const auto count = static_cast<std::size_t>(chase.chains);
  for (std::size_t c = 0; c < count; ++c) chains[c] = c == 0 ? first : follow_chain(chains[c - 1], elements / count);
  // A chain that fits into a cache is followed once as a warm-up; in a longer chain, each sample follows a new part.
  const std::size_t rounds = steps_per_sample / count;
  if (chase.chains == 1) chains[0] = follow_chain(chains[0], std::min(elements, std::size_t{1} << 18));
  Samples all;
  for (int i = 0; i < samples; ++i) {
    const Ticks start = now();
    if (count == 1)
      chains[0] = follow_chain(chains[0], rounds);
    else
      follow_chains(chains, chase.chains, rounds);
    hide_from_compiler(chains[0]);
    all.push_back(static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(rounds * count));
  }
  return all;
}

Samples read_ns(const MemoryBlock& block, std::size_t bytes, int samples) {
  if (bytes > block.size()) throw std::invalid_argument("the block is too small");
  // Other programs would interrupt a long sample, so each sample reads another piece of a long block.
  const std::size_t piece = std::min(bytes, max_read_bytes), pieces = bytes / std::max(piece, std::size_t{1});
  std::size_t next = 0;
  std::uint64_t sum = 0;
  const auto read_piece = [&] {
    const std::byte* const begin = block.data() + next * piece;
    next = next + 1 < pieces ? next + 1 : 0;
    sum += sum_words({begin, piece});
    hide_from_compiler(sum);
  };
  Samples all = sample_calls(samples, read_piece);
  for (double& ns : all) ns *= static_cast<double>(bytes) / static_cast<double>(piece);
  return all;
}

}  // namespace nearfield::calibrate
