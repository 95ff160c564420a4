// The fast path of a core's access: through two caches of the commonest kinds and perhaps a victim cache beyond them,
// for as long as no other core has the line. What it does to states and counts is what load_any() and store_any() would
// do, step by step in the same order: it only leaves out what cannot be there, so it asks nobody, and nothing that it
// holds is shared. It looks first, and where something is there after all, or a set is not the same under all variants,
// it has changed nothing and says `slow`.
#pragma once

#include "sim/memory/evictions.hpp"
#include "sim/memory/hierarchy.hpp"

namespace nearfield::sim {

template <class Shape>
class FastPath {
 public:
  using Use = Hierarchy::Use;
  using Place = CacheView::Place;
  static constexpr int slow = -1;

  NEARFIELD_INNERMOST FastPath(Hierarchy& hierarchy, const Hierarchy::Path& path)
      : contents_(hierarchy.contents_), path_(path), counted_(contents_.variants().common()) {}

  // Makes one access inside one line of the nearest cache. Returns the level that had the line.
  NEARFIELD_INNERMOST int access(bool store, Address address) {
    if constexpr (!Shape::fast) return slow;
    const auto near = path_.first.locate(address);
    if (Shape::several && !path_.first.is_common(near)) return slow;
    auto& set = *near.set;
    const auto found = path_.first.find(near);
    const auto lane = static_cast<unsigned>(std::countr_zero(found));
    if (!store) {
      if (!found) return miss<Use::load>(address, near);
      hit_nearest(set, lane);
      if (set.flags[lane] & (injected | prefetched)) [[unlikely]]
        set.flags[lane] &= static_cast<std::uint8_t>(~(injected | prefetched));
      return 0;
    }
    if (path_.through) return store_through(address, near, found);
    if (!found) return miss<Use::store>(address, near);
    if (set.flags[lane] & shared) return slow;
    hit_nearest(set, lane);
    if (set.flags[lane] != modified) set.flags[lane] = modified;
    return 0;
  }
  // Counts `count` more accesses to the line of the last access, which was fast and had that result: hits, or stores
  // that go on through the nearest cache.
  NEARFIELD_INNERMOST void repeat(bool store, Count count) {
    if (!store || !path_.through) {
      counted_.levels[0].hits += count;
      return;
    }
    (stored_in_nearest_ ? counted_.levels[0].hits : counted_.levels[0].misses) += count;
    counted_.levels[1].hits += count;
  }
  // Brings a line into the second cache. Returns where it came from, 0 if it is there already.
  int prefetch(Address address) {
    if constexpr (!Shape::victims) return slow;
    const auto where = path_.second.locate(address);
    if (Shape::several && !path_.second.is_common(where)) return slow;
    if (path_.second.find(where)) return 0;
    return fetch<Use::prefetch>(address, {}, where);
  }

 private:
  NEARFIELD_INNERMOST void hit_nearest(Block& set, unsigned lane) {
    ++counted_.levels[0].hits;
    path_.first.touch(set, lane);
  }

  NEARFIELD_INNERMOST int store_through(Address address, const Place& near, std::uint32_t found) {
    if (!found && !is_no_victim(0, address)) return slow;
    const int level = miss<Use::store_through>(address, near);
    if (level == slow) return slow;
    stored_in_nearest_ = found != 0;
    if (!found) {
      ++counted_.levels[0].misses;
      return level;
    }
    const auto lane = static_cast<unsigned>(std::countr_zero(found));
    hit_nearest(*near.set, lane);
    if (near.set->flags[lane] != 0) near.set->flags[lane] = 0;
    return level;
  }

  // Makes an access that missed the nearest cache, or a store through it.
  template <Use use>
  NEARFIELD_INNERMOST int miss(Address address, const Place& near) {
    const auto where = path_.second.locate(address);
    if (Shape::several && !path_.second.is_common(where)) return slow;
    const auto found = path_.second.find(where);
    if (!found) return fetch<use>(address, near, where);
    const auto lane = static_cast<unsigned>(std::countr_zero(found));
    auto& set = *where.set;
    if ((set.flags[lane] & shared) | (set.sharers[lane] & ~path_.own)) [[unlikely]]
      return slow;
    if (use != Use::store_through && !(has_room(near, where, lanes_per_block) && is_no_victim(0, address))) return slow;
    ++counted_.levels[1].hits;
    path_.second.touch(set, lane);
    if (use == Use::store_through) {
      if (set.flags[lane] != modified) set.flags[lane] = modified;
      return 1;
    }
    if (set.flags[lane] & ~modified) set.flags[lane] &= modified;
    if (set.sharers[lane] != path_.own) set.sharers[lane] = path_.own;
    fill_nearest(near, use == Use::store ? modified : 0);
    return 1;
  }

