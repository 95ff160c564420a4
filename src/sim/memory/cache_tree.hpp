// Keeps the lines that the caches of a node hold. The caches are a tree that meets at the memory. This file knows how a
// line comes in, where the line goes that makes room for it (memory.hpp, point 1), and the traffic to DRAM that this
// makes. It does not know who asks for a line, who else has it and how long that takes.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/memory/cache_array.hpp"
#include "sim/memory/directory.hpp"
#include "sim/memory/injection_victims.hpp"

namespace nearfield::sim {

struct CacheNode;

// A place where the paths of several cores meet: in a cache that they share or at the memory.
struct Meeting {
  std::vector<CacheNode*> caches;  // right before it
  Searches searches{};             // among all that are before it
  // In a large machine, a directory of the caches right before it that may have a unit. As long as only one of them
  // (`first`) ever had a line, there are no holders yet.
  bool has_directory = false;
  const CacheNode* first = nullptr;
  std::unique_ptr<Holders> holders;
};

// One cache and its place in the tree.
struct CacheNode {
  CacheNode(const Cache& cache, int level_of_it, Variants* variants, bool ways_matter)
      : array(cache, variants, ways_matter),
        level(level_of_it),
        inclusion(cache.inclusion),
        through(cache.write == WritePolicy::through) {}
  CacheArray array;
  int level;
  Inclusion inclusion;
  bool through;                // it writes through
  bool meeting = false;        // several caches are before it
  bool knows_absence = false;  // caches before it have no part of a unit that it misses
  bool knows_sharers = false;
  bool is_simple = false;       // nothing is before it, and its lines are as long as its parent's
  bool used = false;            // it ever held a line
  CacheNode* parent = nullptr;  // nullptr: the memory
  int number = 0;               // among those before the same meeting point
  Meeting before;               // the caches right before this one
  Searches searches{};          // among this cache and those before it
  Victims victims;

  // Returns this cache's bit among the sharers of its parent's lines.
  std::uint16_t bit() const { return static_cast<std::uint16_t>(1U << (number & 15)); }
};

class Contents {
 public:
  using Caches = std::array<CacheNode*, most_cache_levels>;  // of one core, from the nearest to the memory

  // Throws std::invalid_argument, which names the cache, for an impossible geometry. `ways_matter`: a device may be
  // limited to some ways.
  explicit Contents(const Machine& machine, int variants = 1, bool ways_matter = false);

  // ---- variants
  // Every change of what caches hold happens in here: Variants::run.
  template <class Action>
  NEARFIELD_INNERMOST Variants::Actors act(const Variants::Alike& alike, Action&& action) {
    const auto actors = variants_.run(alike, action);
    if (!afterwards_.empty()) [[unlikely]]
      do_afterwards();
    return actors;
  }
  // The same for an action that is one under all variants.
  template <class Action>
  NEARFIELD_INNERMOST Variants::Actors act(Action&& action) {
    return act(variants_.all_alike(), action);
  }
  // For an action that looks at sets only that are the same under all variants.
  template <class Action>
  NEARFIELD_INNERMOST auto act_for_all(Action&& action) {
    variants_.begin_common();
    const auto result = action();
    if (!afterwards_.empty()) [[unlikely]]
      do_afterwards();
    return result;
  }
  Variants& variants() { return variants_; }
  const Variants& variants() const { return variants_; }

  int levels() const { return levels_; }
  std::uint64_t unit_bytes() const { return unit_; }
  std::uint64_t nearest_line_bytes() const { return nearest_line_; }
  Address unit_of(Address address) const { return address & ~(unit_ - 1); }
  std::uint64_t number_of(Address address) const { return address >> unit_shift_; }  // of its unit
  CacheNode& cache_at(int core, int level) const {
    return *caches_of_core_[static_cast<std::size_t>(core)][static_cast<std::size_t>(level)];
  }
  // Returns how many caches of that level ever held a line.
  std::size_t used_at(int level) const { return used_at_[static_cast<std::size_t>(level)]; }
  Meeting& at_memory() { return at_memory_; }  // of the last caches
  const Meeting& at_memory() const { return at_memory_; }

