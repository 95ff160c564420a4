#include "sim/memory/coherence.hpp"

namespace nearfield::sim {

Snooping::Others Snooping::ask(CacheNode& node, const CacheNode& own, Address address, Ask ask) {
  Others found;
  std::uint16_t* sharers = nullptr;
  if (node.knows_sharers) {
    const auto where = node.array.locate(address);
    if (const auto way = node.array.find_tag(where)) sharers = &way.sharers();
  }
  for (auto* child : node.children) {
    if (child == &own || (sharers && !(*sharers & child->bit()))) continue;
    ask_in(*child, &node, address, ask, found);
    if (sharers && ask == Ask::give_up) *sharers &= static_cast<std::uint16_t>(~child->bit());
  }
  return found;
}

Snooping::Others Snooping::ask_all_but(const CacheNode& own, Address address, Ask ask) {
  Others found;
  for (auto* node : contents_.last()) {
    if (node == &own) continue;
    const bool before = found.any;
    ask_in(*node, nullptr, address, ask, found);
    if (found.any && !before) found.holder = node->number;
  }
  return found;
}

// Asks for a whole unit, which may be several lines of a nearer cache. `met` is where the asking core's path meets that
// of these caches. A machine has many caches that a run never uses: a search of such a cache is counted, but its lines
// are not looked at.
void Snooping::ask_in(CacheNode& node, CacheNode* met, Address address, Ask ask, Others& found) {
  if (!node.used && node.level == 0) return;
  ++node.counts.snoops;
  const bool here = node.used && answer(node, met, address, ask, found);
  if (node.inclusion == Inclusion::inclusive && !here) return;
  for (auto* child : node.children) ask_in(*child, met, address, ask, found);
}

// Asks one cache, and returns whether it held a part of the unit.
bool Snooping::answer(CacheNode& node, CacheNode* met, Address address, Ask ask, Others& found) {
  const auto unit = contents_.unit_of(address);
  bool here = false;
  for (auto at = unit; at < unit + contents_.unit_bytes(); at += node.array.unit_bytes()) {
    const auto where = node.array.locate(at);
    const auto way = node.array.find(where, at);
    if (!way) continue;
    here = found.part = true;
    const bool is_it = address - at < node.array.unit_bytes();
    const auto state = node.array.state(way, at);
    found.any |= is_it;
    found.modified |= is_it && (state & modified);
    found.part_modified |= (state & modified) != 0;
    found.shared &= (state & shared) != 0;
    if (ask == Ask::give_up) {
      if (state & injected) ++node.counts.injected_unused;
      node.array.remove(way, at);
      ++node.counts.invalidations;
      continue;
    }
    node.array.add_state(way, at, shared);
    if (!(state & modified) || coherence_ == Coherence::moesi) continue;
    node.array.drop_state(way, at, modified);
    const auto there = met ? met->array.find(met->array.locate(at), at) : CacheArray::Way{};
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
    const auto where = node.array.locate(address);
    const auto way = node.array.find(where, address);
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
