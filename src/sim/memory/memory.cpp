#include "sim/memory/memory.hpp"

#include <stdexcept>

#include "sim/memory/acting.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t word_bytes = 8;
// How many references ahead the host fetches the sets of a trace's lines, and those of the lines that make room.
constexpr std::size_t ahead_on_host = 12, victim_ahead_on_host = 6;
constexpr std::size_t of_late = 256;  // references

bool is_bypass(Access kind) { return kind == Access::load_bypass || kind == Access::store_bypass; }

const Machine& checked(const Machine& machine) {
  if (machine.cores < 1) throw std::invalid_argument("a machine needs a core");
  if (machine.core.clock_ghz <= 0) throw std::invalid_argument("core.clock_ghz must be positive");
  return machine;
}

}  // namespace

Memory::Memory(const Machine& machine, const std::array<double, speeds>& memory_slowdown, int variants,
               bool limits_ways)
    : caches_(std::make_unique<Caches>(checked(machine), variants, limits_ways)),
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
  const auto units_ahead = static_cast<std::uint64_t>(machine.prefetcher->distance_lines) + 1;  // the fetched one, too
  fetches_over_itself_ = std::ranges::any_of(machine.caches, [&](const Cache& cache) {
    return cache.size_bytes / static_cast<std::uint64_t>(cache.ways) < units_ahead * caches_->contents.unit_bytes();
  });
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

void Memory::one_apart(const Acting& acting, Access kind, Address address, unsigned bytes, Ps work) {
  one(acting, kind, address, bytes, 1, work);
}

void Memory::look_ahead(const Acting& acting, Address address) {
  const auto next = acting.follower->follow(address);
  if (!next || *next >= end_of_memory || !acting.timing.has_slot_to_prefetch(acting.clock)) return;
  const auto from = acting.hierarchy.prefetch(acting.core, acting.follower->level(), *next);
  if (from) acting.timing.prefetched(acting.clock, *next, *from, acting.contents.take_writes());
}

void Memory::bypass(const Acting& acting, Access kind, Address address, unsigned bytes, Ps work) {
  acting.tell_hits();
  address = frames_->physical(address);
  auto& contents = acting.contents;
  std::array<unsigned, most_variants> writes{};
  const auto actors = contents.act([&](int variant) {
    contents.flush(address);
    auto& dram = contents.dram_counts();
    ++(kind == Access::load_bypass ? dram.bypass_reads : dram.bypass_writes);
    dram.bytes += bytes;
    writes[static_cast<std::size_t>(variant)] = contents.take_writes();
  });
  std::size_t variant = 0;
  for (auto& timing : timings_) {
    timing->bypassed(acting.core, address, bytes, writes[actors[variant]], work);
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
  const std::uint64_t apart = stride_bytes < 0 ? -stride : stride;
  const bool together = !is_bypass(kind) && !fetches_over_itself_ && apart > 0 && apart <= line / 2 &&
                        apart % bytes == 0 && address % bytes == 0 && line % bytes == 0;
  if (!together) {
    for (const auto& each = acting(core); count > 0; --count, address += stride) some(each, kind, address, bytes, work);
    return;
  }
  if (std::max(address, address + (count - 1) * stride) > end_of_memory - bytes)
    throw std::out_of_range("a simulated node has 128 GiB");
  const auto& core_acting = acting(core);
  // The first access to a line may fetch another line ahead, which then was used later than the first one, until the
  // second access that reaches that cache. So the first access is done apart from the others.
  const bool touches_after_prefetch = core_acting.follower && (core_acting.follower->level() == 0 ||
                                                               (is_store(kind) && core_acting.path.nearest->through));
  while (count > 0) {
    // Bytes of this line beyond the first one accessed.
    const auto rest = stride_bytes < 0 ? address & (line - 1) : (address | (line - 1)) - address;
    auto here = std::min(count, rest / apart + 1);
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

// ---- scenarios

void Memory::forget(Address address, std::uint64_t bytes) {
  auto& contents = caches_->contents;
  for_each_unit(address, bytes, [&](Address at, std::uint64_t) { contents.act([&](int) { contents.forget(at); }); });
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
