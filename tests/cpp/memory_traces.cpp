// See memory_traces.hpp.
#include "memory_traces.hpp"

#include <algorithm>
#include <sstream>

namespace nearfield::sim {

namespace {

int part_bytes(const Cache& cache) { return cache.line_bytes / cache.sub_blocks; }

// Returns how many cores share a cache of each level: a multiple of those of the next inner level.
std::vector<int> random_sharing(Random& random, int cores, int levels) {
  std::vector<int> shared_by;
  int cores_sharing = random.in(15) ? 2 : 1;
  for (int level = 0; level < levels; ++level) {
    if (level > 0 && random.in(60)) cores_sharing *= random.in(70) ? 2 : 4;
    if (level == levels - 1 && random.in(40))
      cores_sharing = std::max(cores_sharing, cores + (cores_sharing - cores % cores_sharing) % cores_sharing);
    shared_by.push_back(cores_sharing);
  }
  return shared_by;
}

Cache random_cache(Random& random, int level) {
  Cache cache;
  cache.ways = random.between(1, level == 0 ? 4 : 8);
  if (random.in(6)) cache.ways = random.between(15, 35);
  if (random.in(20)) {
    cache.replacement = "tree-plru";
    cache.ways = 1 << random.between(1, 3);
  }
  cache.latency_cycles = 3 + 10 * level;
  cache.bytes_per_cycle = random.in(50) ? 0 : 16;
  return cache;
}

int random_line(Random& random, const Machine& machine) {
  if (machine.caches.empty()) return 32 << random.between(0, 2);
  const int inner_line_bytes = machine.caches.back().line_bytes;
  return inner_line_bytes * (random.in(25) ? 1 << random.between(1, 2) : 1);
}

void choose_inclusion(Random& random, Cache& cache, const Machine& machine, bool is_last) {
  cache.line_bytes = random_line(random, machine);
  if (machine.caches.empty()) return;
  const bool may_be_exclusive = cache.write == WritePolicy::back && machine.caches.back().write == WritePolicy::back;
  const int choice = random.between(0, may_be_exclusive ? 2 : 1);
  cache.inclusion = choice == 0 ? Inclusion::neither : choice == 1 ? Inclusion::inclusive : Inclusion::exclusive;
  if (cache.inclusion != Inclusion::exclusive) return;
  cache.line_bytes = machine.caches.back().line_bytes;
  if (is_last && random.in(40)) {
    cache.sub_blocks = random.in(70) ? 2 : 4;
    cache.line_bytes *= cache.sub_blocks;
  }
}

// Returns the address of a granule of the trace: a quarter of them are far away, so that the high bits of addresses
// matter.
Address address_of(std::uint64_t granule, Address granule_bytes) {
  return granule * granule_bytes + (granule % 4 == 3 ? Address{1} << 36 : 0);
}

class TraceMaker {
 public:
  TraceMaker(Random& random, const Machine& machine)
      : random_(random), machine_(machine), granule_bytes_(granule_bytes(machine)) {
    std::uint64_t capacity = 0;
    for (const Cache& cache : machine.caches) capacity = std::max(capacity, cache.size_bytes / granule_bytes_);
    granules_ = std::clamp<std::uint64_t>(capacity / 2 + random.below(2 * capacity + 1), 4, 600);
    hot_ = 1 + random.below(8);
    positions_.resize(static_cast<std::size_t>(machine.cores));
  }

  Step next() {
    if (random_.in(5)) pattern_ = random_.between(0, 3);
    if (random_.in(60)) core_ = random_.between(0, machine_.cores - 1);
    Step step;
    step.core = core_;
    step.address = address();
    step.bytes = random_.in(70) ? 8 : 1 + random_.below(2 * granule_bytes_);
    const int choice = random_.between(1, 1000);
    if (choice <= 850) {
      step.kind = choice <= 450 ? Access::load : choice <= 500 ? Access::chase : Access::store;
    } else if (choice <= 880) {
      step.kind = choice <= 865 ? Access::load_nontemporal : Access::store_nontemporal;
    } else if (choice <= 910) {
      make_sweep(step);
    } else if (choice <= 925) {
      step.what = Step::What::copy;
      step.from = address();
      step.bytes = 1 + random_.below(160);
      if (random_.in(70)) {
        step.address = step.address / 8 * 8;
        step.from = step.from / 8 * 8;
      }
    } else if (choice <= 965) {
      make_dma_write(step);
    } else if (choice <= 996) {
      step.what = Step::What::dma_read;
      step.bytes = 1 + random_.below(3 * granule_bytes_);
    } else {
      step.what = choice == 1000 && random_.in(10) ? Step::What::invalidate_all : Step::What::invalidate_range;
    }
    return step;
  }

