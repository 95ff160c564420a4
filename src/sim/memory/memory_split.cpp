// Gives each variant a memory of its own where many accesses find something else under each: there, to share the sets that
// are equal (variants.hpp) costs more than it saves.
#include "sim/memory/core_context.hpp"

namespace nearfield::sim {
namespace {

constexpr Count one_in = 4;  // if one access in so many differs, memories of their own are faster

}  // namespace

bool Memory::part_if_faster() {
  if (!apart_.empty()) return true;
  const auto nearest = caches_->contents.counts(0).levels.front();
  const Count accesses = nearest.hits + nearest.misses, of_late = accesses - std::min(accesses, accesses_before_);
  accesses_before_ = accesses;
  differing_ = 0;
  if (of_late <= one_in * many) part();
  return !apart_.empty();
}

void Memory::part() {
  if (timings_.size() == 1 || !apart_.empty() || !caches_->contents.keeps_all_in_sets()) return;
  tell_clocks();
  for (int v = 0; v < static_cast<int>(timings_.size()); ++v) {
    Timings its;
    its.push_back(std::move(timings_[static_cast<std::size_t>(v)]));
    apart_.emplace_back(new Memory(*machine_, std::move(its), limits_ways_))->take(*this, v);
  }
  latest_ = nullptr;
  acting_.clear();
  followers_.clear();
  caches_.reset();
  differing_ = many;
}

// Copies all but the clocks from another memory of the same machine, as it is under a variant. This one must be new.
void Memory::take(const Memory& other, int variant) {
  caches_->contents.take(other.caches_->contents, variant);
  translation_->take(*other.translation_);
  *counts_of_tlbs_ = *other.counts_of_tlbs_;
  for (std::size_t core = 0; core < acting_.size(); ++core) {
    acting_[core].ahead = other.acting_[core].ahead;
    if (!followers_.empty()) followers_[core].take(other.followers_[core], variant);
  }
}

}  // namespace nearfield::sim
