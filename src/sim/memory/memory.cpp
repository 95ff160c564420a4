#include "sim/memory/memory.hpp"

#include <stdexcept>

#include "sim/memory/core_context.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t word_bytes = 8;
// How many references ahead the host fetches the sets of a trace's lines, and those of the lines that make room.
constexpr std::size_t ahead_on_host = 12, victim_ahead_on_host = 6;
constexpr std::size_t of_late = 256;  // references

bool is_bypass(Access kind) { return kind == Access::load_bypass || kind == Access::store_bypass; }

std::vector<std::unique_ptr<Timing>> timings_of(const Machine& machine, const std::array<double, speeds>& slowdown,
                                                int variants) {
  std::vector<std::unique_ptr<Timing>> timings;
  for (int v = 0; v < variants; ++v) timings.push_back(std::make_unique<Timing>(machine, slowdown));
  return timings;
}

const Machine& checked(const Machine& machine) {
  if (machine.cores < 1) throw std::invalid_argument("a machine needs a core");
  if (machine.core.clock_ghz <= 0) throw std::invalid_argument("core.clock_ghz must be positive");
  return machine;
}

}  // namespace

Memory::Memory(const Machine& machine, const std::array<double, speeds>& memory_slowdown, int variants,
               bool limits_ways)
    : Memory(machine, timings_of(checked(machine), memory_slowdown, variants), limits_ways) {}

