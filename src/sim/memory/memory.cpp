#include "sim/memory/memory.hpp"

#include <stdexcept>

#include "sim/memory/devices.hpp"
#include "sim/memory/fast_path.hpp"
#include "sim/memory/frames.hpp"
#include "sim/memory/hierarchy.hpp"
#include "sim/memory/prefetcher.hpp"
#include "sim/memory/timing.hpp"
#include "sim/memory/tlb.hpp"

namespace nearfield::sim {
namespace {

constexpr Address end_of_memory = Address{1} << 37;
constexpr Address no_line = end_of_memory;
constexpr std::uint64_t word_bytes = 8;
// How many references ahead the host fetches the sets of a trace's lines, and those of the lines that make room.
constexpr std::size_t ahead_on_host = 12, victim_ahead_on_host = 6;
constexpr std::size_t of_late = 256;  // references

bool is_store(Access kind) { return kind == Access::store; }
bool is_bypass(Access kind) { return kind == Access::load_bypass || kind == Access::store_bypass; }

const Machine& checked(const Machine& machine) {
  if (machine.cores < 1) throw std::invalid_argument("a machine needs a core");
  if (machine.core.clock_ghz <= 0) throw std::invalid_argument("core.clock_ghz must be positive");
  return machine;
}

}  // namespace

struct Memory::Caches {
  Caches(const Machine& machine, int variants, bool limits_ways)
      : hierarchy(checked(machine), variants, limits_ways), devices(contents, machine) {}
  Hierarchy hierarchy;
  Contents& contents = hierarchy.contents();
  Devices devices;
};

struct Memory::Acting {
  int core;
  Hierarchy& hierarchy;
  Contents& contents;
  Translation* translation;  // if it costs something
  const Frames& frames;
  const Hierarchy::Path& path;
  StreamFollower* follower;  // if there is one
  Timing& timing;            // of the first variant, and its clock of this core
  Timing::CoreClock& clock;
  // Those of each variant.
  struct Time {
    Timing& timing;
    Timing::CoreClock& clock;
  };
  std::vector<Time> times;
  bool several() const { return times.size() > 1; }

  // ---- under several variants
  // Accesses that hit the nearest cache one after the other are collected, so that the clocks are told of all at once;
  // they must be before anything else happens to them.
  NEARFIELD_INNERMOST void add_hits(Access kind, Count more, Ps work) const {
    const Ps takes = timing.per_hit(kind, work);
    if (takes != each) {
      tell_hits();
      each = takes;
    }
    hits += more;
  }
  NEARFIELD_INNERMOST void tell_hits() const {
    if (hits == 0) return;
    for (auto& its : times) its.timing.issue_hits(its.clock, hits, each);
    hits = 0;
  }
  mutable Count hits = 0;
  mutable Ps each = 0;  // of these takes

