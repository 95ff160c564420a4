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

class Hierarchy {
 public:
  explicit Hierarchy(const Machine& machine);

  // The caches of one core, as most of its accesses need them (fast_path.hpp).
  struct Path;
  const Path& path(int core) const { return paths_[static_cast<std::size_t>(core)]; }

  // One access inside one line of the nearest cache.
  Found load(const Path& path, Address address);
  Found store(const Path& path, Address address);
  // Of `count` accesses to one line the first is made, the others are hits or, where stores go on, stores further out.
  NEARFIELD_INNERMOST void repeat(const Path& path, bool store, Address address, Count count);

  void flush(Address address);   // of all caches to memory, if it is modified, and removes it
  void forget(Address address);  // removes it, not counted
  void forget_everything();
  // Brings the unit into the caches of `core` from `level` outward: from which level (their number: memory), or -1 if
  // it is there already or another core has it.
  int prefetch(int core, int level, Address address);

  void dma_write_whole(Address unit, const Placement& placement);
  void dma_write_part(Address unit);
  bool dma_read(Address unit);  // whether DRAM supplied it

  // Units that were written to DRAM since the last call of this.
  unsigned take_writes() { return std::exchange(writes_, 0U); }

  Counts counts() const;  // without TLBs and pages
  DramCounts& dram_counts() { return dram_; }
  void reset_counts();
  std::uint64_t unit_bytes() const { return unit_; }
  std::uint64_t nearest_line_bytes() const { return nearest_line_; }
  int levels() const { return levels_; }
  Memory::Copy copy_in(int core, int level, Address address) const;
  // ---- what the host may fetch while other accesses are simulated
  // How many accesses went as far as caches whose state is large for the host's own.
  Count went_far(int core) const {
    if (fetched_early_from_ == levels_) return 0;
    const auto& counts = cache_at(core, fetched_early_from_).counts;
    return counts.hits + counts.misses;
  }
  // What that access will need there; and, not as early, what a line that makes room for it will.
  NEARFIELD_INNERMOST void fetch_early(int core, Address address) const {
    for (int k = fetched_early_from_; k < levels_; ++k) cache_at(core, k).array.fetch_early(address);
  }
  NEARFIELD_INNERMOST void fetch_victim_early(const Path& path, Address address) const;

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
    bool is_simple = false;  // nothing is before it, and its lines are as long as its parent's
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

  using Caches = std::array<Node*, most_cache_levels>;  // of one core, from the nearest to the memory
  Node& cache_at(int core, int level) const {
    return *caches_of_core_[static_cast<std::size_t>(core)][static_cast<std::size_t>(level)];
  }
  // Of one core's access: where its line belongs at every level.
  using Places = std::array<CacheArray::Place, most_cache_levels>;

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
      miss_victim(node, address);
  }
  void miss_victim(Node& node, Address address);  // if it is one
  // ---- the fast path
  enum class Use { load, store, store_through, prefetch };  // the last one: into the second cache
  Path path_of(int core) const;
  static bool is_alone(const CacheArray::Way& way, const Path& path);
  NEARFIELD_INNERMOST void fill_nearest(const Path& path, CacheArray::Place place, std::uint8_t state);
  void evict_marked(Node& node, CacheArray::Way way);
  NEARFIELD_INNERMOST void give_to_victims(const Path& path, Address address, const CacheArray::Way& way);
  template <Use use>
  NEARFIELD_INNERMOST Found fast_miss(const Path& path, Address address, CacheArray::Place nearest);
  template <Use use>
  [[gnu::noinline]] int fetch_beyond_second(const Path& path, Address address, CacheArray::Place nearest,
                                            CacheArray::Place second);

  // ---- the slow path
  void repeat_through(int core, Address address, Count count);
  int prefetch_any(int core, int level, Address address);
  Found load_any(int core, Address address);
  Found store_any(int core, Address address);
  NEARFIELD_INNERMOST std::uint8_t hit_or_take(Node& node, const CacheArray::Way& way, Address address);

  Found load_missed(int core, Address address, CacheArray::Place nearest);
  std::uint8_t with_others(std::uint8_t state, const Others& others);
  Found store_missed(int core, int level, Address address, CacheArray::Place place);
  void store_hit(int core, Node& node, const CacheArray::Way& way, Address address);
  Found store_through(int core, Address address);
  Found store_at(int core, int level, Address address);

  NEARFIELD_INNERMOST void fill(int core, int first, int end, Address address, const Places& places, std::uint8_t state,
                                bool stored = false, int shared_before = 0);
  NEARFIELD_INNERMOST void put(Node& node, const CacheArray::Place& place, Address address, std::uint8_t state,
                               unsigned sharer);
  void insert(Node& node, Address address, std::uint8_t state, int limit = 0);
  NEARFIELD_INNERMOST void take_victim(Node& node, Address address, std::uint8_t state);
  NEARFIELD_INNERMOST void make_room(Node& node, const CacheArray::Way& way, bool injecting);
  void make_room_among_victims(Node& node, const CacheArray::Way& way);
  NEARFIELD_INNERMOST void drop(Node& node, const CacheArray::Way& way);
  NEARFIELD_INNERMOST void evict(Node& node, Address address, std::uint8_t state);
  void write_to_memory();

  bool may_be_in_others(const Node& node, const CacheArray::Way& way, int own) const {
    if (!node.meeting) return false;
    return !node.knows_sharers || (way.sharers() & ~(1U << own)) != 0;
  }
  Others ask_others_below(Node& node, const Node& own, Address address, Ask ask);
  Others ask_others_at_memory(const Node& own, Address address, Ask ask);
  void ask_in(Node& node, Node* met, Address address, Ask ask, Others& found);
  bool answer(Node& node, Node* met, Address address, Ask ask, Others& found);
  void remove_from_others_beyond(int core, int level, Address address);
  bool remove_before(Node& node, const CacheArray::Way& way, Address address);
  bool remove_from_all(Node& node, Address address);
  bool remove_in(Node& node, Address address, std::uint64_t bytes);
  NEARFIELD_INNERMOST bool remove_line(Node& node, Address address);
  bool remove_everywhere(Address unit, Count LevelCounts::* counter);
  bool elsewhere(int core, Address unit) const;

  int levels_ = 0;
  std::uint64_t unit_ = 0;
  std::uint64_t nearest_line_ = 0;
  Coherence coherence_;
  DmaRead read_of_modified_ = DmaRead::keep;
  std::vector<std::unique_ptr<Node>> nodes_;  // the last level's first
  std::vector<Caches> caches_of_core_;
  std::vector<Path> paths_;  // likewise
  std::vector<Node*> last_;  // the caches that meet at the memory
  DramCounts dram_;
  Count transfers_ = 0;
  unsigned writes_ = 0;
  int fetched_early_from_ = 0;
  bool watches_victims_ = false;  // a device ever put a line into a cache
};

struct Hierarchy::Path {
  int core;
  Node *nearest, *second, *victims;  // the last one, if it is there: an exclusive cache, and no other one is beyond
  std::uint16_t own;                 // the nearest one's bit among the sharers
  bool is_fast = false;              // of its first two caches
};

}  // namespace nearfield::sim
