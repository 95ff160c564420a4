#include "sim/memory/tlb.hpp"

#include <bit>
#include <stdexcept>

namespace nearfield::sim {
namespace {

constexpr int address_bits = 37;

int checked_page_shift(const Pages& pages) {
  if (!std::has_single_bit(pages.page_bytes) || pages.page_bytes < 1024)
    throw std::invalid_argument("a page has " + std::to_string(pages.page_bytes) +
                                " bytes: it must be a power of two from 1024");
  return std::countr_zero(pages.page_bytes);
}

}  // namespace

// ---- one TLB

TlbArray::TlbArray(const Tlb& spec) {
  if (spec.ways < 1 || spec.entries < spec.ways || spec.entries % spec.ways != 0)
    throw std::invalid_argument("a TLB of " + std::to_string(spec.entries) +
                                " entries cannot be divided into sets of " + std::to_string(spec.ways));
  const auto entries = static_cast<std::uint32_t>(spec.entries);
  num_ways_ = static_cast<std::uint32_t>(spec.ways);
  num_sets_ = entries / num_ways_;
  entries_.resize(entries + num_sets_);
  buckets_.resize(std::bit_ceil(2 * entries));
  hash_shift_ = 32 - std::countr_zero(buckets_.size());
  clear();
}

void TlbArray::clear() {
  buckets_.assign(buckets_.size(), no_entry);
  for (std::uint32_t set = 0; set < num_sets_; ++set) {
    const std::uint32_t head = num_sets_ * num_ways_ + set;
    entries_[head].older = entries_[head].younger = head;
    for (std::uint32_t entry = set * num_ways_; entry < (set + 1) * num_ways_; ++entry) {
      entries_[entry] = {no_entry, entry, entry, no_entry};
      promote_to_mru(entry, head);
    }
  }
}

void TlbArray::unlink(std::uint32_t entry) {
  auto* link = &bucket_of(entries_[entry].page);
  while (*link != entry) link = &entries_[*link].next_in_bucket;
  *link = entries_[entry].next_in_bucket;
}

// ---- pages

TouchedPages::TouchedPages(int page_shift)
    : chunks_(((Address{1} << address_bits >> page_shift) - 1) / pages_per_chunk + 1) {}

bool TouchedPages::insert(std::uint64_t page) {
  auto& chunk = chunks_[page / pages_per_chunk];
  if (!chunk) chunk = std::make_unique<Chunk>();
  auto& word = (*chunk)[page % pages_per_chunk / 64];
  const auto bit = std::uint64_t{1} << page % 64;
  const bool is_new = !(word & bit);
  word |= bit;
  return is_new;
}

void TouchedPages::copy_from(const TouchedPages& other) {
  for (std::size_t i = 0; i < chunks_.size(); ++i)
    chunks_[i] = other.chunks_[i] ? std::make_unique<Chunk>(*other.chunks_[i]) : nullptr;
}

// ---- all cores

Translation::Translation(const Machine& machine, std::vector<TlbCounts>& counts, Count& page_faults)
    : touched_pages_(checked_page_shift(machine.pages)),
      counts_(counts),
      page_faults_(page_faults),
      fault_ps_(ps_from_ns(machine.pages.fault_ns)),
      page_shift_(checked_page_shift(machine.pages)) {
  counts_.resize(machine.pages.tlbs.size());
  if (machine.pages.tlbs.empty()) return;
  for (const auto& tlb : machine.pages.tlbs) miss_ps_.push_back(ps_from_ns(tlb.miss_cycles / machine.core.clock_ghz));
  tlbs_by_core_.resize(static_cast<std::size_t>(machine.cores));
  for (const auto& tlb : machine.pages.tlbs) initial_tlbs_.emplace_back(tlb);
}

Ps Translation::look_up_page(int core, Address address) {
  auto& tlbs = tlbs_by_core_[static_cast<std::size_t>(core)].tlbs;
  if (tlbs.empty()) [[unlikely]]
    tlbs = initial_tlbs_;
  const Address page = address >> page_shift_;
  Ps cost = 0;
  last_miss_was_fault_ = false;
  for (std::size_t k = 0; k < tlbs.size(); ++k) {
    if (tlbs[k].access_page(static_cast<std::uint32_t>(page))) {
      ++counts_[k].hits;
      return cost;
    }
    ++counts_[k].misses;
    cost += miss_ps_[k];
  }
  // A page that has never been touched is in no TLB.
  if (touched_pages_.insert(page)) {
    last_miss_was_fault_ = true;
    ++page_faults_;
    cost += fault_ps_;
  }
  return cost;
}

void Translation::copy_from(const Translation& other) {
  tlbs_by_core_ = other.tlbs_by_core_;
  touched_pages_.copy_from(other.touched_pages_);
}

void Translation::invalidate_all() {
  for (auto& core : tlbs_by_core_) {
    for (auto& tlb : core.tlbs) tlb.clear();
    core.last_page = ~Address{0};
  }
}

}  // namespace nearfield::sim