  // Lines that are on their way, under any variant, by hash; a line that is not there any longer may still be here.
  void goes_ahead(Address line) const { ahead[Arrivals::hash(line)] = true; }
  // Returns whether the address's line may be on its way, under any variant.
  NEARFIELD_INNERMOST bool is_ahead(Address address) const {
    if (!follower) return false;
    auto& may_be = ahead[Arrivals::hash(contents.unit_of(address))];
    if (!may_be) [[likely]]
      return false;
    may_be = false;
    for (auto& its : times) may_be |= its.clock.ahead.may_have(contents.unit_of(address));
    return may_be;
  }
  mutable std::array<bool, Arrivals::hashes> ahead{};
};

Memory::Memory(const Machine& machine, const std::array<double, speeds>& memory_slowdown, int variants,
               bool limits_ways)
    : caches_(std::make_unique<Caches>(machine, variants, limits_ways)),
      frames_(std::make_unique<Frames>(machine.pages)),
      translation_(std::make_unique<Translation>(machine, counts_of_tlbs_.tlbs, counts_of_tlbs_.page_faults)),
      translates_(!machine.pages.tlbs.empty()) {
  for (int v = 0; v < variants; ++v) timings_.push_back(std::make_unique<Timing>(machine, memory_slowdown));
  add_followers(machine);
  for (int core = 0; core < machine.cores; ++core) {
    auto& hierarchy = caches_->hierarchy;
    auto* const follower = followers_.empty() ? nullptr : &followers_[static_cast<std::size_t>(core)];
    auto& it = acting_.emplace_back(Acting{core,
                                           hierarchy,
                                           caches_->contents,
                                           translates_ ? translation_.get() : nullptr,
                                           *frames_,
                                           hierarchy.path(core),
                                           follower,
                                           *timings_[0],
                                           timings_[0]->of(core),
                                           {}});
    for (auto& timing : timings_) it.times.push_back({*timing, timing->of(core)});
  }
}

void Memory::add_followers(const Machine& machine) {
  if (!machine.prefetcher || machine.prefetcher->streams == 0) return;
  const auto into = static_cast<std::size_t>(machine.prefetcher->level);
  if (into >= machine.caches.size() || machine.caches[into].inclusion == Inclusion::exclusive)
    throw std::invalid_argument("prefetcher.level must name a cache that is not exclusive");
  const auto page_bytes = static_cast<std::uint64_t>(machine.pages.page_bytes);
  auto& variants = caches_->contents.variants();
  for (int core = 0; core < machine.cores; ++core)
    followers_.emplace_back(*machine.prefetcher, caches_->contents.unit_bytes(), page_bytes,
                            variants.several() ? &variants : nullptr);
}

Memory::~Memory() = default;

const Memory::Acting& Memory::acting(int core) const { return acting_[static_cast<std::size_t>(core)]; }

// ---- cores

// `times` accesses to one line of the nearest cache.
NEARFIELD_INNERMOST void Memory::one(const Acting& acting, Access kind, Address address, unsigned bytes, Count times,
                                     Ps work) {
  if (acting.translation) {
    if (const Ps cost = acting.translation->cost(acting.core, address); cost > 0) {
      acting.tell_hits();
      for (auto& its : acting.times) its.clock.now += cost;
    }
    acting.translation->repeat(times - 1);
  }
  address = acting.frames.physical(address);
  if (acting.several()) return one_of_several(acting, kind, address, bytes, times, work);
  auto& hierarchy = acting.hierarchy;
  auto& contents = acting.contents;
  auto& timing = acting.timing;
  auto& clock = acting.clock;
  const auto found = is_store(kind) ? hierarchy.store(acting.path, address) : hierarchy.load(acting.path, address);
  Count hits = times - 1;
  if (found.level > 0) {
    timing.missed(clock, kind, bytes, found, address, contents.take_writes(), work);
    if (acting.follower) look_ahead(acting, address);
  } else if (!acting.follower || !timing.hit_ahead(clock, kind, contents.unit_of(address), work)) {
    hits = times;
  }
  if (times > 1) {
    hierarchy.repeat(acting.path, is_store(kind), address, times - 1);
    if (is_store(kind) && acting.path.nearest->through) timing.write_back(clock, address, contents.take_writes());
  }
  if (hits > 0) timing.hits(clock, kind, bytes, hits, work);
}

// Does the same under several variants: the caches' part for all at once if it can be, then that of each one's clock.
void Memory::one_of_several(const Acting& acting, Access kind, Address address, unsigned bytes, Count times, Ps work) {
  auto& hierarchy = acting.hierarchy;
  const auto found =
      acting.contents.act_for_all([&] { return hierarchy.near_for_all(acting.path, is_store(kind), address); });
  if (!found || found->level > 0) return miss_of_several(acting, kind, address, bytes, times, work, found);
  if (times > 1) hierarchy.repeat(acting.path, is_store(kind), address, times - 1);
  if (acting.is_ahead(address) || (is_store(kind) && acting.timing.stores_go_through())) [[unlikely]] {
    acting.tell_hits();
    const auto unit = acting.contents.unit_of(address);
    for (auto& [timing, clock] : acting.times) {
      const bool waits = timing.hit_ahead(clock, kind, unit, work);
      if (times > waits) timing.hits(clock, kind, bytes, times - waits, work);
    }
    return;
  }
  acting.add_hits(kind, times, work);
}

// What an access did to the caches, under one variant.
struct Memory::Outcome {
  Outcome() {}
  union {
    Found found;
  };
  unsigned writes;  // units written to memory
  Address ahead;    // the line to fetch ahead, or no_line
};

// `found`: where the first access found the line under all variants, if it was made already.
void Memory::miss_of_several(const Acting& acting, Access kind, Address address, unsigned bytes, Count times, Ps work,
                             const std::optional<Found>& found) {
  acting.tell_hits();
  auto& hierarchy = acting.hierarchy;
  auto& contents = acting.contents;
  std::array<Outcome, most_variants> outcomes;
  const auto finish = [&](Outcome& outcome) {
    outcome.writes = contents.take_writes();
    outcome.ahead = no_line;
    if (acting.follower && outcome.found.level > 0) outcome.ahead = acting.follower->follow(address).value_or(no_line);
  };
  Variants::Mask apart = 0;
  if (found && (!acting.follower || acting.follower->is_common())) [[likely]] {
    outcomes[0].found = *found;
    finish(outcomes[0]);
  } else {
    apart = contents.act(contents.variants().all(), [&](int variant) {
      auto& outcome = outcomes[static_cast<std::size_t>(variant)];
      if (found)
        outcome.found = *found;
      else
        outcome.found = is_store(kind) ? hierarchy.store(acting.path, address) : hierarchy.load(acting.path, address);
      finish(outcome);
    });
  }
  const auto& it = outcomes[0];
  Variants::Mask waits = contents.variants().all();  // under which the first access does, for others do not
  if (apart != 0 || it.found.level == 0) [[unlikely]]
    waits = tell_each(acting, kind, address, bytes, work, outcomes.data(), apart);
  else
    for (auto& [timing, clock] : acting.times) timing.missed(clock, kind, bytes, it.found, address, it.writes, work);
  bool looks_elsewhere = !found;  // than at common sets
  if (apart != 0 || it.ahead < end_of_memory) looks_elsewhere |= look_ahead_of_several(acting, outcomes.data(), apart);
  if (times > 1) rest_of_several(acting, kind, address, bytes, times - 1, work, looks_elsewhere);
  if (waits == contents.variants().all()) return;
  for (std::size_t v = 0; v < acting.times.size(); ++v)
    if (!(waits >> v & 1)) acting.times[v].timing.hits(acting.times[v].clock, kind, bytes, 1, work);
}

// Tells the clocks of a first access; returns which of them waited for it.
Variants::Mask Memory::tell_each(const Acting& acting, Access kind, Address address, unsigned bytes, Ps work,
                                 const Outcome* outcomes, Variants::Mask apart) {
  const auto unit = acting.contents.unit_of(address);
  Variants::Mask waits = 0;
  for (std::size_t v = 0; v < acting.times.size(); ++v) {
    auto& [timing, clock] = acting.times[v];
    const auto& outcome = outcomes[apart >> v & 1 ? v : 0];
    bool its = true;
    if (outcome.found.level > 0)
      timing.missed(clock, kind, bytes, outcome.found, address, outcome.writes, work);
    else
      its = acting.follower && timing.hit_ahead(clock, kind, unit, work);
    waits |= static_cast<Variants::Mask>(its << v);
  }
  return waits;
}

// The accesses to a line after the first one.
void Memory::rest_of_several(const Acting& acting, Access kind, Address address, unsigned bytes, Count count, Ps work,
                             bool looks_elsewhere) {
  auto& contents = acting.contents;
  std::array<unsigned, most_variants> writes;
  const auto repeat = [&](int variant) {
    acting.hierarchy.repeat(acting.path, is_store(kind), address, count);
    return writes[static_cast<std::size_t>(variant)] = contents.take_writes();
  };
  Variants::Mask apart = 0;
  if (looks_elsewhere && is_store(kind) && acting.path.nearest->through)
    apart = contents.act(contents.variants().all(), repeat);
  else
    contents.act_for_all([&] { return repeat(0); });
  for (std::size_t v = 0; v < acting.times.size(); ++v) {
    auto& [timing, clock] = acting.times[v];
    timing.write_back(clock, address, writes[apart >> v & 1 ? v : 0]);
    timing.hits(clock, kind, bytes, count, work);
  }
}

void Memory::one_apart(const Acting& acting, Access kind, Address address, unsigned bytes, Ps work) {
  one(acting, kind, address, bytes, 1, work);
}

void Memory::look_ahead(const Acting& acting, Address address) {
  const auto next = acting.follower->follow(address);
  if (!next || *next >= end_of_memory || !acting.timing.has_slot_to_prefetch(acting.clock)) return;
  const auto from = acting.hierarchy.prefetch(acting.core, acting.follower->level(), *next);
  if (from) acting.timing.prefetched(acting.clock, *next, *from, acting.contents.take_writes());
}

// Under each variant, the line that the follower named is fetched if there is a slot. Returns whether any was.
bool Memory::look_ahead_of_several(const Acting& acting, const Outcome* outcomes, Variants::Mask apart) {
  std::array<Address, most_variants> lines;
  Variants::Mask same = 0;
  for (std::size_t v = 0; v < acting.times.size(); ++v) {
    auto& [timing, clock] = acting.times[v];
    const auto ahead = outcomes[apart >> v & 1 ? v : 0].ahead;
    lines[v] = ahead < end_of_memory && timing.has_slot_to_prefetch(clock) ? ahead : no_line;
    same |= static_cast<Variants::Mask>((lines[v] == lines[0]) << v);
  }
  auto& contents = acting.contents;
  if (same == contents.variants().all() &&
      (lines[0] == no_line || acting.hierarchy.all_have(acting.core, acting.follower->level(), lines[0])))
    return false;
  std::array<std::optional<Found>, most_variants> from;
  std::array<unsigned, most_variants> writes;
  const auto fetched_apart = contents.act(same, [&](int variant) {
    const auto v = static_cast<std::size_t>(variant);
    if (lines[v] != no_line) from[v] = acting.hierarchy.prefetch(acting.core, acting.follower->level(), lines[v]);
    writes[v] = contents.take_writes();
  });
  for (std::size_t v = 0; v < acting.times.size(); ++v) {
    auto& [timing, clock] = acting.times[v];
    const auto whose = fetched_apart >> v & 1 ? v : 0;
    if (!from[whose]) continue;
    timing.prefetched(clock, lines[whose], *from[whose], writes[whose]);
    acting.goes_ahead(lines[whose]);
  }
  return true;
}

void Memory::bypass(const Acting& acting, Access kind, Address address, unsigned bytes, Ps work) {
  acting.tell_hits();
  address = frames_->physical(address);
  auto& contents = acting.contents;
  std::array<unsigned, most_variants> writes{};
  const auto apart = contents.act(contents.variants().all(), [&](int variant) {
    contents.flush(address);
    auto& dram = contents.dram_counts();
    ++(kind == Access::load_bypass ? dram.bypass_reads : dram.bypass_writes);
    dram.bytes += bytes;
    writes[static_cast<std::size_t>(variant)] = contents.take_writes();
  });
  std::size_t variant = 0;
  for (auto& timing : timings_) {
    timing->bypassed(acting.core, address, bytes, writes[apart >> variant & 1 ? variant : 0], work);
    ++variant;
  }
}

void Memory::access(int core, Access kind, Address address, unsigned bytes) {
  const auto line = caches_->contents.nearest_line_bytes();
  if (kind < Access::load_bypass && ((address ^ (address + bytes - 1)) & ~(line - 1)) == 0 && address < end_of_memory)
      [[likely]]
    return one_apart(acting(core), kind, address, bytes, 0);
  some(acting(core), kind, address, bytes, 0);
}

// One access, perhaps to several lines.
void Memory::some(const Acting& acting, Access kind, Address address, unsigned bytes, Ps work) {
  if (address + bytes > end_of_memory || bytes == 0) throw std::out_of_range("a simulated node has 128 GiB");
  const auto line = caches_->contents.nearest_line_bytes();
  const Address end = address + bytes;
  for (Address next; address < end; address = next) {
    next = std::min((address & ~(line - 1)) + line, end);
    if (is_bypass(kind))
      bypass(acting, kind, address, static_cast<unsigned>(next - address), work);
    else
      one_apart(acting, kind, address, static_cast<unsigned>(next - address), work);
  }
}

void Memory::sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes,
                   unsigned bytes, Ps work) {
  if (count == 0) return;
  const auto line = caches_->contents.nearest_line_bytes();
  const auto stride = static_cast<std::uint64_t>(stride_bytes);
  const bool together = !is_bypass(kind) && stride_bytes > 0 && stride <= line / 2 && stride % bytes == 0 &&
                        address % bytes == 0 && line % bytes == 0;
  if (!together) {
    for (const auto& each = acting(core); count > 0; --count, address += stride) some(each, kind, address, bytes, work);
    return;
  }
  if (address + count * stride > end_of_memory) throw std::out_of_range("a simulated node has 128 GiB");
  const auto& core_acting = acting(core);
  // The first access to a line may fetch another line ahead, which then was used later than the first one, until the
  // second access that reaches that cache. So the first access is done apart from the others.
  const bool touches_after_prefetch = core_acting.follower && (core_acting.follower->level() == 0 ||
                                                               (is_store(kind) && core_acting.path.nearest->through));
  while (count > 0) {
    const auto rest = (address | (line - 1)) - address;  // bytes of this line beyond the first one accessed
    auto here = std::min(count, rest / stride + 1);
    if (touches_after_prefetch) {
      one(core_acting, kind, address, bytes, 1, work);
      address += stride;
      --count;
      if (--here == 0) continue;
    }
    one(core_acting, kind, address, bytes, here, work);
    count -= here;
    address += here * stride;
  }
}

