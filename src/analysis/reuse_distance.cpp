#include "analysis/reuse_distance.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace nearfield::advise {

namespace {
constexpr std::size_t places_each = 4;  // of the tree, per sampled line
}

ReuseDistance::ReuseDistance(std::size_t max_lines, unsigned lines_each)
    : max_lines_(max_lines), lines_each_(std::max(1u, lines_each)), slots_(2 * max_lines) {
  if (!std::has_single_bit(max_lines)) throw std::invalid_argument("max_lines must be a power of two");
  tree_.assign(places_each * max_lines + 1, 0);
}

double ReuseDistance::lines_since(Moment moment) const {
  const auto behind = std::ranges::upper_bound(known_, moment);
  std::uint64_t places = static_cast<std::uint64_t>(behind - known_.begin());  // including the moment's
  if (moment >= first_new_) places = known_.size() + (moment - first_new_) + 1;
  const auto counted = static_cast<std::uint32_t>(std::min<std::uint64_t>(places, current_ + 1));
  return static_cast<double>(lines_ - up_to(counted)) / rate();
}

void ReuseDistance::touch_sampled(std::uint64_t line, std::uint64_t hash) {
  Slot* slot = &slot_of(line, hash);
  if (slot->line == line) {
    if (slot->place == current_) return;
    add(slot->place, -1);
  } else {
    slot->line = line;
    ++lines_;
  }
  if (++moved_ >= lines_each_) {
    moved_ = 0;
    ++current_;
  }
  slot->place = current_;
  add(current_, 1);
  if (lines_ > max_lines_) shrink();
  if (current_ + 2 >= tree_.size()) compact();
}

// Linear probing; the table is at most half full.
ReuseDistance::Slot& ReuseDistance::slot_of(std::uint64_t line, std::uint64_t hash) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = (hash * 0x9E3779B1ULL >> 7) & mask;
  while (slots_[at].line != none && slots_[at].line != line) at = (at + 1) & mask;
  return slots_[at];
}

// Halves the sample.
void ReuseDistance::shrink() {
  threshold_ /= 2;
  std::vector<Slot> before(slots_.size());
  before.swap(slots_);
  lines_ = 0;
  for (const Slot& slot : before) {
    if (slot.line == none || hash_of(slot.line) >= threshold_) continue;
    slot_of(slot.line, hash_of(slot.line)) = slot;
    ++lines_;
  }
  compact();
}

// Frees the places of moments at which no line was last touched, except the current one.
void ReuseDistance::compact() {
  std::vector<std::uint32_t> lines(current_ + 1, 0), place(current_ + 1, 0);
  for (const Slot& slot : slots_)
    if (slot.line != none) ++lines[slot.place];
  std::vector<Moment> known;
  for (std::uint32_t old = 0; old < current_; ++old) {
    if (lines[old] == 0) continue;
    place[old] = static_cast<std::uint32_t>(known.size());
    known.push_back(old < known_.size() ? known_[old] : first_new_ + (old - known_.size()));
  }
  first_new_ = now();
  place[current_] = static_cast<std::uint32_t>(known.size());
  current_ = place[current_];
  known_.swap(known);
  std::ranges::fill(tree_, 0);
  for (Slot& slot : slots_) {
    if (slot.line == none) continue;
    slot.place = place[slot.place];
    add(slot.place, 1);
  }
}

// ---- the Fenwick tree

void ReuseDistance::add(std::uint32_t place, std::int32_t lines) {
  for (std::size_t at = place + 1; at < tree_.size(); at += at & (~at + 1))
    tree_[at] += static_cast<std::uint32_t>(lines);
}

// Returns the number of lines at this many first places.
std::uint64_t ReuseDistance::up_to(std::uint32_t places) const {
  std::uint64_t lines = 0;
  for (std::size_t at = places; at > 0; at -= at & (~at + 1)) lines += tree_[at];
  return lines;
}

}  // namespace nearfield::advise
