// Advances the clock of one core over timing events. timing.cpp includes this file once per instruction set of the
// host, in a namespace of its own that defines
//   SimdTimes                the times at all memory speeds in registers; with +, ==, later() and all_at_least()
//   load_halves, load_whole  from memory; `load_whole` for what store() wrote
//   store                    to memory
//   to_times                 conversion to TimeVector
// Rare events are handled in timing.cpp, on TimeVector. There is no #pragma once, since the file is included twice. It
// is no template: the instructions that a template may use are those of the place where it is defined, not those of the
// place where it is instantiated.

struct TimingKernel {
  Timing& timing;
  CoreClock& clock;
  SimdTimes now;
  Count issued;

  TimingKernel(Timing& node_timing, CoreClock& core_clock)
      : timing(node_timing), clock(core_clock), now(load_halves(core_clock.now)), issued(core_clock.issued) {}

  static void apply_events(Timing& timing, CoreClock& clock, std::span<const TimingEvent> events) {
    TimingKernel kernel(timing, clock);
    for (const auto& event : events) {
      if (kernel.apply_event<false>(event)) [[likely]]
        continue;
      kernel.save_to_clock();
      apply_event_with_calls(timing, clock, event);
      kernel.now = load_whole(clock.now);
      kernel.issued = clock.issued;
    }
    kernel.save_to_clock();
  }
  [[gnu::noinline]] static void apply_event_with_calls(Timing& timing, CoreClock& clock, const TimingEvent& event) {
    TimingKernel kernel(timing, clock);
    kernel.apply_event<true>(event);
    kernel.save_to_clock();
  }
  void save_to_clock() const {
    store(now, clock.now);
    clock.issued = issued;
  }

  // Applies an event. Out-of-line calls would spill the SIMD register of times, so common events are handled inline.
  // Without `calls`, returns false for an event that needs an out-of-line call; the kernel has then at most waited for
  // the window.
  template <bool calls>
  NEARFIELD_ALWAYS_INLINE bool apply_event(const TimingEvent& event) {
    switch (event.type) {
      case TimingEvent::Type::miss:
        return apply_miss<calls>(event);
      case TimingEvent::Type::hits:
        issue_instructions(event.count, event.time);
        return true;
      case TimingEvent::Type::write_through:
        apply_write_through(event.bytes, event.count, event.time);
        return true;
      case TimingEvent::Type::hit_under_fill:
        return apply_hit_under_fill<calls>(event);
      case TimingEvent::Type::prefetch:
        return apply_prefetch<calls>(event);
      case TimingEvent::Type::nontemporal:
        if constexpr (calls) apply_nontemporal(event);
        return calls;
      case TimingEvent::Type::memory_writes:
        if (!calls && timing.has_limited_links_) return false;
        post_write_backs<calls>(event);
        return true;
      case TimingEvent::Type::walk:
        return apply_walk<calls>(event);
      case TimingEvent::Type::stall:
        now = now + event.time;
    }
    return true;
  }
  // Returns whether an out-of-line call is needed to fetch the event's line from `start` on or to add the event to the
  // window.
  NEARFIELD_ALWAYS_INLINE bool needs_call(const TimingEvent& event, SimdTimes start) const {
    if (event.lookup.is_from_other_cache || clock.window.is_full()) [[unlikely]]
      return true;
    const bool uses_memory = event.lookup.level == timing.constants_.num_caches || event.writes > 0;
    return uses_memory && !(timing.has_plain_memory_ &&
                            all_at_least(start, load_whole(timing.dram_.memories_.front().bus.last_free_end_)));
  }

  // Issues `count` instructions that take `each`. If the window stalls, issues the instructions before the stall, waits
  // for the oldest load, then issues the rest. So the result does not depend on how instructions are grouped.
  NEARFIELD_ALWAYS_INLINE void issue_instructions(Count count, Ps each) {
    while (issued + count > clock.window.stall_index()) [[unlikely]] {
      const Count before = clock.window.stall_index() - issued;
      issued += before;
      count -= before;
      now = later(now + static_cast<Ps>(before) * each, load_whole(clock.window.pop()));
    }
    issued += count;
    now = now + static_cast<Ps>(count) * each;
  }

  NEARFIELD_ALWAYS_INLINE void wait_for_window() {
    while (issued >= clock.window.stall_index()) [[unlikely]]
      now = later(now, load_whole(clock.window.pop()));
  }

  // Posts the write-backs of an event to memory. If another core's cache supplied the line, its holder wrote the line
  // back; other granules come from the core's own caches.
  template <bool calls>
  NEARFIELD_ALWAYS_INLINE void post_write_backs(const TimingEvent& event) {
    if (event.writes == 0) return;
    timing.dram_.post_write_back(event.address, event.writes * timing.constants_.granule_bytes);
    if (calls && timing.has_limited_links_) timing.post_writes(clock, event.address, event.writes, event.lookup);
  }

