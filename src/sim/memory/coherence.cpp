#include "sim/memory/coherence.hpp"

namespace nearfield::sim {

Snooping::Others Snooping::ask(CacheNode& node, const CacheNode& own, Address address, Ask ask) {
  return node.knows_sharers ? ask_sharers(node, own, address, ask) : ask_before(node.before, &node, own, address, ask);
}

Snooping::Others Snooping::ask_sharers(CacheNode& node, const CacheNode& own, Address address, Ask ask) {
  Others found;
  const auto way = node.array.find_tag(node.array.locate(address));
  if (!way) return ask_before(node.before, &node, own, address, ask);
  for (auto* cache : node.before.caches) {
    if (cache == &own || !(way.sharers() & cache->bit())) continue;
    ask_in(*cache, &node, address, ask, found);
    if (ask == Ask::give_up) way.sharers() &= static_cast<std::uint16_t>(~cache->bit());
  }
  return found;
}

// Asks the caches right before a meeting point, or those of them that may have the unit. `met` is the cache where they
// meet, if it is one.
Snooping::Others Snooping::ask_before(Meeting& meeting, CacheNode* met, const CacheNode& own, Address address,
                                      Ask ask) {
  Others found;
  const auto ask_one = [&](CacheNode& cache) {
    const bool before = found.any, here = ask_in(cache, met, address, ask, found);
    if (found.any && !before) found.holder = cache.number;
    return here && ask == Ask::share;
  };
  if (!meeting.has_directory) {
    for (auto* cache : meeting.caches)
      if (cache != &own) ask_one(*cache);
    return found;
  }
  contents_.count_searches(meeting.searches, own.searches);
  auto holders = contents_.enters(meeting, own, address);
  if (!holders) return found;
  holders->for_each([&](int number) {
    auto& cache = *meeting.caches[static_cast<std::size_t>(number)];
    if (&cache == &own) return;
    contents_.count_searches({}, cache.searches);
    if (!ask_one(cache)) contents_.leaves(meeting, address, number);
  });
  return found;
}

// Asks for a whole unit, which may be several lines of a nearer cache, and returns whether any cache here had a part of
// it. `met` is where the asking core's path meets that of these caches. A machine has many caches that a run never uses:
// a search of such a cache is counted, but its lines are not looked at.
bool Snooping::ask_in(CacheNode& node, CacheNode* met, Address address, Ask ask, Others& found) {
  if (!node.used && node.level == 0) return false;
  ++contents_.counts_of(node).snoops;
  bool here = node.used && answer(node, met, address, ask, found);
  if (node.inclusion == Inclusion::inclusive && !here) return false;
  const bool has_directory = node.before.has_directory;
  if (has_directory) contents_.count_searches(node.before.searches, {});
  contents_.for_each_holder(node.before, contents_.unit_of(address), [&](CacheNode& cache) {
    if (has_directory) contents_.count_searches({}, cache.searches);
    here |= ask_in(cache, met, address, ask, found);
  });
  return here;
}

// Asks one cache, and returns whether it held a part of the unit.
bool Snooping::answer(CacheNode& node, CacheNode* met, Address address, Ask ask, Others& found) {
  const auto unit = contents_.unit_of(address);
  bool here = false;
  for (auto at = unit; at < unit + contents_.unit_bytes(); at += node.array.unit_bytes()) {
    const auto way = node.array.search(at);
    if (!way) continue;
    here = found.part = true;
    const bool is_it = address - at < node.array.unit_bytes();
    const auto state = node.array.state(way, at);
    found.any |= is_it;
    found.modified |= is_it && (state & modified);
    found.part_modified |= (state & modified) != 0;
    found.shared &= (state & shared) != 0;
    if (ask == Ask::give_up) {
      if (state & injected) ++contents_.counts_of(node).injected_unused;
      node.array.remove(way, at);
      ++contents_.counts_of(node).invalidations;
      continue;
    }
    node.array.add_state(way, at, shared);
    if (!(state & modified) || coherence_ == Coherence::moesi) continue;
    node.array.drop_state(way, at, modified);
    const auto there = met ? met->array.search(at) : CacheArray::Way{};
    if (there)
      met->array.add_state(there, at, modified);
    else
      found.unwritten = true;
  }
  return here;
}

void Snooping::remove_beyond(int core, int level, Address address) {
  for (int k = level + 1; k < contents_.levels(); ++k) {
    auto& node = contents_.cache_at(core, k);
    const auto way = node.array.search(address);
    const auto& own = contents_.cache_at(core, k - 1);
    if (way ? may_have(node, way, own) : !node.knows_absence && node.meeting) ask(node, own, address, Ask::give_up);
    if (!way) continue;
    const auto state = node.array.state(way, address);
    if (!(state & shared)) return;
    node.array.drop_state(way, address, shared);
  }
  ask_at_memory(core, address, Ask::give_up);
}

std::uint8_t Snooping::state_with(const Others& others, std::uint8_t state) {
  contents_.count_transfers(others.modified);
  if (coherence_ == Coherence::moesi && (others.modified || !others.part_modified))
    return static_cast<std::uint8_t>(shared | (others.modified ? 0 : state));
  if (others.unwritten || (state & modified)) contents_.write_to_memory();
  return shared;
}

}  // namespace nearfield::sim
