#include "sim/memory/memory_model.hpp"

#include <stdexcept>

#include "sim/memory/core_context.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t word_bytes = 8;
// How many references ahead replay() prefetches into the host's caches: the sets of accessed lines, and the sets of the
// lines that these evict.
constexpr std::size_t host_prefetch_distance = 12, host_prefetch_victim_distance = 6;
constexpr std::size_t batch_references = 256;

bool is_nontemporal(Access kind) { return kind == Access::load_nontemporal || kind == Access::store_nontemporal; }

std::vector<std::unique_ptr<Timing>> make_timings(const Machine& machine,
                                                  const std::array<double, num_memory_speeds>& slowdown, int variants) {
  std::vector<std::unique_ptr<Timing>> timings;
  for (int v = 0; v < variants; ++v) timings.push_back(std::make_unique<Timing>(machine, slowdown));
  return timings;
}

const Machine& require_core_and_clock(const Machine& machine) {
  if (machine.cores < 1) throw std::invalid_argument("a machine needs a core");
  if (machine.core.clock_ghz <= 0) throw std::invalid_argument("core.clock_ghz must be positive");
  return machine;
}

}  // namespace

MemoryModel::MemoryModel(const Machine& machine, const std::array<double, num_memory_speeds>& memory_slowdown,
                         int variants, bool limits_ways)
    : MemoryModel(machine, make_timings(require_core_and_clock(machine), memory_slowdown, variants), limits_ways) {}

MemoryModel::MemoryModel(const Machine& machine, Timings timings, bool limits_ways)
    : tlb_counts_(std::make_unique<Counts>()),
      caches_(std::make_unique<Caches>(machine, static_cast<int>(timings.size()), limits_ways)),
      frames_(std::make_unique<PageFrames>(machine.pages)),
      timings_(std::move(timings)),
      translation_(std::make_unique<Translation>(machine, tlb_counts_->tlbs, tlb_counts_->page_faults)),
      timing_events_(std::make_unique<TimingEventBuffer>()),
      has_translation_(!machine.pages.tlbs.empty()),
      issue_time_(ps_from_ns(machine.core.cycles_per_access / machine.core.clock_ghz)) {
  if (const double rate = machine.core.copy_bytes_per_cycle; rate > 0)
    copy_ps_per_byte_ = 1e3 / machine.core.clock_ghz / rate / 2;
  add_prefetchers(machine);
  for (int core = 0; core < machine.cores; ++core) {
    auto& hierarchy = caches_->hierarchy;
    auto* const prefetcher = prefetchers_.empty() ? nullptr : &prefetchers_[static_cast<std::size_t>(core)];
    auto& context = contexts_.emplace_back(CoreContext{core,
                                                       *timing_events_,
                                                       hierarchy,
                                                       caches_->contents,
                                                       has_translation_ ? translation_.get() : nullptr,
                                                       *frames_,
                                                       hierarchy.path(core),
                                                       prefetcher,
                                                       *timings_[0],
                                                       timings_[0]->clock_of(core),
                                                       {}});
    for (auto& timing : timings_) context.variant_clocks.push_back({*timing, timing->clock_of(core)});
  }
}

void MemoryModel::add_prefetchers(const Machine& machine) {
  if (!machine.prefetcher || machine.prefetcher->streams == 0) return;
  const auto target_level = static_cast<std::size_t>(machine.prefetcher->level);
  if (target_level >= machine.caches.size() || machine.caches[target_level].inclusion == Inclusion::exclusive)
    throw std::invalid_argument("prefetcher.level must name a cache that is not exclusive");
  const auto page_bytes = static_cast<std::uint64_t>(machine.pages.page_bytes);
  const auto granules_ahead =
      static_cast<std::uint64_t>(machine.prefetcher->distance_lines) + 1;  // including the prefetched line itself
  prefetch_may_evict_trigger_ = std::ranges::any_of(machine.caches, [&](const Cache& cache) {
    return cache.size_bytes / static_cast<std::uint64_t>(cache.ways) < granules_ahead * caches_->tree.granule_bytes();
  });
  auto& variants = caches_->contents.variants;
  for (int core = 0; core < machine.cores; ++core)
    prefetchers_.emplace_back(*machine.prefetcher, caches_->tree.granule_bytes(), page_bytes,
                              variants.has_several_variants() ? &variants : nullptr);
}

