#include "sim/memory/cache_tree.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace nearfield::sim {
namespace {

constexpr std::size_t max_sharers = 16;             // a line has one sharer bit per cache of the next inner level
constexpr Count max_lookups_without_directory = 4;  // up to this many tag lookups cost no more than a directory
constexpr VariantMask single_variant = 1;           // all variants of a tree that copy_variant_from() fills

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

CacheTree::CacheTree(const Machine& machine, Variants& variants, bool ways_matter)
    : num_levels_(static_cast<int>(machine.caches.size())) {
  check_hierarchy(machine);
  build_tree(machine, variants.has_several_variants() ? &variants : nullptr, ways_matter);
  granule_bytes_ = cache_nodes_.front()->array.sub_block_bytes();
  granule_shift_ = std::countr_zero(granule_bytes_);
  l1_line_bytes_ = cache_nodes_.back()->array.line_bytes();
  recount_tag_lookups();
  choose_directories();
}

// Builds from the last level inwards, so that parents exist before their children.
void CacheTree::build_tree(const Machine& machine, Variants* variants, bool ways_matter) {
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
}

void CacheTree::choose_directories() {
  const auto choose_directory = [&](CoherencePoint& point) {
    point.granule_shift = granule_shift_;
    const Count caches = std::accumulate(point.tag_lookups.begin(), point.tag_lookups.end(), point.caches.size());
    point.has_directory = point.caches.size() > 1 && point.caches.size() <= Directory::max_caches &&
                          caches > max_lookups_without_directory;
  };
  choose_directory(memory_point_);
  for (auto& node : cache_nodes_)
    if (!node->tracks_sharers) choose_directory(node->inner);
}

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

void CacheTree::invalidate_all() {
  for (auto& node : cache_nodes_) {
    node->array.clear();
    node->displaced_lines.clear();
    node->is_used = false;
  }
  num_used_caches_ = {};
  memory_point_.drop_directory();
  for (auto& node : cache_nodes_) node->inner.drop_directory();
  recount_tag_lookups();
}

bool CacheTree::keeps_state_in_sets() const {
  return std::ranges::all_of(cache_nodes_, [](const auto& node) { return node->array.keeps_state_in_sets(); });
}

void CacheTree::copy_variant_from(const CacheTree& other, int variant) {
  for (std::size_t i = 0; i < cache_nodes_.size(); ++i) {
    auto &node = *cache_nodes_[i], &source = *other.cache_nodes_[i];
    if (source.is_used) {
      node.array.copy_variant_from(source.array, variant);
      mark_used(node);
    }
    source.displaced_lines.for_each_victim([&](std::uint64_t granule, Variants::Mask group) {
      if ((group >> variant & 1) != 0) node.displaced_lines.add(granule, single_variant);
    });
  }
  for (std::size_t i = 0; i < cache_nodes_.size(); ++i)
    cache_nodes_[i]->inner.copy_directory(other.cache_nodes_[i]->inner);
  memory_point_.copy_directory(other.memory_point_);
  has_displaced_lines_ = other.has_displaced_lines_;
}

CopyState CacheTree::cached_copy_state(int variant, int core, int level, Address address) const {
  const auto& array = cache_at(core, level).array;
  const auto where = array.locate_in_variant(variant, address);
  const auto way = array.find(where, address);
  if (!way) return {};
  const auto state = array.state(way, address);
  return {true, (state & modified) != 0, (state & shared) != 0};
}

}  // namespace nearfield::sim
