#include "sim/memory/cache_array.hpp"

#include <stdexcept>

namespace nearfield::sim {
namespace {

constexpr std::uint64_t min_line_bytes = 32;  // so that line numbers fit into 32 bits
constexpr int max_ways = 126;                 // an age has 7 bits, and one of its values marks slots that are not ways

void throw_invalid_cache(const std::string& why) { throw std::invalid_argument("a cache " + why); }

void check_geometry(const Cache& spec) {
  const auto line = static_cast<std::uint64_t>(spec.line_bytes);
  if (spec.line_bytes < static_cast<int>(min_line_bytes) || !std::has_single_bit(line))
    throw_invalid_cache("has lines of " + std::to_string(spec.line_bytes) +
                        " bytes: it must be a power of two from 32");
  if (spec.ways < 1 || spec.ways > max_ways)
    throw_invalid_cache("has " + std::to_string(spec.ways) + " ways: from 1 to " + std::to_string(max_ways));
  if (spec.size_bytes == 0 || spec.size_bytes % (line * static_cast<std::uint64_t>(spec.ways)) != 0)
    throw_invalid_cache("of " + std::to_string(spec.size_bytes) + " bytes cannot be divided into sets of " +
                        std::to_string(spec.ways) + " lines of " + std::to_string(line) + " bytes");
  const auto parts = static_cast<unsigned>(spec.sub_blocks);
  if (spec.sub_blocks < 1 || parts > 4 || !std::has_single_bit(parts) || line / parts < min_line_bytes)
    throw_invalid_cache("has " + std::to_string(spec.sub_blocks) + " sub-blocks: 1, 2 or 4 of at least 32 bytes");
}

const ReplacementSpec& find_replacement(const Cache& spec) {
  for (const auto* candidate : all_replacements()) {
    if (candidate->name != spec.replacement) continue;
    if (candidate->power_of_two_ways && !std::has_single_bit(static_cast<unsigned>(spec.ways)))
      throw_invalid_cache("with " + spec.replacement + " must have a power of two of ways, not " +
                          std::to_string(spec.ways));
    return *candidate;
  }
  throw std::invalid_argument("a cache has the unknown replacement '" + spec.replacement + "'");
}

std::uint32_t checked_num_sets(const Cache& spec) {
  check_geometry(spec);
  return static_cast<std::uint32_t>(spec.size_bytes / static_cast<std::uint64_t>(spec.line_bytes) /
                                    static_cast<std::uint64_t>(spec.ways));
}

std::uint8_t log2_of(int power) { return static_cast<std::uint8_t>(std::countr_zero(static_cast<unsigned>(power))); }

}  // namespace

CacheArray::CacheArray(const Cache& spec, Variants* variants, bool ways_matter)
    : num_sets_(checked_num_sets(spec)),
      groups_per_set_(static_cast<std::uint32_t>((spec.ways + ways_per_group - 1) / ways_per_group)),
      line_shift_(log2_of(spec.line_bytes)),
      sub_block_shift_(log2_of(spec.line_bytes / spec.sub_blocks)),
      num_sub_blocks_(static_cast<std::uint8_t>(spec.sub_blocks)),
      is_lru_(spec.replacement == lru_replacement.name),
      is_narrow_(spec.ways <= narrow_ways),
      num_ways_(spec.ways),
      replacement_(find_replacement(spec).make()) {
  const bool is_tree = spec.replacement == tree_plru_replacement.name;
  has_inline_replacement_ = groups_per_set_ == 1 && (is_lru_ || is_tree);
  order_.ways = num_ways_;
  if (has_inline_replacement_ && is_tree) order_.plru = &plru_trees[std::countr_zero(static_cast<unsigned>(num_ways_))];
  if (has_inline_replacement_ && is_lru_) {
    WayGroup first{};
    replacement_->prepare_set(&first, num_ways_);
    std::ranges::copy(first.age, order_.initial_ages);
  }
  if (num_sets_ > 1) reciprocal_ = UINT64_MAX / num_sets_ + 1;
  const auto compare = has_inline_replacement_ && is_lru_ && !ways_matter ? CopyOnWriteSets::SetComparison::order
                                                                          : CopyOnWriteSets::SetComparison::bytes;
  if (variants) cow_sets_ = std::make_unique<CopyOnWriteSets>(*variants, num_sets_, groups_per_set_, compare);
  if (variants) num_variants_ = variants->num_variants();
  clear();
}

CacheView CacheArray::view() const {
  CacheView view{order_};
  view.way_groups = way_groups_;
  view.reciprocal = reciprocal_;
  view.owners = cow_sets_ ? cow_sets_->clone_owners() : nullptr;
  view.sets = num_sets_;
  view.line_shift = line_shift_;
  view.sub_block_shift = sub_block_shift_;
  view.sub_blocks = num_sub_blocks_;
  view.is_narrow = is_narrow_;
  return view;
}

void CacheArray::clear() {
  storage_.reset();
  // The array has room for clones of all sets; the host allocates no pages for clones that are never made.
  storage_ = make_lazy_zero_array<WayGroup>(static_cast<std::size_t>(num_variants_) * num_sets_ * groups_per_set_);
  way_groups_ = storage_.get();
  if (cow_sets_) cow_sets_->clear(way_groups_);
}

void CacheArray::copy_variant_from(const CacheArray& other, int variant) {
  const WayGroup never_used{};
  for (std::uint32_t set = 0; set < num_sets_; ++set) {
    const WayGroup* const source = other.cow_sets_ ? other.cow_sets_->copy_of(variant, set) : other.common_set(set);
    for (std::uint32_t i = 0; i < groups_per_set_; ++i)
      if (std::memcmp(&source[i], &never_used, sizeof never_used) != 0) common_set(set)[i] = source[i];
  }
}

// With lru, the ways of a set differ in age, so two equal ages mean that the set has never been used. With other
// replacements, an unused set of zeros is valid as it is.
void CacheArray::prepare_if_unused(WayGroup* set) {
  if (is_lru_ && num_ways_ > 1 && set->age[0] == set->age[1]) replacement_->prepare_set(set, num_ways_);
}

CacheArray::Way CacheArray::find_in_groups(const SetAndTag& where) const {
  for (auto* group = where.set; group < where.set + groups_per_set_; ++group)
    if (const auto found = ways_with_tag(*group, where.tag))
      return {group, static_cast<unsigned>(std::countr_zero(found))};
  return {};
}

CacheArray::Way CacheArray::choose_way_by_policy(WayGroup* set, int way_limit) {
  prepare_if_unused(set);
  if (is_lru_ && way_limit == 0)
    return nth_way(set, replacement_->choose_victim(set, num_ways_));  // an empty way if there is one
  const int num_ways = way_limit > 0 && way_limit < num_ways_ ? way_limit : num_ways_;
  for (int way = 0; way < num_ways; ++way)
    if (nth_way(set, way).is_empty()) return nth_way(set, way);
  return nth_way(set, num_ways == num_ways_ ? replacement_->choose_victim(set, num_ways_)
                                            : replacement_->choose_victim_among_first(set, num_ways_, num_ways));
}

}  // namespace nearfield::sim
