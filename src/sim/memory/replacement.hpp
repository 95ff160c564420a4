// Chooses the line of a full set that is evicted. A replacement is an object that its cache calls; it keeps its state
// in the ages of the set's way groups (16 bytes per 16 ways), or says that it does not. Empty ways are always filled
// first.
//
// A set begins with zeros; if a recency order needs other values, the cache calls prepare_set() before the first fill.
// Then, for a way that holds a line: touch() when it is used or filled; and invalidate() when its line is removed.
// choose_victim() is called only if no way is empty.
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
  // Chooses among the first `limit` ways only.
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

// The first one, lru, is the default, and the cache calls it inline.
const std::vector<const ReplacementSpec*>& all_replacements();

}  // namespace nearfield::sim
