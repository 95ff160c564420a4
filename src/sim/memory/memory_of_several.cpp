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

}  // namespace nearfield::sim