MemoryModel::~MemoryModel() = default;

MemoryModel::MemoryModel(const Machine& machine, MemoryModel& group, int variant)
    : MemoryModel(machine, group.take_timings(variant), false) {
  caches_->contents.copy_variant_from(group.caches_->contents, variant);
  translation_->copy_from(*group.translation_);
  *tlb_counts_ = *group.tlb_counts_;
  for (std::size_t core = 0; core < contexts_.size(); ++core) {
    contexts_[core].in_flight = group.contexts_[core].in_flight;
    if (!prefetchers_.empty()) prefetchers_[core].copy_variant_from(group.prefetchers_[core], variant);
  }
}

MemoryModel::Timings MemoryModel::take_timings(int variant) {
  flush_timing_events();
  Timings timings;
  timings.push_back(std::move(timings_[static_cast<std::size_t>(variant)]));
  return timings;
}

void MemoryModel::disable_fast_path() { caches_->hierarchy.disable_fast_path(); }

int MemoryModel::num_separable_variants() const {
  return caches_->tree.keeps_state_in_sets() ? static_cast<int>(timings_.size()) : 1;
}

void MemoryModel::flush_timing_events() const {
  if (current_context_) current_context_->flush_timing_events();
}

// ---- accesses of cores

// Makes `num_accesses` accesses to one L1 line.
template <class Config>
NEARFIELD_ALWAYS_INLINE void MemoryModel::access_line(const CoreContext& context, Access kind, Address address,
                                                      unsigned bytes, Count num_accesses, Ps compute_time) {
  translate(context, kind, address, num_accesses);
  address = context.frames.physical_address(address);
  const bool store = is_store(kind);
  FastPath<Config> fast(context.hierarchy, context.path);
  const int level = fast.access(store, address);
  if (level == fast.needs_slow_path) [[unlikely]]
    return access_line_slow(context, kind, address, bytes, num_accesses, compute_time);
  Count hits = num_accesses - 1;
  bool prefetched_line = false;
  if (level > 0) {
    // A prefetcher may act between the first access and the others.
    const Count num_grouped = context.prefetcher ? 1 : num_accesses;
    context.add_event({.type = TimingEvent::Type::miss,
                       .kind = kind,
                       .lookup = {level},
                       .bytes = bytes,
                       .writes = context.contents.counters.take_write_count(),
                       .address = address,
                       .time = compute_time,
                       .count = num_grouped});
    hits = num_accesses - num_grouped;
    if (context.prefetcher) prefetched_line = run_prefetcher<Config>(context, address);
  } else if (context.is_in_flight(address)) [[unlikely]] {
    context.add_event({.type = TimingEvent::Type::hit_under_fill,
                       .kind = kind,
                       .bytes = bytes,
                       .address = address,
                       .time = compute_time});
    if (fast.is_first_use_of_prefetch() && context.prefetcher->advances_on_use())
      prefetched_line = run_prefetcher<Config>(context, address);
  } else if (fast.is_first_use_of_prefetch() && context.prefetcher->advances_on_use()) [[unlikely]] {
    context.add_hits(kind, bytes, 1, compute_time);
    prefetched_line = run_prefetcher<Config>(context, address);
  } else {
    hits = num_accesses;
  }
  if (num_accesses > 1) {
    if (Config::has_variants && prefetched_line)  // the line's sets may differ between variants now
      return repeat_access_slow(context, kind, address, bytes, num_accesses - 1, compute_time);
    fast.count_repeats(store, num_accesses - 1);
  }
  if (hits > 0) context.add_hits(kind, bytes, hits, compute_time);
}

