// Maps the 64-bit virtual addresses of a process to addresses of a simulated node. A region of the process is allocated
// in the node at its first access. Offsets within a region are preserved, so pages and cache sets are those of the
// virtual addresses, wherever the program's memory lies. Adjacent regions of the process need not be adjacent in the
// node.
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
  // `region_bytes` is a power of two. `new_region` allocates a region in the node and returns its page-aligned address.
  // Exceptions of `new_region` propagate from to_node_address().
  AddressSpace(std::uint64_t region_bytes, std::function<std::uint64_t()> new_region)
      : shift_(std::countr_zero(region_bytes)), in_region_(region_bytes - 1), new_region_(std::move(new_region)) {}

  // Returns the address in the node of a virtual address. Allocates the region at its first access.
  std::uint64_t to_node_address(std::uint64_t address) {
    const std::uint64_t region = address >> shift_;
    const MappedRegion& place = recent_[region % recent_.size()];
    if (place.region != region) [[unlikely]]
      map_region(region);
    return place.begin + (address & in_region_);
  }
  // Returns the bytes from the address to the end of its region.
  std::uint64_t bytes_to_region_end(std::uint64_t address) const { return in_region_ + 1 - (address & in_region_); }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  struct MappedRegion {
    std::uint64_t region = none;
    std::uint64_t begin = 0;
  };

  void map_region(std::uint64_t region) {
    auto known = begins_.find(region);
    if (known == begins_.end()) known = begins_.emplace(region, new_region_()).first;
    recent_[region % recent_.size()] = {region, known->second};
  }

  int shift_;
  std::uint64_t in_region_;
  std::function<std::uint64_t()> new_region_;
  std::unordered_map<std::uint64_t, std::uint64_t> begins_;
  std::array<MappedRegion, 64> recent_;  // a cache of recently used regions
};

}  // namespace nearfield::sim