 private:
  Address address() {
    std::uint64_t granule = 0;
    std::uint64_t& position = positions_[static_cast<std::size_t>(core_)];
    const std::uint64_t slice = std::max<std::uint64_t>(1, granules_ / static_cast<std::uint64_t>(machine_.cores));
    switch (random_.in(15) ? random_.between(0, 3) : pattern_) {
      case 0:
        granule = random_.below(granules_);
        break;  // any granule
      case 1:
        granule = random_.below(hot_);
        break;  // granules that all cores use
      case 2:
        granule = position++ % granules_;
        break;  // one after the other
      default:
        granule = static_cast<std::uint64_t>(core_) * slice + random_.below(slice);
        break;  // the core's own granules
    }
    return address_of(granule, granule_bytes_) + random_.below(granule_bytes_);
  }

  void make_sweep(Step& step) {
    step.what = random_.in(70) ? Step::What::sweep : Step::What::replay;
    step.kind = random_.in(50) ? Access::load : random_.in(80) ? Access::store : Access::chase;
    step.count = 1 + random_.below(24);
    const int strides[] = {4, 8, 8, 16, 64, 200};
    step.stride_bytes = strides[random_.below(6)];
    if (random_.in(20) && step.address >= 24 * 200) step.stride_bytes = -step.stride_bytes;
    step.bytes = random_.in(80) ? 8 : 1 + random_.below(48);
  }

  void make_dma_write(Step& step) {
    step.what = Step::What::dma_write;
    if (random_.in(35)) {  // partial granules
      step.bytes = 1 + random_.below(3 * granule_bytes_);
      return;
    }
    step.address = step.address / granule_bytes_ * granule_bytes_;
    step.bytes = granule_bytes_ * (1 + random_.below(3));
    if (random_.in(25)) return;
    step.target.level = random_.between(0, static_cast<int>(machine_.caches.size()) - 1);
    step.target.core = random_.between(0, machine_.cores - 1);
    const Cache& target = machine_.caches[static_cast<std::size_t>(step.target.level)];
    if (target.replacement == "lru" && random_.in(50)) step.target.ways = random_.between(1, target.ways);
  }

