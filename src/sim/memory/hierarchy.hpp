// Where lines are and in which state: all caches of a node, as a tree that meets at the memory, and the traffic to DRAM
// that an access makes. No time. memory.hpp says in words what happens.
#pragma once

#include <array>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sim/memory/cache_array.hpp"

namespace nearfield::sim {

// What accesses cost DRAM, in units.
struct Traffic {
  int reads = 0;
  int writes = 0;
};

inline constexpr int most_levels = 6;

class Hierarchy {
 public:
  explicit Hierarchy(const Machine& machine);

  // One access inside one line of the nearest cache.
  Found load(int core, Address address) {
    auto& nearest = on_way(core, 0);
    const auto place = nearest.array.place(address);
    const auto way = nearest.array.find(place, address);
    if (!way) return found_in_second(core, address, place) ? Found{1, false} : load_missed(core, address, place);
    hit(nearest, way, address);
    return {};
  }
  Found store(int core, Address address);
  // Of `count` accesses to one line the first is made, the others are hits or, where stores go on, stores further out.
  void repeat(int core, bool store, Address address, Count count);

  void flush(Address address);   // of all caches to memory, if it is modified, and removes it
  void forget(Address address);  // removes it, not counted
  void forget_everything();
  // Brings the unit into the caches of `core` from `level` outward: from which level (their number: memory), or -1 if
  // it is there already or another core has it.
  int prefetch(int core, int level, Address address);

  void dma_write_whole(Address unit, const Placement& placement);
  void dma_write_part(Address unit);
  bool dma_read(Address unit);  // whether DRAM supplied it

  // What the accesses since the last call of this cost DRAM.
  Traffic take_traffic() { return std::exchange(traffic_, {}); }

  Counts counts() const;  // without TLBs and pages
  DramCounts& dram_counts() { return dram_; }
  void reset_counts();
  std::uint64_t unit_bytes() const { return unit_; }
  std::uint64_t nearest_line_bytes() const { return nearest_line_; }
  int levels() const { return levels_; }
  Memory::Copy copy_in(int core, int level, Address address) const;
  void fetch_early(int core, Address address) const;  // the host may fetch what that access will need

 private:
  struct Node {
    Node(const Cache& cache, int level_of_it) : array(cache), level(level_of_it), inclusion(cache.inclusion) {
      through = cache.write == WritePolicy::through;
    }
    CacheArray array;
    int level;
    Inclusion inclusion;
    bool through;
    bool meeting = false;        // of several caches before it
    bool knows_absence = false;  // what it misses, none of the caches before it has; some of the unit neither
    bool knows_sharers = false;
    bool used = false;       // it ever held a line
    Node* parent = nullptr;  // nullptr: the memory
    int number = 0;          // among the parent's children
    std::vector<Node*> children;
    LevelCounts counts;
    std::unordered_set<Address> victims;  // lines that made room for injected ones, and were not missed yet
  };
  // What was found in caches of other cores.
  struct Others {
    bool any = false;       // the line
    bool part = false;      // some of the unit
    bool modified = false;  // the line
    bool part_modified = false;
    bool unwritten = false;  // mesi: modified lines of the unit that the cache where the ways meet does not have
    bool shared = true;      // all that was found
  };
  enum class Ask { share, give_up };

  using Way = std::array<Node*, most_levels>;  // of one core to memory
  Node& on_way(int core, int level) const {
    return *ways_[static_cast<std::size_t>(core)][static_cast<std::size_t>(level)];
  }
  // Of one core's access: where its line belongs at every level.
  using Places = std::array<CacheArray::Place, most_levels>;

