// Splits the shared model into one Memory per variant if sharing equal cache sets (variants.hpp) no longer pays.
#include "sim/memory/core_context.hpp"

namespace nearfield::sim {
namespace {

constexpr Count one_in = 4;  // if one access in four differs, separate memories are faster

}  // namespace

bool Memory::split_if_faster() {
  if (!split_.empty()) return true;
  const auto l1 = caches_->tree.counts(0).levels.front();
  const Count accesses = l1.hits + l1.misses, recent_accesses = accesses - std::min(accesses, accesses_at_last_check_);
  accesses_at_last_check_ = accesses;
  diverging_ = 0;
  if (recent_accesses <= one_in * split_check_period) split_variants();
  return !split_.empty();
}

void Memory::split_variants() {
  if (timings_.size() == 1 || !split_.empty() || !caches_->tree.keeps_state_in_sets()) return;
  flush_timing_events();
  for (int v = 0; v < static_cast<int>(timings_.size()); ++v) {
    Timings timings;
    timings.push_back(std::move(timings_[static_cast<std::size_t>(v)]));
    split_.emplace_back(new Memory(*machine_, std::move(timings), limits_ways_))->copy_variant(*this, v);
  }
  current_context_ = nullptr;
  contexts_.clear();
  prefetchers_.clear();
  caches_.reset();
  diverging_ = split_check_period;
}

// Copies everything but the clocks from another memory of the same machine, as it is under a variant. This one must be
// new.
void Memory::copy_variant(const Memory& other, int variant) {
  caches_->tree.copy_variant(other.caches_->tree, variant);
  translation_->copy_from(*other.translation_);
  *counts_of_tlbs_ = *other.counts_of_tlbs_;
  for (std::size_t core = 0; core < contexts_.size(); ++core) {
    contexts_[core].in_flight = other.contexts_[core].in_flight;
    if (!prefetchers_.empty()) prefetchers_[core].copy_variant(other.prefetchers_[core], variant);
  }
}

}  // namespace nearfield::sim