void Memory::copy(int core, Address to, Address from, std::uint64_t bytes) {
  // It goes line by line, because the loads of a copying loop run ahead of its stores.
  const auto line = caches_->contents.nearest_line_bytes();
  for (std::uint64_t done = 0; done < bytes;) {
    const auto here = std::min(line, bytes - done);
    const auto words = here / word_bytes, rest = here % word_bytes;
    for (const auto kind : {Access::load, Access::store}) {
      const Address at = (kind == Access::load ? from : to) + done;
      sweep(core, kind, at, words, word_bytes, word_bytes);
      sweep(core, kind, at + words * word_bytes, rest, 1, 1);
    }
    done += here;
  }
}

// Collects accesses that hit the nearest cache one after the other, so that the clocks are told of all at once.
class Memory::Hits {
 public:
  explicit Hits(const Acting& acting) : acting_(acting) {}
  NEARFIELD_INNERMOST void add(Access kind) {
    if (const bool is_chase = kind == Access::chase; is_chase != are_chases_) [[unlikely]] {
      tell();
      are_chases_ = is_chase;
    }
    ++count_;
  }
  NEARFIELD_INNERMOST void tell() {
    if (count_ == 0) return;
    const auto kind = are_chases_ ? Access::chase : Access::load;
    const auto count = std::exchange(count_, 0);
    acting_.timing.hits(acting_.clock, kind, 0, count, 0);
  }

