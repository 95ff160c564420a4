// Accesses of devices (DMA) to a node's memory, one granule at a time. Updates or invalidates the copies in caches.
#pragma once

#include <span>

#include "sim/memory/cache_contents.hpp"

namespace nearfield::sim {

class DeviceAccesses {
 public:
  // `contents` must outlive this object.
  DeviceAccesses(CacheContents& contents, const Machine& machine)
      : contents_(contents), read_of_modified_(machine.nic ? machine.nic->read_of_modified : DmaRead::keep) {}

  void write_whole_granule(Address granule, const InjectionTarget& target);
  void write_partial_granule(Address granule);
  bool read_granule(Address granule);  // returns whether DRAM supplied the granule

 private:
  void remove_other_copies(std::span<CacheNode* const> holders, Address granule);
  void put_granule(std::span<CacheNode* const> holders, Address granule, const InjectionTarget& target);

  CacheContents& contents_;
  DmaRead read_of_modified_;
};

}  // namespace nearfield::sim