void MemoryModel::dispatch_access_line(const CoreContext& context, Access kind, Address address, unsigned bytes,
                                       Ps compute_time) {
  context.dispatch_fast_path(
      [&]<class Config>(Config) { access_line<Config>(context, kind, address, bytes, 1, compute_time); });
}

NEARFIELD_ALWAYS_INLINE void MemoryModel::translate(const CoreContext& context, Access kind, Address address,
                                                    Count num_accesses) {
  if (!context.translation) return;
  if (const Ps cost = context.translation->access_cost(context.core, address); cost > 0) {
    const bool overlaps =
        context.timing.overlaps_walks() && kind != Access::chase && !context.translation->last_miss_was_fault();
    context.add_event({.type = overlaps ? TimingEvent::Type::walk : TimingEvent::Type::stall, .time = cost});
  }
  context.translation->count_repeats(num_accesses - 1);
}

void MemoryModel::access_nontemporal(const CoreContext& context, Access kind, Address address, unsigned bytes,
                                     Ps compute_time) {
  address = frames_->physical_address(address);
  auto& contents = context.contents;
  std::array<unsigned, max_variants> writes;
  const auto leaders = contents.run([&](int variant) {
    auto& counters = contents.counters;
    const auto granule = contents.tree.granule_of(address);
    if (invalidate_all_copies(contents, granule, &LevelCounts::write_backs)) counters.count_memory_writes();
    auto& dram = counters.dram();
    ++(kind == Access::load_nontemporal ? dram.bypass_reads : dram.bypass_writes);
    dram.bytes += bytes;
    writes[static_cast<std::size_t>(variant)] = counters.take_write_count();
  });
  context.add_event_per_group(leaders, [&](std::size_t leader) -> TimingEvent {
    return {.type = TimingEvent::Type::nontemporal,
            .kind = kind,
            .bytes = bytes,
            .writes = writes[leader],
            .address = address,
            .time = compute_time};
  });
}

// Makes one access, which may span several lines. Throws std::out_of_range if it goes beyond the node's 128 GiB.
void MemoryModel::access_spanning_lines(const CoreContext& context, Access kind, Address address, unsigned bytes,
                                        Ps compute_time) {
  if (address + bytes > end_of_memory || bytes == 0) throw std::out_of_range("a simulated node has 128 GiB");
  const auto line = caches_->tree.l1_line_bytes();
  const Address end = address + bytes;
  for (Address next; address < end; address = next) {
    next = std::min((address & ~(line - 1)) + line, end);
    if (is_nontemporal(kind))
      access_nontemporal(context, kind, address, static_cast<unsigned>(next - address), compute_time);
    else
      dispatch_access_line(context, kind, address, static_cast<unsigned>(next - address), compute_time);
  }
}

void MemoryModel::sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes,
                        unsigned bytes, Ps compute_time) {
  if (count == 0) return;
  const auto line = caches_->tree.l1_line_bytes();
  const auto stride = static_cast<std::uint64_t>(stride_bytes);
  const std::uint64_t distance = stride_bytes < 0 ? -stride : stride;
  const bool can_group_by_line = !is_nontemporal(kind) && !prefetch_may_evict_trigger_ && distance > 0 &&
                                 distance <= line / 2 && distance % bytes == 0 && address % bytes == 0 &&
                                 line % bytes == 0;
  if (!can_group_by_line) {
    for (const auto& context = core_context(core); count > 0; --count, address += stride)
      access_spanning_lines(context, kind, address, bytes, compute_time);
    return;
  }
  if (std::max(address, address + (count - 1) * stride) > end_of_memory - bytes)
    throw std::out_of_range("a simulated node has 128 GiB");
  const auto& context = core_context(core);
  context.dispatch_fast_path([&]<class Config>(Config) {
    sweep_lines<Config>(context, kind, address, count, stride, stride_bytes < 0, bytes, compute_time);
  });
}