 private:
  const Acting& acting_;
  bool are_chases_ = false;
  Count count_ = 0;
};

void Memory::replay(int core, std::span<const Reference> trace) {
  const auto& me = acting(core);
  const auto beyond_line = ~(caches_->contents.nearest_line_bytes() - 1);
  Hits hits(me);
  bool looks_ahead = true;  // if some accesses of late would have gained by it
  Count far = me.hierarchy.went_far();
  for (std::size_t begin = 0; begin < trace.size(); begin += of_late) {
    const auto end = std::min(begin + of_late, trace.size());
    const auto last_ahead = looks_ahead ? std::min(end, trace.size() - std::min(trace.size(), ahead_on_host)) : 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (i < last_ahead) {
        me.hierarchy.fetch_early(core, me.frames.physical(trace[i + ahead_on_host].address));
        me.hierarchy.fetch_victim_early(me.path, me.frames.physical(trace[i + victim_ahead_on_host].address));
      }
      const auto& [address, bytes, kind] = trace[i];
      if (kind < Access::load_bypass && ((address ^ (address + bytes - 1)) & beyond_line) == 0 &&
          address < end_of_memory) [[likely]] {
        one_of_many(me, kind, address, bytes, hits);
      } else {
        hits.tell();
        some(me, kind, address, bytes, 0);
      }
    }
    const Count so_far = me.hierarchy.went_far();
    looks_ahead = so_far - far > of_late / 8;
    far = so_far;
  }
  hits.tell();
}

