// Reads and writes memory on behalf of a device, and updates the copies in caches accordingly, one granule at a time.
#pragma once

#include <span>

#include "sim/memory/cache_tree.hpp"

namespace nearfield::sim {

class Devices {
 public:
  // `tree` must outlive this object.
  Devices(CacheTree& tree, const Machine& machine)
      : tree_(tree), read_of_modified_(machine.nic ? machine.nic->read_of_modified : DmaRead::keep) {}

  void write_whole(Address granule, const InjectionTarget& target);
  void write_part(Address granule);
  bool read(Address granule);  // returns whether DRAM supplied it

 private:
  void remove_but(std::span<CacheNode* const> holders, Address granule);
  void put(std::span<CacheNode* const> holders, Address granule, const InjectionTarget& target);

  CacheTree& tree_;
  DmaRead read_of_modified_;
};

}  // namespace nearfield::sim
