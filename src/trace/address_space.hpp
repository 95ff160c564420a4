// Folds the 64-bit virtual addresses of a program into the 128 GiB of a simulated node: regions of 1 GiB get numbers in
// the order in which they are first touched, and addresses keep their low 30 bits. So sets of caches and pages are those
// of the virtual addresses, and a program may use memory wherever its kernel put it, as long as that is in no more than
// 128 regions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace nearfield::trace {

class AddressSpace {
 public:
  static constexpr int region_shift = 30;
  static constexpr std::uint64_t region_bytes = std::uint64_t{1} << region_shift;
  static constexpr std::size_t most_regions = 128;

  // Returns the address in the node. Throws std::overflow_error if it is in one region too many.
  std::uint64_t fold(std::uint64_t address) {
    if (const auto region = address >> region_shift; region != last_) [[unlikely]] {
      number_ = number_of(region);
      last_ = region;
    }
    return number_ << region_shift | (address & (region_bytes - 1));
  }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t region = none;
    std::uint64_t number = 0;
  };

  std::uint64_t number_of(std::uint64_t region) {
    auto at = region * 0x9E3779B97F4A7C15ULL >> 56;
    while (slots_[at].region != region) {
      if (slots_[at].region == none) {
        if (regions_ == most_regions)
          throw std::overflow_error(
              "the addresses are in more than 128 regions of 1 GiB, and a simulated node has 128 GiB");
        slots_[at] = {region, regions_++};
      } else {
        at = (at + 1) % slots_.size();
      }
    }
    return slots_[at].number;
  }

  std::array<Slot, 2 * most_regions> slots_{};
  std::uint64_t regions_ = 0;
  std::uint64_t last_ = none, number_ = 0;
};

}  // namespace nearfield::trace
