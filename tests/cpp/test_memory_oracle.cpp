// Does the simulated memory do what src/sim/memory/memory.hpp describes? Random traces on random machines run through
// the simulated memory and through the reference model (reference_memory.hpp); after every step all counts must be
// equal, at intervals the state of every copy, too, and the laws must hold. A difference is shrunk to few steps that a
// person can follow.
//
// test_memory_oracle [machines [first seed [steps of each [unshrunk]]]], and a quarter as many each with a victim
// cache and with hubs. For 500 machines and 10^7 accesses: test_memory_oracle 334 1000 9600
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "check.hpp"
#include "memory_laws.hpp"
#include "memory_traces.hpp"
#include "reference_memory.hpp"

using namespace nearfield;
using namespace nearfield::sim;

namespace {

const std::pair<const char*, Count LevelCounts::*> level_fields[] = {
    {"hits", &LevelCounts::hits},
    {"misses", &LevelCounts::misses},
    {"evictions", &LevelCounts::evictions},
    {"write_backs", &LevelCounts::write_backs},
    {"back_invalidations", &LevelCounts::back_invalidations},
    {"invalidations", &LevelCounts::invalidations},
    {"injections", &LevelCounts::injections},
    {"injected_unused", &LevelCounts::injected_unused},
    {"injected_victims", &LevelCounts::injected_victims},
    {"device_hits", &LevelCounts::device_hits},
};
const std::pair<const char*, Count DramCounts::*> dram_fields[] = {
    {"reads", &DramCounts::reads},
    {"writes", &DramCounts::writes},
    {"prefetches", &DramCounts::prefetches},
    {"bypass_reads", &DramCounts::bypass_reads},
    {"bypass_writes", &DramCounts::bypass_writes},
    {"dma_reads", &DramCounts::dma_reads},
    {"dma_writes", &DramCounts::dma_writes},
    {"bytes", &DramCounts::bytes},
};

// ---- running the same step on both

void replay(NodeMemory& memory, const Step& step, const Machine& machine) {
  std::vector<Reference> trace;
  for (const OneAccess& access : accesses_of(step, machine))
    trace.push_back({access.address, access.bytes, access.kind});
  memory.replay(step.core, trace);
}

void act(NodeMemory& memory, const Step& step, const Machine& machine) {
  switch (step.what) {
    case Step::What::access:
      memory.access(step.core, step.kind, step.address, static_cast<unsigned>(step.bytes));
      break;
    case Step::What::sweep:
      memory.sweep(step.core, step.kind, step.address, step.count, step.stride_bytes,
                   static_cast<unsigned>(step.bytes));
      break;
    case Step::What::replay:
      replay(memory, step, machine);
      break;
    case Step::What::copy:
      memory.copy(step.core, step.address, step.from, step.bytes);
      break;
    case Step::What::dma_write:
      memory.dma_write(step.address, step.bytes, {&step.target, 1}, memory.clock(step.core));
      break;
    case Step::What::dma_read:
      memory.dma_read(step.address, step.bytes, memory.clock(step.core));
      break;
    case Step::What::invalidate_range:
      memory.invalidate_range(step.address, step.bytes);
      break;
    case Step::What::invalidate_all:
      memory.invalidate_all();
      break;
  }
}

void act(ReferenceMemory& memory, const Step& step, const Machine& machine) {
  for (const OneAccess& access : accesses_of(step, machine))
    memory.access(step.core, access.kind, access.address, access.bytes);
  if (step.what == Step::What::dma_write) memory.dma_write(step.address, step.bytes, step.target);
  if (step.what == Step::What::dma_read) memory.dma_read(step.address, step.bytes);
  if (step.what == Step::What::invalidate_range) memory.invalidate_range(step.address, step.bytes);
  if (step.what == Step::What::invalidate_all) memory.invalidate_all();
}

// ---- comparison

// Returns every L1 line that the steps touch.
std::vector<Address> lines_of(const std::vector<Step>& steps, const Machine& machine) {
  const Address granule = granule_bytes(machine), line = static_cast<Address>(machine.caches[0].line_bytes);
  std::set<Address> lines;
  const auto add = [&](Address first, std::uint64_t bytes) {
    for (Address address = first / granule * granule; address < first + bytes; address += line) lines.insert(address);
  };
  for (const Step& step : steps) {
    for (const OneAccess& access : accesses_of(step, machine)) add(access.address, access.bytes);
    if (step.what >= Step::What::dma_write) add(step.address, step.bytes);
  }
  return {lines.begin(), lines.end()};
}

std::string different_counts(const Counts& counts, const Counts& expected) {
  std::ostringstream out;
  const auto compare = [&](const std::string& name, Count a, Count b) {
    if (a != b) out << "  " << name << ": " << a << ", reference " << b << "\n";
  };
  for (std::size_t level = 0; level < expected.levels.size(); ++level)
    for (const auto& [name, field] : level_fields)
      compare("level " + std::to_string(level) + " " + name, counts.levels[level].*field,
              expected.levels[level].*field);
  for (const auto& [name, field] : dram_fields)
    compare(std::string("dram ") + name, counts.dram.*field, expected.dram.*field);
  compare("transfers", counts.transfers, expected.transfers);
  return out.str();
}

const char* state_of(const CopyState& copy) {
  if (!copy.present) return "absent";
  if (copy.modified) return copy.shared ? "owned" : "modified";
  return copy.shared ? "shared" : "exclusive";
}

std::string different_copies(NodeMemory& memory, ReferenceMemory& reference, const Machine& machine,
                             const std::vector<Address>& lines) {
  std::ostringstream out;
  for_each_cache(machine, [&](int core, int level) {
    for (const Address line : lines) {
      const std::string state = state_of(memory.cached_copy_state(core, level, line));
      const std::string expected = state_of(reference.cached_copy_state(core, level, line));
      if (state != expected)
        out << "  " << std::hex << std::showbase << line << std::dec << " at level " << level << " of core " << core
            << ": " << state << ", reference " << expected << "\n";
    }
  });
  return out.str();
}

// ---- one trace

struct Difference {
  std::size_t steps;  // up to and including the one after which it showed
  std::string what;
};

std::optional<Difference> first_difference(const Machine& machine, const std::vector<Step>& steps,
                                           bool states_after_each) {
  NodeMemory memory(machine);
  ReferenceMemory reference(machine);
  const std::vector<Address> lines = lines_of(steps, machine);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    act(memory, steps[i], machine);
    act(reference, steps[i], machine);
    std::string what = different_counts(memory.counts(), reference.counts());
    if (states_after_each || (i + 1) % 800 == 0 || i + 1 == steps.size())
      what += different_copies(memory, reference, machine, lines);
    if (!what.empty()) return Difference{i + 1, what};
  }
  return std::nullopt;
}

