#include "sim/memory/cache_tree.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "sim/memory/evictions.hpp"

namespace nearfield::sim {
namespace {

constexpr std::size_t max_sharers = 16;             // a line has one sharer bit per cache of the next inner level
constexpr Count max_lookups_without_directory = 4;  // up to this many tag lookups cost no more than a directory

[[noreturn]] void throw_invalid_level(std::size_t level, const std::string& why) {
  throw std::invalid_argument("cache[" + std::to_string(level) + "] " + why);
}

void check_hierarchy(const Machine& machine) {
  const auto& caches = machine.caches;
  if (caches.size() > max_cache_levels) throw_invalid_level(max_cache_levels, "is one more than can be simulated");
  if (caches.empty()) throw std::invalid_argument("a simulated machine needs a cache");
  for (std::size_t k = 0; k < caches.size(); ++k) {
    const auto& cache = caches[k];
    if (cache.shared_by < 1) throw_invalid_level(k, "is shared by " + std::to_string(cache.shared_by) + " cores");
    if (cache.inclusion == Inclusion::inclusive && cache.sub_blocks > 1)
      throw_invalid_level(k, "is inclusive and has sub-blocks");
    if (cache.inclusion == Inclusion::exclusive && k == 0)
      throw_invalid_level(k, "is the innermost cache and cannot be exclusive");
    if (k == 0) continue;
    const auto& inner = caches[k - 1];
    if (cache.inclusion == Inclusion::exclusive && inner.write == WritePolicy::through)
      throw_invalid_level(k, "is exclusive and would take the stores that the next inner cache writes through");
    if (cache.write == WritePolicy::through && inner.write == WritePolicy::back)
      throw_invalid_level(k, "writes through, but the next inner cache does not");
    if (cache.line_bytes % inner.line_bytes != 0)
      throw_invalid_level(k, "has lines that are no multiple of the next inner cache's");
    if (cache.shared_by % inner.shared_by != 0)
      throw_invalid_level(k, "is shared by a number of cores that is no multiple of the next inner cache's");
    if (cache.inclusion == Inclusion::exclusive && cache.line_bytes / cache.sub_blocks != inner.line_bytes)
      throw_invalid_level(k, "is exclusive and has sub-blocks of another size than the next inner cache's lines");
  }
}

}  // namespace

CacheTree::CacheTree(const Machine& machine, int variants, bool ways_matter)
    : variants_(variants, static_cast<int>(machine.caches.size())),
      num_levels_(static_cast<int>(machine.caches.size())) {
  check_hierarchy(machine);
  build_tree(machine, ways_matter);
  granule_bytes_ = cache_nodes_.front()->array.sub_block_bytes();
  granule_shift_ = std::countr_zero(granule_bytes_);
  l1_line_bytes_ = cache_nodes_.back()->array.line_bytes();
}

// Builds from the last level inwards, so that parents exist before their children.
void CacheTree::build_tree(const Machine& machine, bool ways_matter) {
  auto* const variants = variants_.has_several_variants() ? &variants_ : nullptr;
  caches_by_core_.resize(static_cast<std::size_t>(machine.cores));
  for (int level = num_levels_ - 1; level >= 0; --level) {
    const auto& cache = machine.caches[static_cast<std::size_t>(level)];
    for (int core = 0; core < machine.cores; core += cache.shared_by) {
      auto& node = *cache_nodes_.emplace_back(std::make_unique<CacheNode>(cache, level, variants, ways_matter));
      for (int c = core; c < std::min(core + cache.shared_by, machine.cores); ++c)
        caches_by_core_[static_cast<std::size_t>(c)][static_cast<std::size_t>(level)] = &node;
      if (level + 1 < num_levels_) node.parent = &cache_at(core, level + 1);
      auto& siblings = (node.parent ? node.parent->inner : memory_point_).caches;
      node.number = static_cast<int>(siblings.size());
      siblings.push_back(&node);
    }
  }
  for (auto& node : cache_nodes_) {
    node->is_coherence_point = node->inner.caches.size() > 1;
    node->is_inclusive_filter = node->inclusion == Inclusion::inclusive &&
                                node->array.sub_block_bytes() == cache_nodes_.front()->array.sub_block_bytes();
    node->tracks_sharers = node->is_inclusive_filter && node->inner.caches.size() <= max_sharers;
    node->is_simple =
        node->inner.caches.empty() && node->parent && node->array.sub_block_bytes() == node->parent->array.line_bytes();
  }
  recount_tag_lookups();
  const auto choose_directory = [&](CoherencePoint& point) {
    const Count caches = std::accumulate(point.tag_lookups.begin(), point.tag_lookups.end(), point.caches.size());
    point.has_directory = point.caches.size() > 1 && point.caches.size() <= Directory::max_caches &&
                          caches > max_lookups_without_directory;
  };
  choose_directory(memory_point_);
  for (auto& node : cache_nodes_)
    if (!node->tracks_sharers) choose_directory(node->inner);
}

// ---- directories of coherence points

// Recounts the tag lookups that a snoop of each subtree makes. L1 caches that have never held a line do not count,
// since a large machine has many that a run does not use; outer caches always count.
void CacheTree::recount_tag_lookups() {
  const auto sum_up = [](CoherencePoint& point) {
    point.tag_lookups = {};
    for (const auto* cache : point.caches)
      for (std::size_t level = 0; level < max_cache_levels; ++level)
        point.tag_lookups[level] += cache->tag_lookups[level];
  };
  for (auto node = cache_nodes_.rbegin(); node != cache_nodes_.rend(); ++node) {
    auto& cache = **node;
    sum_up(cache.inner);
    cache.tag_lookups = cache.inclusion == Inclusion::inclusive ? TagLookups{} : cache.inner.tag_lookups;
    cache.tag_lookups[static_cast<std::size_t>(cache.level)] += cache.is_used || cache.level > 0;
  }
  sum_up(memory_point_);
}

void CacheTree::mark_first_use(CacheNode& node) {
  node.is_used = true;
  ++num_used_caches_[static_cast<std::size_t>(node.level)];
  if (node.level == 0) recount_tag_lookups();
}

std::optional<Directory::Sharers> CacheTree::directory_add(CoherencePoint& point, const CacheNode& requester_cache,
                                                           Address address) {
  if (!point.directory) {
    if (point.only_user == nullptr) point.only_user = &requester_cache;
    if (point.only_user == &requester_cache) return std::nullopt;
    point.directory = std::make_unique<Directory>(point.caches.size());
    add_lines(point, point.only_user->number, *point.only_user);
  }
  if (point.directory->is_full()) [[unlikely]]
    point.directory->rebuild([&] {
      for (const auto* cache : point.caches) add_lines(point, cache->number, *cache);
    });
  auto sharers = point.directory->sharers_of(granule_number(address));
  sharers.add(requester_cache.number);
  return sharers;
}

// Adds all granules that `node` or a cache inside it holds, wholly or in part, to the directory of `point`, with the
// sharer `number`.
void CacheTree::add_lines(CoherencePoint& point, int number, const CacheNode& node) {
  if (node.is_used)
    node.array.for_each_line(
        [&](Address address) { point.directory->sharers_of(granule_number(address)).add(number); });
  for (const auto* cache : node.inner.caches) add_lines(point, number, *cache);
}

// ---- fills and evictions

void CacheTree::insert(CacheNode& node, const CacheArray::SetAndTag& where, Address address, std::uint8_t state,
                       int way_limit) {
  auto& array = node.array;
  mark_used(node);
  CacheArray::Way way;
  if ((state & injected) || array.has_sub_blocks()) way = array.find_tag(where);
  if (way && array.find(where, address) && !(state & injected)) state |= array.state(way, address) & modified;
  if (!way) {
    way = array.way_to_fill(where, way_limit);
    if (!way.is_empty()) evict_for_fill(node, way, state & injected);
  }
  array.fill(where, way, address, state);
}

void CacheTree::evict_from_victim_cache(CacheNode& node, const CacheArray::Way& way) {
  evict_for_fill(node, way, false);
}

bool CacheTree::back_invalidate(CacheNode& node, const CacheArray::Way& way, Address address) {
  if (!node.tracks_sharers) [[unlikely]]
    return remove_from_all_inner(node, address);
  bool was_modified = false;
  for (unsigned sharers = way.sharers(); sharers != 0; sharers &= sharers - 1) {
    auto& child = *node.inner.caches[static_cast<std::size_t>(std::countr_zero(sharers))];
    was_modified |=
        child.is_simple ? remove_line(child, address) : remove_in_subtree(child, address, node.array.line_bytes());
  }
  return was_modified;
}

bool CacheTree::remove_from_all_inner(CacheNode& node, Address address) {
  bool was_modified = false;
  for_each_sharer(node.inner, granule_of(address), [&](CacheNode& cache) {
    was_modified |= remove_in_subtree(cache, address, node.array.line_bytes());
  });
  return was_modified;
}

bool CacheTree::remove_in_subtree(CacheNode& node, Address address, std::uint64_t bytes) {
  bool was_modified = false;
  for (auto at = address; at < address + bytes; at += node.array.sub_block_bytes())
    was_modified |= remove_line(node, at);
  for (auto* cache : node.inner.caches) was_modified |= remove_in_subtree(*cache, address, bytes);
  return was_modified;
}

// Back-invalidates a line (or a sub-block) that an inclusive outer cache evicts. Returns whether the removed copy was
// modified.
bool CacheTree::remove_line(CacheNode& node, Address address) {
  const auto way = node.array.lookup(address);
  if (!way) return false;
  const auto state = node.array.remove(way, address);
  ++counts_of(node).back_invalidations;
  if (state & injected) ++counts_of(node).injected_unused;
  return (state & modified) != 0;
}

bool CacheTree::invalidate_all_copies(Address granule, Count LevelCounts::* counter) {
  bool was_modified = false;
  for_each_copy(granule, [&](CacheNode& node, const CacheArray::Way& way, Address at) {
    const auto state = node.array.remove(way, at);
    was_modified |= (state & modified) != 0;
    if (counter == nullptr) return;
    counts_of(node).injected_unused += (state & injected) != 0;
    counts_of(node).*counter += counter != &LevelCounts::write_backs || (state & modified);
  });
  return was_modified;
}

void CacheTree::flush(Address address) {
  if (invalidate_all_copies(granule_of(address), &LevelCounts::write_backs)) write_to_memory();
}

void CacheTree::invalidate(Address address) { invalidate_all_copies(granule_of(address), nullptr); }

void CacheTree::invalidate_all() {
  for (auto& node : cache_nodes_) {
    node->array.clear();
    node->displaced_lines.clear();
    node->is_used = false;
  }
  num_used_caches_ = {};
  const auto drop_directory = [](CoherencePoint& point) {
    point.only_user = nullptr;
    point.directory.reset();
  };
  drop_directory(memory_point_);
  for (auto& node : cache_nodes_) drop_directory(node->inner);
  recount_tag_lookups();
}

bool CacheTree::keeps_state_in_sets() const {
  return std::ranges::all_of(cache_nodes_, [](const auto& node) { return node->array.keeps_state_in_sets(); });
}

void CacheTree::copy_variant(const CacheTree& other, int variant) {
  for (std::size_t i = 0; i < cache_nodes_.size(); ++i) {
    auto &node = *cache_nodes_[i], &source = *other.cache_nodes_[i];
    if (source.is_used) {
      node.array.copy_variant(source.array, variant);
      mark_used(node);
    }
    source.displaced_lines.for_each_victim([&](std::uint64_t granule, Variants::Mask group) {
      if ((group >> variant & 1) != 0) node.displaced_lines.add(granule, variants_.all_variants());
    });
  }
  for (std::size_t i = 0; i < cache_nodes_.size(); ++i)
    copy_directory(cache_nodes_[i]->inner, other.cache_nodes_[i]->inner);
  copy_directory(memory_point_, other.memory_point_);
  tracks_displaced_lines_ = other.tracks_displaced_lines_;
  variants_.common_counters() = other.variants_.counters_of(variant);
}

void CacheTree::copy_directory(CoherencePoint& point, const CoherencePoint& other) {
  if (other.only_user) point.only_user = point.caches[static_cast<std::size_t>(other.only_user->number)];
  if (!other.directory) return;
  point.directory = std::make_unique<Directory>(point.caches.size());
  for (const auto* cache : point.caches) add_lines(point, cache->number, *cache);
}

CopyState CacheTree::cached_copy_state(int variant, int core, int level, Address address) const {
  const auto& array = cache_at(core, level).array;
  const auto where = array.locate_in_variant(variant, address);
  const auto way = array.find(where, address);
  if (!way) return {};
  const auto state = array.state(way, address);
  return {true, (state & modified) != 0, (state & shared) != 0};
}

// ---- deferred updates

void CacheTree::directory_remove(CoherencePoint& point, Address granule, int number) {
  defer({DeferredUpdate::Kind::removed, variants_.current_run().leader(), granule, nullptr, &point, number});
}

void CacheTree::defer(const DeferredUpdate& update) {
  deferred_updates_.push_back(update);
  if (!variants_.has_several_variants()) apply_deferred_updates({});
}

void CacheTree::apply_deferred_updates(const Variants::GroupLeaders& leaders) {
  for (const auto& update : deferred_updates_) {
    const auto group = variants_.group_of(update.leader, leaders);
    if (update.kind == DeferredUpdate::Kind::removed) {
      if (group == variants_.all_variants())
        update.point->directory->sharers_of(granule_number(update.granule)).remove(update.number);
      continue;
    }
    auto& displaced_lines = update.node->displaced_lines;
    if (update.kind == DeferredUpdate::Kind::displaced) {
      displaced_lines.add(granule_number(update.granule), group);
      continue;
    }
    if (const Variants::Mask missing = displaced_lines.variants_of(granule_number(update.granule)) & group) {
      ++variants_.counters_of_group(missing).levels[static_cast<std::size_t>(update.node->level)].victims_missed;
      displaced_lines.remove(granule_number(update.granule), missing);
    }
  }
  deferred_updates_.clear();
}

// ---- counters

Counts CacheTree::counts(int variant) const {
  const auto counters = variants_.counters_of(variant);
  Counts all;
  all.levels.assign(counters.levels.begin(), counters.levels.begin() + num_levels_);
  for (std::size_t level = 0; level < all.levels.size(); ++level)
    all.levels[level].snoops += counters.tag_lookups[level];
  all.dram = counters.dram;
  all.transfers = counters.transfers;
  return all;
}

}  // namespace nearfield::sim
