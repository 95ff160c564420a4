// Maps pages of virtual memory to frames of physical memory. A kernel gives a page any free frame, so neighboring pages
// need not map to neighboring sets of a cache. With PagePlacement::random, each page has a pseudo-random frame, which
// is the same in every run, within the same 8 GiB as the page and thus in the same memory.
#pragma once

#include <bit>

#include "machine/machine.hpp"
#include "sim/memory/access.hpp"

namespace nearfield::sim {

class PageFrames {
 public:
  explicit PageFrames(const Pages& pages)
      : page_shift_(std::countr_zero(pages.page_bytes)),
        frame_number_bits_(home_memory_shift - page_shift_),
        is_random_(pages.placement == PagePlacement::random && frame_number_bits_ > 1) {}

  bool has_random_placement() const { return is_random_; }
  Address physical_address(Address address) const {
    if (!is_random_) [[likely]]
      return address;
    const Address home_memory = address >> home_memory_shift,
                  offset_in_page = address & ((Address{1} << page_shift_) - 1);
    return home_memory << home_memory_shift |
           permute_page_number(address >> page_shift_ & frame_number_mask()) << page_shift_ | offset_in_page;
  }

 private:
  Address frame_number_mask() const { return (Address{1} << frame_number_bits_) - 1; }
  // Returns the page number under a fixed permutation of all numbers of `frame_number_bits_` bits. Each step is
  // invertible.
  Address permute_page_number(Address page) const {
    for (const Address multiplier : {0x9E3779B97F4A7C15ULL, 0xBF58476D1CE4E5B9ULL, 0x94D049BB133111EBULL}) {
      page = page * multiplier & frame_number_mask();
      page ^= page >> (frame_number_bits_ / 2);
    }
    return page;
  }

  int page_shift_;
  int frame_number_bits_;  // the number of bits of a frame number within its memory
  bool is_random_;
};

}  // namespace nearfield::sim
