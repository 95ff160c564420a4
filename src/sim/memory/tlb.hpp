// The cost of address translation: TLB lookups, innermost TLB first, and page faults at the first touch of a page. TLBs
// work on virtual page numbers; frames.hpp maps pages to frames.
#pragma once

#include <bit>
#include <memory>
#include <vector>

#include "machine/machine.hpp"
#include "sim/engine/time_vector.hpp"
#include "sim/memory/access.hpp"
#include "sim/memory/counts.hpp"

namespace nearfield::sim {

// One set-associative TLB with LRU replacement. Entries are found by hashing, and the recency order of a set is a
// linked list, so a lookup costs the same for any number of ways.
class TlbArray {
 public:
  explicit TlbArray(const Tlb& spec);

  // Looks up a page and makes it the most recently used one of its set. On a miss, the page replaces the least recently
  // used one of the set. Returns whether the lookup hit.
  bool access_page(std::uint32_t page) {
    auto& bucket = bucket_of(page);
    const std::uint32_t head = num_sets_ * num_ways_ + set_of_page(page);
    for (auto entry = bucket; entry != no_entry; entry = entries_[entry].next_in_bucket)
      if (entries_[entry].page == page) {
        promote_to_mru(entry, head);
        return true;
      }
    const auto lru_entry = entries_[head].younger;
    if (entries_[lru_entry].page != no_entry) unlink(lru_entry);
    entries_[lru_entry].page = page;
    entries_[lru_entry].next_in_bucket = bucket;
    bucket = lru_entry;
    promote_to_mru(lru_entry, head);
    return false;
  }
  void clear();

 private:
  static constexpr std::uint32_t no_entry = 0xFFFFFFFF;
  struct Entry {
    std::uint32_t page = no_entry;
    std::uint32_t older, younger;  // neighbours in the recency ring of the set, which the set's head closes
    std::uint32_t next_in_bucket = no_entry;
  };

  std::uint32_t& bucket_of(std::uint32_t page) { return buckets_[page * 0x9E3779B9U >> hash_shift_]; }
  std::uint32_t set_of_page(std::uint32_t page) const {
    return std::has_single_bit(num_sets_) ? page & (num_sets_ - 1) : page % num_sets_;
  }
  void unlink(std::uint32_t entry);
  void promote_to_mru(std::uint32_t entry, std::uint32_t head) {
    auto& moved = entries_[entry];
    entries_[moved.older].younger = moved.younger;
    entries_[moved.younger].older = moved.older;
    moved.younger = head;
    moved.older = entries_[head].older;
    entries_[moved.older].younger = entry;
    entries_[head].older = entry;
  }

  std::uint32_t num_sets_, num_ways_;
  // All entries, then a head per set, whose `older` is the youngest entry and whose `younger` is the oldest.
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> buckets_;
  int hash_shift_;
};

// The set of pages that have been touched: one bit per page, in chunks that are allocated at the first touch of one of
// their pages.
class TouchedPages {
 public:
  explicit TouchedPages(int page_shift);
  void copy_from(const TouchedPages& other);
  bool insert(std::uint64_t page);  // returns whether the page is new

 private:
  static constexpr std::size_t pages_per_chunk = 1 << 15;
  using Chunk = std::array<std::uint64_t, pages_per_chunk / 64>;
  std::vector<std::unique_ptr<Chunk>> chunks_;
};

class Translation {
 public:
  Translation(const Machine& machine, std::vector<TlbCounts>& counts, Count& page_faults);

  // Returns the time that translation adds to an access of this core.
  Ps access_cost(int core, Address address) {
    if (tlbs_by_core_.empty()) return 0;
    auto& last_page = tlbs_by_core_[static_cast<std::size_t>(core)].last_page;
    if (address >> page_shift_ == last_page) [[likely]] {
      ++counts_[0].hits;
      return 0;
    }
    last_page = address >> page_shift_;
    return look_up_page(core, address);
  }
  // Counts `count` more accesses to the page of the last access.
  void count_repeats(Count count) {
    if (!tlbs_by_core_.empty()) counts_[0].hits += count;
  }
  // Returns whether the last TLB miss was the first touch of a page.
  bool last_miss_was_fault() const { return last_miss_was_fault_; }
  void invalidate_all();
  // Copies TLB contents and touched pages of another Translation of the same machine, without its counts.
  void copy_from(const Translation& other);

 private:
  struct CoreTlbs {
    std::vector<TlbArray> tlbs;
    Address last_page = ~Address{0};
  };
  Ps look_up_page(int core, Address address);

  std::vector<CoreTlbs> tlbs_by_core_;
  // Empty TLBs, from which those of a core are copied at its first access, since most cores of a large machine are
  // never used.
  std::vector<TlbArray> initial_tlbs_;
  std::vector<Ps> miss_ps_;
  TouchedPages touched_pages_;
  std::vector<TlbCounts>& counts_;
  Count& page_faults_;
  bool last_miss_was_fault_ = false;
  Ps fault_ps_;
  int page_shift_;
};

}  // namespace nearfield::sim