template <class Config>
void MemoryModel::sweep_lines(const CoreContext& context, Access kind, Address address, std::uint64_t count,
                              std::uint64_t stride, bool is_downward, unsigned bytes, Ps compute_time) {
  const auto line = context.contents.tree.l1_line_bytes();
  const std::uint64_t distance = is_downward ? -stride : stride;
  const auto shift = std::has_single_bit(distance) ? std::countr_zero(distance) : -1;
  // The first access to a line may prefetch another line. The prefetched line then counts as more recently used than
  // the accessed line, until the next access that reaches the cache into which lines are prefetched. So the first
  // access is simulated separately.
  const bool touches_after_prefetch = context.prefetcher && (context.prefetcher->target_level() == 0 ||
                                                             (is_store(kind) && context.path.l1_node->writes_through));
  while (count > 0) {
    // Bytes from `address` to the end of its line, in the direction of the sweep.
    const auto rest = is_downward ? address & (line - 1) : (address | (line - 1)) - address;
    auto piece = std::min(count, (shift >= 0 ? rest >> shift : rest / distance) + 1);
    if (touches_after_prefetch) {
      access_line<Config>(context, kind, address, bytes, 1, compute_time);
      address += stride;
      --count;
      if (--piece == 0) continue;
    }
    access_line<Config>(context, kind, address, bytes, piece, compute_time);
    count -= piece;
    address += piece * stride;
  }
}

void MemoryModel::copy(int core, Address to, Address from, std::uint64_t bytes) {
  if (copy_ps_per_byte_ > 0) return copy_by_lines(core_context(core), to, from, bytes);
  // Line by line, because the loads of a copying loop run ahead of its stores.
  const auto line = caches_->tree.l1_line_bytes();
  for (std::uint64_t done = 0; done < bytes;) {
    const auto piece = std::min(line, bytes - done);
    const auto words = piece / word_bytes, rest = piece % word_bytes;
    for (const auto kind : {Access::load, Access::store}) {
      const Address at = (kind == Access::load ? from : to) + done;
      sweep(core, kind, at, words, word_bytes, word_bytes, 0);
      sweep(core, kind, at + words * word_bytes, rest, 1, 1, 0);
    }
    done += piece;
  }
}

// Copies by vector instructions: one load and one store per L1 line or part of a line. The time of each is its bytes
// divided by Core::copy_bytes_per_cycle, with a lower bound: the time of a word access or of the copy of a full line,
// whichever is shorter.
void MemoryModel::copy_by_lines(const CoreContext& context, Address to, Address from, std::uint64_t bytes) {
  const auto line = caches_->tree.l1_line_bytes();
  const Ps min_time = std::min(issue_time_, copy_ps_per_byte_ * static_cast<double>(line));
  for (std::uint64_t done = 0; done < bytes;) {
    const auto piece = std::min(line, bytes - done);
    for (const auto kind : {Access::load, Access::store}) {
      Address at = (kind == Access::load ? from : to) + done;
      for (const Address end = at + piece; at < end;) {
        const auto part = std::min((at & ~(line - 1)) + line, end) - at;
        const Ps time = std::max(min_time, std::nearbyint(copy_ps_per_byte_ * static_cast<double>(part)));
        access_spanning_lines(context, kind, at, static_cast<unsigned>(part), time - issue_time_);
        at += part;
      }
    }
    done += piece;
  }
}

void MemoryModel::replay(int core, std::span<const Reference> trace) { replay_all(core, trace); }

// A trace of accesses that differ only in their addresses.
struct MemoryModel::SameKindTrace {
  std::span<const Address> addresses;
  Access kind;
  unsigned bytes;

  std::size_t size() const { return addresses.size(); }
  Reference operator[](std::size_t i) const { return {addresses[i], bytes, kind}; }
};

void MemoryModel::replay(int core, std::span<const Address> addresses, Access kind, unsigned bytes) {
  replay_all(core, SameKindTrace{addresses, kind, bytes});
}

