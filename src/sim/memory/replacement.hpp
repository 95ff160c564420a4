// Replacement policies: the choice of the line to evict from a full set. Most policies keep their state in the ages of
// the set's way groups (16 bytes per 16 ways); for the others, keeps_state_in_sets() returns false. Empty ways are
// always filled first.
//
// A set is initially all zeros. Only for lru, whose ages must differ, the cache calls prepare_set() before the first
// fill. For a way that holds a line, the cache calls touch() when the line is used or filled, and invalidate() when the
// line is removed. choose_victim() is called if no way is empty; with lru it is always called, since lru's oldest way
// is an empty one if there is any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/memory/way_group.hpp"

namespace nearfield::sim {

class Replacement {
 public:
  virtual ~Replacement() = default;
  virtual void prepare_set(WayGroup* set, int ways) = 0;
  virtual void touch(WayGroup* set, int ways, int way) = 0;
  virtual void invalidate(WayGroup* set, int ways, int way) = 0;
  virtual int choose_victim(WayGroup* set, int ways) = 0;
  // Same as choose_victim(), among the first `limit` ways only.
  virtual int choose_victim_among_first(WayGroup* set, int ways, int limit) = 0;
  virtual bool keeps_state_in_sets() const { return true; }
};

struct ReplacementSpec {
  std::string name;
  std::string summary;
  bool power_of_two_ways;
  std::unique_ptr<Replacement> (*make)();
};

extern const ReplacementSpec lru_replacement, tree_plru_replacement;

// Returns all replacement policies. The first one, lru, is the default; caches call it inline.
const std::vector<const ReplacementSpec*>& all_replacements();

}  // namespace nearfield::sim
