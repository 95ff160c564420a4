// Computes the time that a core needs to translate addresses: TLBs, nearest first, and the first touch of a page. Pages
// are mapped to themselves.
#pragma once

#include <bit>
#include <memory>
#include <vector>

#include "machine/machine.hpp"
#include "sim/counts.hpp"
#include "sim/memory/memory.hpp"

namespace nearfield::sim {

// One TLB: sets of pages, each in the order of use; the least recently used page makes room. Pages are found by hashing
// and the order is a list, so that a look-up costs the same in any number of ways.
class TlbArray {
 public:
  explicit TlbArray(const Tlb& spec);

  // Returns whether it has the page, which becomes the most recently used one of its set and takes the entry of the
  // least recently used one if it is new.
  bool use(std::uint32_t page) {
    auto& chain = chain_of(page);
    const std::uint32_t head = sets_ * ways_ + set_of(page);
    for (auto entry = chain; entry != none; entry = entries_[entry].next_of_hash)
      if (entries_[entry].page == page) {
        make_youngest(entry, head);
        return true;
      }
    const auto oldest = entries_[head].younger;
    if (entries_[oldest].page != none) unchain(oldest);
    entries_[oldest].page = page;
    entries_[oldest].next_of_hash = chain;
    chain = oldest;
    make_youngest(oldest, head);
    return false;
  }
  void clear();

 private:
  static constexpr std::uint32_t none = 0xFFFFFFFF;
  struct Entry {
    std::uint32_t page = none;
    std::uint32_t older, younger;  // in the ring of its set, which its head closes
    std::uint32_t next_of_hash = none;
  };

  std::uint32_t& chain_of(std::uint32_t page) { return chains_[page * 0x9E3779B9U >> hash_shift_]; }
  std::uint32_t set_of(std::uint32_t page) const {
    return std::has_single_bit(sets_) ? page & (sets_ - 1) : page % sets_;
  }
  void unchain(std::uint32_t entry);
  void make_youngest(std::uint32_t entry, std::uint32_t head) {
    auto& it = entries_[entry];
    entries_[it.older].younger = it.younger;
    entries_[it.younger].older = it.older;
    it.younger = head;
    it.older = entries_[head].older;
    entries_[it.older].younger = entry;
    entries_[head].older = entry;
  }

  std::uint32_t sets_, ways_;
  std::vector<Entry> entries_;  // then a head per set: its older is the youngest, its younger the oldest
  std::vector<std::uint32_t> chains_;
  int hash_shift_;
};

// The pages that were ever touched: a bit for each, in pieces that are allocated with the first of their pages.
class TouchedPages {
 public:
  explicit TouchedPages(int page_shift);
  void take(const TouchedPages& other);
  bool insert(std::uint64_t page);  // returns whether the page is new

 private:
  static constexpr std::size_t pages_per_piece = 1 << 15;
  using Piece = std::array<std::uint64_t, pages_per_piece / 64>;
  std::vector<std::unique_ptr<Piece>> pieces_;
};

class Translation {
 public:
  Translation(const Machine& machine, std::vector<TlbCounts>& counts, Count& page_faults);

  // Returns how much longer an access by this core takes.
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
  // Counts that many more accesses to the page of the last access.
  void repeat(Count count) {
    if (!cores_.empty()) counts_[0].hits += count;
  }
  void forget_everything();
  // Copies what another one, which is of the same machine, knows; not its counts.
  void take(const Translation& other);

 private:
  struct Core_ {
    std::vector<TlbArray> tlbs;
    Address last_page = ~Address{0};
  };
  Ps look_up(int core, Address address);

  std::vector<Core_> cores_;
  std::vector<TlbArray> empty_;  // of a core that begins: most cores of a machine do nothing
  std::vector<Ps> miss_ps_;
  TouchedPages touched_;
  std::vector<TlbCounts>& counts_;
  Count& page_faults_;
  Ps fault_ps_;
  int page_shift_;
};

}  // namespace nearfield::sim
