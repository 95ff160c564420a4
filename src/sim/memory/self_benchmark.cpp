#include "sim/memory/self_benchmark.hpp"

#include <algorithm>
#include <random>

#include "sim/memory/counts.hpp"
#include "sim/memory/memory.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t num_cold_lines = 1 << 17;

Machine without_translation(Machine machine) {
  machine.pages.tlbs.clear();
  machine.pages.fault_ns = 0;
  return machine;
}

// Returns the machine without prefetcher, for a pointer chase. In a random chain of few lines, adjacent lines follow
// one another by chance, and a prefetcher that fetches far ahead then hides up to 5 % of the latency.
Machine without_prefetcher(Machine machine) {
  machine.prefetcher.reset();
  return machine;
}

// Returns the machine with caches of few sets. This does not change accesses that stream past the caches, but small
// caches are soon full of modified lines, so that the steady state is reached quickly.
Machine with_small_caches(Machine machine) {
  std::uint64_t min_sets = 16;
  for (auto& cache : machine.caches) {
    const auto set_bytes = static_cast<std::uint64_t>(cache.line_bytes) * static_cast<std::uint64_t>(cache.ways);
    const auto sets = std::min(cache.size_bytes / set_bytes, min_sets * static_cast<std::uint64_t>(cache.shared_by));
    cache.size_bytes = sets * set_bytes;
    min_sets *= 2;
  }
  return machine;
}

// Returns the number of bytes that one core's caches up to `level` can hold together.
std::uint64_t capacity_up_to_level(const Machine& machine, std::size_t level) {
  std::uint64_t capacity_bytes = 0;
  for (std::size_t k = 0; k <= level; ++k) {
    const auto& cache = machine.caches[k];
    capacity_bytes = cache.inclusion == Inclusion::exclusive ? capacity_bytes + cache.size_bytes
                                                             : std::max(capacity_bytes, cache.size_bytes);
  }
  return capacity_bytes;
}

// Returns the addresses of a pointer chase through `lines` lines in random order, from `begin` on.
std::vector<Address> make_chain(std::uint64_t lines, std::uint64_t line_bytes, Address begin = 0) {
  std::vector<Address> chain(lines);
  for (std::uint64_t i = 0; i < lines; ++i) chain[i] = begin + i * line_bytes;
  std::mt19937_64 random(1);
  for (auto i = lines; i > 1; --i) std::swap(chain[i - 1], chain[random() % i]);
  return chain;
}

double ns_per_load(NodeMemory& memory, const std::vector<Address>& chain) {
  const Ps start = memory.now(0)[0];
  for (const auto address : chain) memory.access(0, Access::chase, address, 8);
  return (memory.now(0)[0] - start) / 1e3 / static_cast<double>(chain.size());
}

// Returns the ns per load of a pointer chase whose loads all hit this level. The chain is too long for the inner
// caches, so that each load misses them, and fits into this cache. For memory, no cache has ever held the lines of the
// chain.
double chase_ns(const Machine& machine, std::size_t level) {
  const auto line = static_cast<std::uint64_t>(machine.caches.back().line_bytes);
  NodeMemory memory(machine);
  if (level == machine.caches.size()) return ns_per_load(memory, make_chain(num_cold_lines, line));
  const std::uint64_t inner_bytes = level > 0 ? capacity_up_to_level(machine, level - 1) : 0;
  const auto bytes = (inner_bytes + capacity_up_to_level(machine, level)) / 2;
  const auto chain = make_chain((level > 0 ? std::min(bytes, 4 * inner_bytes) : bytes) / line, line);
  ns_per_load(memory, chain);
  return ns_per_load(memory, chain);
}

}  // namespace

std::vector<double> chase_latencies_ns(const Machine& machine) {
  const auto measured = without_prefetcher(without_translation(machine));
  std::vector<double> latencies;
  for (std::size_t level = 0; level <= machine.caches.size(); ++level) latencies.push_back(chase_ns(measured, level));
  return latencies;
}

double chase_latency_from_ns(const Machine& machine, int hub) {
  const auto line = static_cast<std::uint64_t>(machine.caches.back().line_bytes);
  NodeMemory memory(without_prefetcher(without_translation(machine)));
  return ns_per_load(memory, make_chain(num_cold_lines, line, static_cast<Address>(hub) << home_memory_shift));
}

double copy_traffic_gb_per_s(const Machine& machine) {
  const auto measured = with_small_caches(without_translation(machine));
  const int cores = measured.dram.shared_by > 0 ? measured.dram.shared_by : measured.cores;
  const auto line = static_cast<std::uint64_t>(measured.caches.back().line_bytes);
  const std::uint64_t bytes = num_cold_lines / static_cast<std::uint64_t>(cores) * line;
  NodeMemory memory(measured);
  // In each step, the core with the earliest clock copies one line.
  const auto copy_to_the_end = [&](std::vector<std::uint64_t> copied_bytes) {
    for (;;) {
      int core = -1;
      for (int c = 0; c < cores; ++c)
        if (copied_bytes[static_cast<std::size_t>(c)] < bytes && (core < 0 || memory.now(c)[0] < memory.now(core)[0]))
          core = c;
      if (core < 0) return;
      auto& offset = copied_bytes[static_cast<std::size_t>(core)];
      const Address from = static_cast<Address>(core) * 2 * bytes + offset;
      memory.copy(core, from + bytes, from, line);
      offset += line;
    }
  };
  const auto last_core_ns = [&] {
    Ps last = 0;
    for (int c = 0; c < cores; ++c) {
      memory.drain(c);
      last = std::max(last, memory.now(c)[0]);
    }
    return last / 1e3;
  };
  const std::vector<std::uint64_t> nothing_copied(static_cast<std::size_t>(cores));
  copy_to_the_end(nothing_copied);
  memory.reset_counts();
  const double start_ns = last_core_ns();
  copy_to_the_end(nothing_copied);
  return static_cast<double>(memory.counts().dram.bytes) / (last_core_ns() - start_ns);
}

}  // namespace nearfield::sim