  // Fetches the line, which the second cache misses, from the victim cache or from memory.
  template <Use use>
  NEARFIELD_INNERMOST int fetch(Address address, const Place& near, const Place& where) {
    if constexpr (!Shape::victims) return slow;
    constexpr bool counts = use != Use::prefetch;  // hits and misses
    constexpr bool fills_nearest = use == Use::load || use == Use::store;
    const auto &second = path_.second, &third = path_.third;
    // ---- what is there
    const auto there = third.locate(address);
    if (Shape::several && !third.is_common(there)) return slow;
    const auto found = third.find(there);
    const auto lane = static_cast<unsigned>(std::countr_zero(found));
    const bool hits = found && has_part(there, lane, address);
    const unsigned state = hits ? state_of(there, lane, address) : 0;
    auto& set = *where.set;
    const auto room = second.room(set);
    const bool is_full = set.tag[room] != no_tag;
    if ((state & shared) || (is_full && (set.flags[room] & (shared | injected)))) return slow;
    const Address evicted = second.address_of(where, room);
    Place goes_to;
    if (is_full) {
      goes_to = third.locate(evicted);
      if (Shape::several && !can_evict(where, room, evicted, goes_to)) return slow;
    }
    if (fills_nearest && !(has_room(near, where, room) && is_no_victim(0, address))) return slow;
    if (counts && !(is_no_victim(1, address) && (hits || is_no_victim(2, address)))) return slow;
    if (path_.meets && !nobody_else_has(address, hits)) return slow;

    // ---- what is done
    if (counts) ++counted_.levels[1].misses;
    if (hits) {
      counted_.levels[2].hits += counts;
      take(there, lane, address, counts);
    } else {
      counted_.levels[2].misses += counts;
      ++(counts ? counted_.dram.reads : counted_.dram.prefetches);
    }
    contents_.use(*path_.second_node);
    if (is_full) give_to_victims(where, room, evicted, goes_to);
    const bool is_modified = use == Use::store_through || (state & modified);
    const unsigned marks = is_modified * unsigned{modified} + (use == Use::prefetch) * unsigned{prefetched};
    second.fill(where, room, static_cast<std::uint8_t>(marks));
    set.sharers[room] = path_.second_node->knows_sharers ? path_.own : 0;
    counted_.levels[1].prefetches += use == Use::prefetch;
    if (fills_nearest) fill_nearest(near, use == Use::store ? modified : 0);
    return hits ? 2 : 3;
  }

  // ---- looking first

  // Returns whether the nearest cache can be filled without asking anybody: the line that makes room is dropped, or the
  // second cache has it, in another lane than `leaves`, which is about to be empty.
  NEARFIELD_INNERMOST bool has_room(const Place& near, const Place& where, unsigned leaves) const {
    const auto& first = path_.first;
    const auto room = first.room(*near.set);
    const unsigned flags = near.set->flags[room];
    if (!(flags & (modified | injected)) || near.set->tag[room] == no_tag) [[likely]]
      return path_.nearest_node->used;
    if (flags & injected) return false;
    const auto its = path_.second.locate(first.address_of(near, room));
    if (Shape::several && !path_.second.is_common(its)) return false;
    const auto found = path_.second.find(its);
    return found && (its.set != where.set || path_.includes_nearest || !(found >> leaves & 1));
  }
  // Returns whether no line that made room for an injected one is missed in this level's cache.
  NEARFIELD_INNERMOST bool is_no_victim(std::size_t level, Address address) const {
    return !contents_.watches_victims() || contents_.is_no_victim(path_.node(level), address);
  }
  // Returns whether the line that makes room in the second cache touches only sets that are the same for all variants.
  bool can_evict(const Place& where, unsigned room, Address evicted, const Place& goes_to) const {
    if (!path_.third.is_common(goes_to)) return false;
    if (!path_.includes_nearest) return true;
    return !(where.set->sharers[room] & ~path_.own) && path_.first.is_common(path_.first.locate(evicted));
  }
  // Asks the directories about a line that comes from the victim cache, or from memory if that does not have it.
  bool nobody_else_has(Address address, bool is_victim) {
    if (Shape::several) contents_.variants().begin_common();
    auto &before_last = path_.third_node->before, &at_memory = contents_.at_memory();
    if (!contents_.enters_alone(before_last, *path_.second_node, address)) return false;
    if (!is_victim && !contents_.enters_alone(at_memory, *path_.third_node, address)) return false;
    if (before_last.has_directory) contents_.count_searches(before_last.searches, path_.second_node->searches);
    if (!is_victim && at_memory.has_directory) contents_.count_searches(at_memory.searches, path_.third_node->searches);
    return true;
  }

  // ---- the victim cache, whose lines may have sub-blocks

