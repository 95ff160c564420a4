// When does data arrive, and what does a core wait for? Times are computed by hand for a small machine whose costs are
// all different, or compared between two equivalent traces. test_memory_prefetching.cpp does so for the prefetcher.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "check.hpp"
#include "memory_traces.hpp"
#include "sim/memory/bus.hpp"
#include "sim/memory/counts.hpp"
#include "sim/memory/frames.hpp"
#include "sim/memory/links.hpp"
#include "sim/memory/memory.hpp"
#include "sim/memory/self_benchmark.hpp"
#include "test_machine.hpp"

namespace {

using namespace nearfield;
using namespace nearfield::sim;

constexpr unsigned word = 8;
constexpr Address line = 128;

// A cycle is 1 ns; memory latency is 100 ns, and a line occupies the memory's bus for 12.8 ns.
Machine machine_with(int window, int misses = 8) {
  Machine machine = test_machine();
  machine.core.window = window;
  machine.core.outstanding_misses = misses;
  return machine;
}

double ns(const NodeMemory& memory, int core = 0) { return memory.now(core)[0] / 1e3; }

Machine any_machine(Random& random) {
  Machine machine = random.in(50) ? random_machine(random) : random_machine_with_victim_cache(random);
  machine.core.window = random.in(50) ? random.between(1, 40) : 0;
  for (Cache& cache : machine.caches)
    if (random.in(50)) cache.bytes_per_cycle = 1 << random.between(0, 5);
  if (random.in(50)) {
    const auto level = random.below(machine.caches.size());
    const bool can = machine.caches[level].inclusion != Inclusion::exclusive;
    machine.prefetcher = Prefetcher{random.between(1, 4), random.between(1, 6), can ? static_cast<int>(level) : 0};
    if (random.in(50)) machine.prefetcher->start = PrefetchExtent::all;
  }
  if (random.in(30)) machine.transfers.upgrade_cycles = random.between(1, 30);
  if (random.in(30)) machine.pages.walkers = random.between(1, 4);
  if (random.in(30)) machine.pages.placement = PagePlacement::random;
  if (random.in(30)) machine.dram.tiers = {{250, 3.2, 0.4}};
  return machine;
}

Machine any_machine_with_hubs(Random& random) {
  Machine machine = random_machine_with_hubs(random);
  machine.core.window = random.in(50) ? random.between(1, 40) : 0;
  return machine;
}

// Neither a count nor a time depends on whether accesses are one sweep, a trace, or single accesses after each of
// which the clock is read, nor on whether clocks use instructions that not every host has.
void grouping_changes_nothing(std::uint64_t machines, Machine (*make)(Random&)) {
  for (std::uint64_t seed = 1; seed <= machines; ++seed) {
    Random random(seed);
    const Machine machine = make(random);
    NodeMemory grouped(machine, {1, 2, 4, 7.5});
    setenv("NEARFIELD_INSTRUCTIONS", "plain", 1);
    NodeMemory single(machine, {1, 2, 4, 7.5});
    unsetenv("NEARFIELD_INSTRUCTIONS");
    const Access kinds[] = {Access::load, Access::store, Access::chase, Access::index, Access::gather};
    for (int step = 0; step < 60; ++step) {
      const int core = random.between(0, machine.cores - 1);
      const std::uint64_t first_kind = random.below(5);
      const Access kind = kinds[first_kind];
      const unsigned bytes = 1U << random.below(5);
      const bool is_backward = random.in(30);
      const std::int64_t stride = static_cast<std::int64_t>(bytes << random.below(3)) * (is_backward ? -1 : 1);
      const Address begin = ((is_backward ? 1 << 9 : 0) + random.below(1 << 14)) * bytes;
      const std::uint64_t count = 1 + random.below(80);
      const Ps work = random.in(30) ? 1500 : 0;
      const bool is_trace = work == 0 && random.in(50);
      std::vector<Reference> trace;
      for (std::uint64_t i = 0; i < count; ++i)
        trace.push_back(
            {begin + i * static_cast<std::uint64_t>(stride), bytes, is_trace ? kinds[(first_kind + i / 3) % 5] : kind});
      if (is_trace)
        grouped.replay(core, trace);
      else
        grouped.sweep(core, kind, begin, count, stride, bytes, work);
      for (const auto& one : trace) {
        single.sweep(core, one.kind, one.address, 1, stride, bytes, work);
        static_cast<void>(single.now(core));
      }
      const bool same = grouped.now(core) == single.now(core);
      CHECK(same);
      if (!same) {
        std::printf(
            "seed %llu, step %d, kind %d, %u bytes, stride %lld, %llu times from %llu, %.0f against %.0f ps: window "
            "%d, %s\n",
            static_cast<unsigned long long>(seed), step, static_cast<int>(kind), bytes, static_cast<long long>(stride),
            static_cast<unsigned long long>(count), static_cast<unsigned long long>(begin), grouped.now(core)[0],
            single.now(core)[0], machine.core.window, describe(machine).c_str());
        return;
      }
    }
    const Counts one = grouped.counts(), other = single.counts();
    for (std::size_t k = 0; k < one.levels.size(); ++k) {
      CHECK(one.levels[k].hits == other.levels[k].hits && one.levels[k].misses == other.levels[k].misses);
      CHECK(one.levels[k].prefetches == other.levels[k].prefetches);
    }
    CHECK(one.dram.reads == other.dram.reads && one.dram.writes == other.dram.writes);
  }
}

// A device's single write takes as long as consecutive writes of its granules, whatever cores do between them.
void a_transfer_takes_as_long_as_the_granules(std::uint64_t machines) {
  for (std::uint64_t seed = 1; seed <= machines; ++seed) {
    Random random(seed);
    const Machine machine = any_machine(random);
    NodeMemory whole(machine, {1, 2, 4, 7.5}), in_granules(machine, {1, 2, 4, 7.5});
    for (int step = 0; step < 60; ++step) {
      const int core = random.between(0, machine.cores - 1);
      const Address begin = random.below(1 << 14) * word;
      const std::uint64_t count = 1 + random.below(200);
      if (random.in(60)) {
        for (auto* memory : {&whole, &in_granules}) memory->sweep(core, Access::store, begin, count, word, word);
        continue;
      }
      const InjectionTarget target{random.between(-1, static_cast<int>(machine.caches.size()) - 1), core, 0};
      const ConfigClock start = whole.clock(core), done = whole.dma_write(begin, count * word, {&target, 1}, start);
      ConfigClock granules_done = start;
      for (Address at = begin, next, end = begin + count * word; at < end; at = next) {
        next = std::min(at / granule_bytes(machine) * granule_bytes(machine) + granule_bytes(machine), end);
        granules_done = in_granules.dma_write(at, next - at, {&target, 1}, granules_done);
      }
      CHECK(done == granules_done);
      if (random.in(50)) whole.wait_until(core, done), in_granules.wait_until(core, done);
    }
  }
}

// Behind a load that misses, the core issues as many instructions as its window holds, then waits for the data.
void the_window_limits_instructions_behind_a_miss() {
  const auto after = [](int window, int hits) {
    NodeMemory memory(machine_with(window));
    memory.access(0, Access::load, 0, word);  // brings the line that is hit
    memory.drain(0);
    const double begun = ns(memory);
    memory.access(0, Access::load, 4096, word);
    for (int i = 0; i < hits; ++i) memory.access(0, Access::load, 0, word);
    return ns(memory) - begun;
  };
  CHECK(after(0, 60) == 61);
  CHECK(after(32, 31) == 32);       // the miss is the first of the 32
  CHECK(after(32, 32) == 100 + 1);  // the next one waits for it
  CHECK(after(32, 60) == 100 + 29);
  CHECK(after(128, 60) == 61);
}

// Stores leave the window before their line arrives.
void stores_do_not_fill_the_window() {
  NodeMemory memory(machine_with(4));
  for (Address i = 0; i < 8; ++i) memory.access(0, Access::store, i * line, word);
  CHECK(ns(memory) == 8);
}

// A gather's address is the data of the index load before it; other loads do not wait for that.
void a_gather_waits_for_the_index() {
  const auto until = [](Access second, Access first = Access::index) {
    NodeMemory memory(machine_with(0));
    memory.access(0, first, 0, word);
    memory.access(0, second, 64 * line, word);
    CHECK(ns(memory) == 2);  // the core continues
    memory.drain(0);
    return ns(memory);
  };
  CHECK(until(Access::gather) == 200);
  CHECK(until(Access::load) < 120);
  CHECK(until(Access::gather, Access::load) < 120);
}

// Stores that L1 writes through occupy L2's port for their bytes, not for a line.
void a_store_writes_through_only_the_stored_bytes() {
  Machine machine = machine_with(0);
  machine.caches[0].write = WritePolicy::through;
  machine.caches[1].bytes_per_cycle = 4;
  NodeMemory memory(machine);
  memory.access(0, Access::load, 0, word);
  memory.drain(0);
  const double begun = ns(memory);
  for (int i = 0; i < 10; ++i) memory.access(0, Access::store, 0, word);
  CHECK(ns(memory) == begun + 9 * 2 + 1);  // two cycles each; the last one's bytes still occupy the port
}

// Random frames: no two pages share one, all are in the memory of their page, and page colours are used evenly.
void frames_are_a_permutation() {
  for (const std::uint64_t page_bytes : {4096U, 1U << 21}) {
    Pages pages;
    pages.page_bytes = page_bytes;
    pages.placement = PagePlacement::random;
    const PageFrames frames(pages);
    const Address home = Address{3} << home_memory_shift;
    const std::uint64_t pages_per_home = (Address{1} << home_memory_shift) / page_bytes;
    std::vector<bool> taken(pages_per_home);
    std::vector<int> colours(64);
    for (std::uint64_t page = 0; page < pages_per_home; ++page) {
      const Address frame = frames.physical_address(home + page * page_bytes + 5);
      CHECK(frame >> home_memory_shift == 3 && frame % page_bytes == 5);
      const Address number = (frame - home) / page_bytes;
      CHECK(!taken[number]);
      taken[number] = true;
      if (page < 64 * 100) ++colours[frame / page_bytes % 64];
    }
    if (pages_per_home >= 64 * 100)
      for (const int times : colours) CHECK(50 < times && times < 150);
  }
  const PageFrames identity{Pages{}};
  CHECK(identity.physical_address(0x123456789) == 0x123456789);
}

// 3/4 of a cache in 4 KiB pages: each set has room for all lines if pages are contiguous, and not if frames are
// random.
void random_frames_meet_in_sets() {
  const auto misses = [](PagePlacement placement) {
    Machine machine = machine_with(0);
    machine.caches[2].size_bytes = 1 << 20;
    machine.pages.placement = placement;
    NodeMemory memory(machine);
    for (int sweep = 0; sweep < 3; ++sweep) {
      if (sweep == 2) memory.reset_counts();
      memory.sweep(0, Access::load, 0, (3 << 18) / word, word, word);
    }
    return memory.counts().dram.reads;
  };
  CHECK(misses(PagePlacement::identity) == 0);
  CHECK(misses(PagePlacement::random) > 100);
}

// Accesses that arrive in any order: a bus starts none before its time, and is never idle while one waits, at every
// memory speed separately.
void a_bus_serves_late_requests_in_free_intervals() {
  Bus bus;
  const auto reserve = [&](Ps start, Ps takes) { return bus.reserve(TimeVector(start), TimeVector(takes))[3]; };
  CHECK(reserve(100, 10) == 100);
  CHECK(reserve(100, 10) == 110);
  CHECK(reserve(40, 10) == 40);
  CHECK(reserve(45, 10) == 50);
  CHECK(reserve(95, 10) == 120 - 5);  // half of it before 100, half behind the others
  CHECK(reserve(0, 50) == 60 - 40);   // 40 before the first one, and the rest behind the second
  Random random(1);
  Bus busy;
  TimeVector last;
  for (int n = 0; n < 100'000; ++n) {
    TimeVector start;
    for (auto& at : start.at) at = 9.0 * n + static_cast<Ps>(random.below(500));
    const TimeVector begun = busy.reserve(start, TimeVector(10));
    CHECK(all_at_least(begun, start));
    last = later(last, begun + 10.0);
  }
  for (const Ps at : last.at) CHECK(1e6 <= at && at < 1.001e6);
}

// A core whose clock is behind gets its line as if the other core's later access did not exist.
void a_core_that_is_behind_does_not_wait() {
  const auto ns_with = [](bool other_is_ahead) {
    NodeMemory memory(machine_with(0));
    if (other_is_ahead) {
      memory.advance(1, ps_from_ns(1000));
      memory.access(1, Access::load, 64 * line, word);
      memory.drain(1);
    }
    memory.access(0, Access::load, 0, word);
    memory.drain(0);
    return ns(memory);
  };
  CHECK(ns_with(true) == ns_with(false));
}

// Two sockets of one core each. Links carry lines from the other socket: 64 lines from its memory take the time of the
// link. A bus also carries lines from local memory, and those that the other socket gets.
void connections_of_sockets_limit_bandwidth() {
  const auto ns_of = [](SocketTraffic carries, bool remote, bool by_other = false) {
    Machine machine = machine_with(0, 1000);
    machine.cores = 2;
    for (Cache& cache : machine.caches) cache.shared_by = 1;
    machine.transfers.remote_cycles = 1;
    machine.dram.gb_per_s = 100;
    machine.dram.shared_by = 1;
    machine.socket = {.gb_per_s = 1, .shared_by = 1, .carries = carries};
    NodeMemory memory(machine);
    const Address begin = remote ? Address{1} << home_memory_shift : 0;
    if (by_other) {
      memory.sweep(1, Access::load, begin, 64, line, word);
      memory.drain(1);
    }
    const double before = ns(memory);
    memory.sweep(0, Access::load, begin, 64, line, word);
    memory.drain(0);
    return ns(memory) - before;
  };
  const double crossing = 64 * line;  // at 1 GB/s
  CHECK(ns_of(SocketTraffic::remote, false) < crossing / 10);
  CHECK(std::abs(ns_of(SocketTraffic::remote, true) - crossing) < crossing / 10);
  CHECK(std::abs(ns_of(SocketTraffic::remote, false, true) - crossing) < crossing / 10);
  CHECK(std::abs(ns_of(SocketTraffic::everything, false) - crossing) < crossing / 10);
  CHECK(std::abs(ns_of(SocketTraffic::everything, false, true) - 2 * crossing) < crossing / 5);  // both buses
}

// Eight hubs of one core each, two per router, routers in a square of four. Memory and lines of other caches take
// longer with every router, and the lines of two cores that cross the same link share it.
Machine machine_with_hubs() {
  Machine machine = machine_with(0, 1000);
  machine.cores = 8;
  for (Cache& cache : machine.caches) cache.shared_by = 1;
  machine.transfers.remote_cycles = 300;
  machine.dram.gb_per_s = 100;
  machine.dram.shared_by = 1;
  machine.dram.remote_ns = 200;
  machine.links = Links{"hypercube", {}, 2, 70, 1};
  return machine;
}

Address in_memory_of(Address hub) { return hub << home_memory_shift; }

void latency_grows_with_every_router() {
  const auto ns_of = [](Address hub) {
    NodeMemory memory(machine_with_hubs());
    memory.access(0, Access::chase, in_memory_of(hub), word);
    return ns(memory);
  };
  CHECK(ns_of(0) == 100);
  CHECK(ns_of(1) == 100 + 200);
  CHECK(ns_of(2) == 100 + 200 + 70 && ns_of(4) == ns_of(2));
  CHECK(ns_of(7) == 100 + 200 + 2 * 70);
  CHECK(chase_latency_from_ns(machine_with_hubs(), 7) == 100 + 200 + 2 * 70);
  CHECK((hops_of_hubs(machine_with_hubs()) == std::vector<int>{0, 0, 1, 1, 1, 1, 2, 2}));
}

// A modified line comes from its holder, which the line's home snoops; an unmodified one comes from its home.
void a_home_knows_who_has_a_line() {
  const auto ns_of = [](Access held, int holder, Address home) {
    NodeMemory memory(machine_with_hubs());
    memory.access(holder, held, in_memory_of(home), word);
    memory.advance(0, ps_from_ns(1000));  // until the holder has it
    memory.access(0, Access::chase, in_memory_of(home), word);
    return ns(memory) - 1000;
  };
  CHECK(ns_of(Access::store, 1, 1) == 300 + 200);
  CHECK(ns_of(Access::store, 7, 7) == 300 + 200 + 2 * 70);
  CHECK(ns_of(Access::store, 7, 0) == ns_of(Access::store, 7, 7));
  CHECK(ns_of(Access::store, 1, 2) == 300 + (270 + 270 + 200) / 2);  // from 0 to 2, from 2 to 1, and from 1 to 0
  CHECK(ns_of(Access::load, 1, 2) == ns_of(Access::load, 2, 2) && ns_of(Access::load, 1, 2) == 100 + 270);
}

// 64 lines per core, loaded by cores 0 and 1 concurrently, take as long as the link that all of them cross.
void lines_occupy_the_links_of_their_way() {
  constexpr double crossing = 64 * line;  // at 1 GB/s
  const auto ns_of = [](std::vector<Address> homes, Access kind = Access::load, int held_by = -1) {
    NodeMemory memory(machine_with_hubs());
    const auto sweep = [&](int core, Access kind_of, Address hub) {
      memory.sweep(core, kind_of, in_memory_of(hub) + static_cast<Address>(core) * 64 * line, 64, line, word);
      memory.drain(core);
    };
    if (held_by >= 0)
      memory.sweep(held_by, Access::store, in_memory_of(homes[0]), 64, line, word), memory.drain(held_by);
    for (std::size_t core = 0; core < homes.size(); ++core) sweep(static_cast<int>(core), kind, homes[core]);
    double last = 0;
    for (std::size_t core = 0; core < homes.size(); ++core) last = std::max(last, ns(memory, static_cast<int>(core)));
    return last;
  };
  const auto takes = [&](double ns, double links) { return std::abs(ns - links * crossing) < crossing / 8; };
  CHECK(ns_of({0}) < crossing / 8);
  CHECK(takes(ns_of({1}), 1));
  CHECK(takes(ns_of({4, 5}), 2));                // different hubs, the same link between routers
  CHECK(takes(ns_of({4, 2}), 1));                // other links
  CHECK(takes(ns_of({2, 2}), 2));                // out of the same hub
  CHECK(takes(ns_of({0}, Access::load, 5), 2));  // from a cache, which writes them to memory, too
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t machines = argc > 1 ? std::stoull(argv[1]) : 1200;
  grouping_changes_nothing(machines, any_machine);
  grouping_changes_nothing(machines / 4, any_machine_with_hubs);
  a_transfer_takes_as_long_as_the_granules(machines / 4);
  the_window_limits_instructions_behind_a_miss();
  stores_do_not_fill_the_window();
  a_gather_waits_for_the_index();
  a_store_writes_through_only_the_stored_bytes();
  frames_are_a_permutation();
  random_frames_meet_in_sets();
  a_bus_serves_late_requests_in_free_intervals();
  a_core_that_is_behind_does_not_wait();
  connections_of_sockets_limit_bandwidth();
  latency_grows_with_every_router();
  a_home_knows_who_has_a_line();
  lines_occupy_the_links_of_their_way();
  return failed_checks != 0;
}