  // Applies accesses to one line, of which the first missed L1 and the others hit.
  template <bool calls>
  NEARFIELD_ALWAYS_INLINE bool apply_miss(const TimingEvent& event) {
    if (event.kind == Access::store && event.lookup.level == timing.constants_.first_write_back_level &&
        !event.lookup.is_from_other_cache) {
      if (!calls && timing.has_limited_links_) return false;
      post_write_backs<calls>(event);
      apply_write_through(event.bytes, event.count, event.time);
      return true;
    }
    if (!apply_first_miss<calls>(event)) return false;
    if (event.count > 1) apply_hits(event, event.count - 1);
    return true;
  }
  template <bool calls>
  NEARFIELD_ALWAYS_INLINE bool apply_first_miss(const TimingEvent& event) {
    wait_for_window();
    const SimdTimes with_slot = later(now, load_whole(clock.miss_slots.next_free_time()));
    if (!calls && (event.kind == Access::chase || needs_call(event, with_slot))) [[unlikely]]
      return false;
    post_write_backs<calls>(event);
    SimdTimes arrived = now;
    bool is_new = true;  // whether the access needs a miss slot; a line in flight already has one
    if (const Address granule = event.address & ~(timing.constants_.granule_bytes - 1);
        timing.constants_.has_prefetcher && clock.in_flight.may_contain(granule)) [[unlikely]] {
      const SimdTimes arrival = load_halves(clock.in_flight.consume(granule, to_times(now)));
      // Otherwise the line was lost before its first use: invalidated by a store of another core, or evicted.
      if (!event.lookup.is_from_other_cache && event.lookup.level < timing.constants_.num_caches) {
        arrived = arrival;
        is_new = arrived == now;
      }
    }
    if (calls && event.kind == Access::chase) {
      ++issued;
      now = data_arrival<calls>(event, arrived) + event.time;
      return true;
    }
    const bool takes_transfer_slot = calls && event.lookup.is_from_other_cache && timing.constants_.limits_transfers;
    const SimdTimes slot = is_new ? with_slot : now;
    const SimdTimes start = takes_transfer_slot ? later(slot, next_free_transfer_slot()) : slot;
    const SimdTimes address_time = event.kind == Access::gather ? later(start, load_whole(clock.index)) : start;
    const SimdTimes completion = data_arrival<calls>(event, is_new ? address_time : later(address_time, arrived));
    if (is_new) occupy_slot(clock.miss_slots, completion);
    if (takes_transfer_slot) occupy_slot(clock.transfer_slots, completion);
    issue_in_flight_access<calls>(event, start, completion);
    return true;
  }

  // Adds an access that is in flight from `start` to `completion` to the window. If its data arrives before the last
  // instruction of the window can be issued, the window never waits for it, and nothing is added.
  template <bool calls>
  NEARFIELD_ALWAYS_INLINE void add_to_window(SimdTimes start, SimdTimes completion) {
    if (all_at_least(start + timing.constants_.min_window_time, completion)) [[likely]]
      return;
    if (calls && clock.window.is_full()) clock.window.grow();
    store(completion, clock.window.add(issued + timing.constants_.window));
  }

  // Issues an access that is in flight from `start` to `completion`. The core does not wait for its completion.
  template <bool calls>
  NEARFIELD_ALWAYS_INLINE void issue_in_flight_access(const TimingEvent& event, SimdTimes start, SimdTimes completion) {
    if (event.kind != Access::store) add_to_window<calls>(start, completion);
    if (event.kind == Access::index) store(completion, clock.index);
    ++issued;
    now = start + (timing.constants_.per_access + event.time);
  }

  SimdTimes next_free_transfer_slot() const { return load_whole(clock.transfer_slots.next_free_time()); }

  NEARFIELD_ALWAYS_INLINE static void occupy_slot(MissSlots& slots, SimdTimes completion) {
    // Usually the latest access completes last.
    if (all_at_least(completion, load_whole(slots.last_completion_time()))) [[likely]]
      store(completion, slots.take_next_slot());
    else
      slots.insert(to_times(completion));
  }

  // Returns the time at which the data of an event's line arrives, if the request starts at `start`.
  template <bool calls>
  NEARFIELD_ALWAYS_INLINE SimdTimes data_arrival(const TimingEvent& event, SimdTimes start) {
    if (calls && event.lookup.is_from_other_cache)
      return load_halves(timing.transfer_from_cache(clock, event.lookup, event.address, to_times(start)));
    if (event.lookup.level == timing.constants_.num_caches)
      return arrival_from_memory<calls>(event.address & ~(timing.constants_.granule_bytes - 1), start);
    const auto level = static_cast<std::size_t>(event.lookup.level);
    const auto& level_timing = timing.constants_.levels[level];
    if (level_timing.per_line == 0) [[unlikely]]
      return start + level_timing.latency;
    auto& free = clock.port_free[level];
    const SimdTimes begun = later(start, load_whole(free));
    store(begun + level_timing.per_line, free);
    return begun + level_timing.latency;
  }

