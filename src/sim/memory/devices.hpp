// Reads and writes memory on behalf of a device, and changes the copies in caches accordingly, one unit at a time.
#pragma once

#include <span>

#include "sim/memory/cache_tree.hpp"

namespace nearfield::sim {

class Devices {
 public:
  // `contents` must outlive this object.
  Devices(Contents& contents, const Machine& machine)
      : contents_(contents), read_of_modified_(machine.nic ? machine.nic->read_of_modified : DmaRead::keep) {}

  void write_whole(Address unit, const Placement& placement);
  void write_part(Address unit);
  bool read(Address unit);  // returns whether DRAM supplied it

 private:
  void remove_but(std::span<CacheNode* const> kept, Address unit);
  void put(std::span<CacheNode* const> kept, Address unit, const Placement& placement);

  Contents& contents_;
  DmaRead read_of_modified_;
};

}  // namespace nearfield::sim
