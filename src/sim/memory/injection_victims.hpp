// Injection victims: the granules that injected lines have displaced from one cache and that have not missed since.
// Each granule of the node's memory has a byte: the mask of the variants under which the granule is a victim. The bytes
// are allocated in pages, each at its first victim.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/memory/variants.hpp"

namespace nearfield::sim {

class InjectionVictims {
 public:
  using Mask = Variants::Mask;

  // Returns the variants under which this granule is a victim. Granules are numbered from the beginning of the node's
  // memory.
  Mask variants_of(std::uint64_t granule) const {
    const auto number = granule / granules_per_page;
    if (number >= pages_.size() || !pages_[number]) return 0;
    return (*pages_[number])[granule % granules_per_page];
  }
  void add(std::uint64_t granule, Mask variants) {
    const auto number = granule / granules_per_page;
    if (number >= pages_.size()) pages_.resize(number + 1);
    if (!pages_[number]) pages_[number] = std::make_unique<Page>();
    (*pages_[number])[granule % granules_per_page] |= variants;
  }
  // Removes `variants` from the granule's mask. The granule must be a victim under at least one variant.
  void remove(std::uint64_t granule, Mask variants) {
    (*pages_[granule / granules_per_page])[granule % granules_per_page] &= static_cast<Mask>(~variants);
  }
  void clear() { pages_.clear(); }
  // Calls `function` with the number of each victim granule and the mask of the variants under which it is a victim.
  template <class Function>
  void for_each_victim(Function&& function) const {
    for (std::size_t number = 0; number < pages_.size(); ++number)
      for (std::size_t i = 0; pages_[number] && i < granules_per_page; ++i)
        if (const Mask variants = (*pages_[number])[i]) function(number * granules_per_page + i, variants);
  }

 private:
  static constexpr std::size_t granules_per_page = 1 << 15;
  using Page = std::array<Mask, granules_per_page>;
  std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace nearfield::sim
