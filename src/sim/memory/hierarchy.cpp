#include "sim/memory/hierarchy.hpp"

#include <algorithm>

#include "sim/memory/evictions.hpp"

namespace nearfield::sim {
namespace {

// Simulated state of up to this size usually stays in the host's inner caches.
constexpr std::size_t host_cache_bytes = 1 << 18;

}  // namespace

Hierarchy::Hierarchy(const Machine& machine, int variants, bool ways_matter)
    : contents_(machine, variants, ways_matter),
      snooping_(contents_, machine.coherence),
      levels_(contents_.tree.num_levels()),
      home_supplies_clean_lines_(machine.links.has_value()) {
  paths_.resize(static_cast<std::size_t>(machine.cores));
  find_paths();
}

void Hierarchy::find_paths() {
  for (std::size_t core = 0; core < paths_.size(); ++core) paths_[core] = path_of(static_cast<int>(core));
}

void Hierarchy::disable_fast_path() {
  may_be_fast_ = false;
  find_paths();
}

void Hierarchy::invalidate_all() {
  contents_.tree.invalidate_all();
  find_paths();  // the sets have moved
}

int Hierarchy::first_level_beyond_host_cache() const {
  int level = levels_;
  while (level > 0 &&
         contents_.tree.num_used_caches(level - 1) * cache_at(0, level - 1).array.host_bytes() > host_cache_bytes)
    --level;
  return level;
}

// Returns the caches of one core, and whether the fast path can serve them. For that, L1 and L2 must have no sub-blocks
// and one way group per set, with a recency order that needs no virtual call, and L2 must know which L1 caches have a
// line. The fast path serves an exclusive L3, too, if at each coherence point on the way to memory there is only one
// cache or a directory.
Hierarchy::Path Hierarchy::path_of(int core) const {
  Path path;
  path.core = core;
  path.l1_node = &cache_at(core, 0);
  if (levels_ < 2 || !may_be_fast_) return path;
  path.l2_node = &cache_at(core, 1);
  const auto &l1 = *path.l1_node, &l2 = *path.l2_node;
  const auto is_plain = [](const CacheNode& node) { return node.array.has_view() && !node.array.has_sub_blocks(); };
  path.is_fast = is_plain(l1) && is_plain(l2) && l2.inclusion != Inclusion::exclusive && !l2.writes_through &&
                 (l2.tracks_sharers || !l2.is_coherence_point) && l2.array.line_bytes() >= l1.array.line_bytes();
  if (!path.is_fast) return path;
  path.own_bit = l1.sharer_bit();
  path.l1_writes_through = l1.writes_through;
  path.l2_includes_l1 = l2.inclusion == Inclusion::inclusive;
  path.l1 = l1.array.view();
  path.l2 = l2.array.view();
  if (levels_ != 3) return path;
  path.l3_node = &cache_at(core, 2);
  const auto& l3 = *path.l3_node;
  const auto can_serve = [](const CoherencePoint& point) { return point.caches.size() <= 1 || point.has_directory; };
  const bool can_fill_l2 = l2.inclusion == Inclusion::neither || (l2.tracks_sharers && l1.is_simple);
  path.has_victim_cache = l3.array.has_view() && l3.inclusion == Inclusion::exclusive && can_serve(l3.inner) &&
                          can_serve(contents_.tree.memory_point()) && can_fill_l2;
  if (path.has_victim_cache) path.l3 = l3.array.view();
  path.has_coherence_point = l3.is_coherence_point || contents_.tree.memory_point().caches.size() > 1;
  return path;
}

// ---- accesses of cores

void Hierarchy::record_hit(CacheNode& node, const CacheArray::Way& way, Address address) {
  ++contents_.counters.at_level(node.level).hits;
  node.array.touch(way);
  if (node.array.state(way, address) & (injected | prefetched)) [[unlikely]]
    node.array.drop_state(way, address, injected | prefetched);
}

void Hierarchy::record_miss(CacheNode& node, Address address) {
  ++contents_.counters.at_level(node.level).misses;
  if (contents_.tree.was_displaced_by_injection(node, address)) [[unlikely]]
    contents_.deferred_updates.count_victim_miss(node, address);
}

// Takes a line from a cache beyond L1 that holds it: an exclusive cache gives up the line, other caches keep a copy.
// Returns the state with which the line is filled into the inner caches. A prefetch counts no hit, and does not refresh
// the age of sub-blocks that stay in an exclusive cache.
template <Hierarchy::FetchKind kind>
std::uint8_t Hierarchy::take_copy(CacheNode& node, const CacheArray::Way& way, Address address) {
  constexpr bool counts = kind != FetchKind::prefetch;
  if (node.inclusion == Inclusion::exclusive) {
    if constexpr (counts) {
      ++contents_.counters.at_level(node.level).hits;
      node.array.touch(way);
    }
    return node.array.remove(way, address) & (modified | shared);
  }
  if constexpr (counts)
    record_hit(node, way, address);
  else
    node.array.touch(way);
  return node.array.state(way, address) & shared;
}

// The supplier of a line, and the state with which the line is filled into the core's caches.
struct Hierarchy::Supply {
  LookupResult lookup;
  std::uint8_t state = 0;
  // The outermost level at which other inner caches hold a part of the granule, but not this line.
  int shared_before = 0;
  bool exclusive = false;  // for a store: the copy that supplied the line was not shared
};

// Supplies a line from the core's own cache `node`, which holds it, and snoops the other caches inside that cache.
template <Hierarchy::FetchKind kind>
void Hierarchy::supply_from_own_cache(CacheNode& node, const CacheArray::Way& way, const CacheNode& inner,
                                      Address address, Supply& supply) {
  Snooping::SnoopResult snooped;
  if (Snooping::other_caches_may_have(node, way, inner)) [[unlikely]]
    snooped = snooping_.snoop(node, inner, address, request_for<kind>);
  supply.state = take_copy<kind>(node, way, address);
  if (node.tracks_sharers) way.sharers() |= inner.sharer_bit();
  supply.lookup = {node.level, snooped.modified};
  if constexpr (kind == FetchKind::store) {
    contents_.counters.count_transfers(snooped.modified);
    supply.exclusive = !(supply.state & shared);
    if (!supply.exclusive && node.inclusion != Inclusion::exclusive) node.array.drop_state(way, address, shared);
    supply.lookup.has_invalidated_copies = !snooped.modified && (snooped.has_part || !supply.exclusive);
  } else if (snooped.has_part) [[unlikely]] {
    supply.state = snooping_.shared_state(snooped, supply.state);
  }
}

// Supplies a line from another cache inside the core's cache `node`, which does not hold the line. Returns whether such
// a cache had it.
template <Hierarchy::FetchKind kind>
bool Hierarchy::supply_from_other_core(CacheNode& node, const CacheNode& inner, Address address, Supply& supply) {
  const auto snooped = snooping_.snoop(node, inner, address, request_for<kind>);
  if constexpr (kind != FetchKind::store) {
    if (snooped.unwritten) contents_.counters.count_memory_writes();
    if (snooped.has_part) supply.shared_before = node.level;
  }
  if (!snooped.has_line) return false;
  contents_.counters.count_transfers(1);
  supply.lookup = {node.level, true};
  if constexpr (kind == FetchKind::store)
    supply.exclusive = !snooped.shared;
  else
    supply.state = shared;
  return true;
}

// Supplies a line that none of the core's caches holds: from the last-level cache of other cores, or from DRAM.
template <Hierarchy::FetchKind kind>
void Hierarchy::supply_from_memory(int core, Address address, Supply& supply) {
  auto& lookup = supply.lookup;
  const auto snooped = snooping_.snoop_at_memory(core, address, request_for<kind>);
  lookup.is_from_other_cache = snooped.has_line && (snooped.modified || !home_supplies_clean_lines_);
  lookup.holder = snooped.holder;
  contents_.counters.count_transfers(lookup.is_from_other_cache);
  auto& dram = contents_.counters.dram();
  (kind == FetchKind::prefetch ? dram.prefetches : dram.reads) += !lookup.is_from_other_cache;
  if constexpr (kind != FetchKind::store) {
    lookup.was_written_back = lookup.is_from_other_cache && snooped.unwritten;
    if (snooped.unwritten) contents_.counters.count_memory_writes();
    if (snooped.has_part) supply.state = shared;
  }
}

// Fetches a line into the caches of `core` from level `first` outwards; the cache of level `first` does not hold the
// line. Looks up the core's caches, innermost first, and snoops other caches where the paths of several cores meet.
// Counts hits, misses and DRAM reads, unless it is a prefetch. Returns what supplied the line.
template <Hierarchy::FetchKind kind>
LookupResult Hierarchy::fetch(int core, int first, Address address, Located& located) {
  Supply supply{.lookup = {levels_, false}};
  for (int k = std::max(first, 1); k < levels_; ++k) {
    auto& node = cache_at(core, k);
    const auto& inner = cache_at(core, k - 1);
    if (k > first) {
      const auto where = located[static_cast<std::size_t>(k)] = node.array.locate(address);
      if (const auto way = node.array.find(where, address)) {
        supply_from_own_cache<kind>(node, way, inner, address, supply);
        break;
      }
      if constexpr (kind != FetchKind::prefetch) record_miss(node, address);
    }
    if (node.is_inclusive_filter && node.inner.has_directory) node.inner.add_sharer(inner, address);
    if (!node.is_coherence_point || node.is_inclusive_filter) continue;
    if (supply_from_other_core<kind>(node, inner, address, supply)) break;
  }
  const int level = supply.lookup.level;
  if (level == levels_)
    supply_from_memory<kind>(core, address, supply);
  else if (kind == FetchKind::store && !supply.exclusive)
    snooping_.invalidate_remote_copies(core, level, address);
  // If another cache inside the core's cache of level `first` supplied the line, the cache of level `first` is filled,
  // too.
  const int end = std::max(level, first + 1);
  if constexpr (kind == FetchKind::store)
    fill(core, first, end, address, located, supply.state & modified, true);
  else
    fill(core, first, end, address, located, supply.state, false, supply.shared_before);
  return supply.lookup;
}

// Handles an access of a core that missed its cache of level `level`. `where`: the line's set and tag in that cache.
template <Hierarchy::FetchKind kind>
LookupResult Hierarchy::handle_miss(int core, int level, Address address, CacheArray::SetAndTag where) {
  record_miss(cache_at(core, level), address);
  Located located;
  located[static_cast<std::size_t>(level)] = where;
  return fetch<kind>(core, level, address, located);
}

LookupResult Hierarchy::load(int core, Address address) {
  auto& l1 = cache_at(core, 0);
  const auto where = l1.array.locate(address);
  const auto way = l1.array.find(where, address);
  if (!way) return handle_miss<FetchKind::load>(core, 0, address, where);
  LookupResult lookup;
  lookup.is_first_use_of_prefetch = l1.array.state(way, address) & prefetched;
  record_hit(l1, way, address);
  return lookup;
}

LookupResult Hierarchy::store(int core, Address address) {
  return cache_at(core, 0).writes_through ? store_through(core, address) : store_at(core, 0, address);
}

bool Hierarchy::hits_l1_in_all_variants(int core, bool store, Address address) {
  auto& l1 = cache_at(core, 0);
  const auto where = l1.array.locate_common(address);
  if (!where.set || (store && l1.writes_through)) return false;
  const auto way = l1.array.find(where, address);
  return way && !(store && (l1.array.state(way, address) & shared));
}

bool Hierarchy::is_present_in_all_variants(int core, int level, Address address) const {
  const auto& array = cache_at(core, level).array;
  const auto where = array.locate_common(address);
  return where.set && array.find(where, address);
}

// Stores through the write-through caches of a core: each updates its copy of the line, if any, and the first
// write-back cache takes the store.
LookupResult Hierarchy::store_through(int core, Address address) {
  int level = 0;
  for (; level < levels_ && cache_at(core, level).writes_through; ++level) {
    auto& node = cache_at(core, level);
    const auto way = node.array.find(node.array.locate(address), address);
    if (way) {
      record_hit(node, way, address);
      node.array.set_state(way, address, 0);
    } else {
      record_miss(node, address);
    }
    if (way ? level > 0 && Snooping::other_caches_may_have(node, way, cache_at(core, level - 1))
            : node.is_coherence_point && !node.is_inclusive_filter)
      snooping_.snoop(node, cache_at(core, level - 1), address, SnoopRequest::invalidate);
  }
  if (level == levels_) {
    snooping_.snoop_at_memory(core, address, SnoopRequest::invalidate);
    contents_.counters.count_memory_writes();
    return {levels_, false};
  }
  return store_at(core, level, address);
}

// Stores into the core's cache of level `level`, its first write-back cache.
LookupResult Hierarchy::store_at(int core, int level, Address address) {
  auto& node = cache_at(core, level);
  const auto where = node.array.locate(address);
  const auto way = node.array.find(where, address);
  if (!way) return handle_miss<FetchKind::store>(core, level, address, where);
  LookupResult lookup{level};
  lookup.is_first_use_of_prefetch = level == 0 && (node.array.state(way, address) & prefetched);
  lookup.has_invalidated_copies = store_hit(core, node, way, address);
  return lookup;
}

// Stores to a line that the cache holds, and invalidates all other copies. Returns whether other caches held the line.
bool Hierarchy::store_hit(int core, CacheNode& node, const CacheArray::Way& way, Address address) {
  const auto state = node.array.state(way, address);
  record_hit(node, way, address);
  if (state == modified && node.level == 0) [[likely]]
    return false;
  bool is_shared = state & shared;
  if (node.level > 0) {
    const auto& own = cache_at(core, node.level - 1);
    if (Snooping::other_caches_may_have(node, way, own))
      is_shared |= snooping_.snoop(node, own, address, SnoopRequest::invalidate).has_part;
  }
  if (state & shared) snooping_.invalidate_remote_copies(core, node.level, address);
  node.array.set_state(way, address, modified);
  return is_shared;
}

void Hierarchy::repeat(int core, bool store, Address address, Count count) {
  auto& l1 = cache_at(core, 0);
  if (!store || !l1.writes_through) {
    contents_.counters.at_level(0).hits += count;
    return;
  }
  for (int level = 0; level < levels_; ++level) {
    auto& node = cache_at(core, level);
    auto& counts = contents_.counters.at_level(level);
    (node.array.has_line(address) ? counts.hits : counts.misses) += count;
    if (!node.writes_through) return;
  }
  contents_.counters.count_memory_writes(count);
}

// ---- fills

// Fills the line into the core's caches of levels [first, end), outermost first, so that an inclusive cache holds the
// line before the caches inside it. At levels below `shared_before` the line becomes shared in any case.
void Hierarchy::fill(int core, int first, int end, Address address, const Located& located, std::uint8_t state,
                     bool stored, int shared_before) {
  // The line has modified data, which the outermost of the filled write-back caches must keep.
  bool to_keep = state & modified;
  for (int k = end - 1; k >= first; --k) {
    auto& node = cache_at(core, k);
    if (node.inclusion == Inclusion::exclusive) continue;
    auto fill_state = static_cast<std::uint8_t>(k < shared_before ? shared : state & shared);
    if (!node.writes_through && (to_keep || (stored && k == first))) fill_state |= modified;
    to_keep = to_keep && node.writes_through;
    fill_line(contents_, node, located[static_cast<std::size_t>(k)], address, fill_state,
              node.tracks_sharers && k > 0 ? cache_at(core, k - 1).sharer_bit() : 0U);
  }
  if (to_keep && !stored) contents_.counters.count_memory_writes();
}

std::optional<LookupResult> Hierarchy::prefetch(int core, int level, Address address) {
  auto& target = cache_at(core, level);
  Located located;
  const auto where = located[static_cast<std::size_t>(level)] = target.array.locate(address);
  if (target.array.find(where, address)) return std::nullopt;
  const LookupResult lookup = fetch<FetchKind::prefetch>(core, level, address, located);
  if (const auto way = target.array.find(where, address)) {
    target.array.add_state(way, address, prefetched);
    ++contents_.counters.at_level(target.level).prefetches;
  }
  return lookup;
}

}  // namespace nearfield::sim