  // ---- which caches before a meeting point may have a unit
  // Must be called before the unit comes into `own` from beyond the meeting point, if that has a directory. Returns the
  // unit's holders, `own` among them; nothing if no cache but `own` can have anything.
  std::optional<Holders::Set> enters(Meeting& meeting, const CacheNode& own, Address address);
  // Does the same, and returns whether no other cache before the meeting point can have the unit.
  bool enters_alone(Meeting& meeting, const CacheNode& own, Address address) {
    if (!meeting.has_directory) return meeting.caches.size() <= 1;
    const auto holders = enters(meeting, own, address);
    return !holders || holders->is_only(own.number);
  }
  // Tells the host that the holders of the address's unit will be needed.
  NEARFIELD_INNERMOST void fetch_holders_early(const Meeting& meeting, Address address) const {
    if (meeting.holders) meeting.holders->fetch_early(number_of(address));
  }
  // Calls `function` with each cache right before the meeting point that may have the unit.
  template <class Function>
  void for_each_holder(const Meeting& meeting, Address unit, Function&& function);
  // This cache has the unit no longer, for whoever acts.
  void leaves(Meeting& meeting, Address unit, int number);
  void count_searches(const Searches& more, const Searches& less) {
    auto& searches = variants_.tally().searches;
    for (std::size_t level = 0; level < searches.size(); ++level) searches[level] += more[level] - less[level];
  }

  // ---- what an access finds in one cache
  NEARFIELD_INNERMOST void hit(CacheNode& node, const CacheArray::Way& way, Address address) {
    ++counts_of(node).hits;
    node.array.touch(way);
    if (node.array.state(way, address) & (injected | prefetched)) [[unlikely]]
      node.array.drop_state(way, address, injected | prefetched);
  }
  void miss(CacheNode& node, Address address) {
    ++counts_of(node).misses;
    if (watches_victims_ && !is_no_victim(node, address)) [[unlikely]]
      note({Afterwards::What::missed, variants_.acting(), unit_of(address), &node});
  }

  // Returns whether lines that made room for injected ones may be missed.
  bool watches_victims() const { return watches_victims_; }
  // Returns whether the line is none of those that made room in this cache.
  bool is_no_victim(const CacheNode& node, Address address) const { return node.victims.of(number_of(address)) == 0; }

  // ---- lines that come in
  // Puts a line that is not there yet into a cache that is not exclusive.
  NEARFIELD_INNERMOST void put(CacheNode& node, const CacheArray::SetAndTag& where, Address address, std::uint8_t state,
                               unsigned sharer);
  // Puts a line that may be there already into a cache. If `state` has the flag injected, a device does so, into the
  // first `limit` ways.
  void insert(CacheNode& node, Address address, std::uint8_t state) {
    insert(node, node.array.locate(address), address, state, 0);
  }
  void insert(CacheNode& node, const CacheArray::SetAndTag& where, Address address, std::uint8_t state, int limit);

  // ---- lines that go out (evictions.hpp)
  NEARFIELD_INNERMOST void evict(CacheNode& node, Address address, std::uint8_t state);
  // Evicts all units of a line at once; for a last cache that includes nothing.
  NEARFIELD_INNERMOST void drop(CacheNode& node, const CacheArray::Way& way);
  // Removes a line, which an inclusive cache evicts, from the caches before it; returns whether one held it modified.
  bool remove_before(CacheNode& node, const CacheArray::Way& way, Address address);
  // Removes a unit from all caches, each of which counts it in `counter` if that is given; returns whether a copy was
  // modified.
  bool remove_everywhere(Address unit, Count LevelCounts::* counter);
  void flush(Address address);   // removes the unit, and writes it to memory if it is modified
  void forget(Address address);  // removes the unit, and counts nothing
  void forget_everything();
  // Returns whether all that caches know is in their sets, so that others can take it.
  bool keeps_all_in_sets() const;
  // Copies what other contents, of the same machine, are under a variant. These must be empty, and for one variant.
  void take(const Contents& other, int variant);
  // Calls `function` with each cache that holds a part of the unit, its way and the address, for each part.
  template <class Function>
  void for_each_copy(Address unit, Function&& function) {
    for_each_copy_before(at_memory_, unit, function);
  }
  // A line comes into this cache.
  void use(CacheNode& node) {
    if (!node.used) [[unlikely]]
      first_use(node);
  }

