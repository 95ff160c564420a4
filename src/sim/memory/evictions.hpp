// What becomes of a line that has to make room: memory.hpp, point 1. Inline, since most misses evict something.
#pragma once

#include "sim/memory/hierarchy.hpp"

namespace nearfield::sim {

inline void Hierarchy::write_to_memory() {
  ++dram_.writes;
  ++writes_;
}

// Of a line (a sub-block) that an inclusive cache further out evicts; whether it was modified.
inline bool Hierarchy::remove_line(Node& node, Address address) {
  const auto place = node.array.place(address);
  const auto way = node.array.find(place, address);
  if (!way) return false;
  const auto state = node.array.remove(way, address);
  ++node.counts.back_invalidations;
  if (state & injected) ++node.counts.injected_unused;
  return (state & modified) != 0;
}

// What make_room() does with a line of a last cache that includes nothing: all its units at once.
inline void Hierarchy::drop(Node& node, const CacheArray::Way& way) {
  const auto held = node.array.held(way);
  node.counts.evictions += held.units;
  node.counts.injected_unused += held.injected;
  node.counts.write_backs += held.modified;
  dram_.writes += held.modified;
  writes_ += held.modified;
}

// What insert() does for a line that the cache before an exclusive one evicted.
inline void Hierarchy::take_victim(Node& node, Address address, std::uint8_t state) {
  auto& array = node.array;
  node.used = true;
  const auto place = array.place(address);
  auto way = array.find_tag(place);
  if (!way) {
    way = array.room(place);
    if (!way.empty()) node.parent == nullptr ? drop(node, way) : make_room_among_victims(node, way);
  } else if (array.find(place, address)) {
    state |= array.state(way, address) & modified;
  }
  array.fill(place, way, address, state);
}

inline void Hierarchy::evict(Node& node, Address address, std::uint8_t state) {
  auto& counts = node.counts;
  ++counts.evictions;
  counts.injected_unused += (state & injected) != 0;
  counts.write_backs += (state & modified) != 0;
  state &= modified | shared;
  auto* next = node.parent;
  if (next == nullptr) {
    if (state & modified) write_to_memory();
    return;
  }
  if (next->inclusion == Inclusion::exclusive) return take_victim(*next, address, state);
  if (!(state & modified)) return;
  const auto place = next->array.place(address);
  const auto way = next->array.find(place, address);
  if (!way) return insert(*next, address, state);
  next->array.add_state(way, address, modified);
}

}  // namespace nearfield::sim
