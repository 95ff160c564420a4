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
  fenwick_tree_.assign(places_per_line * max_lines + 1, 0);
}

double ReuseDistance::lines_since(Moment moment) const {
  const auto after_moment = std::ranges::upper_bound(compacted_moments_, moment);
  // places up to that of `moment`
  std::uint64_t places = static_cast<std::uint64_t>(after_moment - compacted_moments_.begin());
  if (moment >= first_uncompacted_moment_)
    places = compacted_moments_.size() + (moment - first_uncompacted_moment_) + 1;
  const auto num_places = static_cast<std::uint32_t>(std::min<std::uint64_t>(places, current_place_ + 1));
  return static_cast<double>(num_sampled_lines_ - lines_in_first_places(num_places)) / sampling_rate();
}

void ReuseDistance::record_sampled_access(std::uint64_t line, std::uint64_t hash) {
  LineSlot* slot = &find_slot(line, hash);
  if (slot->line == line) {
    if (slot->last_access_place == current_place_) return;
    add_to_tree(slot->last_access_place, -1);
  } else {
    slot->line = line;
    ++num_sampled_lines_;
  }
  if (++lines_in_current_moment_ >= lines_per_moment_) {
    lines_in_current_moment_ = 0;
    ++current_place_;
  }
  slot->last_access_place = current_place_;
  add_to_tree(current_place_, 1);
  if (num_sampled_lines_ > max_lines_) halve_sampling_rate();
  if (current_place_ + 2 >= fenwick_tree_.size()) compact_places();
}

// Returns the slot of a line, or the free slot for a new line. Hash table with linear probing, at most half full.
ReuseDistance::LineSlot& ReuseDistance::find_slot(std::uint64_t line, std::uint64_t hash) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = (hash * 0x9E3779B1ULL >> 7) & mask;
  while (slots_[at].line != no_line && slots_[at].line != line) at = (at + 1) & mask;
  return slots_[at];
}

// Halves the sampling rate, and removes the lines that are no longer sampled.
void ReuseDistance::halve_sampling_rate() {
  sampled_hash_limit_ /= 2;
  std::vector<LineSlot> old_slots(slots_.size());
  old_slots.swap(slots_);
  num_sampled_lines_ = 0;
  for (const LineSlot& slot : old_slots) {
    if (slot.line == no_line || hash_of(slot.line) >= sampled_hash_limit_) continue;
    find_slot(slot.line, hash_of(slot.line)) = slot;
    ++num_sampled_lines_;
  }
  compact_places();
}

// Frees the entries of the Fenwick tree for moments at which no line had its last access, except the current moment,
// and renumbers the other entries.
void ReuseDistance::compact_places() {
  std::vector<std::uint32_t> lines(current_place_ + 1, 0), place(current_place_ + 1, 0);
  for (const LineSlot& slot : slots_)
    if (slot.line != no_line) ++lines[slot.last_access_place];
  std::vector<Moment> known;
  for (std::uint32_t old = 0; old < current_place_; ++old) {
    if (lines[old] == 0) continue;
    place[old] = static_cast<std::uint32_t>(known.size());
    known.push_back(old < compacted_moments_.size() ? compacted_moments_[old]
                                                    : first_uncompacted_moment_ + (old - compacted_moments_.size()));
  }
  first_uncompacted_moment_ = current_moment();
  place[current_place_] = static_cast<std::uint32_t>(known.size());
  current_place_ = place[current_place_];
  compacted_moments_.swap(known);
  std::ranges::fill(fenwick_tree_, 0);
  for (LineSlot& slot : slots_) {
    if (slot.line == no_line) continue;
    slot.last_access_place = place[slot.last_access_place];
    add_to_tree(slot.last_access_place, 1);
  }
}

// ---- the Fenwick tree

void ReuseDistance::add_to_tree(std::uint32_t place, std::int32_t lines) {
  for (std::size_t at = place + 1; at < fenwick_tree_.size(); at += at & (~at + 1))
    fenwick_tree_[at] += static_cast<std::uint32_t>(lines);
}

// Returns the number of lines at the first `places` places (a prefix sum).
std::uint64_t ReuseDistance::lines_in_first_places(std::uint32_t places) const {
  std::uint64_t lines = 0;
  for (std::size_t at = places; at > 0; at -= at & (~at + 1)) lines += fenwick_tree_[at];
  return lines;
}

}  // namespace nearfield::advise
