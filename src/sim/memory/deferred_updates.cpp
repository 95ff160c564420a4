#include "sim/memory/deferred_updates.hpp"

namespace nearfield::sim {

void DeferredUpdates::defer(const Update& update) {
  updates_.push_back(update);
  if (!variants_.has_several_variants()) apply({});
}

void DeferredUpdates::apply(const Variants::GroupLeaders& leaders) {
  for (const auto& update : updates_) {
    const auto group = variants_.group_of(update.leader, leaders);
    if (update.kind == Update::Kind::removed_sharer) {
      if (group == variants_.all_variants()) update.point->remove_sharer(update.address, update.number);
      continue;
    }
    auto& displaced_lines = update.node->displaced_lines;
    const auto granule = tree_.granule_number(update.address);
    if (update.kind == Update::Kind::displaced) {
      displaced_lines.add(granule, group);
      continue;
    }
    if (const Variants::Mask missing = displaced_lines.variants_of(granule) & group) {
      ++counters_.of_group(missing).levels[static_cast<std::size_t>(update.node->level)].victims_missed;
      displaced_lines.remove(granule, missing);
    }
  }
  updates_.clear();
}

}  // namespace nearfield::sim
