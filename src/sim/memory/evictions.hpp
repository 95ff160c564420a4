// Puts lines into caches and evicts those that make room: memory.hpp, point 1. The functions are inline, since most
// misses do both.
#pragma once

#include "sim/memory/cache_tree.hpp"

namespace nearfield::sim {

inline void Contents::put(CacheNode& node, const CacheArray::SetAndTag& where, Address address, std::uint8_t state,
                          unsigned sharer) {
  auto& array = node.array;
  use(node);
  auto way = array.has_sub_blocks() ? array.find_tag(where) : CacheArray::Way{};
  if (!way) {
    way = array.room(where);
    if (!way.empty()) make_room(node, way, false);
  }
  array.fill(where, way, address, state);
  if (sharer) way.sharers() = static_cast<std::uint16_t>(sharer);
}

inline void Contents::make_room(CacheNode& node, const CacheArray::Way& way, bool injecting) {
  node.array.for_each_unit(way, [&](Address address) {
    auto state = node.array.state(way, address);
    if (node.inclusion == Inclusion::inclusive && remove_before(node, way, address)) state |= modified;
    if (injecting) [[unlikely]] {
      ++counts_of(node).injected_victims;
      note({Afterwards::What::made_room, variants_.acting(), unit_of(address), &node});
      watches_victims_ = true;
    }
    evict(node, address, state);
  });
}

inline void Contents::evict(CacheNode& node, Address address, std::uint8_t state) {
  auto& counts = counts_of(node);
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
  const auto way = next->array.search(address);
  if (!way) return insert(*next, address, state);
  next->array.add_state(way, address, modified);
}

// Does what insert() does, for a line that the cache before an exclusive one evicted.
inline void Contents::take_victim(CacheNode& node, Address address, std::uint8_t state) {
  auto& array = node.array;
  use(node);
  const auto where = array.locate(address);
  auto way = array.find_tag(where);
  if (!way) {
    way = array.room(where);
    if (!way.empty()) node.parent == nullptr ? drop(node, way) : make_room_among_victims(node, way);
  } else if (array.find(where, address)) {
    const auto there = array.state(way, address);  // one of both that is not shared knows that nobody else has the line
    state = static_cast<std::uint8_t>((state & there & shared) | ((state | there) & modified));
  }
  array.fill(where, way, address, state);
}

inline void Contents::drop(CacheNode& node, const CacheArray::Way& way) {
  const auto held = node.array.held(way);
  counts_of(node).evictions += held.units;
  counts_of(node).injected_unused += held.injected;
  counts_of(node).write_backs += held.modified;
  write_to_memory(held.modified);
}

}  // namespace nearfield::sim
