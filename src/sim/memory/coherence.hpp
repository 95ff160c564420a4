// Asks the caches of other cores when one core loads or stores a line: memory.hpp, points 2 and 3. They are asked where
// the paths of both cores meet: in a shared cache or at the memory.
#pragma once

#include "sim/memory/cache_tree.hpp"

namespace nearfield::sim {

class Snooping {
 public:
  // The request to the asked caches: to keep their copies as shared ones, or to remove them.
  enum class Ask { share, give_up };
  // The copies that asked caches had.
  struct Others {
    bool any = false;       // the line
    bool part = false;      // some of the unit
    bool modified = false;  // the line
    bool part_modified = false;
    bool unwritten = false;  // mesi: modified lines of the unit that the cache where the paths meet does not have
    bool shared = true;      // all that was found
    int holder = 0;          // which of the last caches had the line, if they were asked
  };

  // `contents` must outlive this object.
  Snooping(Contents& contents, Coherence coherence) : contents_(contents), coherence_(coherence) {}

  // Returns whether caches before `node`, other than `own`, may have the line that it holds in `way`.
  static bool may_have(const CacheNode& node, const CacheArray::Way& way, const CacheNode& own) {
    if (!node.meeting) return false;
    return !node.knows_sharers || (way.sharers() & ~(1U << own.number)) != 0;
  }
  // Asks the caches before `node` other than `own`.
  Others ask(CacheNode& node, const CacheNode& own, Address address, Ask ask);
  // Asks the caches that meet that core's own at the memory.
  Others ask_at_memory(int core, Address address, Ask ask) {
    auto& meeting = contents_.at_memory();
    if (meeting.caches.size() == 1) return {};
    return ask_before(meeting, nullptr, contents_.cache_at(core, contents_.levels() - 1), address, ask);
  }
  // Removes every other copy after a store at `level`, out to the first cache whose copy was not shared: beyond that
  // cache there is none.
  void remove_beyond(int core, int level, Address address);
  // A load found the line in a cache, and others before that cache have it, too; returns the state with which it goes
  // inward.
  std::uint8_t state_with(const Others& others, std::uint8_t state);

 private:
  Others ask_sharers(CacheNode& node, const CacheNode& own, Address address, Ask ask);
  Others ask_before(Meeting& meeting, CacheNode* met, const CacheNode& own, Address address, Ask ask);
  bool ask_in(CacheNode& node, CacheNode* met, Address address, Ask ask, Others& found);
  bool answer(CacheNode& node, CacheNode* met, Address address, Ask ask, Others& found);

  Contents& contents_;
  Coherence coherence_;
};

}  // namespace nearfield::sim
