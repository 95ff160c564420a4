#include "sim/memory/tlb.hpp"

#include <stdexcept>

namespace nearfield::sim {
namespace {

// A TLB is a cache of pages: the page number takes the place of the address.
constexpr int entry_bytes = 32;

CacheArray array_of(const Tlb& tlb) {
  Cache cache;
  cache.line_bytes = entry_bytes;
  cache.ways = tlb.ways;
  cache.size_bytes = static_cast<std::uint64_t>(tlb.entries) * entry_bytes;
  return CacheArray(cache);
}

}  // namespace

Translation::Translation(const Machine& machine, std::vector<TlbCounts>& counts, Count& page_faults)
    : counts_(counts),
      page_faults_(page_faults),
      fault_ps_(ps_from_ns(machine.pages.fault_ns)),
      page_shift_(std::countr_zero(machine.pages.page_bytes)) {
  if (!std::has_single_bit(machine.pages.page_bytes) || machine.pages.page_bytes < 1024)
    throw std::invalid_argument("a page has " + std::to_string(machine.pages.page_bytes) +
                                " bytes: it must be a power of two from 1024");
  counts_.resize(machine.pages.tlbs.size());
  if (machine.pages.tlbs.empty()) return;
  for (const auto& tlb : machine.pages.tlbs) miss_ps_.push_back(ps_from_ns(tlb.miss_cycles / machine.core.clock_ghz));
  cores_.resize(static_cast<std::size_t>(machine.cores));
  for (auto& core : cores_)
    for (const auto& tlb : machine.pages.tlbs) core.tlbs.push_back(array_of(tlb));
}

Ps Translation::look_up(int core, Address address) {
  auto& tlbs = cores_[static_cast<std::size_t>(core)].tlbs;
  const Address page = address >> page_shift_;
  Ps cost = 0;
  for (std::size_t k = 0; k < tlbs.size(); ++k) {
    const auto place = tlbs[k].place(page * entry_bytes);
    if (const auto way = tlbs[k].find_tag(place)) {
      ++counts_[k].hits;
      tlbs[k].touch(way);
      return cost;
    }
    ++counts_[k].misses;
    cost += miss_ps_[k];
    tlbs[k].fill(place, tlbs[k].room(place), page * entry_bytes, 0);
  }
  // A page never touched is in no TLB.
  if (touched_.insert(page).second) {
    ++page_faults_;
    cost += fault_ps_;
  }
  return cost;
}

void Translation::forget_everything() {
  for (auto& core : cores_) {
    for (auto& tlb : core.tlbs) tlb.clear();
    core.last_page = ~Address{0};
  }
}

}  // namespace nearfield::sim
