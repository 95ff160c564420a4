#include "analysis/reuse_distance.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace nearfield::advise {

namespace {
constexpr std::size_t places_per_line = 4;  // of the Fenwick tree, per sampled line
}

ReuseDistance::ReuseDistance(std::size_t max_lines, unsigned lines_per_moment)
    : max_lines_(max_lines), lines_per_moment_(std::max(1u, lines_per_moment)), slots_(2 * max_lines) {
  if (!std::has_single_bit(max_lines)) throw std::invalid_argument("max_lines must be a power of two");
  tree_.assign(places_per_line * max_lines + 1, 0);
}

double ReuseDistance::lines_since(Moment moment) const {
  const auto behind = std::ranges::upper_bound(known_, moment);
  std::uint64_t places = static_cast<std::uint64_t>(behind - known_.begin());  // places up to that of `moment`
  if (moment >= first_new_) places = known_.size() + (moment - first_new_) + 1;
  const auto counted = static_cast<std::uint32_t>(std::min<std::uint64_t>(places, current_ + 1));
  return static_cast<double>(lines_ - lines_up_to(counted)) / sampling_rate();
}

void ReuseDistance::record_sampled_access(std::uint64_t line, std::uint64_t hash) {
  LineSlot* slot = &slot_of(line, hash);
  if (slot->line == line) {
    if (slot->place == current_) return;
    add(slot->place, -1);
  } else {
    slot->line = line;
    ++lines_;
  }
  if (++moved_ >= lines_per_moment_) {
    moved_ = 0;
    ++current_;
  }
  slot->place = current_;
  add(current_, 1);
  if (lines_ > max_lines_) shrink();
  if (current_ + 2 >= tree_.size()) compact();
}

// Returns the slot of a line, or the free slot for a new line. Hash table with linear probing, at most half full.
ReuseDistance::LineSlot& ReuseDistance::slot_of(std::uint64_t line, std::uint64_t hash) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = (hash * 0x9E3779B1ULL >> 7) & mask;
  while (slots_[at].line != none && slots_[at].line != line) at = (at + 1) & mask;
  return slots_[at];
}

// Halves the sampling rate, and removes the lines that are no longer sampled.
void ReuseDistance::shrink() {
  threshold_ /= 2;
  std::vector<LineSlot> before(slots_.size());
  before.swap(slots_);
  lines_ = 0;
  for (const LineSlot& slot : before) {
    if (slot.line == none || hash_of(slot.line) >= threshold_) continue;
    slot_of(slot.line, hash_of(slot.line)) = slot;
    ++lines_;
  }
  compact();
}

// Frees the places (in the Fenwick tree) of moments at which no line had its last access, except the current moment,
// and renumbers the other places.
void ReuseDistance::compact() {
  std::vector<std::uint32_t> lines(current_ + 1, 0), place(current_ + 1, 0);
  for (const LineSlot& slot : slots_)
    if (slot.line != none) ++lines[slot.place];
  std::vector<Moment> known;
  for (std::uint32_t old = 0; old < current_; ++old) {
    if (lines[old] == 0) continue;
    place[old] = static_cast<std::uint32_t>(known.size());
    known.push_back(old < known_.size() ? known_[old] : first_new_ + (old - known_.size()));
  }
  first_new_ = current_moment();
  place[current_] = static_cast<std::uint32_t>(known.size());
  current_ = place[current_];
  known_.swap(known);
  std::ranges::fill(tree_, 0);
  for (LineSlot& slot : slots_) {
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

// Returns the number of lines at the first `places` places (a prefix sum).
std::uint64_t ReuseDistance::lines_up_to(std::uint32_t places) const {
  std::uint64_t lines = 0;
  for (std::size_t at = places; at > 0; at -= at & (~at + 1)) lines += tree_[at];
  return lines;
}

}  // namespace nearfield::advise
