// One cache of the reference model (reference_memory.hpp): which lines it has, and which one leaves when another arrives.
#pragma once

#include <list>
#include <vector>

#include "machine/machine.hpp"
#include "sim/memory/memory.hpp"

namespace nearfield::sim {

class ReferenceCache {
 public:
  struct State {
    bool modified = false;
    bool shared = false;           // with caches that do not have this one on their path
    bool injected_unused = false;  // injected by a device, and not used since
  };
  struct Part {
    Address address = 0;  // of its first byte
    State state;
  };

  ReferenceCache(const Cache& geometry, int level_, int first_core_, int last_core_);

  Address part_bytes() const { return static_cast<Address>(geometry_->line_bytes / geometry_->sub_blocks); }
  // Returns the part that holds `address`; nullptr if the cache does not have it.
  Part* find(Address address);
  std::vector<Part*> find_all(Address first, Address bytes);  // in a range
  void touch(Address address);
  void remove(Address address);
  void remove_all();
  // Fills the part that holds `address` (into one of the first `among_ways` ways, if not 0). Returns the parts of the
  // line that must leave, which are no longer in the cache.
  std::list<Part> put(Address address, const State& state, int among_ways = 0);

  int level = 0;
  int first_core = 0, last_core = 0;

 private:
  struct Line {
    Address address = 0;
    int way = 0;
    std::list<Part> parts;  // the valid ones; never empty
  };
  struct Set {
    std::list<Line> lines;        // most recently used first
    std::vector<int> empty_ways;  // the last emptied one at the end
    std::vector<bool> tree;       // of tree-plru: node n has children 2n and 2n + 1; true: the victim is on the right
  };

  Set& set_of(Address address);
  int take_way(Set& set, int among_ways, Line& victim) const;
  static void update_plru(Set& set, int way, int ways);
  static int plru_victim(const Set& set, int ways);

  const Cache* geometry_;
  std::vector<Set> sets_;
};

}  // namespace nearfield::sim