Memory::Memory(const Machine& machine, Timings timings, bool limits_ways)
    : counts_of_tlbs_(std::make_unique<Counts>()),
      caches_(std::make_unique<Caches>(machine, static_cast<int>(timings.size()), limits_ways)),
      frames_(std::make_unique<Frames>(machine.pages)),
      timings_(std::move(timings)),
      translation_(std::make_unique<Translation>(machine, counts_of_tlbs_->tlbs, counts_of_tlbs_->page_faults)),
      steps_(std::make_unique<TimedSteps>()),
      limits_ways_(limits_ways),
      translates_(!machine.pages.tlbs.empty()) {
  if (timings_.size() > 1) machine_ = std::make_unique<const Machine>(machine);
  add_followers(machine);
  for (int core = 0; core < machine.cores; ++core) {
    auto& hierarchy = caches_->hierarchy;
    auto* const follower = followers_.empty() ? nullptr : &followers_[static_cast<std::size_t>(core)];
    auto& it = acting_.emplace_back(Acting{core,
                                           *steps_,
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

// Cores share buses, so the clocks are told of accesses in the order of these.
const Memory::Acting& Memory::acting(int core) const {
  const auto& its = acting_[static_cast<std::size_t>(core)];
  if (latest_ != &its) [[unlikely]] {
    tell_clocks();
    latest_ = &its;
  }
  return its;
}

void Memory::tell_clocks() const {
  if (latest_) latest_->tell();
}

// ---- cores

// `times` accesses to one line of the nearest cache.
template <class Shape>
NEARFIELD_INNERMOST void Memory::one(const Acting& acting, Access kind, Address address, unsigned bytes, Count times,
                                     Ps work) {
  translate(acting, address, times);
  address = acting.frames.physical(address);
  const bool store = is_store(kind);
  FastPath<Shape> fast(acting.hierarchy, acting.path);
  const int level = fast.access(store, address);
  if (level == fast.slow) [[unlikely]]
    return Shape::several ? one_of_several(acting, kind, address, bytes, times, work)
                          : one_slowly(acting, kind, address, bytes, times, work);
  Count hits = times - 1;
  bool elsewhere = false;
  if (level > 0) {
    const Count together = acting.follower ? 1 : times;  // else a line that is fetched ahead comes between
    acting.add({.what = TimedStep::What::missed,
                .kind = kind,
                .found = {level},
                .bytes = bytes,
                .writes = acting.contents.take_writes(),
                .address = address,
                .time = work,
                .count = together});
    hits = times - together;
    if (acting.follower) {
      if constexpr (Shape::several)
        elsewhere = look_ahead_of_several<Shape>(acting, address);
      else
        look_ahead<Shape>(acting, address);
    }
  } else if (acting.is_ahead(address)) [[unlikely]] {
    acting.add({.what = TimedStep::What::awaited, .kind = kind, .bytes = bytes, .address = address, .time = work});
  } else {
    hits = times;
  }
  if (times > 1) {
    if (Shape::several && elsewhere) return rest_of_several(acting, kind, address, bytes, times - 1, work);
    fast.repeat(store, times - 1);
  }
  if (hits > 0) acting.add_hits(kind, bytes, hits, work);
}

void Memory::one_slowly(const Acting& acting, Access kind, Address address, unsigned bytes, Count times, Ps work) {
  auto& hierarchy = acting.hierarchy;
  const auto found = is_store(kind) ? hierarchy.store(acting.core, address) : hierarchy.load(acting.core, address);
  Count hits = times - 1;
  if (found.level > 0) {
    acting.add({.what = TimedStep::What::missed,
                .kind = kind,
                .found = found,
                .bytes = bytes,
                .writes = acting.contents.take_writes(),
                .address = address,
                .time = work});
    if (acting.follower) look_ahead<SlowShape<false>>(acting, address);
  } else if (acting.is_ahead(address)) {
    acting.add({.what = TimedStep::What::awaited, .kind = kind, .bytes = bytes, .address = address, .time = work});
  } else {
    hits = times;
  }
  if (times > 1) {
    hierarchy.repeat(acting.core, is_store(kind), address, times - 1);
    if (is_store(kind) && acting.path.nearest_node->through) acting.add_writes(address, acting.contents.take_writes());
  }
  if (hits > 0) acting.add_hits(kind, bytes, hits, work);
}

void Memory::one_apart(const Acting& acting, Access kind, Address address, unsigned bytes, Ps work) {
  acting.with_shape([&]<class Shape>(Shape) { one<Shape>(acting, kind, address, bytes, 1, work); });
}

NEARFIELD_INNERMOST void Memory::translate(const Acting& acting, Address address, Count times) {
  if (!acting.translation) return;
  if (const Ps cost = acting.translation->cost(acting.core, address); cost > 0)
    acting.add({.what = TimedStep::What::nothing, .time = cost});
  acting.translation->repeat(times - 1);
}

// The core's prefetcher sees a miss of the nearest cache.
template <class Shape>
void Memory::look_ahead(const Acting& acting, Address address) {
  const auto next = acting.follower->follow(address);
  if (!next || *next >= end_of_memory) return;
  acting.tell();
  if (!acting.timing.has_slot_to_prefetch(acting.clock)) return;
  std::optional<Found> from;
  int level = FastPath<Shape>::slow;
  if (acting.follower->level() == 1) level = FastPath<Shape>(acting.hierarchy, acting.path).prefetch(*next);
  if (level == FastPath<Shape>::slow)
    from = acting.hierarchy.prefetch(acting.core, acting.follower->level(), *next);
  else if (level > 0)
    from = {level};
  if (!from) return;
  acting.add(
      {.what = TimedStep::What::prefetched, .found = *from, .writes = acting.contents.take_writes(), .address = *next});
  acting.goes_ahead(*next);
}

void Memory::bypass(const Acting& acting, Access kind, Address address, unsigned bytes, Ps work) {
  acting.tell();
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
  for (std::size_t v = 0; v < acting.times.size(); ++v)
    acting.tell(v, {.what = TimedStep::What::bypassed,
                    .kind = kind,
                    .bytes = bytes,
                    .writes = writes[actors[v]],
                    .address = address,
                    .time = work});
}

void Memory::access(int core, Access kind, Address address, unsigned bytes) {
  if (is_parted()) [[unlikely]] {
    for (auto& its : apart_) its->access(core, kind, address, bytes);
    return;
  }
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
  if (is_parted()) [[unlikely]] {
    for (auto& its : apart_) its->sweep(core, kind, address, count, stride_bytes, bytes, work);
    return;
  }
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
  const auto& me = acting(core);
  me.with_shape(
      [&]<class Shape>(Shape) { sweep_lines<Shape>(me, kind, address, count, stride, stride_bytes < 0, bytes, work); });
}

template <class Shape>
void Memory::sweep_lines(const Acting& acting, Access kind, Address address, std::uint64_t count, std::uint64_t stride,
                         bool downward, unsigned bytes, Ps work) {
  const auto line = acting.contents.nearest_line_bytes();
  const std::uint64_t apart = downward ? -stride : stride;
  const auto shift = std::has_single_bit(apart) ? std::countr_zero(apart) : -1;
  // The first access to a line may fetch another line ahead, which then was used later than the first one, until the
  // second access that reaches that cache. So the first access is done apart from the others.
  const bool touches_after_prefetch =
      acting.follower && (acting.follower->level() == 0 || (is_store(kind) && acting.path.nearest_node->through));
  while (count > 0) {
    // Bytes of this line beyond the first one accessed.
    const auto rest = downward ? address & (line - 1) : (address | (line - 1)) - address;
    auto here = std::min(count, (shift >= 0 ? rest >> shift : rest / apart) + 1);
    if (touches_after_prefetch) {
      one<Shape>(acting, kind, address, bytes, 1, work);
      address += stride;
      --count;
      if (--here == 0) continue;
    }
    one<Shape>(acting, kind, address, bytes, here, work);
    count -= here;
    address += here * stride;
  }
}

void Memory::copy(int core, Address to, Address from, std::uint64_t bytes) {
  if (is_parted()) [[unlikely]] {
    for (auto& its : apart_) its->copy(core, to, from, bytes);
    return;
  }
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

void Memory::replay(int core, std::span<const Reference> trace) {
  if (is_parted()) [[unlikely]] {
    for (auto& its : apart_) its->replay(core, trace);
    return;
  }
  replay_all(core, trace);
}

// A trace of accesses that differ in their addresses only.
struct Memory::OfOneKind {
  std::span<const Address> addresses;
  Access kind;
  unsigned bytes;

  std::size_t size() const { return addresses.size(); }
  Reference operator[](std::size_t i) const { return {addresses[i], bytes, kind}; }
};

void Memory::replay(int core, std::span<const Address> addresses, Access kind, unsigned bytes) {
  if (is_parted()) [[unlikely]] {
    for (auto& its : apart_) its->replay(core, addresses, kind, bytes);
    return;
  }
  replay_all(core, OfOneKind{addresses, kind, bytes});
}

template <class Trace>
void Memory::replay_all(int core, const Trace& trace) {
  const auto& me = acting(core);
  bool looks_ahead = true;  // if some accesses of late would have gained by it
  const int far_from = me.hierarchy.far_from();
  Count far = me.hierarchy.went_far(far_from);
  for (std::size_t begin = 0; begin < trace.size(); begin += of_late) {
    const auto end = std::min(begin + of_late, trace.size());
    const auto last_ahead = looks_ahead ? std::min(end, trace.size() - std::min(trace.size(), ahead_on_host)) : 0;
    me.with_shape([&]<class Shape>(Shape) { replay_batch<Shape>(me, trace, begin, end, last_ahead, far_from); });
    const Count so_far = me.hierarchy.went_far(far_from);
    looks_ahead = so_far - far > of_late / 8;
    far = so_far;
  }
}

template <class Shape, class Trace>
void Memory::replay_batch(const Acting& acting, const Trace& trace, std::size_t begin, std::size_t end,
                          std::size_t last_ahead, int far_from) {
  const auto beyond_line = ~(acting.contents.nearest_line_bytes() - 1);
  for (std::size_t i = begin; i < end; ++i) {
    if (i < last_ahead) {
      acting.hierarchy.fetch_early(acting.core, acting.frames.physical(trace[i + ahead_on_host].address), far_from);
      acting.hierarchy.fetch_victim_early(acting.path, acting.frames.physical(trace[i + victim_ahead_on_host].address));
    }
    const auto [address, bytes, kind] = trace[i];
    if (kind < Access::load_bypass && ((address ^ (address + bytes - 1)) & beyond_line) == 0 && address < end_of_memory)
        [[likely]]
      one<Shape>(acting, kind, address, bytes, 1, 0);
    else
      some(acting, kind, address, bytes, 0);
  }
}

// ---- scenarios

void Memory::forget(Address address, std::uint64_t bytes) {
  for (auto& its : apart_) its->forget(address, bytes);
  if (!apart_.empty()) return;
  auto& contents = caches_->contents;
  for_each_unit(address, bytes, [&](Address at, std::uint64_t) { contents.act([&](int) { contents.forget(at); }); });
}

void Memory::forget_everything() {
  for (auto& its : apart_) its->forget_everything();
  if (!apart_.empty()) return;
  caches_->hierarchy.forget_everything();
  translation_->forget_everything();
}

// ---- clocks and counts

const Times& Memory::now(int core, int variant) const {
  if (!apart_.empty()) return apart_[static_cast<std::size_t>(variant)]->now(core);
  const auto& me = acting(core);
  me.tell();
  return me.times[static_cast<std::size_t>(variant)].clock.now;
}
Clock Memory::clock(int core) const {
  Clock all(static_cast<int>(timings_.size()));
  for (int v = 0; v < all.variants(); ++v) all[v] = now(core, v);
  return all;
}
void Memory::advance(int core, Ps duration) {
  for (auto& its : apart_) its->advance(core, duration);
  if (!apart_.empty()) return;
  acting(core).tell();
  for (auto& timing : timings_) timing->advance(core, duration);
}
void Memory::wait_until(int core, const Clock& instant) {
  for (std::size_t v = 0; v < apart_.size(); ++v) apart_[v]->wait_until(core, instant.of(static_cast<int>(v)));
  if (!apart_.empty()) return;
  acting(core).tell();
  for (int v = 0; v < instant.variants(); ++v) timings_[static_cast<std::size_t>(v)]->wait_until(core, instant[v]);
}
void Memory::drain(int core) {
  for (auto& its : apart_) its->drain(core);
  if (!apart_.empty()) return;
  acting(core).tell();
  for (auto& timing : timings_) timing->drain(core);
}

Counts Memory::counts(int variant) const {
  if (!apart_.empty()) return apart_[static_cast<std::size_t>(variant)]->counts();
  auto all = caches_->contents.counts(variant);
  all.tlbs = counts_of_tlbs_->tlbs;
  all.page_faults = counts_of_tlbs_->page_faults;
  const auto& dram = all.dram;
  all.dram.bytes +=
      (dram.reads + dram.writes + dram.prefetches + dram.dma_reads + dram.dma_writes) * caches_->contents.unit_bytes();
  return all;
}

void Memory::reset_counts() {
  for (auto& its : apart_) its->reset_counts();
  if (!apart_.empty()) return;
  caches_->contents.reset_counts();
  for (auto& tlb : counts_of_tlbs_->tlbs) tlb = {};
  counts_of_tlbs_->page_faults = 0;
}

Memory::Copy Memory::copy_in(int core, int level, Address address, int variant) const {
  if (!apart_.empty()) return apart_[static_cast<std::size_t>(variant)]->copy_in(core, level, address);
  return caches_->contents.copy_in(variant, core, level, frames_->physical(address));
}

}  // namespace nearfield::sim