// Removes ever smaller pieces of the trace as long as a difference remains, and simplifies the rest.
class Shrinking {
 public:
  Shrinking(const Machine& machine, std::vector<Step> steps) : machine_(machine), steps_(std::move(steps)) {
    keep_if_different(steps_);
    for (std::size_t piece = steps_.size() / 2; piece > 1; piece /= 2) leave_out(piece);
    while (leave_out(1)) {
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) simplify(i);
    while (leave_out(1)) {
    }
  }

  const std::vector<Step>& steps() const { return steps_; }
  const std::string& what() const { return what_; }

 private:
  bool keep_if_different(std::vector<Step> steps) {
    const auto found = first_difference(machine_, steps, steps.size() <= 60);
    if (!found) return false;
    steps.resize(found->steps);
    steps_ = std::move(steps);
    what_ = found->what;
    return true;
  }

  bool leave_out(std::size_t piece) {
    bool has_shrunk = false;
    for (std::size_t at = 0; at < steps_.size();) {
      std::vector<Step> fewer = steps_;
      const auto first = fewer.begin() + static_cast<std::ptrdiff_t>(at);
      fewer.erase(first, first + static_cast<std::ptrdiff_t>(std::min(piece, steps_.size() - at)));
      if (keep_if_different(fewer))
        has_shrunk = true;
      else
        at += piece;
    }
    return has_shrunk;
  }

  // Replaces a sweep, a replayed trace or a copy by single accesses, and these by accesses to one byte.
  void simplify(std::size_t i) {
    std::vector<Step> simpler = steps_;
    Step step = simpler[i];
    const std::vector<OneAccess> accesses = accesses_of(step, machine_);
    if (step.what > Step::What::access && step.what <= Step::What::copy) {
      simpler.erase(simpler.begin() + static_cast<std::ptrdiff_t>(i));
      step.what = Step::What::access;
      for (auto access = accesses.rbegin(); access != accesses.rend(); ++access) {
        step.kind = access->kind;
        step.address = access->address;
        step.bytes = access->bytes;
        simpler.insert(simpler.begin() + static_cast<std::ptrdiff_t>(i), step);
      }
    } else if (step.what == Step::What::access) {
      simpler[i].bytes = 1;
    }
    keep_if_different(simpler);
  }

