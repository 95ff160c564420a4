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

// Returns the mean time, in ns, of `calls` calls of work().
template <class Work>
double time_calls(std::size_t calls, Work&& work) {
  const Ticks start = now();
  for (std::size_t i = 0; i < calls; ++i) work();
  return static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(calls);
}

// Returns samples of the time of work() in ns. Each sample is the mean of a series of calls that takes about
// min_sample_ns.
template <class Work>
Samples sample_calls(int num_samples, Work&& work) {
  const double first_ns = time_calls(2, work);
  const auto calls = static_cast<std::size_t>(std::clamp(min_sample_ns / std::max(first_ns, 1.0), 1.0, 1e4));
  Samples samples;
  for (int i = 0; i < num_samples; ++i) samples.push_back(time_calls(calls, work));
  return samples;
}

// Follows one chain. Separate from chase_pointers_in_chains(), so that the compiler keeps the address in a register.
void* chase_pointers(void* at, std::size_t steps) {
  for (; steps > 0; --steps) at = *static_cast<void**>(at);
  return at;
}

void chase_pointers_in_chains(std::array<void*, max_chains>& chains, int count, std::size_t rounds) {
  for (; rounds > 0; --rounds)
    for (int c = 0; c < count; ++c)
      chains[static_cast<std::size_t>(c)] = *static_cast<void**>(chains[static_cast<std::size_t>(c)]);
}

// Branches on each byte. The asm statements in both branches prevent the compiler from using a conditional move.
void branch_on_conditions(const std::vector<std::uint8_t>& conditions) {
  std::uint64_t ones = 0, zeros = 0;
  for (const std::uint8_t condition : conditions)
    if (condition)
      asm volatile("" : "+r"(ones) : "r"(ones + 1));
    else
      asm volatile("" : "+r"(zeros) : "r"(zeros + 1));
}

}  // namespace

Samples measure_clock_reading_ns(int num_samples) {
  Samples samples;
  for (int i = 0; i < num_samples; ++i) {
    constexpr int num_readings = 64;
    const Ticks start = now();
    for (int k = 1; k < num_readings; ++k) now();
    samples.push_back(static_cast<double>(now() - start) * ns_per_tick() / num_readings);
  }
  return samples;
}

Samples measure_misprediction_ns(int num_samples) {
  constexpr std::size_t num_branches = 1 << 16;  // too many for a branch predictor to learn the sequence
  std::vector<std::uint8_t> predictable_conditions(num_branches, 1), random_conditions(num_branches);
  std::mt19937 generator(1);
  for (std::uint8_t& condition : random_conditions) condition = generator() >> 31;
  // Other programs can only lengthen a measurement, so the minimum is the undisturbed time of predicted branches.
  double predicted_ns = time_calls(1, [&] { branch_on_conditions(predictable_conditions); });
  for (int i = 1; i < num_samples; ++i)
    predicted_ns = std::min(predicted_ns, time_calls(1, [&] { branch_on_conditions(predictable_conditions); }));
  Samples samples;
  for (int i = 0; i < num_samples; ++i)
    samples.push_back(2 * (time_calls(1, [&] { branch_on_conditions(random_conditions); }) - predicted_ns) /
                      num_branches);
  return samples;
}

// Adds two registers, which takes one cycle also on processors that execute additions of constants during register
// renaming.
Samples measure_addition_ns(int num_samples) {
  std::uint64_t sum = 1, term = 3;
  hide_from_compiler(term);
  constexpr int unroll_factor = 16;
  Samples samples = sample_calls(num_samples, [&] {
    for (std::size_t i = 0; i < steps_per_sample / unroll_factor; ++i)
      for (int k = 0; k < unroll_factor; ++k) {
        sum += term;
        asm volatile("" : "+r"(sum));
      }
  });
  for (double& ns : samples) ns /= steps_per_sample;
  return samples;
}

Samples measure_chase_ns(const MemoryBlock& block, const PointerChase& chase, int num_samples) {
  const std::size_t num_elements = chase.stride_bytes > 0 ? chase.bytes / chase.stride_bytes : 0;
  if (chase.bytes > block.size() || chase.stride_bytes < sizeof(void*))
    throw std::invalid_argument("the chain does not fit into its block");
  if (chase.num_chains < 1 || chase.num_chains > max_chains ||
      num_elements < static_cast<std::size_t>(chase.num_chains))
    throw std::invalid_argument("there must be 1 to 48 chains, and an element for each");
  void* const first = link_pointer_chain(block.data(), num_elements, chase.stride_bytes, chase.is_sequential);
  std::array<void*, max_chains> chains{};
  const auto count = static_cast<std::size_t>(chase.num_chains);
  for (std::size_t c = 0; c < count; ++c)
    chains[c] = c == 0 ? first : chase_pointers(chains[c - 1], num_elements / count);
  // Warm-up: follows a single chain once, if it is short enough for a cache. In a longer chain, each sample follows the
  // next part.
  const std::size_t rounds = steps_per_sample / count;
  if (chase.num_chains == 1) chains[0] = chase_pointers(chains[0], std::min(num_elements, std::size_t{1} << 18));
  Samples samples;
  for (int i = 0; i < num_samples; ++i) {
    const Ticks start = now();
    if (count == 1)
      chains[0] = chase_pointers(chains[0], rounds);
    else
      chase_pointers_in_chains(chains, chase.num_chains, rounds);
    hide_from_compiler(chains[0]);
    samples.push_back(static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(rounds * count));
  }
  return samples;
}

Samples measure_read_ns(const MemoryBlock& block, std::size_t bytes, int num_samples) {
  if (bytes > block.size()) throw std::invalid_argument("the block is too small");
  // Each sample reads only one piece of a long block, since other programs would interrupt a long sample.
  const std::size_t piece = std::min(bytes, max_read_bytes), num_pieces = bytes / std::max(piece, std::size_t{1});
  std::size_t next = 0;
  std::uint64_t sum = 0;
  const auto read_piece = [&] {
    const std::byte* const begin = block.data() + next * piece;
    next = next + 1 < num_pieces ? next + 1 : 0;
    sum += sum_words({begin, piece});
    hide_from_compiler(sum);
  };
  Samples samples = sample_calls(num_samples, read_piece);
  for (double& ns : samples) ns *= static_cast<double>(bytes) / static_cast<double>(piece);
  return samples;
}

}  // namespace nearfield::calibrate
