#include "sim/memory/hierarchy.hpp"

#include <algorithm>

#include "sim/memory/evictions.hpp"

namespace nearfield::sim {
namespace {

constexpr std::size_t kept_by_host = 1 << 18;  // bytes of a level's state that are seldom far from the host's core

}  // namespace

Hierarchy::Hierarchy(const Machine& machine, int variants, bool ways_matter)
    : contents_(machine, variants, ways_matter),
      others_(contents_, machine.coherence),
      levels_(contents_.levels()),
      is_read_at_home_(machine.links.has_value()) {
  paths_.resize(static_cast<std::size_t>(machine.cores));
  find_paths();
}

void Hierarchy::find_paths() {
  for (std::size_t core = 0; core < paths_.size(); ++core) paths_[core] = path_of(static_cast<int>(core));
}

void Hierarchy::forget_everything() {
  contents_.forget_everything();
  find_paths();  // the sets lie elsewhere now
}

int Hierarchy::far_from() const {
  int level = levels_;
  while (level > 0 && contents_.used_at(level - 1) * contents_.cache_at(0, level - 1).array.host_bytes() > kept_by_host)
    --level;
  return level;
}

// A path is fast if its first two caches keep whole lines, in one block a set and an order that needs no call, the second
// one knows which caches before it have a line, and either only this core's caches can have what the second one misses or a
// directory tells whether others may.
Hierarchy::Path Hierarchy::path_of(int core) const {
  Path path;
  path.core = core;
  path.nearest_node = &contents_.cache_at(core, 0);
  if (levels_ < 2) return path;
  path.second_node = &contents_.cache_at(core, 1);
  const auto &nearest = *path.nearest_node, &second = *path.second_node;
  const auto is_plain = [](const CacheNode& node) { return node.array.has_view() && !node.array.has_sub_blocks(); };
  path.is_fast = is_plain(nearest) && is_plain(second) && second.inclusion != Inclusion::exclusive && !second.through &&
                 (second.knows_sharers || !second.meeting) && second.array.line_bytes() >= nearest.array.line_bytes();
  if (!path.is_fast) return path;
  path.own = nearest.bit();
  path.through = nearest.through;
  path.includes_nearest = second.inclusion == Inclusion::inclusive;
  path.first = nearest.array.view();
  path.second = second.array.view();
  if (levels_ != 3) return path;
  path.third_node = &contents_.cache_at(core, 2);
  const auto& third = *path.third_node;
  const auto can_meet = [](const Meeting& meeting) { return meeting.caches.size() <= 1 || meeting.has_directory; };
  const bool can_fill_second = second.inclusion == Inclusion::neither || (second.knows_sharers && nearest.is_simple);
  path.has_victims = third.array.has_view() && third.inclusion == Inclusion::exclusive && can_meet(third.before) &&
                     can_meet(contents_.at_memory()) && can_fill_second;
  if (path.has_victims) path.third = third.array.view();
  path.meets = third.meeting || contents_.at_memory().caches.size() > 1;
  return path;
}

// ---- accesses of cores

// An access hits beyond the nearest cache; returns the state with which the line goes inward.
std::uint8_t Hierarchy::hit_or_take(CacheNode& node, const CacheArray::Way& way, Address address) {
  if (node.inclusion == Inclusion::exclusive) {
    ++contents_.counts_of(node).hits;
    node.array.touch(way);  // other sub-blocks stay
    return node.array.remove(way, address) & (modified | shared);
  }
  contents_.hit(node, way, address);
  return node.array.state(way, address) & shared;
}

// The same for a line that is fetched ahead: it counts as no hit, and sub-blocks that stay in an exclusive cache are as old
// as before.
std::uint8_t Hierarchy::take(CacheNode& node, const CacheArray::Way& way, Address address) {
  if (node.inclusion == Inclusion::exclusive) return node.array.remove(way, address) & (modified | shared);
  node.array.touch(way);
  return node.array.state(way, address) & shared;
}

Found Hierarchy::load_missed(int core, Address address, CacheArray::SetAndTag nearest) {
  contents_.miss(contents_.cache_at(core, 0), address);
  Located located;
  located[0] = nearest;
  return fetch<true>(core, 0, address, located);
}

// Brings a line to read into the caches of `core` from level `first` outward, which does not have it. `counts`: hits,
// misses and reads as those of a core.
template <bool counts>
Found Hierarchy::fetch(int core, int first, Address address, Located& located) {
  Found found{levels_, false};
  std::uint8_t state = 0;
  int parts = 0;  // others before the core's cache of this level have some of the unit, though not this line
  for (int k = std::max(first, 1); k < levels_; ++k) {
    auto& node = contents_.cache_at(core, k);
    const auto& own = contents_.cache_at(core, k - 1);
    const auto where = located[static_cast<std::size_t>(k)] = node.array.locate(address);
    const auto way = node.array.find(where, address);
    Snooping::Others others;
    if (!way) {
      if (counts) contents_.miss(node, address);
      if (node.knows_absence && node.before.has_directory) contents_.enters(node.before, own, address);
      if (!node.meeting || node.knows_absence) continue;
      others = others_.ask(node, own, address, Ask::share);
      if (others.unwritten) contents_.write_to_memory();
      if (others.part) parts = k;
      if (!others.any) continue;
      contents_.count_transfers(1);
      state = shared;
      found = {k, true};
      break;
    }
    if (Snooping::may_have(node, way, own)) [[unlikely]]
      others = others_.ask(node, own, address, Ask::share);
    state = counts ? hit_or_take(node, way, address) : take(node, way, address);
    if (others.part) [[unlikely]]
      state = others_.state_with(others, state);
    if (node.knows_sharers) way.sharers() |= own.bit();
    found = {k, others.modified};
    break;
  }
  if (found.level == levels_) {
    const auto others = others_.ask_at_memory(core, address, Ask::share);
    if (others.unwritten) contents_.write_to_memory();
    found.transferred = others.any && (others.modified || !is_read_at_home_);
    found.holder = others.holder;
    found.written = found.transferred && others.unwritten;
    contents_.count_transfers(found.transferred);
    auto& dram = contents_.dram_counts();
    (counts ? dram.reads : dram.prefetches) += !found.transferred;
    if (others.part) state = shared;
  }
  // If others before the cache of level `first` itself had it, that cache is filled, too.
  fill(core, first, std::max(found.level, first + 1), address, located, state, false, parts);
  return found;
}

Found Hierarchy::load(int core, Address address) {
  auto& nearest = contents_.cache_at(core, 0);
  const auto where = nearest.array.locate(address);
  const auto way = nearest.array.find(where, address);
  if (!way) return load_missed(core, address, where);
  contents_.hit(nearest, way, address);
  return {};
}

Found Hierarchy::store(int core, Address address) {
  return contents_.cache_at(core, 0).through ? store_through(core, address) : store_at(core, 0, address);
}

bool Hierarchy::hits_nearest_for_all(int core, bool store, Address address) {
  auto& nearest = contents_.cache_at(core, 0);
  const auto where = nearest.array.locate_common(address);
  if (!where.set || (store && nearest.through)) return false;
  const auto way = nearest.array.find(where, address);
  return way && !(store && (nearest.array.state(way, address) & shared));
}

bool Hierarchy::all_have(int core, int level, Address address) const {
  const auto& array = contents_.cache_at(core, level).array;
  const auto where = array.locate_common(address);
  return where.set && array.find(where, address);
}

// The nearest caches write through: what they hold is updated, and the first one that writes back takes the store.
Found Hierarchy::store_through(int core, Address address) {
  int level = 0;
  for (; level < levels_ && contents_.cache_at(core, level).through; ++level) {
    auto& node = contents_.cache_at(core, level);
    const auto way = node.array.find(node.array.locate(address), address);
    if (way) {
      contents_.hit(node, way, address);
      node.array.set_state(way, address, 0);
    } else {
      contents_.miss(node, address);
    }
    if (way ? level > 0 && Snooping::may_have(node, way, contents_.cache_at(core, level - 1))
            : node.meeting && !node.knows_absence)
      others_.ask(node, contents_.cache_at(core, level - 1), address, Ask::give_up);
  }
  if (level == levels_) {
    others_.ask_at_memory(core, address, Ask::give_up);
    contents_.write_to_memory();
    return {levels_, false};
  }
  return store_at(core, level, address);
}

// Stores in the first cache that writes back.
Found Hierarchy::store_at(int core, int level, Address address) {
  auto& node = contents_.cache_at(core, level);
  const auto where = node.array.locate(address);
  const auto way = node.array.find(where, address);
  if (!way) return store_missed(core, level, address, where);
  store_hit(core, node, way, address);
  return {level, false};
}

void Hierarchy::store_hit(int core, CacheNode& node, const CacheArray::Way& way, Address address) {
  const auto state = node.array.state(way, address);
  contents_.hit(node, way, address);
  if (state == modified && node.level == 0) [[likely]]
    return;
  if (node.level > 0) {
    const auto& own = contents_.cache_at(core, node.level - 1);
    if (Snooping::may_have(node, way, own)) others_.ask(node, own, address, Ask::give_up);
  }
  if (state & shared) others_.remove_beyond(core, node.level, address);
  node.array.set_state(way, address, modified);
}

Found Hierarchy::store_missed(int core, int level, Address address, CacheArray::SetAndTag first) {
  contents_.miss(contents_.cache_at(core, level), address);
  Located located;
  located[static_cast<std::size_t>(level)] = first;
  Found found{levels_, false};
  bool alone = false;  // what supplied the line was no shared copy
  std::uint8_t state = 0;
  for (int k = level; k < levels_ && found.level == levels_; ++k) {
    auto& node = contents_.cache_at(core, k);
    const auto* own = k > 0 ? &contents_.cache_at(core, k - 1) : nullptr;
    if (k > level) {
      const auto where = located[static_cast<std::size_t>(k)] = node.array.locate(address);
      const auto way = node.array.find(where, address);
      if (way) {
        Snooping::Others others;
        if (Snooping::may_have(node, way, *own)) others = others_.ask(node, *own, address, Ask::give_up);
        state = hit_or_take(node, way, address);
        if (node.knows_sharers) way.sharers() |= own->bit();
        alone = !(state & shared);
        if (!alone && node.inclusion != Inclusion::exclusive) node.array.drop_state(way, address, shared);
        found = {k, others.modified};
        break;
      }
      contents_.miss(node, address);
    }
    if (own && node.knows_absence && node.before.has_directory) contents_.enters(node.before, *own, address);
    if (node.knows_absence || !node.meeting) continue;
    const auto others = others_.ask(node, *own, address, Ask::give_up);
    if (!others.any) continue;
    found = {k, true};
    alone = !others.shared;
  }
  if (found.level == levels_) {
    const auto others = others_.ask_at_memory(core, address, Ask::give_up);
    found.transferred = others.any && (others.modified || !is_read_at_home_);
    found.holder = others.holder;
    contents_.dram_counts().reads += !found.transferred;
  } else if (!alone) {
    others_.remove_beyond(core, found.level, address);
  }
  contents_.count_transfers(found.transferred);
  // If others before that very cache had it, it is filled, too, to take the store.
  fill(core, level, std::max(found.level, level + 1), address, located, state & modified, true);
  return found;
}

void Hierarchy::repeat(int core, bool store, Address address, Count count_of) {
  auto& nearest = contents_.cache_at(core, 0);
  if (!store || !nearest.through) {
    contents_.counts_of(nearest).hits += count_of;
    return;
  }
  for (int level = 0; level < levels_; ++level) {
    auto& node = contents_.cache_at(core, level);
    (node.array.has(address) ? contents_.counts_of(node).hits : contents_.counts_of(node).misses) += count_of;
    if (!node.through) return;
  }
  contents_.write_to_memory(count_of);
}

// ---- lines that come in and go out

// Puts the line into the caches [first, end) of a core, outermost first, so that inclusive ones have it before those
// they include. Those before `shared_before` are shared in any case.
void Hierarchy::fill(int core, int first, int end, Address address, const Located& located, std::uint8_t state,
                     bool stored, int shared_before) {
  bool to_keep = state & modified;  // modified data that the outermost one takes on
  for (int k = end - 1; k >= first; --k) {
    auto& node = contents_.cache_at(core, k);
    if (node.inclusion == Inclusion::exclusive) continue;
    auto its = static_cast<std::uint8_t>(k < shared_before ? shared : state & shared);
    if (!node.through && (to_keep || (stored && k == first))) its |= modified;
    to_keep = to_keep && node.through;
    contents_.put(node, located[static_cast<std::size_t>(k)], address, its,
                  node.knows_sharers && k > 0 ? contents_.cache_at(core, k - 1).bit() : 0U);
  }
  if (to_keep && !stored) contents_.write_to_memory();
}

std::optional<Found> Hierarchy::prefetch(int core, int level, Address address) {
  auto& target = contents_.cache_at(core, level);
  Located located;
  const auto where = located[static_cast<std::size_t>(level)] = target.array.locate(address);
  if (target.array.find(where, address)) return std::nullopt;
  const Found found = fetch<false>(core, level, address, located);
  if (const auto way = target.array.find(where, address)) {
    target.array.add_state(way, address, prefetched);
    ++contents_.counts_of(target).prefetches;
  }
  return found;
}

}  // namespace nearfield::sim
