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
