#include "sim/memory/variants.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace nearfield::sim {

void Variants::reset_counts() {
  common_ = {};
  for (auto& tally : apart_) tally = {};
}

void Variants::save(OwnSets& sets, std::uint32_t set, const Block* blocks, std::uint32_t count) {
  if (images_used_ + count > images_.size()) images_.resize(2 * (images_used_ + count));
  saved_.push_back({&sets, set, images_used_});
  std::copy_n(blocks, count, &images_[images_used_]);
  images_used_ += count;
}

bool Variants::next_apart() {
  if (acting_ == 0) begin_apart();
  for (int v = acting_ + 1; v < count_; ++v)
    if (owners_seen_ >> v & 1) {
      act_as(v);
      return true;
    }
  end_apart();
  return false;
}

// Those that act apart do not share what variant 0 did and counted.
void Variants::begin_apart() {
  looked_at_.clear();
  const auto now = common_.numbers(levels_), before = before_.numbers(levels_);
  std::array<std::size_t, sizeof(Tally) / sizeof(Count)> counted;
  std::size_t all_counted = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    counted[all_counted] = i;
    all_counted += now[i] != before[i];
  }
  for (int v = 1; v < count_; ++v) {
    if (!(owners_seen_ >> v & 1)) continue;
    for (const auto& saved : saved_)
      if (!saved.sets->is_own(v, saved.set)) saved.sets->make_own(v, saved.set, &images_[saved.image]);
    const auto apart = apart_[static_cast<std::size_t>(v)].numbers(levels_);
    for (std::size_t k = 0; k < all_counted; ++k) apart[counted[k]] -= now[counted[k]] - before[counted[k]];
  }
}

void Variants::end_apart() {
  act_as(0);
  for (const auto& saved : saved_) saved.sets->give_back_equal(saved.set);
  for (const auto& [sets, set] : looked_at_) sets->give_back_equal(set);
}

Block* OwnSets::of_acting(std::uint32_t set) {
  const int variant = variants_.acting();
  if (variant == 0) [[likely]] {
    variants_.owners_seen_ |= owners_[set];
    if (variants_.saves_) variants_.save(*this, set, common(set), blocks_per_set_);
    return common(set);
  }
  variants_.looked_at_.emplace_back(this, set);
  return is_own(variant, set) ? own(variant, set) : make_own(variant, set, common(set));
}

bool OwnSets::is_saved(std::uint32_t set) const {
  return std::any_of(variants_.saved_.begin(), variants_.saved_.end(),
                     [&](const auto& saved) { return saved.sets == this && saved.set == set; });
}

Block* OwnSets::make_own(int variant, std::uint32_t set, const Block* like) {
  if (!slots_) {
    const auto count = static_cast<std::size_t>(sets_) * static_cast<std::size_t>(variants_.count());
    slots_.reset(static_cast<std::uint32_t*>(std::calloc(count, sizeof(std::uint32_t))));
    if (!slots_) throw std::bad_alloc();
  }
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(set_of_slot_.size()));
    set_of_slot_.push_back(0);
  }
  const auto number = free_.back();
  free_.pop_back();
  set_of_slot_[number] = set;
  slot(variant, set) = number;
  owners_[set] |= static_cast<Mask>(1U << variant);
  ++variants_.own_blocks_;
  return std::copy_n(like, blocks_per_set_, own(variant, set)) - blocks_per_set_;
}

void OwnSets::give_back_equal(std::uint32_t set) {
  for (unsigned left = owners_[set]; left != 0; left &= left - 1) {
    const int variant = std::countr_zero(left);
    Block* const its = own(variant, set);
    if (!is_equal(its, common(set))) continue;
    for (auto* block = its; block < its + blocks_per_set_; ++block) std::fill_n(block->tag, lanes_per_block, no_tag);
    owners_[set] &= static_cast<Mask>(~(1U << variant));
    free_.push_back(slot(variant, set));
    --variants_.own_blocks_;
  }
}

bool OwnSets::is_equal(const Block* a, const Block* b) const {
  const bool same = std::memcmp(a, b, sizeof(Block) * blocks_per_set_) == 0;
  if (same || compare_ == Compare::blocks) return same;
  int lines = 0;
  for (unsigned lane = 0; lane < lanes_per_block; ++lane) {
    if (a->tag[lane] == no_tag) continue;
    const auto found = lanes_with(*b, a->tag[lane]);
    if (found == 0) return false;
    const auto there = static_cast<unsigned>(std::countr_zero(found));
    if (a->age[lane] != b->age[there] || a->flags[lane] != b->flags[there] || a->sharers[lane] != b->sharers[there])
      return false;
    ++lines;
  }
  return lines + std::popcount(lanes_with(*b, no_tag)) == lanes_per_block;
}

void OwnSets::clear(Block* blocks) {
  for (const auto mask : owners_) variants_.own_blocks_ -= static_cast<std::size_t>(std::popcount(mask));
  std::fill(owners_.begin(), owners_.end(), Mask{0});
  set_of_slot_.clear();
  free_.clear();
  blocks_ = blocks;
}

}  // namespace nearfield::sim
