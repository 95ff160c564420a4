// scenario/pages.hpp on a simulated machine: private memory with base pages and with huge pages (2 MiB), with TLB
// misses. Every core of one node touches and reads separate memory. A huge page takes as long to clear as a base page,
// unless the machine description has another time (Pages::huge_fault_ns). Not modeled: TLBs with entries for base pages
// only, and shared windows, whose pages would behave like private ones.
#include "scenario/pages.hpp"

#include <algorithm>

#include "machine/machine.hpp"
#include "sim/run/scenarios/pair.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t huge_bytes = 2 << 20;

// Makes two marks: the first touch of new memory by writes, and reading it again.
Task<> touch_and_read(Rank& rank, std::uint64_t bytes) {
  const Address memory = rank.allocate(bytes);
  co_await rank.barrier();
  rank.start_mark();
  co_await rank.write(memory, bytes);
  rank.stop_mark();
  co_await rank.barrier();
  rank.start_mark();
  co_await rank.read(memory, bytes);
  rank.stop_mark();
}

// Adds the slowest rank's time and the largest of the counts.
void add_slowest(Results& results, const std::string& name, const Outcome& outcome, std::size_t mark) {
  ConfigClock time = elapsed_time(outcome.ranks.front().marks[mark]);
  double faults = 0, misses = 0;
  for (const auto& rank : outcome.ranks) {
    time = later(time, elapsed_time(rank.marks[mark]));
    faults = std::max(faults, static_cast<double>(rank.marks[mark].counters.page_faults));
    misses = std::max(misses, static_cast<double>(rank.marks[mark].counters.tlb_misses));
  }
  results.add_time(name, "", time);
  results.add_number(name + "_faults", "count", "", faults);
  results.add_number(name + "_dtlb_misses", "count", "", misses);
}

std::vector<Result> simulate_pages(const SimulationJob& job) {
  Machine machine = job.machine;
  const bool is_huge = word_parameter(job.parameters, "memory") == "private-huge";
  if (is_huge) {
    machine.pages.page_bytes = huge_bytes;
    if (machine.pages.huge_fault_ns > 0) machine.pages.fault_ns = machine.pages.huge_fault_ns;
  }
  const auto bytes = static_cast<std::uint64_t>(number_parameter(job.parameters, "size_bytes"));
  ClusterOptions options = job.options();
  options.ranks_per_node = machine.cores;
  options.needs_core_counters = true;
  Cluster cluster(machine, options);
  const Outcome outcome = cluster.run([bytes](Rank& rank) { return touch_and_read(rank, bytes); });
  Results results(job.settings.memory_slowdown.size());
  add_slowest(results, "first_touch", outcome, 0);
  add_slowest(results, "traverse", outcome, 1);
  results.add_number("huge_bytes", "bytes", "", is_huge ? static_cast<double>(bytes) : 0.0);
  return results.entries;
}

std::vector<Parameters> pages_cases(const Machine& machine, const PairPlacement&, const CaseSelection& choice) {
  std::vector<Parameters> list;
  constexpr int cost_ratio_to_messages =
      8;  // ranks touch only their own memory, once or twice, which takes less time than messages
  for (const auto size : pages_sizes(choice.sizes)) {
    if (is_too_large_for_quick(choice.sizes, machine.cores, size / cost_ratio_to_messages)) continue;
    for (const char* memory : {"private", "private-huge"}) list.push_back({{"size_bytes", size}, {"memory", memory}});
  }
  return list;
}

std::string unsupported_reason(const Machine& machine, const PairPlacement&) {
  if (machine.pages.tlbs.empty()) return "the machine's description has no TLB ([[pages.tlb]])";
  if (machine.pages.page_bytes >= huge_bytes) return "the machine's ordinary pages are huge ones already";
  return "";
}

}  // namespace

extern const ScenarioSpec pages_scenario;
const ScenarioSpec pages_scenario{pages_info, unsupported_reason, pages_cases, simulate_pages};

}  // namespace nearfield::sim
