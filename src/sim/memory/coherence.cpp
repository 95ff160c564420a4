// What the caches of other cores do when one loads or stores a line, and those before an inclusive one when that
// evicts: memory.hpp, points 2 and 3.
#include "sim/memory/evictions.hpp"

namespace nearfield::sim {

Hierarchy::Others Hierarchy::ask_others_below(Node& node, const Node& own, Address address, Ask ask) {
  Others found;
  std::uint16_t* sharers = nullptr;
  if (node.knows_sharers) {
    const auto place = node.array.place(address);
    if (const auto way = node.array.find_tag(place)) sharers = &way.sharers();
  }
  for (auto* child : node.children) {
    const auto bit = static_cast<std::uint16_t>(1U << (child->number & 15));
    if (child == &own || (sharers && !(*sharers & bit))) continue;
    ask_in(*child, &node, address, ask, found);
    if (sharers && ask == Ask::give_up) *sharers &= static_cast<std::uint16_t>(~bit);
  }
  return found;
}

Hierarchy::Others Hierarchy::ask_others_at_memory(const Node& own, Address address, Ask ask) {
  Others found;
  for (auto* node : last_)
    if (node != &own) ask_in(*node, nullptr, address, ask, found);
  return found;
}

// A whole unit, which may be several lines of a nearer cache. `met`: where the asking core's way meets that of these.
// A machine has many caches that a run never uses. A search of such a cache is counted, but its lines are not looked
// at.
void Hierarchy::ask_in(Node& node, Node* met, Address address, Ask ask, Others& found) {
  if (!node.used && node.level == 0) return;
  ++node.counts.snoops;
  const bool here = node.used && answer(node, met, address, ask, found);
  if (node.inclusion == Inclusion::inclusive && !here) return;
  for (auto* child : node.children) ask_in(*child, met, address, ask, found);
}

// Does so in one cache, and returns whether it held a part of the unit.
bool Hierarchy::answer(Node& node, Node* met, Address address, Ask ask, Others& found) {
  const auto unit = address & ~(unit_ - 1);
  bool here = false;
  for (auto at = unit; at < unit + unit_; at += node.array.unit_bytes()) {
    const auto place = node.array.place(at);
    const auto way = node.array.find(place, at);
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
    const auto there = met ? met->array.find(met->array.place(at), at) : CacheArray::Way{};
    if (there)
      met->array.add_state(there, at, modified);
    else
      found.unwritten = true;
  }
  return here;
}

// After a store at `level`: out to the first cache whose copy was not shared, beyond which nobody has one.
void Hierarchy::remove_from_others_beyond(int core, int level, Address address) {
  for (int k = level + 1; k < levels_; ++k) {
    auto& node = cache_at(core, k);
    const auto place = node.array.place(address);
    const auto way = node.array.find(place, address);
    const auto& own = cache_at(core, k - 1);
    if (way ? may_be_in_others(node, way, own.number) : !node.knows_absence && node.meeting)
      ask_others_below(node, own, address, Ask::give_up);
    if (!way) continue;
    const auto state = node.array.state(way, address);
    if (!(state & shared)) return;
    node.array.drop_state(way, address, shared);
  }
  if (last_.size() > 1) ask_others_at_memory(cache_at(core, levels_ - 1), address, Ask::give_up);
}

// Of a line that an inclusive cache evicts; whether one before it was modified.
bool Hierarchy::remove_before(Node& node, const CacheArray::Way& way, Address address) {
  if (!node.knows_sharers) [[unlikely]]
    return remove_from_all(node, address);
  bool was_modified = false;
  for (unsigned sharers = way.sharers(); sharers != 0; sharers &= sharers - 1) {
    auto& child = *node.children[static_cast<std::size_t>(std::countr_zero(sharers))];
    was_modified |= child.is_simple ? remove_line(child, address) : remove_in(child, address, node.array.line_bytes());
  }
  return was_modified;
}

bool Hierarchy::remove_from_all(Node& node, Address address) {
  bool was_modified = false;
  for (auto* child : node.children) was_modified |= remove_in(*child, address, node.array.line_bytes());
  return was_modified;
}

bool Hierarchy::remove_in(Node& node, Address address, std::uint64_t bytes) {
  bool was_modified = false;
  for (auto at = address; at < address + bytes; at += node.array.unit_bytes()) was_modified |= remove_line(node, at);
  for (auto* child : node.children) was_modified |= remove_in(*child, address, bytes);
  return was_modified;
}

}  // namespace nearfield::sim
