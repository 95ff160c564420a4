#include "sim/memory/variants.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace nearfield::sim {
namespace {

// Most sets have one block, which a call would take longer to copy.
void copy_set(const Block* from, std::uint32_t blocks, Block* to) {
  if (blocks == 1) [[likely]]
    *to = *from;
  else
    std::copy_n(from, blocks, to);
}

}  // namespace

Tally Variants::tally_of(int variant) const {
  Tally sum;
  const auto numbers = sum.numbers(levels_);
  for (std::size_t group = 0; group < tallies_.size(); ++group) {
    if (!(group >> variant & 1) || !tallies_[group]) continue;
    const auto more = tallies_[group]->numbers(levels_);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += more[i];
  }
  return sum;
}

void Variants::reset_counts() {
  for (auto& tally : tallies_)
    if (tally) *tally = {};
}

void Variants::save(OwnSets& sets, std::uint32_t set, const Block* blocks, std::uint32_t count) {
  if (!saved_.empty() && saved_.back().sets == &sets && saved_.back().set == set) return;
  if (images_used_ + count > images_.size()) images_.resize(2 * (images_used_ + count));
  saved_.push_back({&sets, set, images_used_});
  copy_set(blocks, count, &images_[images_used_]);
  images_used_ += count;
}

void Variants::split(Mask users) {
  const Mask leaving = together_ & static_cast<Mask>(~users);
  together_ &= users;
  for (const auto& saved : saved_)
    if (const Mask its = leaving & saved.sets->users_with(acting_, saved.set))
      saved.sets->make_own(its, saved.set, &images_[saved.image]);
}

bool Variants::next_group() {
  if (together_ != counting_) move_counts();
  for (unsigned left = together_; left != 0; left &= left - 1)
    actors_.of[static_cast<std::size_t>(std::countr_zero(left))] = static_cast<std::uint8_t>(acting_);
  left_ &= static_cast<Mask>(~together_);
  if (left_ == 0) {
    end();
    return false;
  }
  const int next = std::countr_zero(left_);
  together_ = (*alike_)[static_cast<std::size_t>(next)] & left_;
  begin_group(next);
  forget_images();
  return true;
}

// The group is another one than was guessed.
void Variants::move_counts() {
  const auto now = tally_->numbers(levels_), before = before_.numbers(levels_),
             right = tally_of_group(together_).numbers(levels_);
  for (std::size_t i = 0; i < now.size(); ++i) right[i] += std::exchange(now[i], before[i]) - before[i];
  guess_[static_cast<std::size_t>(acting_)] = together_;
}

void Variants::end() {
  act_as(0, all_);
  together_ = all_;
  for (const auto& [sets, set] : looked_at_) sets->unite_equal(set);
}

Block* OwnSets::of_acting(std::uint32_t set) {
  if (owners_[set] == 0 && variants_.together_ == variants_.all_) [[likely]] {
    if (variants_.saves_) variants_.save(*this, set, common(set), blocks_per_set_);
    return common(set);
  }
  return of_group(set);
}

// Leaves the block to the group of whoever acts.
Block* OwnSets::of_group(std::uint32_t set) {
  const int actor = variants_.acting();
  const Mask users = users_with(actor, set);
  variants_.keep_together(users);
  const Mask group = variants_.together_;
  if (const Mask others = users & static_cast<Mask>(~group))  // variant 0 has the common block, always
    make_own(others & 1 ? group : others, set, of(actor, set));
  else
    variants_.unite_afterwards(*this, set);
  Block* const blocks = of(actor, set);
  if (!Variants::is_one(group)) variants_.save(*this, set, blocks, blocks_per_set_);
  return blocks;
}

// `users`: some, but not all, of those that have one block.
void OwnSets::make_own(Mask users, std::uint32_t set, const Block* like) {
  if (!slots_)
    slots_ = make_zeros<std::uint32_t>(static_cast<std::size_t>(sets_) * static_cast<std::size_t>(variants_.count()));
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(set_of_slot_.size()));
    set_of_slot_.push_back(0);
    users_.push_back(0);
  }
  const auto number = free_.back();
  free_.pop_back();
  set_of_slot_[number] = set;
  for (unsigned left = users & owners_[set]; left != 0; left &= left - 1)
    users_[slot(std::countr_zero(left), set)] &= static_cast<Mask>(~users);
  put_into(users, set, number);
  owners_[set] |= users;
  ++variants_.own_blocks_;
  copy_set(like, blocks_per_set_, common(sets_ + number));
  variants_.unite_afterwards(*this, set);
}

void OwnSets::give_back(std::uint32_t number) {
  Block* const its = common(sets_ + number);
  for (auto* block = its; block < its + blocks_per_set_; ++block) std::fill_n(block->tag, lanes_per_block, no_tag);
  free_.push_back(number);
  users_[number] = 0;
  --variants_.own_blocks_;
}

void OwnSets::unite_equal(std::uint32_t set) {
  for (Mask left = owners_[set]; left != 0;) {
    const int variant = std::countr_zero(left);
    const auto number = slot(variant, set);
    const Mask users = users_with(variant, set);
    left &= static_cast<Mask>(~users);
    if (is_equal(common(sets_ + number), common(set))) {
      owners_[set] &= static_cast<Mask>(~users);
      give_back(number);
      continue;
    }
    for (unsigned others = left; others != 0; others &= others - 1) {
      const auto other = slot(std::countr_zero(others), set);
      if (!is_equal(common(sets_ + number), common(sets_ + other))) continue;
      put_into(users, set, other);
      give_back(number);
      break;
    }
  }
}

bool OwnSets::is_equal(const Block* a, const Block* b) const {
  if (compare_ == Compare::blocks) return std::memcmp(a, b, sizeof(Block) * blocks_per_set_) == 0;
  if (sum_of_tags(*a) != sum_of_tags(*b)) return false;  // mostly
  if (std::memcmp(a, b, sizeof(Block)) == 0) return true;
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
  variants_.own_blocks_ -= set_of_slot_.size() - free_.size();
  std::fill(owners_.begin(), owners_.end(), Mask{0});
  set_of_slot_.clear();
  users_.clear();
  free_.clear();
  blocks_ = blocks;
}

}  // namespace nearfield::sim