  template <bool calls>
  NEARFIELD_ALWAYS_INLINE SimdTimes arrival_from_memory(Address granule, SimdTimes start) {
    if constexpr (calls)
      return load_halves(timing.arrival_from_memory(clock, granule, timing.constants_.granule_bytes, to_times(start)));
    auto& dram = timing.dram_;
    auto& bus = dram.memories_.front().bus;
    const SimdTimes free = load_whole(bus.free_), begun = later(start, free);
    if (!(begun == free)) bus.record_free_interval(to_times(start));
    store(begun + load_whole(dram.dram_speed_.granule_bus_time), bus.free_);
    return begun + load_whole(dram.dram_speed_.latency);
  }

  // Applies an L1 hit on a line that may still be in flight.
  template <bool calls>
  NEARFIELD_ALWAYS_INLINE bool apply_hit_under_fill(const TimingEvent& event) {
    if (!calls && clock.window.is_full()) [[unlikely]]
      return false;
    const Address granule = event.address & ~(timing.constants_.granule_bytes - 1);
    const SimdTimes arrival =
        clock.in_flight.may_contain(granule) ? load_halves(clock.in_flight.consume(granule, to_times(now))) : now;
    if (arrival == now) {
      apply_hits(event, 1);
      return true;
    }
    wait_for_window();
    if (event.kind == Access::chase) {
      ++issued;
      now = later(now, arrival) + (timing.constants_.levels.front().latency + event.time);
      return true;
    }
    issue_in_flight_access<calls>(event, now, arrival);
    return true;
  }
  // Applies `count` L1 hits.
  NEARFIELD_ALWAYS_INLINE void apply_hits(const TimingEvent& event, Count count) {
    if (event.kind == Access::store && timing.constants_.first_write_back_level > 0)
      return apply_write_through(event.bytes, count, event.time);
    issue_instructions(count, timing.hit_time(event.kind, event.time));
  }

  // Applies the prefetch of a line.
  template <bool calls>
  NEARFIELD_ALWAYS_INLINE bool apply_prefetch(const TimingEvent& event) {
    auto& slots = timing.constants_.has_own_prefetch_slots ? clock.prefetch_slots : clock.miss_slots;
    const SimdTimes start = later(now, load_whole(slots.next_free_time()));
    if (!calls && (clock.in_flight.is_unallocated() || needs_call(event, start))) [[unlikely]]
      return false;
    post_write_backs<calls>(event);
    const bool takes_transfer_slot = calls && event.lookup.is_from_other_cache && timing.constants_.limits_transfers;
    const SimdTimes arrival =
        data_arrival<calls>(event, takes_transfer_slot ? later(start, next_free_transfer_slot()) : start);
    if (takes_transfer_slot) occupy_slot(clock.transfer_slots, arrival);
    if (calls && clock.in_flight.is_unallocated()) clock.in_flight.allocate();
    clock.in_flight.add(event.address, to_times(arrival));
    occupy_slot(slots, arrival);
    return true;
  }

  // Applies a TLB miss. The core waits only if all page walkers are busy.
  template <bool calls>
  NEARFIELD_ALWAYS_INLINE bool apply_walk(const TimingEvent& event) {
    wait_for_window();
    if (!calls && clock.window.is_full()) [[unlikely]]
      return false;
    const SimdTimes start = later(now, load_whole(clock.walk_slots.next_free_time())), completion = start + event.time;
    occupy_slot(clock.walk_slots, completion);
    add_to_window<calls>(start, completion);
    now = start;
    return true;
  }

  // Applies a non-temporal access.
  NEARFIELD_ALWAYS_INLINE void apply_nontemporal(const TimingEvent& event) {
    wait_for_window();
    post_write_backs<true>(event);
    const SimdTimes start = later(now, load_halves(clock.nontemporal_slots.next_free_time()));
    const SimdTimes completion =
        load_halves(timing.arrival_from_memory(clock, event.address, event.bytes, to_times(start)));
    store(later(load_halves(clock.nontemporal_completion), completion), clock.nontemporal_completion);
    occupy_slot(clock.nontemporal_slots, completion);
    ++issued;
    now = start + std::max(timing.constants_.per_access + event.time,
                           std::nearbyint(event.bytes * timing.constants_.nontemporal_ps_per_byte));
  }

  // Applies `count` stores that are written through to the first write-back cache, which holds the line. Without such a
  // cache, they go to memory, and the core does not wait. Each store occupies the port of that cache for the transfer
  // time of its own bytes.
  NEARFIELD_ALWAYS_INLINE void apply_write_through(unsigned bytes, Count count, Ps work) {
    const auto level = static_cast<std::size_t>(timing.constants_.first_write_back_level);
    const Ps each = std::nearbyint(bytes * timing.constants_.levels[level].per_byte),
             cost = timing.constants_.per_access + work;
    SimdTimes free = load_whole(clock.port_free[level]);
    for (; count > 0; --count) {
      wait_for_window();
      now = later(now, free);
      free = now + each;
      issue_instructions(1, cost);
      if (each > cost || count == 1) continue;
      // From now on the port is free before each store.
      issue_instructions(count - 1, cost);
      free = now + (each - cost);
      break;
    }
    store(free, clock.port_free[level]);
  }
};