  Random& random_;
  const Machine& machine_;
  Address granule_bytes_;
  std::uint64_t granules_ = 0, hot_ = 0;
  std::vector<std::uint64_t> positions_;
  int pattern_ = 0, core_ = 0;
};

const char* name_of(Access kind) {
  switch (kind) {
    case Access::load:
      return "load";
    case Access::store:
      return "store";
    case Access::chase:
      return "chase";
    case Access::load_nontemporal:
      return "load_nontemporal";
    default:
      return "store_nontemporal";
  }
}

}  // namespace

Address granule_bytes(const Machine& machine) {
  int longest = 0;
  for (const Cache& cache : machine.caches) longest = std::max(longest, part_bytes(cache));
  return static_cast<Address>(longest);
}

Machine random_machine(Random& random) {
  Machine machine;
  machine.name = "random";
  machine.cores = random.in(20) ? 1 : random.between(2, 8);
  machine.core.clock_ghz = 1;
  machine.core.outstanding_misses = random.between(1, 8);
  machine.coherence = random.in(50) ? Coherence::mesi : Coherence::moesi;
  machine.transfers = {30, 60};
  machine.dram.latency_ns = 100;
  machine.dram.gb_per_s = 10;
  machine.nic.emplace();
  machine.nic->gb_per_s = 1;
  machine.nic->dma_ns = 200;
  const DmaRead after_read[] = {DmaRead::keep, DmaRead::clean, DmaRead::invalidate};
  machine.nic->read_of_modified = after_read[random.below(3)];

  const int levels = random.between(1, 3);
  if (random.in(70)) machine.cores = 1 << random.between(0, 3);
  if (random.in(2)) machine.cores = random.between(17, 20);
  const std::vector<int> shared_by = random_sharing(random, machine.cores, levels);
  const int through = random.in(25) ? random.between(1, levels) : 0;
  for (int level = 0; level < levels; ++level) {
    Cache cache = random_cache(random, level);
    cache.shared_by = shared_by[static_cast<std::size_t>(level)];
    cache.write = level < through ? WritePolicy::through : WritePolicy::back;
    choose_inclusion(random, cache, machine, level == levels - 1);
    const int max_sets[] = {7, 13, 23};
    const int sets = cache.ways > 8 ? random.between(1, 3) : random.between(1, max_sets[level]);
    cache.size_bytes = static_cast<std::uint64_t>(sets * cache.ways * cache.line_bytes);
    machine.caches.push_back(cache);
  }
  return machine;
}

Machine random_machine_with_hubs(Random& random) {
  Machine machine = random_machine(random);
  machine.dram.shared_by = 1 << random.between(0, 2);
  machine.dram.remote_ns = 150;
  machine.links = Links{"hypercube", {}, 2, 40, 2};
  if (random.in(50)) machine.socket = {1, machine.dram.shared_by, SocketTraffic::everything};
  return machine;
}

Machine random_machine_with_victim_cache(Random& random) {
  Machine machine = random_machine(random);
  machine.cores = 1 << random.between(0, 4);
  Cache l1, l2, victim_cache;
  l1.line_bytes = l2.line_bytes = 32 << random.between(0, 2);
  victim_cache.sub_blocks = 1 << random.between(0, 2);
  victim_cache.line_bytes = l2.line_bytes * victim_cache.sub_blocks;
  l1.write = random.in(50) ? WritePolicy::through : WritePolicy::back;
  l2.shared_by = random.in(50) ? 1 : machine.cores;
  l2.inclusion = l2.shared_by == 1 && random.in(30) ? Inclusion::neither : Inclusion::inclusive;
  victim_cache.inclusion = Inclusion::exclusive;
  victim_cache.shared_by = std::max(l2.shared_by, machine.cores >> (random.in(50) ? 0 : random.between(1, 2)));
  machine.caches = {l1, l2, victim_cache};
  for (std::size_t level = 0; level < 3; ++level) {
    Cache& cache = machine.caches[level];
    cache.ways = random.between(1, level == 0 ? 4 : 12);
    cache.latency_cycles = 3 + 10 * static_cast<double>(level);
    cache.size_bytes = static_cast<std::uint64_t>(random.between(2, 9) * cache.ways * cache.line_bytes);
  }
  return machine;
}

std::vector<Step> random_trace(Random& random, const Machine& machine, std::size_t steps) {
  TraceMaker maker(random, machine);
  std::vector<Step> trace;
  while (trace.size() < steps) trace.push_back(maker.next());
  return trace;
}

namespace {

// Adds words, then single bytes.
void add_words(std::vector<OneAccess>& accesses, Access kind, Address address, std::uint64_t bytes) {
  std::uint64_t done = 0;
  for (; done + 8 <= bytes; done += 8) accesses.push_back({kind, address + done, 8});
  for (; done < bytes; ++done) accesses.push_back({kind, address + done, 1});
}

}  // namespace

std::vector<OneAccess> accesses_of(const Step& step, const Machine& machine) {
  std::vector<OneAccess> result;
  const auto line_bytes = static_cast<std::uint64_t>(machine.caches[0].line_bytes);
  if (step.what == Step::What::access) result.push_back({step.kind, step.address, static_cast<unsigned>(step.bytes)});
  if (step.what == Step::What::sweep || step.what == Step::What::replay)
    for (std::uint64_t i = 0; i < step.count; ++i)
      result.push_back(
          {step.kind, step.address + i * static_cast<Address>(step.stride_bytes), static_cast<unsigned>(step.bytes)});
  if (step.what == Step::What::copy)
    for (std::uint64_t done = 0; done < step.bytes; done += line_bytes) {
      const std::uint64_t piece = std::min(line_bytes, step.bytes - done);
      add_words(result, Access::load, step.from + done, piece);
      add_words(result, Access::store, step.address + done, piece);
    }
  return result;
}

std::string describe(const Machine& machine) {
  std::ostringstream out;
  const char* inclusions[] = {"inclusive", "exclusive", "neither"};
  const char* reads[] = {"keeps", "cleans", "invalidates"};
  out << machine.cores << " cores, " << (machine.coherence == Coherence::mesi ? "mesi" : "moesi")
      << ", NIC reading modified lines " << reads[static_cast<int>(machine.nic->read_of_modified)] << " them, granule "
      << granule_bytes(machine);
  if (machine.links) out << ", a hub for " << machine.dram.shared_by << " cores";
  out << "\n";
  for (std::size_t level = 0; level < machine.caches.size(); ++level) {
    const Cache& c = machine.caches[level];
    const auto sets = c.size_bytes / static_cast<std::uint64_t>(c.ways * c.line_bytes);
    out << "  level " << level << ": " << sets << " sets, " << c.ways << " ways, lines of " << c.line_bytes;
    if (c.sub_blocks > 1) out << " in " << c.sub_blocks << " parts";
    out << ", shared by " << c.shared_by << ", " << inclusions[static_cast<int>(c.inclusion)] << ", write-"
        << (c.write == WritePolicy::back ? "back" : "through") << ", " << c.replacement << "\n";
  }
  return out.str();
}

std::string describe(const Step& step) {
  std::ostringstream out;
  const auto hex = [](Address address) {
    std::ostringstream digits;
    digits << std::hex << std::showbase << address;
    return digits.str();
  };
  const auto at = [&] { out << " " << hex(step.address) << ", " << step.bytes << " bytes"; };
  switch (step.what) {
    case Step::What::access:
      out << "core " << step.core << " " << name_of(step.kind), at();
      break;
    case Step::What::sweep:
    case Step::What::replay:
      out << "core " << step.core << (step.what == Step::What::sweep ? " sweep " : " replay ") << name_of(step.kind),
          at();
      out << ", " << step.count << " times, stride " << step.stride_bytes;
      break;
    case Step::What::copy:
      out << "core " << step.core << " copy from " << hex(step.from) << " to", at();
      break;
    case Step::What::dma_write:
      out << "dma_write", at();
      if (step.target.level == InjectionTarget::memory) break;
      out << ", into level " << step.target.level << " of core " << step.target.core;
      if (step.target.ways > 0) out << ", " << step.target.ways << " ways";
      break;
    case Step::What::dma_read:
      out << "dma_read", at();
      break;
    case Step::What::invalidate_range:
      out << "invalidate_range", at();
      break;
    case Step::What::invalidate_all:
      out << "invalidate_all";
      break;
  }
  return out.str();
}

}  // namespace nearfield::sim
