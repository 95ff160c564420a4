// Internals of MemoryModel: its components, and CoreContext, which bundles the components that an access of one core
// uses. Only MemoryModel's own files include this.
#pragma once

#include <optional>

#include "sim/memory/devices.hpp"
#include "sim/memory/fast_path.hpp"
#include "sim/memory/frames.hpp"
#include "sim/memory/hierarchy.hpp"
#include "sim/memory/memory_model.hpp"
#include "sim/memory/prefetcher.hpp"
#include "sim/memory/timing.hpp"
#include "sim/memory/tlb.hpp"

namespace nearfield::sim {

// One past the last physical address of a node, which no_line also uses to stand for no line.
inline constexpr Address end_of_memory = Address{1} << 37;
inline constexpr Address no_line = end_of_memory;

inline bool is_store(Access kind) { return kind == Access::store; }

struct MemoryModel::Caches {
  Caches(const Machine& machine, int variants, bool limits_ways)
      : hierarchy(machine, variants, limits_ways), devices(contents, machine) {}
  Hierarchy hierarchy;
  CacheContents& contents = hierarchy.contents();
  CacheTree& tree = contents.tree;
  DeviceAccesses devices;
};

// The fast path is compiled for each configuration of a core's caches: whether there is a victim cache, whether its
// lines have sub-blocks, and whether several variants are simulated. SlowPathConfig stands for caches that the fast
// path cannot serve.
template <bool has_victim_cache_, bool has_sub_blocks_, bool has_variants_>
struct FastPathConfig {
  static constexpr bool is_fast = true, has_victim_cache = has_victim_cache_, has_sub_blocks = has_sub_blocks_,
                        has_variants = has_variants_;
};
struct SlowPathConfig {
  static constexpr bool is_fast = false, has_victim_cache = false, has_sub_blocks = false, has_variants = false;
};

struct MemoryModel::CoreContext {
  // Calls `function` with the FastPathConfig (or SlowPathConfig) of this core's caches.
  template <class Function>
  NEARFIELD_ALWAYS_INLINE void dispatch_fast_path(Function&& function) const {
    has_variants() ? dispatch_fast_path_for<true>(function) : dispatch_fast_path_for<false>(function);
  }
  template <bool has_variants_, class Function>
  NEARFIELD_ALWAYS_INLINE void dispatch_fast_path_for(Function&& function) const {
    if (!path.is_fast) return function(SlowPathConfig{});
    if (!path.has_victim_cache) return function(FastPathConfig<false, false, has_variants_>{});
    if (path.l3.sub_blocks > 1) return function(FastPathConfig<true, true, has_variants_>{});
    function(FastPathConfig<true, false, has_variants_>{});
  }

  int core;
  TimingEventBuffer& events;
  Hierarchy& hierarchy;
  CacheContents& contents;
  Translation* translation;  // nullptr if translation is free
  const PageFrames& frames;
  const Hierarchy::Path& path;
  StreamPrefetcher* prefetcher;  // nullptr if there is none
  Timing& timing;                // of the first variant, like `clock`
  CoreClock& clock;
  // One variant's timing model, and this core's clock in that model.
  struct VariantClock {
    Timing& timing;
    CoreClock& clock;
  };
  std::vector<VariantClock> variant_clocks;
  bool has_variants() const { return variant_clocks.size() > 1; }

  // ---- timing events
  NEARFIELD_ALWAYS_INLINE void add_event(const TimingEvent& event) const {
    if (events.is_full()) [[unlikely]]
      flush_timing_events();
    events.add(event);
  }
  NEARFIELD_ALWAYS_INLINE void add_hits(Access kind, unsigned bytes, Count count, Ps compute_time) const {
    if (kind == Access::store && timing.writes_through()) [[unlikely]]
      return add_event({.type = TimingEvent::Type::write_through,
                        .kind = kind,
                        .bytes = bytes,
                        .time = compute_time,
                        .count = count});
    if (events.is_full()) [[unlikely]]
      flush_timing_events();
    events.add_hits(count, timing.hit_time(kind, compute_time));
  }
  NEARFIELD_ALWAYS_INLINE void flush_timing_events() const {
    if (!events.empty()) apply_buffered_events();
  }
  [[gnu::noinline]] void apply_buffered_events() const {
    for (auto& variant_clock : variant_clocks) variant_clock.timing.apply_events(variant_clock.clock, events.events());
    events.clear();
  }
  // Applies an event to the clock of one variant only. Buffered events must have been flushed.
  void apply_event(std::size_t variant, const TimingEvent& event) const {
    auto& variant_clock = variant_clocks[variant];
    variant_clock.timing.apply_events(variant_clock.clock, {&event, 1});
  }

  // Adds an event to the clock of each variant: the event that `event_of` returns for the leader of the variant's
  // group.
  template <class EventOf>
  void add_event_per_group(const Variants::GroupLeaders& leaders, EventOf&& event_of) const {
    if (!leaders.has_several_groups()) return add_event(event_of(0));
    flush_timing_events();
    for (std::size_t v = 0; v < variant_clocks.size(); ++v) apply_event(v, event_of(leaders[v]));
  }

  // ---- prefetched lines in flight, by hash. A line that is in flight under any variant is marked; a line that has
  // arrived may still be marked.
  void mark_in_flight(Address line) const { in_flight[InFlightLines::bucket_of(line)] = true; }
  // Returns whether the address's line may be in flight under any variant.
  NEARFIELD_ALWAYS_INLINE bool is_in_flight(Address address) const {
    if (!prefetcher) return false;
    const auto granule = contents.tree.granule_of(address);
    auto& marked = in_flight[InFlightLines::bucket_of(granule)];
    if (!marked) [[likely]]
      return false;
    flush_timing_events();
    marked = std::ranges::any_of(
        variant_clocks, [&](auto& variant_clock) { return variant_clock.clock.in_flight.may_contain(granule); });
    return marked;
  }
  mutable std::array<bool, InFlightLines::num_buckets> in_flight{};
};

// Cores share buses, so buffered timing events are flushed before another core acts.
inline const MemoryModel::CoreContext& MemoryModel::core_context(int core) const {
  const auto& context = contexts_[static_cast<std::size_t>(core)];
  if (current_context_ != &context) [[unlikely]] {
    flush_timing_events();
    current_context_ = &context;
  }
  return context;
}

// Inline, since callers may make one access per call.
NEARFIELD_ALWAYS_INLINE void MemoryModel::access(int core, Access kind, Address address, unsigned bytes) {
  const auto line = caches_->tree.l1_line_bytes();
  if (kind < Access::load_nontemporal && ((address ^ (address + bytes - 1)) & ~(line - 1)) == 0 &&
      address < end_of_memory) [[likely]]
    return dispatch_access_line(core_context(core), kind, address, bytes, 0);
  access_spanning_lines(core_context(core), kind, address, bytes, 0);
}

template <class Function>
void MemoryModel::for_each_granule(Address address, std::uint64_t bytes, Function&& function) {
  const auto granule = caches_->tree.granule_bytes();
  const Address end = address + bytes;
  for (Address next; address < end; address = next) {
    next = std::min((address & ~(granule - 1)) + granule, end);
    function(frames_->physical_address(address), next - address);
  }
}

}  // namespace nearfield::sim
