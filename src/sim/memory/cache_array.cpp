#include "sim/memory/cache_array.hpp"

#include <stdexcept>

namespace nearfield::sim {
namespace {

constexpr std::uint64_t smallest_line = 32;  // so that line numbers have 32 bits
constexpr int most_ways = 126;               // an age has 7 bits, and one value is no way

void refuse(const std::string& why) { throw std::invalid_argument("a cache " + why); }

void check(const Cache& spec) {
  const auto line = static_cast<std::uint64_t>(spec.line_bytes);
  if (spec.line_bytes < static_cast<int>(smallest_line) || !std::has_single_bit(line))
    refuse("has lines of " + std::to_string(spec.line_bytes) + " bytes: it must be a power of two from 32");
  if (spec.ways < 1 || spec.ways > most_ways)
    refuse("has " + std::to_string(spec.ways) + " ways: from 1 to " + std::to_string(most_ways));
  if (spec.size_bytes == 0 || spec.size_bytes % (line * static_cast<std::uint64_t>(spec.ways)) != 0)
    refuse("of " + std::to_string(spec.size_bytes) + " bytes cannot be divided into sets of " +
           std::to_string(spec.ways) + " lines of " + std::to_string(line) + " bytes");
  const auto parts = static_cast<unsigned>(spec.sub_blocks);
  if (spec.sub_blocks < 1 || parts > 4 || !std::has_single_bit(parts) || line / parts < smallest_line)
    refuse("has " + std::to_string(spec.sub_blocks) + " sub-blocks: 1, 2 or 4 of at least 32 bytes");
}

const ReplacementSpec& replacement_of(const Cache& spec) {
  for (const auto* candidate : all_replacements()) {
    if (candidate->name != spec.replacement) continue;
    if (candidate->power_of_two_ways && !std::has_single_bit(static_cast<unsigned>(spec.ways)))
      refuse("with " + spec.replacement + " must have a power of two of ways, not " + std::to_string(spec.ways));
    return *candidate;
  }
  throw std::invalid_argument("a cache has the unknown replacement '" + spec.replacement + "'");
}

std::uint32_t checked_sets(const Cache& spec) {
  check(spec);
  return static_cast<std::uint32_t>(spec.size_bytes / static_cast<std::uint64_t>(spec.line_bytes) /
                                    static_cast<std::uint64_t>(spec.ways));
}

std::uint8_t log2_of(int power) { return static_cast<std::uint8_t>(std::countr_zero(static_cast<unsigned>(power))); }

}  // namespace

CacheArray::CacheArray(const Cache& spec, Variants* variants, bool ways_matter)
    : sets_(checked_sets(spec)),
      blocks_per_set_(static_cast<std::uint32_t>((spec.ways + lanes_per_block - 1) / lanes_per_block)),
      line_shift_(log2_of(spec.line_bytes)),
      unit_shift_(log2_of(spec.line_bytes / spec.sub_blocks)),
      sub_blocks_(static_cast<std::uint8_t>(spec.sub_blocks)),
      lru_(spec.replacement == lru_replacement.name),
      is_narrow_(spec.ways <= first_lanes),
      ways_(spec.ways),
      replacement_(replacement_of(spec).make()) {
  const bool is_tree = spec.replacement == tree_plru_replacement.name;
  is_quick_ = blocks_per_set_ == 1 && (lru_ || is_tree);
  order_.ways = ways_;
  if (is_quick_ && is_tree) order_.tree = &trees[std::countr_zero(static_cast<unsigned>(ways_))];
  if (is_quick_ && lru_) {
    Block first{};
    replacement_->prepare(&first, ways_);
    std::ranges::copy(first.age, order_.first_ages);
  }
  if (sets_ > 1) reciprocal_ = UINT64_MAX / sets_ + 1;
  const auto compare = is_quick_ && lru_ && !ways_matter ? OwnSets::Compare::order : OwnSets::Compare::blocks;
  if (variants) own_ = std::make_unique<OwnSets>(*variants, sets_, blocks_per_set_, compare);
  if (variants) variants_ = variants->count();
  clear();
}

CacheView CacheArray::view() const {
  CacheView view{order_};
  view.blocks = blocks_;
  view.reciprocal = reciprocal_;
  view.owners = own_ ? own_->owners() : nullptr;
  view.sets = sets_;
  view.line_shift = line_shift_;
  view.unit_shift = unit_shift_;
  view.sub_blocks = sub_blocks_;
  view.is_narrow = is_narrow_;
  return view;
}

void CacheArray::clear() {
  zeros_.reset();
  // The parts for sets that no variant has for itself stay unused.
  zeros_ = make_zeros<Block>(static_cast<std::size_t>(variants_) * sets_ * blocks_per_set_);
  blocks_ = zeros_.get();
  if (own_) own_->clear(blocks_);
}

void CacheArray::take(const CacheArray& other, int variant) {
  const Block never_used{};
  for (std::uint32_t set = 0; set < sets_; ++set) {
    const Block* const its = other.own_ ? other.own_->of(variant, set) : other.common(set);
    for (std::uint32_t i = 0; i < blocks_per_set_; ++i)
      if (std::memcmp(&its[i], &never_used, sizeof never_used) != 0) common(set)[i] = its[i];
  }
}

// In order of use, no two of several ways are equally old; in other orders a set begins with zeros.
void CacheArray::prepare_if_new(Block* set) {
  if (lru_ && ways_ > 1 && set->age[0] == set->age[1]) replacement_->prepare(set, ways_);
}

CacheArray::Way CacheArray::find_in_blocks(const SetAndTag& where) const {
  for (auto* block = where.set; block < where.set + blocks_per_set_; ++block)
    if (const auto found = lanes_with(*block, where.tag))
      return {block, static_cast<unsigned>(std::countr_zero(found))};
  return {};
}

CacheArray::Way CacheArray::room_by_replacement(Block* set, int limit) {
  prepare_if_new(set);
  if (lru_ && limit == 0) return nth(set, replacement_->victim(set, ways_));  // an empty one if there is one
  const int among = limit > 0 && limit < ways_ ? limit : ways_;
  for (int way = 0; way < among; ++way)
    if (nth(set, way).empty()) return nth(set, way);
  return nth(set, among == ways_ ? replacement_->victim(set, ways_) : replacement_->victim_among(set, ways_, among));
}

}  // namespace nearfield::sim
