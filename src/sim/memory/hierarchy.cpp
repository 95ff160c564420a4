#include <algorithm>
#include <stdexcept>

#include "sim/memory/evictions.hpp"

namespace nearfield::sim {
namespace {

constexpr std::size_t kept_by_host = 1 << 18;  // bytes of a simulated cache that are seldom far from the host's core
constexpr std::size_t most_sharers = 16;       // caches of which one before them can keep account

[[noreturn]] void refuse(std::size_t level, const std::string& why) {
  throw std::invalid_argument("cache[" + std::to_string(level) + "] " + why);
}

void check_order(const Machine& machine) {
  const auto& caches = machine.caches;
  if (caches.size() > most_cache_levels) refuse(most_cache_levels, "is one more than can be simulated");
  if (caches.empty()) throw std::invalid_argument("a simulated machine needs a cache");
  for (std::size_t k = 0; k < caches.size(); ++k) {
    const auto& cache = caches[k];
    if (cache.shared_by < 1) refuse(k, "is shared by " + std::to_string(cache.shared_by) + " cores");
    if (cache.inclusion == Inclusion::inclusive && cache.sub_blocks > 1) refuse(k, "is inclusive and has sub-blocks");
    if (cache.inclusion == Inclusion::exclusive && k == 0) refuse(k, "is the nearest one and cannot be exclusive");
    if (k == 0) continue;
    const auto& before = caches[k - 1];
    if (cache.inclusion == Inclusion::exclusive && before.write == WritePolicy::through)
      refuse(k, "is exclusive and would take the stores that the one before it writes through");
    if (cache.write == WritePolicy::through && before.write == WritePolicy::back)
      refuse(k, "writes through, and the one before it does not");
    if (cache.line_bytes % before.line_bytes != 0) refuse(k, "has lines that are no multiple of those before it");
    if (cache.shared_by % before.shared_by != 0) refuse(k, "is shared by parts of those before it");
    if (cache.inclusion == Inclusion::exclusive && cache.line_bytes / cache.sub_blocks != before.line_bytes)
      refuse(k, "is exclusive and takes parts of another size than the lines before it");
  }
}

}  // namespace

Hierarchy::Hierarchy(const Machine& machine)
    : levels_(static_cast<int>(machine.caches.size())), coherence_(machine.coherence) {
  check_order(machine);
  if (machine.nic) read_of_modified_ = machine.nic->read_of_modified;
  build(machine);
  unit_ = nodes_.front()->array.unit_bytes();
  nearest_line_ = nodes_.back()->array.line_bytes();
}

// From the last level inward, so that parents are there before their children.
void Hierarchy::build(const Machine& machine) {
  caches_of_core_.resize(static_cast<std::size_t>(machine.cores));
  for (int level = levels_ - 1; level >= 0; --level) {
    const auto& cache = machine.caches[static_cast<std::size_t>(level)];
    for (int core = 0; core < machine.cores; core += cache.shared_by) {
      auto& node = *nodes_.emplace_back(std::make_unique<Node>(cache, level));
      for (int c = core; c < std::min(core + cache.shared_by, machine.cores); ++c)
        caches_of_core_[static_cast<std::size_t>(c)][static_cast<std::size_t>(level)] = &node;
      auto& siblings = level + 1 < levels_ ? cache_at(core, level + 1).children : last_;
      if (level + 1 < levels_) node.parent = &cache_at(core, level + 1);
      node.number = static_cast<int>(siblings.size());
      siblings.push_back(&node);
    }
  }
  for (auto& node : nodes_) {
    node->meeting = node->children.size() > 1;
    node->knows_absence =
        node->inclusion == Inclusion::inclusive && node->array.unit_bytes() == nodes_.front()->array.unit_bytes();
    node->knows_sharers = node->knows_absence && node->children.size() <= most_sharers;
    node->is_simple =
        node->children.empty() && node->parent && node->array.unit_bytes() == node->parent->array.line_bytes();
  }
  fetched_early_from_ = levels_;
  while (fetched_early_from_ > 0 && cache_at(0, fetched_early_from_ - 1).array.host_bytes() > kept_by_host)
    --fetched_early_from_;
  for (int core = 0; core < machine.cores; ++core) paths_.push_back(path_of(core));
}

// A path is fast if its first two caches keep whole lines in the order of use, in one block a set, the second one knows
// which caches before it have a line, and only this core's caches can have what the second one misses.
Hierarchy::Path Hierarchy::path_of(int core) const {
  const auto own = static_cast<std::uint16_t>(1U << (cache_at(core, 0).number & 15));
  Path path{core, &cache_at(core, 0), nullptr, nullptr, own, false};
  if (levels_ < 2) return path;
  path.second = &cache_at(core, 1);
  const auto &nearest = *path.nearest, &second = *path.second;
  path.is_fast = nearest.array.is_plain() && second.array.is_plain() && second.inclusion != Inclusion::exclusive &&
                 !second.through && (second.knows_sharers || !second.meeting);
  if (!path.is_fast || levels_ != 3 || last_.size() > 1) return path;
  auto& third = cache_at(core, 2);
  const bool can_fill_second = second.inclusion == Inclusion::neither || (second.knows_sharers && nearest.is_simple);
  if (third.array.is_quick() && third.inclusion == Inclusion::exclusive && !third.meeting && can_fill_second)
    path.victims = &third;
  return path;
}

// ---- accesses of cores

// A hit beyond the nearest cache: the state with which the line goes inward.
std::uint8_t Hierarchy::hit_or_take(Node& node, const CacheArray::Way& way, Address address) {
  if (node.inclusion == Inclusion::exclusive) {
    ++node.counts.hits;
    node.array.touch(way);  // other sub-blocks stay
    return node.array.remove(way, address) & (modified | shared);
  }
  hit(node, way, address);
  return node.array.state(way, address) & shared;
}

Found Hierarchy::load_missed(int core, Address address, CacheArray::Place nearest) {
  miss(cache_at(core, 0), address);
  Places places;
  places[0] = nearest;
  Found found{levels_, false};
  std::uint8_t state = 0;
  int parts = 0;  // others before the way's cache of this level have some of the unit, though not this line
  for (int k = 1; k < levels_; ++k) {
    auto& node = cache_at(core, k);
    const auto& own = cache_at(core, k - 1);
    const auto place = places[static_cast<std::size_t>(k)] = node.array.place(address);
    const auto way = node.array.find(place, address);
    Others others;
    if (!way) {
      miss(node, address);
      if (!node.meeting || node.knows_absence) continue;
      others = ask_others_below(node, own, address, Ask::share);
      if (others.unwritten) write_to_memory();
      if (others.part) parts = k;
      if (!others.any) continue;
      ++transfers_;
      state = shared;
      found = {k, true};
      break;
    }
    if (may_be_in_others(node, way, own.number)) [[unlikely]]
      others = ask_others_below(node, own, address, Ask::share);
    state = hit_or_take(node, way, address);
    if (others.part) [[unlikely]]
      state = with_others(state, others);
    if (node.knows_sharers) way.sharers() |= static_cast<std::uint16_t>(1U << own.number);
    found = {k, others.modified};
    break;
  }
  if (found.level == levels_) {
    Others others;
    if (last_.size() > 1) others = ask_others_at_memory(cache_at(core, levels_ - 1), address, Ask::share);
    if (others.unwritten) write_to_memory();
    found.transferred = others.any;
    transfers_ += others.any;
    dram_.reads += !others.any;
    if (others.part) state = shared;
  }
  fill(core, 0, found.level, address, places, state, false, parts);
  return found;
}

// A load found the line in a cache, and others before that cache have it, too: the state with which it goes inward.
std::uint8_t Hierarchy::with_others(std::uint8_t state, const Others& others) {
  transfers_ += others.modified;
  if (coherence_ == Coherence::moesi && (others.modified || !others.part_modified))
    return static_cast<std::uint8_t>(shared | (others.modified ? 0 : state));
  if (others.unwritten || (state & modified)) write_to_memory();
  return shared;
}

void Hierarchy::evict_marked(Node& node, CacheArray::Way way) { evict(node, node.array.address_of(way), way.flags()); }

Found Hierarchy::load_any(int core, Address address) {
  auto& nearest = cache_at(core, 0);
  const auto place = nearest.array.place(address);
  const auto way = nearest.array.find(place, address);
  if (!way) return load_missed(core, address, place);
  hit(nearest, way, address);
  return {};
}

Found Hierarchy::store_any(int core, Address address) {
  return cache_at(core, 0).through ? store_through(core, address) : store_at(core, 0, address);
}

// The nearest caches write through: what they hold is updated, and the first one that writes back takes the store.
Found Hierarchy::store_through(int core, Address address) {
  int level = 0;
  for (; level < levels_ && cache_at(core, level).through; ++level) {
    auto& node = cache_at(core, level);
    const auto way = node.array.find(node.array.place(address), address);
    if (way) {
      hit(node, way, address);
      node.array.set_state(way, address, 0);
    } else {
      miss(node, address);
    }
    if (way ? level > 0 && may_be_in_others(node, way, cache_at(core, level - 1).number)
            : node.meeting && !node.knows_absence)
      ask_others_below(node, cache_at(core, level - 1), address, Ask::give_up);
  }
  if (level == levels_) {
    if (last_.size() > 1) ask_others_at_memory(cache_at(core, levels_ - 1), address, Ask::give_up);
    write_to_memory();
    return {levels_, false};
  }
  return store_at(core, level, address);
}

// In the first cache that writes back.
Found Hierarchy::store_at(int core, int level, Address address) {
  auto& node = cache_at(core, level);
  const auto place = node.array.place(address);
  const auto way = node.array.find(place, address);
  if (!way) return store_missed(core, level, address, place);
  store_hit(core, node, way, address);
  return {level, false};
}

void Hierarchy::store_hit(int core, Node& node, const CacheArray::Way& way, Address address) {
  const auto state = node.array.state(way, address);
  hit(node, way, address);
  if (state == modified && node.level == 0) [[likely]]
    return;
  if (node.level > 0) {
    const int own = cache_at(core, node.level - 1).number;
    if (may_be_in_others(node, way, own)) ask_others_below(node, cache_at(core, node.level - 1), address, Ask::give_up);
  }
  if (state & shared) remove_from_others_beyond(core, node.level, address);
  node.array.set_state(way, address, modified);
}

Found Hierarchy::store_missed(int core, int level, Address address, CacheArray::Place first) {
  miss(cache_at(core, level), address);
  Places places;
  places[static_cast<std::size_t>(level)] = first;
  Found found{levels_, false};
  bool alone = false;  // what supplied the line was no shared copy
  std::uint8_t state = 0;
  for (int k = level; k < levels_ && found.level == levels_; ++k) {
    auto& node = cache_at(core, k);
    const auto* own = k > 0 ? &cache_at(core, k - 1) : nullptr;
    if (k > level) {
      const auto place = places[static_cast<std::size_t>(k)] = node.array.place(address);
      const auto way = node.array.find(place, address);
      if (way) {
        Others others;
        if (may_be_in_others(node, way, own->number)) others = ask_others_below(node, *own, address, Ask::give_up);
        state = hit_or_take(node, way, address);
        if (node.knows_sharers) way.sharers() |= static_cast<std::uint16_t>(1U << own->number);
        alone = !(state & shared);
        if (!alone && node.inclusion != Inclusion::exclusive) node.array.drop_state(way, address, shared);
        found = {k, others.modified};
        break;
      }
      miss(node, address);
    }
    if (node.knows_absence || !node.meeting) continue;
    const auto others = ask_others_below(node, *own, address, Ask::give_up);
    if (!others.any) continue;
    found = {k, true};
    alone = !others.shared;
  }
  if (found.level == levels_) {
    if (last_.size() > 1)
      found.transferred = ask_others_at_memory(cache_at(core, levels_ - 1), address, Ask::give_up).any;
    dram_.reads += !found.transferred;
  } else if (!alone) {
    remove_from_others_beyond(core, found.level, address);
  }
  transfers_ += found.transferred;
  // If others before that very cache had it, it is filled, too, to take the store.
  fill(core, level, std::max(found.level, level + 1), address, places, state & modified, true);
  return found;
}

// Stores, which go on to the first cache that writes back.
void Hierarchy::repeat_through(int core, Address address, Count count_of) {
  for (int level = 0; level < levels_; ++level) {
    auto& node = cache_at(core, level);
    const auto place = node.array.place(address);
    const bool there{node.array.find(place, address)};
    (there ? node.counts.hits : node.counts.misses) += count_of;
    if (!node.through) return;
  }
  dram_.writes += count_of;
  writes_ += static_cast<unsigned>(count_of);
}

// ---- lines that come in and go out

// Into the caches [first, end) of a core's way, outermost first, so that inclusive ones have it before those they
// include. Those before `shared_before` are shared in any case.
void Hierarchy::fill(int core, int first, int end, Address address, const Places& places, std::uint8_t state,
                     bool stored, int shared_before) {
  bool to_keep = state & modified;  // modified data that the outermost one takes on
  for (int k = end - 1; k >= first; --k) {
    auto& node = cache_at(core, k);
    if (node.inclusion == Inclusion::exclusive) continue;
    auto its = static_cast<std::uint8_t>(k < shared_before ? shared : state & shared);
    if (!node.through && (to_keep || (stored && k == first))) its |= modified;
    to_keep = to_keep && node.through;
    put(node, places[static_cast<std::size_t>(k)], address, its,
        node.knows_sharers && k > 0 ? 1U << cache_at(core, k - 1).number : 0);
  }
  if (to_keep && !stored) write_to_memory();
}

// A line that is not there yet, into a cache that is not exclusive.
void Hierarchy::put(Node& node, const CacheArray::Place& place, Address address, std::uint8_t state, unsigned sharer) {
  auto& array = node.array;
  node.used = true;
  auto way = array.has_sub_blocks() ? array.find_tag(place) : CacheArray::Way{};
  if (!way) {
    way = array.room(place);
    if (!way.empty()) make_room(node, way, false);
  }
  array.fill(place, way, address, state);
  if (sharer) way.sharers() = static_cast<std::uint16_t>(sharer);
}

// `state` with injected: on behalf of a device, into the first `limit` ways.
void Hierarchy::insert(Node& node, Address address, std::uint8_t state, int limit) {
  auto& array = node.array;
  node.used = true;
  const auto place = array.place(address);
  CacheArray::Way way;
  if ((state & injected) || array.has_sub_blocks()) way = array.find_tag(place);
  if (way && array.find(place, address) && !(state & injected)) state |= array.state(way, address) & modified;
  if (!way) {
    way = array.room(place, limit);
    if (!way.empty()) make_room(node, way, state & injected);
  }
  array.fill(place, way, address, state);
}

void Hierarchy::make_room(Node& node, const CacheArray::Way& way, bool injecting) {
  node.array.for_each_unit(way, [&](Address address) {
    auto state = node.array.state(way, address);
    if (node.inclusion == Inclusion::inclusive && remove_before(node, way, address)) state |= modified;
    if (injecting) [[unlikely]] {
      ++node.counts.injected_victims;
      node.victims.insert(address & ~(unit_ - 1));
      watches_victims_ = true;
    }
    evict(node, address, state);
  });
}

void Hierarchy::make_room_among_victims(Node& node, const CacheArray::Way& way) { make_room(node, way, false); }

bool Hierarchy::elsewhere(int core, Address unit) const {
  for (const auto& node : nodes_) {
    if (!node->used || node.get() == &cache_at(core, node->level)) continue;
    for (auto at = unit; at < unit + unit_; at += node->array.unit_bytes())
      if (node->array.find(node->array.place(at), at)) return true;
  }
  return false;
}

int Hierarchy::prefetch_any(int core, int level, Address address) {
  int from = level;
  while (from < levels_) {
    const auto& array = cache_at(core, from).array;
    if (array.find(array.place(address), address)) break;
    ++from;
  }
  const bool alone = nodes_.size() == static_cast<std::size_t>(levels_);
  if (from == level || (!alone && elsewhere(core, address & ~(unit_ - 1)))) return -1;
  std::uint8_t state = 0;
  if (from == levels_) {
    ++dram_.prefetches;
  } else {
    auto& node = cache_at(core, from);
    const auto place = node.array.place(address);
    const auto way = node.array.find(place, address);
    state = node.array.state(way, address) & shared;
    if (node.knows_sharers) way.sharers() |= static_cast<std::uint16_t>(1U << cache_at(core, from - 1).number);
    if (node.inclusion == Inclusion::exclusive) state = node.array.remove(way, address) & (modified | shared);
  }
  Places places;
  for (int k = level; k < from; ++k) places[static_cast<std::size_t>(k)] = cache_at(core, k).array.place(address);
  fill(core, level, from, address, places, state);
  auto& target = cache_at(core, level);
  const auto place = target.array.place(address);
  if (const auto way = target.array.find(place, address)) {
    target.array.add_state(way, address, prefetched);
    ++target.counts.prefetches;
  }
  return from;
}

// ---- looking in

Counts Hierarchy::counts() const {
  Counts all;
  all.levels.resize(static_cast<std::size_t>(levels_));
  for (const auto& node : nodes_) all.levels[static_cast<std::size_t>(node->level)] += node->counts;
  all.dram = dram_;
  all.transfers = transfers_;
  return all;
}

void Hierarchy::reset_counts() {
  for (auto& node : nodes_) node->counts = {};
  dram_ = {};
  transfers_ = 0;
}

Memory::Copy Hierarchy::copy_in(int core, int level, Address address) const {
  const auto& array = cache_at(core, level).array;
  const auto place = array.place(address);
  const auto way = array.find(place, address);
  if (!way) return {};
  const auto state = array.state(way, address);
  return {true, (state & modified) != 0, (state & shared) != 0};
}

}  // namespace nearfield::sim