  NEARFIELD_INNERMOST bool has_part(const Place& there, unsigned lane, Address address) const {
    return !Shape::parts || (there.set->parts[lane][0] & path_.third.part_of(address));
  }
  NEARFIELD_INNERMOST unsigned state_of(const Place& there, unsigned lane, Address address) const {
    if (!Shape::parts) return there.set->flags[lane];
    const unsigned part = path_.third.part_of(address), high = part << 4;
    const unsigned valid = there.set->parts[lane][0], its_modified = there.set->parts[lane][1];
    return (its_modified & part ? unsigned{modified} : 0U) | (valid & high ? unsigned{shared} : 0U) |
           (its_modified & high ? unsigned{injected} : 0U);
  }
  NEARFIELD_INNERMOST void take(const Place& there, unsigned lane, Address address, bool is_use) const {
    if (Shape::parts) {
      auto& valid = there.set->parts[lane][0];
      valid = static_cast<std::uint8_t>(valid & ~path_.third.part_of(address));
      if (valid & 0x0F) {
        if (is_use) path_.third.touch(*there.set, lane);
        return;
      }
    }
    if (path_.third.tree && is_use) path_.third.touch(*there.set, lane);
    path_.third.empty(*there.set, lane);
  }
  // Moves a line that makes room in the second cache into the victim cache.
  NEARFIELD_INNERMOST void give_to_victims(const Place& where, unsigned room, Address evicted, const Place& goes_to) {
    bool is_modified = (where.set->flags[room] & modified) != 0;
    if (path_.includes_nearest) is_modified |= remove_before(where, room, evicted);
    ++counted_.levels[1].evictions;
    counted_.levels[1].write_backs += is_modified;
    contents_.use(*path_.third_node);
    const auto found = path_.third.find(goes_to);
    auto lane = static_cast<unsigned>(std::countr_zero(found));
    if (!found) {
      lane = path_.third.room(*goes_to.set);
      if (goes_to.set->tag[lane] != no_tag) drop(goes_to, lane);
    }
    add(goes_to, lane, evicted, is_modified);
  }
  // Removes a line that the second cache evicts from the caches before it; returns whether one held it modified.
  NEARFIELD_INNERMOST bool remove_before(const Place& where, unsigned room, Address evicted) {
    const unsigned sharers = where.set->sharers[room];
    if (sharers & ~path_.own) return contents_.remove_before(*path_.second_node, {where.set, room}, evicted);
    if (sharers == 0) return false;
    const auto near = path_.first.locate(evicted);
    const auto found = path_.first.find(near);
    if (!found) [[likely]]
      return false;
    const auto lane = static_cast<unsigned>(std::countr_zero(found));
    const unsigned state = near.set->flags[lane];
    path_.first.empty(*near.set, lane);
    ++counted_.levels[0].back_invalidations;
    counted_.levels[0].injected_unused += (state & injected) != 0;
    return (state & modified) != 0;
  }
  // Evicts what the victim cache holds there to memory.
  NEARFIELD_INNERMOST void drop(const Place& place, unsigned lane) {
    unsigned units = 1, its_modified = place.set->flags[lane] & modified,
             its_injected = place.set->flags[lane] & injected;
    if (Shape::parts) {
      const unsigned valid = place.set->parts[lane][0] & 0x0FU, both = place.set->parts[lane][1];
      units = ones(valid);
      its_modified = ones(both & valid);
      its_injected = ones(both >> 4 & valid);
    } else {
      its_injected = its_injected != 0;
    }
    counted_.levels[2].evictions += units;
    counted_.levels[2].injected_unused += its_injected;
    counted_.levels[2].write_backs += its_modified;
    if (its_modified) contents_.write_to_memory(its_modified);
  }
  static unsigned ones(unsigned four_bits) { return 0x4332322132212110ULL >> 4 * four_bits & 7; }
  // Adds a line that is modified or in no special state; a line that is there stays modified.
  NEARFIELD_INNERMOST void add(const Place& place, unsigned lane, Address address, bool is_modified) const {
    auto& set = *place.set;
    const bool is_new = set.tag[lane] != place.tag;
    set.tag[lane] = place.tag;
    if (!Shape::parts) {
      const unsigned before = is_new ? 0U : set.flags[lane] & modified;
      set.flags[lane] = static_cast<std::uint8_t>(before | is_modified);
    } else {
      const unsigned part = path_.third.part_of(address), both = part * 0x11U, high = part * 0x10U;
      auto &valid = set.parts[lane][0], &its_modified = set.parts[lane][1];
      const unsigned valid_before = is_new ? 0U : valid, modified_before = is_new ? 0U : its_modified;
      const unsigned before = valid_before & part ? modified_before & part : 0U;
      valid = static_cast<std::uint8_t>((valid_before & ~high) | part);
      its_modified = static_cast<std::uint8_t>((modified_before & ~both) | before | (is_modified ? part : 0U));
    }
    path_.third.touch(set, lane);
  }

  // Fills the nearest cache; has_room() said that it can.
  NEARFIELD_INNERMOST void fill_nearest(const Place& near, std::uint8_t state) {
    const auto& first = path_.first;
    ++counted_.levels[0].misses;
    const auto room = first.room(*near.set);
    if (near.set->tag[room] != no_tag) {
      ++counted_.levels[0].evictions;
      if (near.set->flags[room] & modified) [[unlikely]]
        write_back_to_second(first.address_of(near, room));
    }
    first.fill(near, room, state);
  }
  void write_back_to_second(Address address) {
    ++counted_.levels[0].write_backs;
    const auto where = path_.second.locate(address);
    where.set->flags[std::countr_zero(path_.second.find(where))] |= modified;
  }

  Contents& contents_;
  const Hierarchy::Path& path_;
  Tally& counted_;
  bool stored_in_nearest_ = false;
};

}  // namespace nearfield::sim