  const Machine& machine_;
  std::vector<Step> steps_;
  std::string what_;
};

void report(std::uint64_t seed, const Machine& machine, const std::vector<Step>& all_steps) {
  const Shrinking shrunk(machine, all_steps);
  const std::vector<Step>& steps = shrunk.steps();
  std::printf("seed %llu: not as the reference model\n%s", static_cast<unsigned long long>(seed),
              describe(machine).c_str());
  ReferenceMemory reference(machine);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::printf("  %2zu. %s\n", i + 1, describe(steps[i]).c_str());
    if (i + 1 < steps.size()) act(reference, steps[i], machine);
  }
  std::printf("before the last step (by the reference):\n");
  for (const Address line : lines_of(steps, machine))
    for_each_cache(machine, [&](int core, int level) {
      const CopyState copy = reference.cached_copy_state(core, level, line);
      if (copy.present)
        std::printf("  %#llx at level %d of core %d: %s\n", static_cast<unsigned long long>(line), level, core,
                    state_of(copy));
    });
  std::printf("after it:\n%s", shrunk.what().c_str());
}

struct Totals {
  Counts counts;
  Count accesses = 0;
};

void add(Totals& totals, const Counts& counts) {
  totals.counts.levels.resize(1);
  for (const LevelCounts& level : counts.levels)
    for (const auto& [name, field] : level_fields) totals.counts.levels[0].*field += level.*field;
  for (const auto& [name, field] : dram_fields) totals.counts.dram.*field += counts.dram.*field;
  totals.counts.transfers += counts.transfers;
}

// Returns the number of L1 lines that the cores' accesses touch, and the bytes of non-temporal accesses.
std::pair<Count, Count> accesses_and_nontemporal_bytes(const std::vector<Step>& steps, const Machine& machine) {
  const Address line = static_cast<Address>(machine.caches[0].line_bytes);
  Count lines = 0, bytes = 0;
  for (const Step& step : steps)
    for (const OneAccess& access : accesses_of(step, machine)) {
      if (access.kind == Access::load_nontemporal || access.kind == Access::store_nontemporal)
        bytes += access.bytes;
      else
        lines += (access.address + access.bytes - 1) / line - access.address / line + 1;
    }
  return {lines, bytes};
}

bool is_as_reference(std::uint64_t seed, Machine (*make)(Random&), std::size_t steps_of_it, bool shrinks,
                     Totals& totals) {
  Random random(seed);
  const Machine machine = make(random);
  const std::vector<Step> steps = random_trace(random, machine, steps_of_it);
  if (const auto difference = first_difference(machine, steps, false)) {
    if (shrinks)
      report(seed, machine, steps);
    else
      std::printf("not as the reference model\n%s", difference->what.c_str());
    return false;
  }
  const int failed_before = failed_checks;
  NodeMemory memory(machine);
  const std::vector<Address> lines = lines_of(steps, machine);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    act(memory, steps[i], machine);
    if ((i + 1) % 800 == 0) laws_of_copies(machine, memory, lines);
  }
  const auto [accesses, nontemporal_bytes] = accesses_and_nontemporal_bytes(steps, machine);
  counting_laws(machine, memory.counts(), accesses, nontemporal_bytes);
  if (failed_checks > failed_before)
    std::printf("seed %llu: a law does not hold\n%s", static_cast<unsigned long long>(seed), describe(machine).c_str());
  add(totals, memory.counts());
  totals.accesses += accesses;
  return failed_checks == failed_before;
}

// ---- traces written by hand

struct ByHand {
  int core;
  Access kind;
  Address address;
};

// After these accesses, the copy of address 0 in that cache of core 0 must be in this state, on both models.
void ends_in(const Machine& machine, const std::vector<ByHand>& accesses, int level, const std::string& state) {
  NodeMemory memory(machine);
  ReferenceMemory reference(machine);
  for (const auto& [core, kind, address] : accesses) {
    memory.access(core, kind, address, 1);
    reference.access(core, kind, address, 1);
  }
  CHECK(state_of(memory.cached_copy_state(0, level, 0)) == state);
  CHECK(state_of(reference.cached_copy_state(0, level, 0)) == state);
}

