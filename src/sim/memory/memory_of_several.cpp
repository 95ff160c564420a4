// A core's accesses under several variants (variants.hpp). Most are alike under all of them: the caches' part is done once,
// then each variant's clock is told of it.
#include "sim/memory/acting.hpp"

namespace nearfield::sim {

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

// What an access did to the caches.
struct Memory::Outcomes {
  struct Outcome {
    Outcome() {}
    union {
      Found found;
    };
    unsigned writes;  // units written to memory
    Address ahead;    // the line to fetch ahead, or no_line
  };
  const Outcome& of(std::size_t variant) const { return by[actors[variant]]; }

  std::array<Outcome, most_variants> by;  // who acted
  Variants::Actors actors;
};

// `found`: where the first access found the line under all variants, if it was made already.
void Memory::miss_of_several(const Acting& acting, Access kind, Address address, unsigned bytes, Count times, Ps work,
                             const std::optional<Found>& found) {
  acting.tell_hits();
  auto& hierarchy = acting.hierarchy;
  auto& contents = acting.contents;
  Outcomes outcomes;
  const auto finish = [&](Outcomes::Outcome& outcome) {
    outcome.writes = contents.take_writes();
    outcome.ahead = no_line;
    if (acting.follower && outcome.found.level > 0) outcome.ahead = acting.follower->follow(address).value_or(no_line);
  };
  if (found && (!acting.follower || acting.follower->is_common())) [[likely]] {
    outcomes.by[0].found = *found;
    finish(outcomes.by[0]);
  } else {
    outcomes.actors = contents.act([&](int variant) {
      auto& outcome = outcomes.by[static_cast<std::size_t>(variant)];
      if (found)
        outcome.found = *found;
      else
        outcome.found = is_store(kind) ? hierarchy.store(acting.path, address) : hierarchy.load(acting.path, address);
      finish(outcome);
    });
  }
  const auto& it = outcomes.by[0];
  const bool apart = outcomes.actors.several();
  Variants::Mask waits = contents.variants().all();  // under which the first access does, for others do not
  if (apart || it.found.level == 0) [[unlikely]]
    waits = tell_each(acting, kind, address, bytes, work, outcomes);
  else
    for (auto& [timing, clock] : acting.times) timing.missed(clock, kind, bytes, it.found, address, it.writes, work);
  bool looks_elsewhere = !found;  // than at common sets
  if (apart || it.ahead < end_of_memory) looks_elsewhere |= look_ahead_of_several(acting, outcomes);
  if (times > 1) rest_of_several(acting, kind, address, bytes, times - 1, work, looks_elsewhere);
  if (waits == contents.variants().all()) return;
  for (std::size_t v = 0; v < acting.times.size(); ++v)
    if (!(waits >> v & 1)) acting.times[v].timing.hits(acting.times[v].clock, kind, bytes, 1, work);
}

// Tells the clocks of a first access; returns which of them waited for it.
Variants::Mask Memory::tell_each(const Acting& acting, Access kind, Address address, unsigned bytes, Ps work,
                                 const Outcomes& outcomes) {
  const auto unit = acting.contents.unit_of(address);
  Variants::Mask waits = 0;
  for (std::size_t v = 0; v < acting.times.size(); ++v) {
    auto& [timing, clock] = acting.times[v];
    const auto& outcome = outcomes.of(v);
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
  Variants::Actors actors;
  if (looks_elsewhere && is_store(kind) && acting.path.nearest->through)
    actors = contents.act(repeat);
  else
    contents.act_for_all([&] { return repeat(0); });
  for (std::size_t v = 0; v < acting.times.size(); ++v) {
    auto& [timing, clock] = acting.times[v];
    timing.write_back(clock, address, writes[actors[v]]);
    timing.hits(clock, kind, bytes, count, work);
  }
}

// Under each variant, the line that the follower named is fetched if there is a slot. Returns whether any was.
bool Memory::look_ahead_of_several(const Acting& acting, const Outcomes& outcomes) {
  std::array<Address, most_variants> lines{};
  bool all_alike = true;
  for (std::size_t v = 0; v < acting.times.size(); ++v) {
    auto& [timing, clock] = acting.times[v];
    const auto ahead = outcomes.of(v).ahead;
    lines[v] = ahead < end_of_memory && timing.has_slot_to_prefetch(clock) ? ahead : no_line;
    all_alike &= lines[v] == lines[0];
  }
  auto& contents = acting.contents;
  const auto& variants = contents.variants();
  if (all_alike && (lines[0] == no_line || acting.hierarchy.all_have(acting.core, acting.follower->level(), lines[0])))
    return false;
  std::array<std::optional<Found>, most_variants> from;
  std::array<unsigned, most_variants> writes;
  const auto alike = all_alike ? variants.all_alike()
                               : variants.alike([&](std::size_t a, std::size_t b) { return lines[a] == lines[b]; });
  const auto actors = contents.act(alike, [&](int variant) {
    const auto v = static_cast<std::size_t>(variant);
    if (lines[v] != no_line) from[v] = acting.hierarchy.prefetch(acting.core, acting.follower->level(), lines[v]);
    writes[v] = contents.take_writes();
  });
  for (std::size_t v = 0; v < acting.times.size(); ++v) {
    auto& [timing, clock] = acting.times[v];
    const auto whose = actors[v];
    if (!from[whose]) continue;
    timing.prefetched(clock, lines[whose], *from[whose], writes[whose]);
    acting.goes_ahead(lines[whose]);
  }
  return true;
}

}  // namespace nearfield::sim
