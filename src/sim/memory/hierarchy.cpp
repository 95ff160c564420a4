#include "sim/memory/hierarchy.hpp"

#include <algorithm>

#include "sim/memory/evictions.hpp"

namespace nearfield::sim {
namespace {

// Simulated state of up to this size usually stays in the host's inner caches.
constexpr std::size_t host_cache_bytes = 1 << 18;

}  // namespace

Hierarchy::Hierarchy(const Machine& machine, int variants, bool ways_matter)
    : tree_(machine, variants, ways_matter),
      snooping_(tree_, machine.coherence),
      levels_(tree_.num_levels()),
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
  tree_.invalidate_all();
  find_paths();  // the sets have moved
}

int Hierarchy::first_level_beyond_host_cache() const {
  int level = levels_;
  while (level > 0 &&
         tree_.num_used_caches(level - 1) * tree_.cache_at(0, level - 1).array.host_bytes() > host_cache_bytes)
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
  path.l1_node = &tree_.cache_at(core, 0);
  if (levels_ < 2 || !may_be_fast_) return path;
  path.l2_node = &tree_.cache_at(core, 1);
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
  path.l3_node = &tree_.cache_at(core, 2);
  const auto& l3 = *path.l3_node;
  const auto can_serve = [](const CoherencePoint& point) { return point.caches.size() <= 1 || point.has_directory; };
  const bool can_fill_l2 = l2.inclusion == Inclusion::neither || (l2.tracks_sharers && l1.is_simple);
  path.has_victim_cache = l3.array.has_view() && l3.inclusion == Inclusion::exclusive && can_serve(l3.inner) &&
                          can_serve(tree_.memory_point()) && can_fill_l2;
  if (path.has_victim_cache) path.l3 = l3.array.view();
  path.has_coherence_point = l3.is_coherence_point || tree_.memory_point().caches.size() > 1;
  return path;
}

// ---- accesses of cores

// Handles a hit beyond L1. An exclusive cache gives up the line; other caches keep a copy. Returns the state with which
// the line is filled into the inner caches.
std::uint8_t Hierarchy::hit_or_move(CacheNode& node, const CacheArray::Way& way, Address address) {
  if (node.inclusion == Inclusion::exclusive) {
    ++tree_.counts_of(node).hits;
    node.array.touch(way);  // refreshes the age of the sub-blocks that stay
    return node.array.remove(way, address) & (modified | shared);
  }
  tree_.record_hit(node, way, address);
  return node.array.state(way, address) & shared;
}

// Same as hit_or_move() for a prefetch, which counts no hit, and does not refresh the age of sub-blocks that stay in an
// exclusive cache.
std::uint8_t Hierarchy::move_out(CacheNode& node, const CacheArray::Way& way, Address address) {
  if (node.inclusion == Inclusion::exclusive) return node.array.remove(way, address) & (modified | shared);
  node.array.touch(way);
  return node.array.state(way, address) & shared;
}

LookupResult Hierarchy::load_miss(int core, Address address, CacheArray::SetAndTag in_l1) {
  tree_.record_miss(tree_.cache_at(core, 0), address);
  Located located;
  located[0] = in_l1;
  return fetch<true>(core, 0, address, located);
}

// Fetches a line for reading into the caches of `core` from level `first` outwards; the cache of level `first` does not
// hold the line. `counts`: counts hits, misses and DRAM reads as a core's access, otherwise as a prefetch. Returns what
// supplied the line.
template <bool counts>
LookupResult Hierarchy::fetch(int core, int first, Address address, Located& located) {
  LookupResult found{levels_, false};
  std::uint8_t state = 0;
  int shared_before = 0;  // outermost level at which other inner caches hold a part of the granule, but not this line
  for (int k = std::max(first, 1); k < levels_; ++k) {
    auto& node = tree_.cache_at(core, k);
    const auto& own = tree_.cache_at(core, k - 1);
    const auto where = located[static_cast<std::size_t>(k)] = node.array.locate(address);
    const auto way = node.array.find(where, address);
    Snooping::SnoopResult snooped;
    if (!way) {
      if (counts) tree_.record_miss(node, address);
      if (node.is_inclusive_filter && node.inner.has_directory) tree_.directory_add(node.inner, own, address);
      if (!node.is_coherence_point || node.is_inclusive_filter) continue;
      snooped = snooping_.snoop(node, own, address, SnoopRequest::read_shared);
      if (snooped.unwritten) tree_.write_to_memory();
      if (snooped.has_part) shared_before = k;
      if (!snooped.has_line) continue;
      tree_.count_transfers(1);
      state = shared;
      found = {k, true};
      break;
    }
    if (Snooping::other_caches_may_have(node, way, own)) [[unlikely]]
      snooped = snooping_.snoop(node, own, address, SnoopRequest::read_shared);
    state = counts ? hit_or_move(node, way, address) : move_out(node, way, address);
    if (snooped.has_part) [[unlikely]]
      state = snooping_.shared_state(snooped, state);
    if (node.tracks_sharers) way.sharers() |= own.sharer_bit();
    found = {k, snooped.modified};
    break;
  }
  if (found.level == levels_) {
    const auto snooped = snooping_.snoop_at_memory(core, address, SnoopRequest::read_shared);
    if (snooped.unwritten) tree_.write_to_memory();
    found.transferred = snooped.has_line && (snooped.modified || !home_supplies_clean_lines_);
    found.holder = snooped.holder;
    found.written = found.transferred && snooped.unwritten;
    tree_.count_transfers(found.transferred);
    auto& dram = tree_.dram_counts();
    (counts ? dram.reads : dram.prefetches) += !found.transferred;
    if (snooped.has_part) state = shared;
  }
  // If another cache inside the core's cache of level `first` supplied the line, the cache of level `first` is filled,
  // too.
  fill(core, first, std::max(found.level, first + 1), address, located, state, false, shared_before);
  return found;
}

