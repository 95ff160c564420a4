// What the memory of a node is made of, and a core of it with all of it at hand. Only Memory's own files include this.
#pragma once

#include <optional>

#include "sim/memory/devices.hpp"
#include "sim/memory/fast_path.hpp"
#include "sim/memory/frames.hpp"
#include "sim/memory/hierarchy.hpp"
#include "sim/memory/prefetcher.hpp"
#include "sim/memory/timing.hpp"
#include "sim/memory/tlb.hpp"

namespace nearfield::sim {

// Physical addresses end here; also stands for no line.
inline constexpr Address end_of_memory = Address{1} << 37;
inline constexpr Address no_line = end_of_memory;

inline bool is_store(Access kind) { return kind == Access::store; }

struct Memory::Caches {
  Caches(const Machine& machine, int variants, bool limits_ways)
      : hierarchy(machine, variants, limits_ways), devices(contents, machine) {}
  Hierarchy hierarchy;
  Contents& contents = hierarchy.contents();
  Devices devices;
};

// The fast path is compiled for each shape of a core's caches: whether there is a victim cache, whether the lines of that
// have sub-blocks, and whether there are several variants. Caches that it cannot serve have the slow shape.
template <bool its_victims, bool its_parts, bool its_several>
struct FastShape {
  static constexpr bool fast = true, victims = its_victims, parts = its_parts, several = its_several;
};
template <bool its_several>
struct SlowShape {
  static constexpr bool fast = false, victims = false, parts = false, several = its_several;
};

struct Memory::Acting {
  // Calls `function` with the shape of this core's caches.
  template <class Function>
  NEARFIELD_INNERMOST void with_shape(Function&& function) const {
    several() ? with_shape_of<true>(function) : with_shape_of<false>(function);
  }
  template <bool its_several, class Function>
  NEARFIELD_INNERMOST void with_shape_of(Function&& function) const {
    if (!path.is_fast) return function(SlowShape<its_several>{});
    if (!path.has_victims) return function(FastShape<false, false, its_several>{});
    if (path.third.sub_blocks > 1) return function(FastShape<true, true, its_several>{});
    function(FastShape<true, false, its_several>{});
  }

  int core;
  TimedSteps& steps;
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

  // ---- what clocks are to be told of
  NEARFIELD_INNERMOST void add(const TimedStep& step) const {
    if (steps.full()) [[unlikely]]
      tell();
    steps.add(step);
  }
  NEARFIELD_INNERMOST void add_hits(Access kind, unsigned bytes, Count count, Ps work) const {
    if (kind == Access::store && timing.stores_go_through()) [[unlikely]]
      return add({.what = TimedStep::What::through, .kind = kind, .bytes = bytes, .time = work, .count = count});
    if (steps.full()) [[unlikely]]
      tell();
    steps.add_hits(count, timing.per_hit(kind, work));
  }
  void add_writes(Address address, unsigned writes) const {
    if (writes > 0) add({.what = TimedStep::What::writes, .writes = writes, .address = address});
  }
  NEARFIELD_INNERMOST void tell() const {
    if (!steps.empty()) tell_all();
  }
  [[gnu::noinline]] void tell_all() const {
    for (auto& its : times) its.timing.take(its.clock, steps.all());
    steps.clear();
  }
  // Tells the clocks of one variant of a step that is not one of all, after those that are.
  void tell(std::size_t variant, const TimedStep& step) const {
    auto& its = times[variant];
    its.timing.take(its.clock, {&step, 1});
  }

  // ---- lines that are on their way, under any variant, by hash; a line that is not there any longer may still be here
  void goes_ahead(Address line) const { ahead[Arrivals::hash(line)] = true; }
  // Returns whether the address's line may be on its way, under any variant.
  NEARFIELD_INNERMOST bool is_ahead(Address address) const {
    if (!follower) return false;
    const auto unit = contents.unit_of(address);
    auto& may_be = ahead[Arrivals::hash(unit)];
    if (!may_be) [[likely]]
      return false;
    tell();
    may_be = std::ranges::any_of(times, [&](auto& its) { return its.clock.ahead.may_have(unit); });
    return may_be;
  }
  mutable std::array<bool, Arrivals::hashes> ahead{};
};

template <class Function>
void Memory::for_each_unit(Address address, std::uint64_t bytes, Function&& function) {
  const auto unit = caches_->contents.unit_bytes();
  const Address end = address + bytes;
  for (Address next; address < end; address = next) {
    next = std::min((address & ~(unit - 1)) + unit, end);
    function(frames_->physical(address), next - address);
  }
}

}  // namespace nearfield::sim