// Does what one() does for one access, apart from telling the clocks of a hit.
NEARFIELD_INNERMOST void Memory::one_of_many(const Acting& acting, Access kind, Address address, unsigned bytes,
                                             Hits& hits) {
  if (acting.translation) {
    if (const Ps cost = acting.translation->cost(acting.core, address); cost > 0) {
      hits.tell();
      acting.tell_hits();
      for (auto& its : acting.times) its.clock.now += cost;
    }
  }
  address = acting.frames.physical(address);
  if (acting.several()) return one_of_several(acting, kind, address, bytes, 1, 0);
  auto& timing = acting.timing;
  auto& clock = acting.clock;
  const auto found =
      is_store(kind) ? acting.hierarchy.store(acting.path, address) : acting.hierarchy.load(acting.path, address);
  if (found.level == 0) [[likely]] {
    if (acting.follower && clock.ahead.may_have(acting.contents.unit_of(address))) [[unlikely]] {
      hits.tell();
      if (timing.hit_ahead(clock, kind, acting.contents.unit_of(address), 0)) return;
    }
    return hits.add(kind);
  }
  hits.tell();
  timing.missed(clock, kind, bytes, found, address, acting.contents.take_writes(), 0);
  if (acting.follower) look_ahead(acting, address);
}

// ---- devices

