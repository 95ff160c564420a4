// How the clocks of one core go on over steps. timing.cpp includes this file once for each kind of the host's
// instructions, in a namespace of its own that defines
//   V            the times at all memory speeds, as registers hold them; with +, ==, later() and all_at_least()
//   of, whole    from memory; `whole` for what put() stored
//   put          to memory
//   times        as a Times
// Steps that are seldom done are in timing.cpp, and take a Times. There is no #pragma once, since the file is included twice.

struct TimingSteps {
  Timing& timing;
  Timing::CoreClock& me;
  V now;
  Count issued;

  TimingSteps(Timing& of_node, Timing::CoreClock& of_core)
      : timing(of_node), me(of_core), now(of(of_core.now)), issued(of_core.issued) {}

  static void run(Timing& timing, Timing::CoreClock& me, std::span<const TimedStep> steps) {
    TimingSteps it(timing, me);
    for (const auto& step : steps) {
      if (it.take<false>(step)) [[likely]]
        continue;
      it.put_back();
      take_with_calls(timing, me, step);
      it.now = whole(me.now);
      it.issued = me.issued;
    }
    it.put_back();
  }
  [[gnu::noinline]] static void take_with_calls(Timing& timing, Timing::CoreClock& me, const TimedStep& step) {
    TimingSteps it(timing, me);
    it.take<true>(step);
    it.put_back();
  }
  void put_back() const {
    put(now, me.now);
    me.issued = issued;
  }

  // Takes a step. Most steps need no call of another function, and only without one does the time stay in a register from
  // step to step. So without `calls`, returns false for a step that needs one, and has then done nothing but wait for
  // the window.
  template <bool calls>
  NEARFIELD_INNERMOST bool take(const TimedStep& step) {
    switch (step.what) {
      case TimedStep::What::missed:
        return missed<calls>(step);
      case TimedStep::What::hits:
        issue(step.count, step.time);
        return true;
      case TimedStep::What::through:
        stored_through(step.bytes, step.count, step.time);
        return true;
      case TimedStep::What::awaited:
        return awaited<calls>(step);
      case TimedStep::What::prefetched:
        return prefetched<calls>(step);
      case TimedStep::What::bypassed:
        if constexpr (calls) bypassed(step);
        return calls;
      case TimedStep::What::writes:
        if (!calls && timing.is_connected_) return false;
        write_back<calls>(step);
        return true;
      case TimedStep::What::nothing:
        now = now + step.time;
    }
    return true;
  }
  // Returns whether the way of a step's line, which begins at `start`, or a place for it in the window needs a call.
  NEARFIELD_INNERMOST bool needs_call(const TimedStep& step, V start) const {
    if (step.found.transferred || me.window.full()) [[unlikely]]
      return true;
    const bool uses_memory = step.found.level == timing.caches_ || step.writes > 0;
    return uses_memory &&
           !(timing.is_plain_ && all_at_least(start, whole(timing.dram_.memories_.front().bus.last_gap_ends_)));
  }

  // Does not depend on how instructions are grouped: those before the window stalls, then the rest.
  NEARFIELD_INNERMOST void issue(Count count, Ps each) {
    while (issued + count > me.window.stalls()) [[unlikely]] {
      const Count before = me.window.stalls() - issued;
      issued += before;
      count -= before;
      now = later(now + static_cast<Ps>(before) * each, whole(me.window.pop()));
    }
    issued += count;
    now = now + static_cast<Ps>(count) * each;
  }

  NEARFIELD_INNERMOST void wait_for_window() {
    while (issued >= me.window.stalls()) [[unlikely]]
      now = later(now, whole(me.window.pop()));
  }

  // A core's caches, or for a line that was found in others' caches their holder, write units to memory.
  template <bool calls>
  NEARFIELD_INNERMOST void write_back(const TimedStep& step) {
    if (step.writes == 0) return;
    timing.dram_.post(step.address, step.writes * timing.unit_);
    if (calls && timing.is_connected_) timing.post(me, step.address, step.writes, step.found);
  }

  // Accesses to one line, of which the first one missed the nearest cache and the others hit it.
  template <bool calls>
  NEARFIELD_INNERMOST bool missed(const TimedStep& step) {
    if (step.kind == Access::store && step.found.level == timing.through_ && !step.found.transferred) {
      if (!calls && timing.is_connected_) return false;
      write_back<calls>(step);
      stored_through(step.bytes, step.count, step.time);
      return true;
    }
    if (!first_missed<calls>(step)) return false;
    if (step.count > 1) hit(step, step.count - 1);
    return true;
  }
  template <bool calls>
  NEARFIELD_INNERMOST bool first_missed(const TimedStep& step) {
    wait_for_window();
    const V with_slot = later(now, whole(me.misses.free()));
    if (!calls && (step.kind == Access::chase || needs_call(step, with_slot))) [[unlikely]]
      return false;
    write_back<calls>(step);
    V arrived = now;
    bool is_new = true;  // a line that is on its way has its slot already
    if (const Address unit = step.address & ~(timing.unit_ - 1); timing.prefetches_ && me.ahead.may_have(unit))
        [[unlikely]] {
      const V there = of(me.ahead.take(unit, times(now)));
      // Else it was lost before its use, to a store of another core or to other lines.
      if (!step.found.transferred && step.found.level < timing.caches_) {
        arrived = there;
        is_new = arrived == now;
      }
    }
    if (calls && step.kind == Access::chase) {
      ++issued;
      now = ready<calls>(step, arrived) + step.time;
      return true;
    }
    const V start = is_new ? with_slot : now;
    const V known = step.kind == Access::gather ? later(start, whole(me.index)) : start;  // the address
    const V done = ready<calls>(step, is_new ? known : later(known, arrived));
    if (is_new) take_slot(me.misses, done);
    goes_on<calls>(step, start, done);
    return true;
  }

