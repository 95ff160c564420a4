#include "sim/memory/devices.hpp"

#include <algorithm>

namespace nearfield::sim {

void Devices::write_whole(Address unit, const Placement& placement) {
  ++contents_.dram_counts().dma_writes;
  if (placement.level == Placement::memory) {
    contents_.remove_everywhere(unit, &LevelCounts::invalidations);
    return;
  }
  auto& target = contents_.cache_at(placement.core, placement.level);
  // Inclusive caches further out must have it, too; outermost first.
  std::array<CacheNode*, most_cache_levels> nodes{};
  auto first = nodes.end();
  *--first = &target;
  for (auto* node = target.parent; node != nullptr; node = node->parent)
    if (node->inclusion == Inclusion::inclusive) *--first = node;
  const std::span<CacheNode* const> kept(first, nodes.end());
  remove_but(kept, unit);
  for (const auto* node = &target; node != nullptr; node = node->parent) {
    auto& meeting = node->parent ? node->parent->before : contents_.at_memory();
    if (meeting.has_directory) contents_.enters(meeting, *node, unit);
  }
  put(kept, unit, placement);
}

// Removes all copies, except that caches which are about to get the unit keep theirs, in no special state.
void Devices::remove_but(std::span<CacheNode* const> kept, Address unit) {
  contents_.for_each_copy(unit, [&](CacheNode& node, const CacheArray::Way& way, Address at) {
    if (node.array.state(way, at) & injected) ++contents_.counts_of(node).injected_unused;
    node.array.set_state(way, at, 0);
    if (std::find(kept.begin(), kept.end(), &node) != kept.end()) {
      if (node.knows_sharers) way.sharers() = 0;
      return;
    }
    node.array.remove(way, at);
    ++contents_.counts_of(node).invalidations;
  });
}

// Goes line by line, since an inclusive cache may hold fewer lines than the unit has.
void Devices::put(std::span<CacheNode* const> kept, Address unit, const Placement& placement) {
  auto& target = *kept.back();
  for (auto at = unit; at < unit + contents_.unit_bytes(); at += target.array.unit_bytes()) {
    for (auto* node : kept) {
      const auto where = node->array.locate(at);
      const auto way = node->array.find(where, at);
      if (!way) {
        contents_.insert(*node, where, at, node == &target ? injected : 0, node == &target ? placement.ways : 0);
      } else {
        node->array.touch(way);
        node->array.set_state(way, at, node == &target ? injected : 0);
      }
      if (!node->knows_sharers || node == &target) continue;
      node->array.find_tag(where).sharers() |= contents_.cache_at(placement.core, node->level - 1).bit();
    }
    ++contents_.counts_of(target).injections;
  }
}

// Writes modified copies to memory first, because data beside the written part must survive.
void Devices::write_part(Address unit) {
  bool was_modified = false;
  contents_.for_each_copy(unit, [&](CacheNode& node, const CacheArray::Way& way, Address at) {
    if (!(node.array.state(way, at) & modified)) return;
    was_modified = true;
    ++contents_.counts_of(node).write_backs;
  });
  if (was_modified) contents_.write_to_memory();
  contents_.remove_everywhere(unit, &LevelCounts::invalidations);
  ++contents_.dram_counts().dma_writes;
}

bool Devices::read(Address unit) {
  bool was_modified = false, was_whole = false;  // in one cache
  const CacheNode* last = nullptr;
  std::uint64_t held = 0;  // bytes of the unit in that cache
  contents_.for_each_copy(unit, [&](CacheNode& node, const CacheArray::Way& way, Address at) {
    held = &node == last ? held + node.array.unit_bytes() : node.array.unit_bytes();
    last = &node;
    was_whole = was_whole || held == contents_.unit_bytes();
    const auto before = node.array.state(way, at);
    auto state = static_cast<std::uint8_t>(before & ~injected);  // it is of use
    if (before & modified) {
      was_modified = true;
      if (read_of_modified_ != DmaRead::keep) {
        ++contents_.counts_of(node).write_backs;
        state &= static_cast<std::uint8_t>(~modified);
      }
    }
    if (state != before) node.array.set_state(way, at, state);
  });
  if (was_modified && read_of_modified_ != DmaRead::keep) {
    contents_.write_to_memory();
    if (read_of_modified_ == DmaRead::invalidate) contents_.remove_everywhere(unit, &LevelCounts::invalidations);
  }
  const bool from_dram = !was_modified && !was_whole;
  contents_.dram_counts().dma_reads += from_dram;
  return from_dram;
}

}  // namespace nearfield::sim
