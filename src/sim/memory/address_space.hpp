// Maps the 64-bit virtual addresses of a process to addresses of a simulated node. A region of the virtual address
// space is allocated in the node at its first access. Offsets within a region are preserved, so accesses of a region
// map to the same pages and cache sets wherever the region lies in the node. Adjacent regions of the process need not
// be adjacent in the node.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>

namespace nearfield::sim {

class AddressSpace {
 public:
  // `region_bytes` is a power of two. `allocate_region` allocates a region in the node and returns its page-aligned
  // address. Exceptions of `allocate_region` propagate from to_node_address().
  AddressSpace(std::uint64_t region_bytes, std::function<std::uint64_t()> allocate_region)
      : region_shift_(std::countr_zero(region_bytes)),
        offset_mask_(region_bytes - 1),
        allocate_region_(std::move(allocate_region)) {}

  // Returns the address in the node of a virtual address. Allocates the region at its first access.
  std::uint64_t to_node_address(std::uint64_t address) {
    const std::uint64_t region = address >> region_shift_;
    const MappedRegion& mapped = recent_regions_[region % recent_regions_.size()];
    if (mapped.region != region) [[unlikely]]
      map_region(region);
    return mapped.begin + (address & offset_mask_);
  }
  // Returns the number of bytes from the address to the end of its region.
  std::uint64_t bytes_to_region_end(std::uint64_t address) const { return offset_mask_ + 1 - (address & offset_mask_); }

 private:
  static constexpr std::uint64_t no_region = ~std::uint64_t{0};
  struct MappedRegion {
    std::uint64_t region = no_region;
    std::uint64_t begin = 0;
  };

  void map_region(std::uint64_t region) {
    auto entry = address_by_region_.find(region);
    if (entry == address_by_region_.end()) entry = address_by_region_.emplace(region, allocate_region_()).first;
    recent_regions_[region % recent_regions_.size()] = {region, entry->second};
  }

  int region_shift_;
  std::uint64_t offset_mask_;
  std::function<std::uint64_t()> allocate_region_;
  std::unordered_map<std::uint64_t, std::uint64_t> address_by_region_;
  std::array<MappedRegion, 64> recent_regions_;  // a cache of recently used regions
};

}  // namespace nearfield::sim