  void build(const Machine& machine);
  NEARFIELD_INNERMOST void hit(Node& node, const CacheArray::Way& way, Address address) {
    ++node.counts.hits;
    node.array.touch(way);
    if (node.array.state(way, address) & (injected | prefetched)) [[unlikely]]
      node.array.drop_state(way, address, injected | prefetched);
  }
  void miss(Node& node, Address address) {
    ++node.counts.misses;
    if (watches_victims_) [[unlikely]]
      node.counts.victims_missed += node.victims.erase(address & ~(unit_ - 1));
  }
  // The commonest miss, which load_missed() would come to by a longer way: the second cache has the line in no special
  // state, no other core has it, and what must make room in the nearest cache just goes.
  NEARFIELD_INNERMOST bool found_in_second(int core, Address address, const CacheArray::Place& place) {
    if (!plain_) return false;
    auto& second = on_way(core, 1);
    const auto there = second.array.find_tag(second.array.place(address));
    auto& nearest = on_way(core, 0);
    const auto room = nearest.array.room(place);
    if (!there || (there.flags() & ~modified) || room.flags() || watches_victims_) return false;
    if (second.meeting) {
      const auto own = static_cast<std::uint16_t>(1U << nearest.number);
      if (there.sharers() & ~own) return false;
      there.sharers() = own;
    }
    nearest.used = true;
    ++nearest.counts.misses;
    nearest.counts.evictions += !room.empty();
    nearest.array.fill_plain(place, room);
    ++second.counts.hits;
    second.array.touch(there);
    return true;
  }
  NEARFIELD_INNERMOST std::uint8_t hit_or_take(Node& node, const CacheArray::Way& way, Address address);

  Found load_missed(int core, Address address, const CacheArray::Place& nearest);
  std::uint8_t with_others(std::uint8_t state, const Others& others);
  Found store_missed(int core, int level, Address address, const CacheArray::Place& place);
  void store_hit(int core, Node& node, const CacheArray::Way& way, Address address);
  Found store_through(int core, Address address);

  NEARFIELD_INNERMOST void fill(int core, int first, int end, Address address, const Places& places, std::uint8_t state,
                                bool stored = false, int shared_before = 0);
  NEARFIELD_INNERMOST void put(Node& node, const CacheArray::Place& place, Address address, std::uint8_t state,
                               unsigned sharer);
  void insert(Node& node, Address address, std::uint8_t state, int limit = 0);
  NEARFIELD_INNERMOST void make_room(Node& node, const CacheArray::Way& way, bool injecting);
  NEARFIELD_INNERMOST void evict(Node& node, Address address, std::uint8_t state);
  void write_to_memory();

  bool may_be_in_others(const Node& node, const CacheArray::Way& way, int own) const {
    if (!node.meeting) return false;
    return !node.knows_sharers || (way.sharers() & ~(1U << own)) != 0;
  }
  Others ask_others_below(Node& node, const Node& own, Address address, Ask ask);
  Others ask_others_at_memory(const Node& own, Address address, Ask ask);
  void ask_in(Node& node, Node* met, Address address, Ask ask, Others& found);
  void remove_from_others_beyond(int core, int level, Address address);
  bool remove_before(Node& node, const CacheArray::Way& way, Address address);
  bool remove_in(Node& node, Address address, std::uint64_t bytes);
  bool remove_everywhere(Address unit, Count LevelCounts::* counter);
  bool elsewhere(int core, Address unit) const;

  int levels_ = 0;
  std::uint64_t unit_ = 0;
  std::uint64_t nearest_line_ = 0;
  Coherence coherence_;
  DmaRead read_of_modified_ = DmaRead::keep;
  std::vector<std::unique_ptr<Node>> nodes_;  // the last level's first
  std::vector<Way> ways_;                     // per core
  std::vector<Node*> last_;                   // the caches that meet at the memory
  DramCounts dram_;
  Count transfers_ = 0;
  Traffic traffic_;
  int fetched_early_from_ = 0;
  bool plain_ = false;  // the nearest two caches are lru, without sub-blocks, not exclusive, and know their sharers
  bool watches_victims_ = false;  // a device ever put a line into a cache
};

}  // namespace nearfield::sim
