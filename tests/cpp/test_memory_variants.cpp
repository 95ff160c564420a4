// Are the results of several variants simulated together (src/sim/memory/variants.hpp) those of each one alone? Random
// traces on random machines, in which devices inject lines where each variant says, run through one memory with all
// variants and through a separate memory for each. After every step counts, clocks and DMA times must be equal to the
// last digit, and at intervals the state of every copy. Some memories split on the way.
//
// test_memory_variants [machines [first seed]], of each kind
#include <algorithm>
#include <cstdlib>
#include <set>

#include "check.hpp"
#include "memory_traces.hpp"
#include "sim/memory/counts.hpp"
#include "test_machine.hpp"

using namespace nearfield;
using namespace nearfield::sim;

namespace {

constexpr std::size_t steps_per_machine = 1500;
constexpr std::array<double, num_memory_speeds> slowdown{1, 2.5, 5, 7.5};

// The injection target of one step under each variant: the step's own under some, otherwise memory or another cache.
using InjectionTargets = std::vector<InjectionTarget>;

struct Case {
  Machine machine;
  int variants;
  bool limits_ways;
  std::size_t splits_at;  // a step; some cases have fewer
  std::vector<Step> steps;
  std::vector<InjectionTargets> targets;
};

void add_time(Random& random, Machine& machine) {
  machine.core.window = random.in(50) ? 0 : random.between(4, 40);
  machine.core.outstanding_bypass = random.between(0, 2);
  if (random.in(50)) {
    machine.pages.tlbs = {{8, 4, 7}};
    machine.pages.fault_ns = 50;
  }
  if (random.in(30)) machine.pages.placement = PagePlacement::random;
  if (random.in(30)) machine.dram.banks = 4, machine.dram.bank_busy_ns = 30;
  const int into = random.between(0, static_cast<int>(machine.caches.size()) - 1);
  if (random.in(60) && machine.caches[static_cast<std::size_t>(into)].inclusion != Inclusion::exclusive)
    machine.prefetcher = Prefetcher{random.between(1, 12), random.between(1, 4), into, random.between(0, 3)};
  if (machine.prefetcher && random.in(40)) machine.prefetcher->start = PrefetchExtent::all;
  if (random.in(30)) machine.pages.walkers = random.between(1, 3);
  if (random.in(30)) machine.transfers.upgrade_cycles = random.between(1, 30);
  if (random.in(30)) machine.core.copy_bytes_per_cycle = 1 << random.between(2, 7);
}

InjectionTarget random_target(Random& random, const Case& it, const InjectionTarget& like) {
  if (random.in(40)) return {};
  if (random.in(60)) return like;
  InjectionTarget other;
  other.level = random.between(0, static_cast<int>(it.machine.caches.size()) - 1);
  other.core = random.between(0, it.machine.cores - 1);
  return other;
}

// Each core loads first, since an L1 that never held a line is not looked up: in a separate memory that depends on
// what its devices did.
std::vector<Step> first_loads(const Machine& machine) {
  std::vector<Step> loads;
  for (int core = 0; core < machine.cores; ++core) {
    Step load;
    load.core = core;
    load.bytes = 1;
    loads.push_back(load);
  }
  return loads;
}

Case random_case(std::uint64_t seed, Machine (*make)(Random&)) {
  Random random(seed);
  Case it{make(random), random.between(2, 5), random.in(30), 0, {}, {}};
  add_time(random, it.machine);
  for (const Step& step : random_trace(random, it.machine, steps_per_machine)) {
    if (it.steps.empty() || it.steps.back().what == Step::What::invalidate_all)
      for (const Step& load : first_loads(it.machine)) it.steps.push_back(load);
    it.steps.push_back(step);
    if (!it.limits_ways) it.steps.back().target.ways = 0;
    const Access kinds[] = {Access::index, Access::gather};
    if (step.kind == Access::load && random.in(20)) it.steps.back().kind = kinds[random.below(2)];
  }
  it.splits_at = random.below(2 * it.steps.size());
  for (const Step& step : it.steps) {
    it.targets.emplace_back(1, step.target);
    while (static_cast<int>(it.targets.back().size()) < it.variants)
      it.targets.back().push_back(random_target(random, it, step.target));
  }
  return it;
}

ConfigClock act(NodeMemory& memory, const Step& step, const Machine& machine,
                std::span<const InjectionTarget> targets) {
  std::vector<Reference> trace;
  switch (step.what) {
    case Step::What::access:
      memory.access(step.core, step.kind, step.address, static_cast<unsigned>(step.bytes));
      break;
    case Step::What::sweep:
      memory.sweep(step.core, step.kind, step.address, step.count, step.stride_bytes, static_cast<unsigned>(step.bytes),
                   300);
      break;
    case Step::What::replay:
      for (const OneAccess& access : accesses_of(step, machine))
        trace.push_back({access.address, access.bytes, access.kind});
      memory.replay(step.core, trace);
      break;
    case Step::What::copy:
      memory.copy(step.core, step.address, step.from, step.bytes);
      break;
    case Step::What::dma_write:
      return memory.dma_write(step.address, step.bytes, targets, memory.clock(step.core));
    case Step::What::dma_read:
      memory.wait_until(step.core, memory.dma_read(step.address, step.bytes, memory.clock(step.core)));
      memory.drain(step.core);
      break;
    case Step::What::invalidate_range:
      memory.invalidate_range(step.address, step.bytes);
      break;
    case Step::What::invalidate_all:
      memory.invalidate_all();
      break;
  }
  return memory.clock(step.core);
}

bool same_copies(const Case& it, const NodeMemory& combined, const NodeMemory& separate, int variant) {
  std::set<Address> lines;
  for (const Step& step : it.steps) lines.insert(step.address / 32 * 32);
  for (const Address line : lines)
    for (int core = 0; core < it.machine.cores; ++core)
      for (int level = 0; level < static_cast<int>(it.machine.caches.size()); ++level) {
        const auto a = combined.cached_copy_state(core, level, line, variant),
                   b = separate.cached_copy_state(core, level, line);
        if (a.present != b.present || a.modified != b.modified || a.shared != b.shared) return false;
      }
  return true;
}

// Returns how many steps agree; all of them, if nothing differs.
std::size_t count_equal_steps(const Case& it, std::vector<Counts>& counts) {
  NodeMemory combined(it.machine, slowdown, it.variants, it.limits_ways);
  std::vector<std::unique_ptr<NodeMemory>> separate;
  for (int v = 0; v < it.variants; ++v) separate.push_back(std::make_unique<NodeMemory>(it.machine, slowdown));
  for (std::size_t i = 0; i < it.steps.size(); ++i) {
    if (i == it.splits_at) combined.split_into_models();
    const ConfigClock done = act(combined, it.steps[i], it.machine, it.targets[i]);
    for (int v = 0; v < it.variants; ++v) {
      auto& single = *separate[static_cast<std::size_t>(v)];
      const ConfigClock expected =
          act(single, it.steps[i], it.machine, {&it.targets[i][static_cast<std::size_t>(v)], 1});
      if (!(done[v] == expected[0]) || combined.counts(v) != single.counts()) return i;
      if ((i + 1) % 500 == 0 && !same_copies(it, combined, single, v)) return i;
    }
  }
  for (int v = 0; v < it.variants; ++v) counts.push_back(combined.counts(v));
  return it.steps.size();
}

// Memories split by themselves if each access differs between variants, but not if one in eight does.
void memories_split_if_many_accesses_differ() {
  constexpr Address line = 128, many = 17'000;
  for (const Address differs : {1, 8}) {
    NodeMemory memory(test_machine(), slowdown, 2);
    for (Address i = 0; i < many * differs; ++i) {
      const std::array targets{InjectionTarget{}, i % differs == 0 ? InjectionTarget{1, 0} : InjectionTarget{}};
      memory.dma_write(i * line, line, targets, memory.clock(0));
      memory.access(0, Access::load, i * line, 8);
    }
    CHECK(memory.is_split() == (differs == 1));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int machines = argc > 1 ? std::atoi(argv[1]) : 40;
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  memories_split_if_many_accesses_differ();
  Count differing = 0, injected = 0, victims_missed = 0, prefetches = 0;
  for (const auto make : {random_machine, random_machine_with_victim_cache, random_machine_with_hubs})
    for (int i = 0; i < machines; ++i) {
      const auto seed = first + static_cast<std::uint64_t>(i);
      const Case it = random_case(seed, make);
      std::vector<Counts> counts;
      const auto equal_steps = count_equal_steps(it, counts);
      CHECK(equal_steps == it.steps.size());
      if (equal_steps < it.steps.size()) {
        std::printf("seed %llu: together not as alone after step %zu: %s\n%s", static_cast<unsigned long long>(seed),
                    equal_steps, describe(it.steps[equal_steps]).c_str(), describe(it.machine).c_str());
        return 1;
      }
      for (const auto& single : counts) {
        differing += single.dram.reads != counts[0].dram.reads;
        for (const auto& level : single.levels) {
          injected += level.injections;
          victims_missed += level.victims_missed;
          prefetches += level.prefetches;
        }
      }
    }
  std::printf(
      "%d machines, %llu variants unlike the first, %llu lines injected, %llu of their victims missed, %llu "
      "prefetches\n",
      3 * machines, static_cast<unsigned long long>(differing), static_cast<unsigned long long>(injected),
      static_cast<unsigned long long>(victims_missed), static_cast<unsigned long long>(prefetches));
  if (machines >= 20) CHECK(differing > 20 && injected > 1000 && victims_missed > 100 && prefetches > 1000);
  return failed_checks == 0 ? 0 : 1;
}