  // The core goes on while an access is under way, until `done`.
  template <bool calls>
  NEARFIELD_INNERMOST void goes_on(const TimedStep& step, V start, V done) {
    // The window never waits for data that is there before its last instruction can be issued.
    if (step.kind != Access::store && !all_at_least(start + timing.within_window_, done)) [[unlikely]] {
      if (calls && me.window.full()) me.window.make_room();
      put(done, me.window.add(issued + timing.window_));
    }
    if (step.kind == Access::index) put(done, me.index);
    ++issued;
    now = start + (timing.per_access_ + step.time);
  }

  NEARFIELD_INNERMOST static void take_slot(UnderWay& slots, V done) {
    // Mostly the latest one is done last.
    if (all_at_least(done, whole(slots.last()))) [[likely]]
      put(done, slots.next());
    else
      slots.insert(times(done));
  }

  // Returns when the data is there.
  template <bool calls>
  NEARFIELD_INNERMOST V ready(const TimedStep& step, V start) {
    if (calls && step.found.transferred) return of(timing.transferred(me, step.found, step.address, times(start)));
    if (step.found.level == timing.caches_) return from_memory<calls>(step.address & ~(timing.unit_ - 1), start);
    const auto level = static_cast<std::size_t>(step.found.level);
    const auto& its = timing.levels_[level];
    if (its.per_unit == 0) [[unlikely]]
      return start + its.latency;
    auto& free = me.port_free[level];
    const V begun = later(start, whole(free));
    put(begun + its.per_unit, free);
    return begun + its.latency;
  }

  template <bool calls>
  NEARFIELD_INNERMOST V from_memory(Address unit, V start) {
    if constexpr (calls) return of(timing.from_memory(me, unit, timing.unit_, times(start)));
    auto& dram = timing.dram_;
    auto& bus = dram.memories_.front().bus;
    const V free = whole(bus.free_), begun = later(start, free);
    if (!(begun == free)) bus.remember(times(start));
    put(begun + whole(dram.unit_on_bus_), bus.free_);
    return begun + whole(dram.latency_);
  }

  // A hit of a line of the nearest cache that may be on its way to the second one.
  template <bool calls>
  NEARFIELD_INNERMOST bool awaited(const TimedStep& step) {
    if (!calls && me.window.full()) [[unlikely]]
      return false;
    const Address unit = step.address & ~(timing.unit_ - 1);
    const V there = me.ahead.may_have(unit) ? of(me.ahead.take(unit, times(now))) : now;
    if (there == now) {
      hit(step, 1);
      return true;
    }
    wait_for_window();
    if (step.kind == Access::chase) {
      ++issued;
      now = later(now, there) + (timing.levels_.front().latency + step.time);
      return true;
    }
    goes_on<calls>(step, now, there);
    return true;
  }
  // Such accesses hit the nearest cache.
  NEARFIELD_INNERMOST void hit(const TimedStep& step, Count count) {
    if (step.kind == Access::store && timing.through_ > 0) return stored_through(step.bytes, count, step.time);
    issue(count, timing.per_hit(step.kind, step.time));
  }

  // A line is fetched ahead.
  template <bool calls>
  NEARFIELD_INNERMOST bool prefetched(const TimedStep& step) {
    auto& slots = timing.prefetches_apart_ ? me.prefetches : me.misses;
    const V start = later(now, whole(slots.free()));
    if (!calls && (me.ahead.is_new() || needs_call(step, start))) [[unlikely]]
      return false;
    write_back<calls>(step);
    const V there = ready<calls>(step, start);
    if (calls && me.ahead.is_new()) me.ahead.prepare();
    me.ahead.add(step.address, times(there));
    take_slot(slots, there);
    return true;
  }

  // An access past the caches.
  NEARFIELD_INNERMOST void bypassed(const TimedStep& step) {
    wait_for_window();
    write_back<true>(step);
    const V start = later(now, of(me.bypasses.free()));
    const V done = of(timing.from_memory(me, step.address, step.bytes, times(start)));
    put(later(of(me.all_bypassed), done), me.all_bypassed);
    take_slot(me.bypasses, done);
    ++issued;
    now = start + std::max(timing.per_access_ + step.time, std::nearbyint(step.bytes * timing.bypass_ps_per_byte_));
  }

  // Stores that go through to the first cache that writes back, which has the line (if there is none: to memory, which is
  // not waited for). Each takes that cache's port for its own bytes.
  NEARFIELD_INNERMOST void stored_through(unsigned bytes, Count count, Ps work) {
    const auto level = static_cast<std::size_t>(timing.through_);
    const Ps each = std::nearbyint(bytes * timing.levels_[level].per_byte), cost = timing.per_access_ + work;
    V free = whole(me.port_free[level]);
    for (; count > 0; --count) {
      wait_for_window();
      now = later(now, free);
      free = now + each;
      issue(1, cost);
      if (each > cost || count == 1) continue;
      // From here on the port is free before each store.
      issue(count - 1, cost);
      free = now + (each - cost);
      break;
    }
    put(free, me.port_free[level]);
  }
};
