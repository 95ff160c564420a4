// The fast path of a core's access: through two caches of the commonest kind and perhaps a victim cache beyond them,
// for as long as no other core has the line. What it does to states and counts is what load_any() and store_any() would
// do, step by step in the same order: it only leaves out what cannot be there, so it asks nobody, and nothing that it
// holds is shared. Where something is there after all, it turns to the slow path before it has changed anything.
#pragma once

#include "sim/memory/evictions.hpp"
#include "sim/memory/hierarchy.hpp"

namespace nearfield::sim {

NEARFIELD_INNERMOST bool Hierarchy::is_alone(const CacheArray::Way& way, const Path& path) {
  return !((way.flags() & shared) | (way.sharers() & ~path.own));
}

NEARFIELD_INNERMOST std::optional<Found> Hierarchy::near_for_all(const Path& path, bool store, Address address) {
  auto& nearest = *path.nearest;
  const auto where = nearest.array.locate_common(address);
  if (!where.set) [[unlikely]]
    return std::nullopt;
  const auto way = nearest.array.find(where, address);
  if (way && !(store && nearest.through)) {
    const auto state = nearest.array.state(way, address);
    if (store && (state & shared)) return std::nullopt;
    contents_.hit(nearest, way, address);
    if (store && state != modified) nearest.array.set_state(way, address, modified);
    return Found{};
  }
  if (!path.is_fast) return std::nullopt;
  const auto there = path.second->array.locate_common(address);
  if (!there.set) return std::nullopt;
  const auto second = path.second->array.quick_find(there);
  if (!second || !is_alone(second, path)) return std::nullopt;
  if (store && nearest.through) {
    store_in_nearest(nearest, way, address);
    return hit_second<Use::store_through>(path, where, second, address);
  }
  if (nearest.array.flags_of_room(where) & (modified | injected)) return std::nullopt;
  return store ? hit_second<Use::store>(path, where, second, address)
               : hit_second<Use::load>(path, where, second, address);
}

inline bool Hierarchy::all_have(int core, int level, Address address) const {
  const auto& array = contents_.cache_at(core, level).array;
  const auto where = array.locate_common(address);
  return where.set && array.find(where, address);
}

NEARFIELD_INNERMOST Found Hierarchy::load(const Path& path, Address address) {
  if (!path.is_fast) [[unlikely]]
    return load_any(path.core, address);
  const auto where = path.nearest->array.quick_locate(address);
  const auto way = path.nearest->array.quick_find(where);
  if (!way) return fast_miss<Use::load>(path, address, where);
  ++contents_.counts_of(*path.nearest).hits;
  CacheArray::quick_touch(way);
  if (way.flags() & (injected | prefetched)) [[unlikely]]
    way.flags() &= static_cast<std::uint8_t>(~(injected | prefetched));
  return {};
}

NEARFIELD_INNERMOST Found Hierarchy::store(const Path& path, Address address) {
  if (!path.is_fast) [[unlikely]]
    return store_any(path.core, address);
  auto& nearest = *path.nearest;
  const auto where = nearest.array.quick_locate(address);
  const auto way = nearest.array.quick_find(where);
  if (!nearest.through) {
    if (!way) return fast_miss<Use::store>(path, address, where);
    if (way.flags() & shared) return store_any(path.core, address);
  }
  store_in_nearest(nearest, way, address);
  return nearest.through ? fast_miss<Use::store_through>(path, address, where) : Found{};
}

NEARFIELD_INNERMOST void Hierarchy::store_in_nearest(CacheNode& nearest, const CacheArray::Way& way, Address address) {
  if (!way) return contents_.miss(nearest, address);
  ++contents_.counts_of(nearest).hits;
  CacheArray::quick_touch(way);
  if (const std::uint8_t state = nearest.through ? 0 : modified; way.flags() != state) way.flags() = state;
}

NEARFIELD_INNERMOST void Hierarchy::repeat(const Path& path, bool store, Address address, Count count) {
  if (store && path.nearest->through) return repeat_through(path.core, address, count);
  contents_.counts_of(*path.nearest).hits += count;
}

// Other cores cannot have a line that a second cache before a victim cache misses, or the cache would know of them.
inline std::optional<Found> Hierarchy::prefetch(int core, int level, Address address) {
  const auto& path = paths_[static_cast<std::size_t>(core)];
  if (level != 1 || !path.victims) return prefetch_any(core, level, address);
  const auto where = path.second->array.quick_locate(address);
  if (path.second->array.quick_find(where)) return std::nullopt;
  const int from = fetch_beyond_second<Use::prefetch>(path, address, where, where);
  return from > 0 ? Found{from, false} : prefetch_any(core, level, address);
}

NEARFIELD_INNERMOST void Hierarchy::fetch_victim_early(const Path& path, Address address) const {
  if (!path.victims) return;
  const auto& second = path.second->array;
  path.victims->array.fetch_early(second.oldest_line(address));
}

// Makes an access that missed the nearest cache, or a store through it, and hits the second one.
template <Hierarchy::Use use>
NEARFIELD_INNERMOST Found Hierarchy::hit_second(const Path& path, CacheArray::SetAndTag nearest,
                                                const CacheArray::Way& way, Address address) {
  ++contents_.counts_of(*path.second).hits;
  CacheArray::quick_touch(way);
  if (use == Use::store_through) {
    if (way.flags() != modified) way.flags() = modified;
    return {1, false};
  }
  if (way.flags() & ~modified) way.flags() &= modified;
  if (way.sharers() != path.own) way.sharers() = path.own;
  contents_.miss(*path.nearest, address);
  fill_nearest(path, nearest, use == Use::store ? modified : 0);
  return {1, false};
}

// Makes an access that missed the nearest cache.
template <Hierarchy::Use use>
inline Found Hierarchy::fast_miss(const Path& path, Address address, CacheArray::SetAndTag nearest) {
  const auto where = path.second->array.quick_locate(address);
  const auto way = path.second->array.quick_find(where);
  if (way && is_alone(way, path)) [[likely]]
    return hit_second<use>(path, nearest, way, address);
  if (!way && path.victims) {
    const int level = fetch_beyond_second<use>(path, address, nearest, where);
    if (level > 0) return {level, false};
  }
  if (use == Use::load) return load_missed(path.core, address, nearest);
  return use == Use::store ? store_missed(path.core, 0, address, nearest) : store_at(path.core, 1, address);
}

// Asks the directories about a line that comes from the victim cache, or from memory if that does not have it.
inline bool Hierarchy::nobody_else_has(const Path& path, Address address, bool is_victim) {
  auto &before_last = path.victims->before, &at_memory = contents_.at_memory();
  if (!contents_.enters_alone(before_last, *path.second, address)) return false;
  if (!is_victim && !contents_.enters_alone(at_memory, *path.victims, address)) return false;
  if (before_last.has_directory) contents_.count_searches(before_last.searches, path.second->searches);
  if (!is_victim && at_memory.has_directory) contents_.count_searches(at_memory.searches, path.victims->searches);
  return true;
}

// Fetches the line from the victim cache or from memory. Returns the level that had it, or 0 if the access must take
// the slow path.
template <Hierarchy::Use use>
int Hierarchy::fetch_beyond_second(const Path& path, Address address, CacheArray::SetAndTag nearest,
                                   CacheArray::SetAndTag where) {
  auto &second = *path.second, &third = *path.victims;
  const auto room = second.array.quick_room(where);
  const auto there = third.array.quick_locate(address);
  const auto way = third.array.quick_find(there);
  const bool hits = way && third.array.has_part(way, address);
  const unsigned state = hits ? third.array.state(way, address) : 0;
  if ((state & shared) || (room.flags() & (shared | injected))) return 0;
  if (path.meets && !nobody_else_has(path, address, hits)) return 0;

  constexpr bool counts = use != Use::prefetch;  // hits and misses
  constexpr bool fills_nearest = use == Use::load || use == Use::store;
  if (fills_nearest) contents_.miss(*path.nearest, address);
  if (counts) contents_.miss(second, address);
  if (hits) {
    contents_.counts_of(third).hits += counts;
    third.array.quick_take(way, address, counts);
  } else {
    if (counts) contents_.miss(third, address);
    ++(counts ? contents_.dram_counts().reads : contents_.dram_counts().prefetches);
  }
  second.used = true;
  if (!room.empty()) give_to_victims(path, second.array.quick_address(room), room);
  const bool is_modified = use == Use::store_through || (state & modified);
  const unsigned marks = is_modified * unsigned{modified} + (use == Use::prefetch) * unsigned{prefetched};
  CacheArray::quick_fill(where, room, static_cast<std::uint8_t>(marks));
  room.sharers() = second.knows_sharers ? path.own : 0;
  contents_.counts_of(second).prefetches += use == Use::prefetch;
  if (fills_nearest) fill_nearest(path, nearest, use == Use::store ? modified : 0);
  return hits ? 2 : 3;
}

// Moves a line that makes room in the second cache into the victim cache.
inline void Hierarchy::give_to_victims(const Path& path, Address address, const CacheArray::Way& way) {
  auto &second = *path.second, &third = *path.victims;
  bool is_modified = (way.flags() & modified) != 0;
  if (second.inclusion == Inclusion::inclusive) {
    // Usually only this core ever had the line, and it has it no longer.
    const bool is_own = way.sharers() == path.own;
    if (!is_own || path.nearest->array.quick_find(path.nearest->array.quick_locate(address)))
      is_modified |= contents_.remove_before(second, way, address);
  }
  ++contents_.counts_of(second).evictions;
  contents_.counts_of(second).write_backs += is_modified;
  third.used = true;
  const auto where = third.array.quick_locate(address);
  auto there = third.array.quick_find(where);
  if (!there) {
    there = third.array.quick_room(where);
    if (!there.empty()) contents_.drop(third, there);
  }
  third.array.quick_add(where, there, address, is_modified);
}

// Fills the nearest cache. The line that makes room is dropped, unless it is marked.
inline void Hierarchy::fill_nearest(const Path& path, CacheArray::SetAndTag where, std::uint8_t state) {
  auto& nearest = *path.nearest;
  contents_.use(nearest);
  const auto room = nearest.array.quick_room(where);
  if (!room.empty()) {
    if (room.flags() & (modified | injected)) [[unlikely]]
      evict_marked(nearest, room);
    else
      ++contents_.counts_of(nearest).evictions;
  }
  CacheArray::quick_fill(where, room, state);
}

}  // namespace nearfield::sim