template <class Function>
void Memory::for_each_unit(Address address, std::uint64_t bytes, Function&& function) {
  const auto unit = caches_->contents.unit_bytes();
  const Address end = address + bytes;
  for (Address next; address < end; address = next) {
    next = std::min((address & ~(unit - 1)) + unit, end);
    function(frames_->physical(address), next - address);
  }
}

Clock Memory::dma_write(Address address, std::uint64_t bytes, std::span<const Placement> placements,
                        const Clock& start) {
  auto& contents = caches_->contents;
  const auto whole = contents.unit_bytes();
  Variants::Mask same = 0;
  for (std::size_t v = 0; v < timings_.size(); ++v)
    same |= static_cast<Variants::Mask>((placements[v] == placements[0]) << v);
  Clock done = start;
  for_each_unit(address, bytes, [&](Address at, std::uint64_t part) {
    const auto unit = contents.unit_of(at);
    std::array<unsigned, most_variants> writes{};
    const auto apart = contents.act(part == whole ? same : contents.variants().all(), [&](int variant) {
      const auto v = static_cast<std::size_t>(variant);
      if (part == whole)
        caches_->devices.write_whole(unit, placements[v]);
      else
        caches_->devices.write_part(unit);
      writes[v] = contents.take_writes();
    });
    for (int v = 0; v < start.variants(); ++v) {
      auto& dram = timings_[static_cast<std::size_t>(v)]->dram();
      if (const auto its = writes[apart >> v & 1 ? static_cast<std::size_t>(v) : 0]) dram.post(at, its * whole);
      done[v] = dram.pass(at, part, done[v]);
    }
  });
  return done;
}