LookupResult Hierarchy::load(int core, Address address) {
  auto& l1 = tree_.cache_at(core, 0);
  const auto where = l1.array.locate(address);
  const auto way = l1.array.find(where, address);
  if (!way) return load_miss(core, address, where);
  LookupResult found;
  found.first_use = l1.array.state(way, address) & prefetched;
  tree_.record_hit(l1, way, address);
  return found;
}

LookupResult Hierarchy::store(int core, Address address) {
  return tree_.cache_at(core, 0).writes_through ? store_through(core, address) : store_at(core, 0, address);
}

bool Hierarchy::hits_l1_in_all_variants(int core, bool store, Address address) {
  auto& l1 = tree_.cache_at(core, 0);
  const auto where = l1.array.locate_common(address);
  if (!where.set || (store && l1.writes_through)) return false;
  const auto way = l1.array.find(where, address);
  return way && !(store && (l1.array.state(way, address) & shared));
}

bool Hierarchy::is_present_in_all_variants(int core, int level, Address address) const {
  const auto& array = tree_.cache_at(core, level).array;
  const auto where = array.locate_common(address);
  return where.set && array.find(where, address);
}

// Stores through the write-through caches of a core: each updates its copy of the line, if any, and the first
// write-back cache takes the store.
LookupResult Hierarchy::store_through(int core, Address address) {
  int level = 0;
  for (; level < levels_ && tree_.cache_at(core, level).writes_through; ++level) {
    auto& node = tree_.cache_at(core, level);
    const auto way = node.array.find(node.array.locate(address), address);
    if (way) {
      tree_.record_hit(node, way, address);
      node.array.set_state(way, address, 0);
    } else {
      tree_.record_miss(node, address);
    }
    if (way ? level > 0 && Snooping::other_caches_may_have(node, way, tree_.cache_at(core, level - 1))
            : node.is_coherence_point && !node.is_inclusive_filter)
      snooping_.snoop(node, tree_.cache_at(core, level - 1), address, SnoopRequest::invalidate);
  }
  if (level == levels_) {
    snooping_.snoop_at_memory(core, address, SnoopRequest::invalidate);
    tree_.write_to_memory();
    return {levels_, false};
  }
  return store_at(core, level, address);
}

// Stores into the core's cache of level `level`, its first write-back cache.
LookupResult Hierarchy::store_at(int core, int level, Address address) {
  auto& node = tree_.cache_at(core, level);
  const auto where = node.array.locate(address);
  const auto way = node.array.find(where, address);
  if (!way) return store_miss(core, level, address, where);
  LookupResult found{level};
  found.first_use = level == 0 && (node.array.state(way, address) & prefetched);
  found.upgraded = store_hit(core, node, way, address);
  return found;
}

// Stores to a line that the cache holds, and invalidates all other copies. Returns whether other caches held the line.
bool Hierarchy::store_hit(int core, CacheNode& node, const CacheArray::Way& way, Address address) {
  const auto state = node.array.state(way, address);
  tree_.record_hit(node, way, address);
  if (state == modified && node.level == 0) [[likely]]
    return false;
  bool is_shared = state & shared;
  if (node.level > 0) {
    const auto& own = tree_.cache_at(core, node.level - 1);
    if (Snooping::other_caches_may_have(node, way, own))
      is_shared |= snooping_.snoop(node, own, address, SnoopRequest::invalidate).has_part;
  }
  if (state & shared) snooping_.invalidate_remote_copies(core, node.level, address);
  node.array.set_state(way, address, modified);
  return is_shared;
}

