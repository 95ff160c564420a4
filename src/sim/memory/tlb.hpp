// What a core pays for translating addresses: TLBs, nearest first, and the first touch of a page. Pages are mapped to
// themselves.
#pragma once

#include <unordered_set>
#include <vector>

#include "sim/memory/cache_array.hpp"

namespace nearfield::sim {

class Translation {
 public:
  Translation(const Machine& machine, std::vector<TlbCounts>& counts, Count& page_faults);

  // What an access by this core takes longer.
  Ps cost(int core, Address address) {
    if (cores_.empty()) return 0;
    auto& last_page = cores_[static_cast<std::size_t>(core)].last_page;
    if (address >> page_shift_ == last_page) [[likely]] {
      ++counts_[0].hits;
      return 0;
    }
    last_page = address >> page_shift_;
    return look_up(core, address);
  }
  // That many more accesses to the page of the last one.
  void repeat(Count count) {
    if (!cores_.empty()) counts_[0].hits += count;
  }
  void forget_everything();

 private:
  struct Core_ {
    std::vector<CacheArray> tlbs;
    Address last_page = ~Address{0};
  };
  Ps look_up(int core, Address address);

  std::vector<Core_> cores_;
  std::vector<Ps> miss_ps_;
  std::unordered_set<Address> touched_;
  std::vector<TlbCounts>& counts_;
  Count& page_faults_;
  Ps fault_ps_;
  int page_shift_;
};

}  // namespace nearfield::sim