Machine two_cores(Coherence coherence, const std::vector<Cache>& caches) {
  Machine machine;
  machine.cores = 2;
  machine.core.clock_ghz = 1;
  machine.coherence = coherence;
  machine.dram.gb_per_s = 1;
  machine.caches = caches;
  return machine;
}

Cache one_set(int ways, int line_bytes, int shared_by) {
  Cache cache;
  cache.ways = ways;
  cache.line_bytes = line_bytes;
  cache.size_bytes = static_cast<std::uint64_t>(ways * line_bytes);
  cache.shared_by = shared_by;
  return cache;
}

// A store into a modified copy sends no snoop, so that an outer copy, of a longer line, stays owned.
void a_store_into_a_modified_copy_is_silent() {
  const auto machine = two_cores(Coherence::moesi, {one_set(1, 64, 1), one_set(2, 64, 1), one_set(1, 128, 1)});
  const std::vector<ByHand> before{
      {0, Access::store, 0},     // modified
      {1, Access::load, 0},      // owned
      {0, Access::store, 0x40},  // the other half of the granule; L2 receives the first half as owned
      {0, Access::load, 0x80},   // and evicts it to L3
  };
  ends_in(machine, before, 2, "owned");
  auto accesses = before;
  accesses.push_back({0, Access::store, 0x40});
  ends_in(machine, accesses, 2, "owned");
}

// With mesi, an exclusive cache that has a line modified receives the same line, shared, from an inner cache.
void mesi_has_no_owner() {
  auto victims = one_set(4, 32, 2);
  victims.inclusion = Inclusion::exclusive;
  const auto machine = two_cores(Coherence::mesi, {one_set(1, 32, 1), victims, one_set(4, 64, 2)});
  const std::vector<ByHand> before{
      {1, Access::load, 0},    {0, Access::load, 0},  // both share the line
      {1, Access::load, 0x80},                        // evicts one of the copies
      {0, Access::store, 0},                          // leaves that copy alone, with old data
      {1, Access::load, 0x20},                        // has the new data of the granule written to it
  };
  ends_in(machine, before, 0, "shared");
  ends_in(machine, before, 1, "modified");
  auto accesses = before;
  accesses.push_back({0, Access::load, 0x100});  // evicts the other one
  ends_in(machine, accesses, 1, "modified");
}

// A trace that never evicts, transfers or injects would agree, too.
void everything_occurred(const Totals& totals) {
  for (const auto& [name, field] : level_fields) {
    std::printf("%s %llu, ", name, static_cast<unsigned long long>(totals.counts.levels[0].*field));
    CHECK(totals.counts.levels[0].*field > 1000);
  }
  for (const auto& [name, field] : dram_fields)
    if (field != &DramCounts::prefetches) CHECK(totals.counts.dram.*field > 1000);
  CHECK(totals.counts.transfers > 1000);
  std::printf("transfers %llu\n", static_cast<unsigned long long>(totals.counts.transfers));
}

}  // namespace

int main(int argc, char** argv) {
  const int machines = argc > 1 ? std::atoi(argv[1]) : 250;
  const std::uint64_t first_seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const std::size_t steps = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 2400;
  const bool shrinks = argc <= 4;
  a_store_into_a_modified_copy_is_silent();
  mesi_has_no_owner();
  Totals totals;
  bool is_as_expected = true;
  for (int i = 0; i < machines && is_as_expected; ++i)
    is_as_expected =
        is_as_reference(first_seed + static_cast<std::uint64_t>(i), random_machine, steps, shrinks, totals);
  for (const auto make : {random_machine_with_victim_cache, random_machine_with_hubs})
    for (int i = 0; i < machines / 4 && is_as_expected; ++i)
      is_as_expected = is_as_reference(first_seed + static_cast<std::uint64_t>(i), make, steps, shrinks, totals);
  std::printf("%d machines, %llu accesses\n", machines + machines / 4 * 2,
              static_cast<unsigned long long>(totals.accesses));
  if (is_as_expected && machines >= 200) {
    everything_occurred(totals);
    CHECK(totals.accesses >= 1000000);
  }
  return is_as_expected && failed_checks == 0 ? 0 : 1;
}