LookupResult Hierarchy::store_miss(int core, int level, Address address, CacheArray::SetAndTag first) {
  tree_.record_miss(tree_.cache_at(core, level), address);
  Located located;
  located[static_cast<std::size_t>(level)] = first;
  LookupResult found{levels_, false};
  bool exclusive = false;  // the copy that supplied the line was not shared
  std::uint8_t state = 0;
  for (int k = level; k < levels_ && found.level == levels_; ++k) {
    auto& node = tree_.cache_at(core, k);
    const auto* own = k > 0 ? &tree_.cache_at(core, k - 1) : nullptr;
    if (k > level) {
      const auto where = located[static_cast<std::size_t>(k)] = node.array.locate(address);
      const auto way = node.array.find(where, address);
      if (way) {
        Snooping::SnoopResult snooped;
        if (Snooping::other_caches_may_have(node, way, *own))
          snooped = snooping_.snoop(node, *own, address, SnoopRequest::invalidate);
        state = hit_or_move(node, way, address);
        if (node.tracks_sharers) way.sharers() |= own->sharer_bit();
        exclusive = !(state & shared);
        if (!exclusive && node.inclusion != Inclusion::exclusive) node.array.drop_state(way, address, shared);
        found = {k, snooped.modified};
        found.upgraded = !snooped.modified && (snooped.has_part || !exclusive);
        break;
      }
      tree_.record_miss(node, address);
    }
    if (own && node.is_inclusive_filter && node.inner.has_directory) tree_.directory_add(node.inner, *own, address);
    if (node.is_inclusive_filter || !node.is_coherence_point) continue;
    const auto snooped = snooping_.snoop(node, *own, address, SnoopRequest::invalidate);
    if (!snooped.has_line) continue;
    found = {k, true};
    exclusive = !snooped.shared;
  }
  if (found.level == levels_) {
    const auto snooped = snooping_.snoop_at_memory(core, address, SnoopRequest::invalidate);
    found.transferred = snooped.has_line && (snooped.modified || !home_supplies_clean_lines_);
    found.holder = snooped.holder;
    tree_.dram_counts().reads += !found.transferred;
  } else if (!exclusive) {
    snooping_.invalidate_remote_copies(core, found.level, address);
  }
  tree_.count_transfers(found.transferred);
  // If another cache inside the core's cache of level `level` supplied the line, the cache of level `level` is filled,
  // too, to take the store.
  fill(core, level, std::max(found.level, level + 1), address, located, state & modified, true);
  return found;
}

void Hierarchy::repeat(int core, bool store, Address address, Count count) {
  auto& l1 = tree_.cache_at(core, 0);
  if (!store || !l1.writes_through) {
    tree_.counts_of(l1).hits += count;
    return;
  }
  for (int level = 0; level < levels_; ++level) {
    auto& node = tree_.cache_at(core, level);
    (node.array.has_line(address) ? tree_.counts_of(node).hits : tree_.counts_of(node).misses) += count;
    if (!node.writes_through) return;
  }
  tree_.write_to_memory(count);
}

// ---- fills

// Fills the line into the core's caches of levels [first, end), outermost first, so that an inclusive cache holds the
// line before the caches inside it. At levels below `shared_before` the line becomes shared in any case.
void Hierarchy::fill(int core, int first, int end, Address address, const Located& located, std::uint8_t state,
                     bool stored, int shared_before) {
  // The line has modified data, which the outermost of the filled write-back caches must keep.
  bool to_keep = state & modified;
  for (int k = end - 1; k >= first; --k) {
    auto& node = tree_.cache_at(core, k);
    if (node.inclusion == Inclusion::exclusive) continue;
    auto fill_state = static_cast<std::uint8_t>(k < shared_before ? shared : state & shared);
    if (!node.writes_through && (to_keep || (stored && k == first))) fill_state |= modified;
    to_keep = to_keep && node.writes_through;
    tree_.put(node, located[static_cast<std::size_t>(k)], address, fill_state,
              node.tracks_sharers && k > 0 ? tree_.cache_at(core, k - 1).sharer_bit() : 0U);
  }
  if (to_keep && !stored) tree_.write_to_memory();
}

std::optional<LookupResult> Hierarchy::prefetch(int core, int level, Address address) {
  auto& target = tree_.cache_at(core, level);
  Located located;
  const auto where = located[static_cast<std::size_t>(level)] = target.array.locate(address);
  if (target.array.find(where, address)) return std::nullopt;
  const LookupResult found = fetch<false>(core, level, address, located);
  if (const auto way = target.array.find(where, address)) {
    target.array.add_state(way, address, prefetched);
    ++tree_.counts_of(target).prefetches;
  }
  return found;
}

}  // namespace nearfield::sim