  Memory::Copy copy_in(int variant, int core, int level, Address address) const;

  // ---- what is counted
  LevelCounts& counts_of(const CacheNode& node) {
    return variants_.tally().levels[static_cast<std::size_t>(node.level)];
  }
  void write_to_memory() {
    ++dram_counts().writes;
    ++writes_;
  }
  void write_to_memory(Count stores) {
    dram_counts().writes += stores;
    writes_ += static_cast<unsigned>(stores);
  }
  // Returns how many units were written to DRAM since the last call of this.
  unsigned take_writes() { return std::exchange(writes_, 0U); }
  void count_transfers(Count lines) { variants_.tally().transfers += lines; }  // from another core's cache
  DramCounts& dram_counts() { return variants_.tally().dram; }
  Counts counts(int variant) const;  // without TLBs and pages
  void reset_counts() { variants_.reset_counts(); }

 private:
  // What an action did that is put down when it is known which variants did it.
  struct Afterwards {
    enum class What { missed, made_room, left } what;
    int acting;
    Address unit;
    CacheNode* node = nullptr;
    Meeting* meeting = nullptr;
    int number = 0;
  };
  void note(const Afterwards& it);
  void do_afterwards();
  void build(const Machine& machine, bool ways_matter);
  void count_searches_of_all();
  void first_use(CacheNode& node);
  void add_lines(Meeting& meeting, int number, const CacheNode& node);
  void take_holders(Meeting& meeting, const Meeting& other);
  template <class Function>
  void for_each_copy_before(const Meeting& meeting, Address unit, Function&& function);
  NEARFIELD_INNERMOST void take_victim(CacheNode& node, Address address, std::uint8_t state);
  NEARFIELD_INNERMOST void make_room(CacheNode& node, const CacheArray::Way& way, bool injecting);
  void make_room_among_victims(CacheNode& node, const CacheArray::Way& way);
  bool remove_from_all(CacheNode& node, Address address);
  bool remove_in(CacheNode& node, Address address, std::uint64_t bytes);
  bool remove_line(CacheNode& node, Address address);

  Variants variants_;
  int levels_ = 0;
  std::uint64_t unit_ = 0;
  int unit_shift_ = 0;
  std::uint64_t nearest_line_ = 0;
  std::vector<std::unique_ptr<CacheNode>> nodes_;
  std::vector<Caches> caches_of_core_;
  std::array<std::size_t, most_cache_levels> used_at_{};
  Meeting at_memory_;
  unsigned writes_ = 0;
  std::vector<Afterwards> afterwards_;
  bool watches_victims_ = false;  // a device ever put a line into a cache
};

template <class Function>
void Contents::for_each_holder(const Meeting& meeting, Address unit, Function&& function) {
  if (meeting.holders) {
    meeting.holders->for_each(number_of(unit),
                              [&](int number) { function(*meeting.caches[static_cast<std::size_t>(number)]); });
  } else {
    for (auto* cache : meeting.caches)
      if (!meeting.has_directory || cache == meeting.first) function(*cache);
  }
}

template <class Function>
void Contents::for_each_copy_before(const Meeting& meeting, Address unit, Function&& function) {
  for_each_holder(meeting, unit, [&](CacheNode& node) {
    bool here = !node.knows_absence;
    for (auto at = unit; node.used && at < unit + unit_; at += node.array.unit_bytes())
      if (const auto way = node.array.search(at)) {
        here = true;
        function(node, way, at);
      }
    if (here) for_each_copy_before(node.before, unit, function);
  });
}

}  // namespace nearfield::sim