Clock Memory::dma_read(Address address, std::uint64_t bytes, const Clock& start) {
  auto& contents = caches_->contents;
  Clock done = start;
  Variants::Mask waits = 0;
  for_each_unit(address, bytes, [&](Address at, std::uint64_t part) {
    struct {
      bool from_dram;
      unsigned writes;
    } of[most_variants];
    const auto apart = contents.act(contents.variants().all(), [&](int variant) {
      const bool from_dram = caches_->devices.read(contents.unit_of(at));
      of[variant] = {from_dram, contents.take_writes()};
    });
    for (int v = 0; v < start.variants(); ++v) {
      auto& dram = timings_[static_cast<std::size_t>(v)]->dram();
      const auto& its = of[apart >> v & 1 ? v : 0];
      if (its.writes > 0) dram.post(at, its.writes * contents.unit_bytes());
      if (!its.from_dram) continue;
      waits |= static_cast<Variants::Mask>(1U << v);
      done[v] = dram.pass(at, part, done[v]);
    }
  });
  for (int v = 0; v < start.variants(); ++v)
    if (waits >> v & 1) done[v] += timings_[static_cast<std::size_t>(v)]->dram().device_latency();
  return done;
}

// ---- scenarios

void Memory::forget(Address address, std::uint64_t bytes) {
  auto& contents = caches_->contents;
  for_each_unit(address, bytes, [&](Address at, std::uint64_t) {
    contents.act(contents.variants().all(), [&](int) { contents.forget(at); });
  });
}

void Memory::forget_everything() {
  caches_->contents.forget_everything();
  translation_->forget_everything();
}

// ---- clocks and counts

const Times& Memory::now(int core, int variant) const {
  const auto& me = acting(core);
  me.tell_hits();
  return me.times[static_cast<std::size_t>(variant)].clock.now;
}
Clock Memory::clock(int core) const {
  Clock all(static_cast<int>(timings_.size()));
  for (int v = 0; v < all.variants(); ++v) all[v] = now(core, v);
  return all;
}
void Memory::advance(int core, Ps duration) {
  acting(core).tell_hits();
  for (auto& timing : timings_) timing->advance(core, duration);
}
void Memory::wait_until(int core, const Clock& instant) {
  acting(core).tell_hits();
  for (int v = 0; v < instant.variants(); ++v) timings_[static_cast<std::size_t>(v)]->wait_until(core, instant[v]);
}
void Memory::drain(int core) {
  acting(core).tell_hits();
  for (auto& timing : timings_) timing->drain(core);
}

Counts Memory::counts(int variant) const {
  auto all = caches_->contents.counts(variant);
  all.tlbs = counts_of_tlbs_.tlbs;
  all.page_faults = counts_of_tlbs_.page_faults;
  const auto& dram = all.dram;
  all.dram.bytes +=
      (dram.reads + dram.writes + dram.prefetches + dram.dma_reads + dram.dma_writes) * caches_->contents.unit_bytes();
  return all;
}

void Memory::reset_counts() {
  caches_->contents.reset_counts();
  for (auto& tlb : counts_of_tlbs_.tlbs) tlb = {};
  counts_of_tlbs_.page_faults = 0;
}

Memory::Copy Memory::copy_in(int core, int level, Address address, int variant) const {
  return caches_->contents.copy_in(variant, core, level, frames_->physical(address));
}

}  // namespace nearfield::sim
