// What happens to lines when a device reads or writes memory, when a core passes by its caches, and when a scenario
// empties them.
#include <algorithm>
#include <span>

#include "sim/memory/evictions.hpp"

namespace nearfield::sim {

// From all caches; counted there if a counter is given. Whether a copy was modified.
bool Hierarchy::remove_everywhere(Address unit, Count LevelCounts::* counter) {
  bool was_modified = false;
  for (auto& node : nodes_) {
    if (!node->used) continue;
    for (auto at = unit; at < unit + unit_; at += node->array.unit_bytes()) {
      const auto place = node->array.place(at);
      const auto way = node->array.find(place, at);
      if (!way) continue;
      const auto state = node->array.remove(way, at);
      was_modified |= (state & modified) != 0;
      if (counter == nullptr) continue;
      node->counts.injected_unused += (state & injected) != 0;
      node->counts.*counter += counter != &LevelCounts::write_backs || (state & modified);
    }
  }
  return was_modified;
}

void Hierarchy::flush(Address address) {
  if (remove_everywhere(address & ~(unit_ - 1), &LevelCounts::write_backs)) write_to_memory();
}

void Hierarchy::forget(Address address) { remove_everywhere(address & ~(unit_ - 1), nullptr); }

void Hierarchy::forget_everything() {
  for (auto& node : nodes_) {
    node->array.clear();
    node->victims.clear();
    node->used = false;
  }
}

void Hierarchy::miss_victim(Node& node, Address address) {
  node.counts.victims_missed += node.victims.erase(address & ~(unit_ - 1));
}

void Hierarchy::dma_write_whole(Address unit, const Placement& placement) {
  ++dram_.dma_writes;
  if (placement.level == Placement::memory) {
    remove_everywhere(unit, &LevelCounts::invalidations);
    return;
  }
  auto& target = cache_at(placement.core, placement.level);
  // Inclusive caches further out must have it, too; outermost first.
  std::array<Node*, most_cache_levels> places{};
  auto first = places.end();
  *--first = &target;
  for (auto* node = target.parent; node != nullptr; node = node->parent)
    if (node->inclusion == Inclusion::inclusive) *--first = node;
  const std::span<Node*> keep(first, places.end());
  for (auto& node : nodes_) {
    if (!node->used) continue;
    const bool stays = std::find(keep.begin(), keep.end(), node.get()) != keep.end();
    for (auto at = unit; at < unit + unit_; at += node->array.unit_bytes()) {
      const auto place = node->array.place(at);
      const auto way = node->array.find(place, at);
      if (!way) continue;
      const auto state = node->array.state(way, at);
      if (state & injected) ++node->counts.injected_unused;
      node->array.set_state(way, at, 0);
      if (stays) {
        if (node->knows_sharers) way.sharers() = 0;
        continue;
      }
      node->array.remove(way, at);
      ++node->counts.invalidations;
    }
  }
  // Line by line: an inclusive cache may hold fewer lines than the unit has.
  for (auto at = unit; at < unit + unit_; at += target.array.unit_bytes()) {
    for (auto* node : keep) {
      const auto place = node->array.place(at);
      const auto way = node->array.find(place, at);
      if (!way) {
        insert(*node, at, node == &target ? injected : 0, node == &target ? placement.ways : 0);
      } else {
        node->array.touch(way);
        node->array.set_state(way, at, node == &target ? injected : 0);
      }
      if (!node->knows_sharers || node == &target) continue;
      node->array.find_tag(place).sharers() |=
          static_cast<std::uint16_t>(1U << cache_at(placement.core, node->level - 1).number);
    }
    ++target.counts.injections;
  }
}

void Hierarchy::dma_write_part(Address unit) {
  // Modified data of the part that is not written must survive.
  bool was_modified = false;
  for (auto& node : nodes_)
    for (auto at = unit; node->used && at < unit + unit_; at += node->array.unit_bytes()) {
      const auto place = node->array.place(at);
      const auto way = node->array.find(place, at);
      if (!way || !(node->array.state(way, at) & modified)) continue;
      was_modified = true;
      ++node->counts.write_backs;
    }
  if (was_modified) write_to_memory();
  remove_everywhere(unit, &LevelCounts::invalidations);
  ++dram_.dma_writes;
}

bool Hierarchy::dma_read(Address unit) {
  bool was_modified = false, was_whole = false;  // in one cache
  for (auto& node : nodes_) {
    bool whole = node->used;
    for (auto at = unit; node->used && at < unit + unit_; at += node->array.unit_bytes()) {
      const auto place = node->array.place(at);
      const auto way = node->array.find(place, at);
      whole = whole && way;
      if (!way) continue;
      const auto before = node->array.state(way, at);
      auto state = static_cast<std::uint8_t>(before & ~injected);  // it is of use
      if (before & modified) {
        was_modified = true;
        if (read_of_modified_ != DmaRead::keep) {
          ++node->counts.write_backs;
          state &= static_cast<std::uint8_t>(~modified);
        }
      }
      if (state != before) node->array.set_state(way, at, state);
    }
    was_whole = was_whole || whole;
  }
  if (was_modified && read_of_modified_ != DmaRead::keep) {
    write_to_memory();
    if (read_of_modified_ == DmaRead::invalidate) remove_everywhere(unit, &LevelCounts::invalidations);
  }
  const bool from_dram = !was_modified && !was_whole;
  dram_.dma_reads += from_dram;
  return from_dram;
}

}  // namespace nearfield::sim