template <class Trace>
void MemoryModel::replay_all(int core, const Trace& trace) {
  const auto& context = core_context(core);
  bool prefetches_on_host = true;  // whether enough recent accesses would have gained by host prefetches
  const int far_level = context.hierarchy.first_level_beyond_host_cache();
  Count num_far_accesses = context.hierarchy.num_accesses_reaching(far_level);
  for (std::size_t begin = 0; begin < trace.size(); begin += batch_references) {
    const auto end = std::min(begin + batch_references, trace.size());
    const auto prefetch_end =
        prefetches_on_host ? std::min(end, trace.size() - std::min(trace.size(), host_prefetch_distance)) : 0;
    context.dispatch_fast_path(
        [&]<class Config>(Config) { replay_batch<Config>(context, trace, begin, end, prefetch_end, far_level); });
    const Count reached = context.hierarchy.num_accesses_reaching(far_level);
    prefetches_on_host = reached - num_far_accesses > batch_references / 8;
    num_far_accesses = reached;
  }
}

template <class Config, class Trace>
void MemoryModel::replay_batch(const CoreContext& context, const Trace& trace, std::size_t begin, std::size_t end,
                               std::size_t prefetch_end, int far_level) {
  const auto line_mask = ~(context.contents.tree.l1_line_bytes() - 1);
  for (std::size_t i = begin; i < end; ++i) {
    if (i < prefetch_end) {
      context.hierarchy.host_prefetch(
          context.core, context.frames.physical_address(trace[i + host_prefetch_distance].address), far_level);
      context.hierarchy.host_prefetch_victim(
          context.path, context.frames.physical_address(trace[i + host_prefetch_victim_distance].address));
    }
    const auto [address, bytes, kind] = trace[i];
    if (kind < Access::load_nontemporal && ((address ^ (address + bytes - 1)) & line_mask) == 0 &&
        address < end_of_memory) [[likely]]
      access_line<Config>(context, kind, address, bytes, 1, 0);
    else
      access_spanning_lines(context, kind, address, bytes, 0);
  }
}

// ---- set-up of scenarios

void MemoryModel::invalidate_range(Address address, std::uint64_t bytes) {
  auto& contents = caches_->contents;
  for_each_granule(address, bytes, [&](Address at, std::uint64_t) {
    contents.run([&](int) { invalidate_all_copies(contents, contents.tree.granule_of(at), nullptr); });
  });
}

void MemoryModel::invalidate_all() {
  caches_->hierarchy.invalidate_all();
  translation_->invalidate_all();
}

// ---- clocks and counts

const TimeVector& MemoryModel::now(int core, int variant) const {
  const auto& context = core_context(core);
  context.flush_timing_events();
  return context.variant_clocks[static_cast<std::size_t>(variant)].clock.now;
}
void MemoryModel::advance(int core, Ps duration) {
  core_context(core).flush_timing_events();
  for (auto& timing : timings_) timing->advance(core, duration);
}
void MemoryModel::wait_until(int core, const ConfigClock& instant) {
  core_context(core).flush_timing_events();
  for (int v = 0; v < instant.num_variants(); ++v) timings_[static_cast<std::size_t>(v)]->wait_until(core, instant[v]);
}
void MemoryModel::drain(int core) {
  core_context(core).flush_timing_events();
  for (auto& timing : timings_) timing->drain(core);
}

Counts MemoryModel::counts(int variant) const {
  auto all = caches_->contents.counters.counts(variant);
  all.tlbs = tlb_counts_->tlbs;
  all.page_faults = tlb_counts_->page_faults;
  const auto& dram = all.dram;
  all.dram.bytes +=
      (dram.reads + dram.writes + dram.prefetches + dram.dma_reads + dram.dma_writes) * caches_->tree.granule_bytes();
  return all;
}

void MemoryModel::reset_counts() {
  caches_->contents.counters.reset();
  for (auto& tlb : tlb_counts_->tlbs) tlb = {};
  tlb_counts_->page_faults = 0;
}

CopyState MemoryModel::cached_copy_state(int core, int level, Address address, int variant) const {
  return caches_->tree.cached_copy_state(variant, core, level, frames_->physical_address(address));
}

}  // namespace nearfield::sim
